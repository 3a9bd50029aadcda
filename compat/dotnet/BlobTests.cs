using System.Security.Cryptography;
using Azure;
using Azure.Storage;
using Azure.Storage.Blobs;
using Azure.Storage.Blobs.Models;
using Azure.Storage.Blobs.Specialized;
using Azure.Storage.Sas;

namespace Parshall.Compat;

/// <summary>Azure.Storage.Blobs: containers, block, append and page blobs, conditions, leases and signatures.</summary>
public sealed class BlobTests : IAsyncLifetime
{
    private Service service = null!;
    private BlobServiceClient account = null!;
    private BlobContainerClient box = null!;

    public async Task InitializeAsync()
    {
        service = await Service.StartAsync("{hubs: [], blob: {containers: [box]}}", "--blob", "127.0.0.1:0");
        account = new BlobServiceClient(service.StorageConnectionString, new BlobClientOptions { Retry = { MaxRetries = 0 } });
        box = account.GetBlobContainerClient("box");
    }

    public async Task DisposeAsync() => await service.DisposeAsync();

    private static async Task FailsAsync(int status, string code, Func<Task> work)
    {
        var failed = await Assert.ThrowsAsync<RequestFailedException>(work);
        Assert.Equal((status, code), (failed.Status, failed.ErrorCode));
    }

    private static byte[] Random(int length) => RandomNumberGenerator.GetBytes(length);

    [Fact]
    public async Task Containers_are_created_listed_and_deleted()
    {
        var made = account.GetBlobContainerClient("made");
        Assert.False((await made.ExistsAsync()).Value);
        await made.CreateAsync(metadata: new Dictionary<string, string> { ["colour"] = "red" });
        await FailsAsync(409, "ContainerAlreadyExists", () => made.CreateAsync());
        Assert.Null(await made.CreateIfNotExistsAsync());
        BlobContainerProperties properties = await made.GetPropertiesAsync();
        Assert.Equal("red", properties.Metadata["colour"]);
        var names = new List<string>();
        await foreach (var found in account.GetBlobContainersAsync(BlobContainerTraits.Metadata, prefix: "m"))
        {
            names.Add(found.Name);
        }
        Assert.Equal(["made"], names);
        await made.DeleteAsync();
        Assert.False((await made.DeleteIfExistsAsync()).Value);
        await FailsAsync(404, "ContainerNotFound", () => made.GetPropertiesAsync());
    }

    [Fact]
    public async Task A_blob_is_uploaded_with_headers_and_metadata_and_downloaded()
    {
        var blob = box.GetBlobClient("folder/a name ü.txt");
        var options = new BlobUploadOptions
        {
            HttpHeaders = new BlobHttpHeaders { ContentType = "text/plain", CacheControl = "no-store", ContentEncoding = "identity" },
            Metadata = new Dictionary<string, string> { ["one"] = "1", ["two"] = "zwei" },
        };
        BlobContentInfo written = await blob.UploadAsync(new BinaryData("content"), options);
        BlobDownloadResult read = await blob.DownloadContentAsync();
        Assert.Equal("content", read.Content.ToString());
        Assert.Equal(written.ETag, read.Details.ETag);
        Assert.Equal(("text/plain", "no-store", "identity"),
            (read.Details.ContentType, read.Details.CacheControl, read.Details.ContentEncoding));
        Assert.Equal(options.Metadata.OrderBy(it => it.Key), read.Details.Metadata.OrderBy(it => it.Key));
        BlobProperties properties = await blob.GetPropertiesAsync();
        Assert.Equal((7, BlobType.Block), (properties.ContentLength, properties.BlobType));
        Assert.Equal(MD5.HashData("content"u8), properties.ContentHash);
        await FailsAsync(409, "BlobAlreadyExists", () => blob.UploadAsync(new BinaryData("again")));
        await blob.UploadAsync(new BinaryData("again"), overwrite: true);
        await blob.SetMetadataAsync(new Dictionary<string, string> { ["three"] = "3" });
        await blob.SetHttpHeadersAsync(new BlobHttpHeaders { ContentLanguage = "en" });
        properties = await blob.GetPropertiesAsync();
        Assert.Equal(["three"], properties.Metadata.Keys);
        Assert.Equal("en", properties.ContentLanguage);
        await blob.DeleteAsync();
        await FailsAsync(404, "BlobNotFound", () => blob.DownloadContentAsync());
        Assert.False((await blob.DeleteIfExistsAsync()).Value);
    }

    [Fact]
    public async Task A_large_blob_is_uploaded_in_blocks_and_downloaded_in_ranges()
    {
        var content = Random(9_000_000);
        var blob = box.GetBlobClient("large");
        var transfer = new StorageTransferOptions { InitialTransferSize = 1 << 20, MaximumTransferSize = 1 << 20, MaximumConcurrency = 4 };
        await blob.UploadAsync(new MemoryStream(content), new BlobUploadOptions { TransferOptions = transfer });
        var copy = new MemoryStream();
        await blob.DownloadToAsync(copy, new BlobDownloadToOptions { TransferOptions = transfer });
        Assert.Equal(content, copy.ToArray());
        BlobDownloadResult range = await blob.DownloadContentAsync(new BlobDownloadOptions { Range = new HttpRange(5_000_000, 10) });
        Assert.Equal(content[5_000_000..5_000_010], range.Content.ToArray());
        Assert.Equal("bytes 5000000-5000009/9000000", range.Details.ContentRange);
        await FailsAsync(416, "InvalidRange",
            () => blob.DownloadContentAsync(new BlobDownloadOptions { Range = new HttpRange(9_000_000, 1) }));
        await using var stream = await blob.OpenReadAsync(new BlobOpenReadOptions(allowModifications: false) { BufferSize = 100_000 });
        stream.Seek(8_999_990, SeekOrigin.Begin);
        var tail = new byte[10];
        await stream.ReadExactlyAsync(tail);
        Assert.Equal(content[^10..], tail);
    }

    [Theory]
    [InlineData(StorageChecksumAlgorithm.MD5)]
    [InlineData(StorageChecksumAlgorithm.StorageCrc64)]
    public async Task Checksums_are_verified_in_both_directions(StorageChecksumAlgorithm algorithm)
    {
        var content = Random(3_000_000);
        var blob = box.GetBlobClient("checked");
        await blob.UploadAsync(new MemoryStream(content), new BlobUploadOptions
        {
            TransferValidation = new UploadTransferValidationOptions { ChecksumAlgorithm = algorithm },
            TransferOptions = new StorageTransferOptions { InitialTransferSize = 1 << 20, MaximumTransferSize = 1 << 20 },
        });
        var copy = new MemoryStream();
        await blob.DownloadToAsync(copy, new BlobDownloadToOptions
        {
            TransferValidation = new DownloadTransferValidationOptions { ChecksumAlgorithm = algorithm },
        });
        Assert.Equal(content, copy.ToArray());
    }

    [Fact]
    public async Task Blocks_are_staged_listed_and_committed()
    {
        var blob = box.GetBlockBlobClient("blocks");
        static string Id(int number) => Convert.ToBase64String(BitConverter.GetBytes(number));
        await blob.StageBlockAsync(Id(1), new MemoryStream("one"u8.ToArray()));
        await blob.StageBlockAsync(Id(2), new MemoryStream("two"u8.ToArray()));
        BlockList blocks = await blob.GetBlockListAsync(BlockListTypes.All);
        Assert.Equal((0, 2), (blocks.CommittedBlocks.Count(), blocks.UncommittedBlocks.Count()));
        await blob.CommitBlockListAsync([Id(2), Id(1)]);
        Assert.Equal("twoone", (await blob.DownloadContentAsync()).Value.Content.ToString());
        await FailsAsync(400, "InvalidBlockList", () => blob.CommitBlockListAsync([Id(3)]));
        await using (var stream = await blob.OpenWriteAsync(overwrite: true))
        {
            await stream.WriteAsync(Random(100_000));
        }
        Assert.Equal(100_000, (await blob.GetPropertiesAsync()).Value.ContentLength);
    }

    [Fact]
    public async Task An_append_blob_grows_under_conditions()
    {
        var blob = box.GetAppendBlobClient("log");
        await blob.CreateAsync();
        await blob.AppendBlockAsync(new MemoryStream("one"u8.ToArray()));
        BlobAppendInfo appended = await blob.AppendBlockAsync(new MemoryStream("two"u8.ToArray()),
            new AppendBlobAppendBlockOptions { Conditions = new AppendBlobRequestConditions { IfAppendPositionEqual = 3 } });
        Assert.Equal(("3", 2), (appended.BlobAppendOffset, appended.BlobCommittedBlockCount));
        await FailsAsync(412, "AppendPositionConditionNotMet", () => blob.AppendBlockAsync(new MemoryStream("no"u8.ToArray()),
            new AppendBlobAppendBlockOptions { Conditions = new AppendBlobRequestConditions { IfAppendPositionEqual = 3 } }));
        await FailsAsync(412, "MaxBlobSizeConditionNotMet", () => blob.AppendBlockAsync(new MemoryStream("no"u8.ToArray()),
            new AppendBlobAppendBlockOptions { Conditions = new AppendBlobRequestConditions { IfMaxSizeLessThanOrEqual = 7 } }));
        Assert.Equal("onetwo", (await blob.DownloadContentAsync()).Value.Content.ToString());
    }

    [Fact]
    public async Task Conditions_are_kept()
    {
        var blob = box.GetBlobClient("conditions");
        BlobContentInfo first = await blob.UploadAsync(new BinaryData("1"),
            new BlobUploadOptions { Conditions = new BlobRequestConditions { IfNoneMatch = ETag.All } });
        BlobContentInfo second = await blob.UploadAsync(new BinaryData("2"),
            new BlobUploadOptions { Conditions = new BlobRequestConditions { IfMatch = first.ETag } });
        await FailsAsync(412, "ConditionNotMet", () => blob.UploadAsync(new BinaryData("3"),
            new BlobUploadOptions { Conditions = new BlobRequestConditions { IfMatch = first.ETag } }));
        await FailsAsync(412, "ConditionNotMet",
            () => blob.DeleteAsync(conditions: new BlobRequestConditions { IfUnmodifiedSince = DateTimeOffset.UtcNow.AddHours(-1) }));
        var unchanged = await blob.DownloadContentAsync(
            new BlobDownloadOptions { Conditions = new BlobRequestConditions { IfNoneMatch = second.ETag } });
        Assert.Equal(304, unchanged.GetRawResponse().Status);
        await blob.DeleteAsync(conditions: new BlobRequestConditions { IfMatch = second.ETag });
    }

    [Fact]
    public async Task Blobs_are_listed_by_prefix_by_folder_and_in_pages()
    {
        for (var number = 0; number < 25; number++)
        {
            var metadata = new Dictionary<string, string> { ["number"] = $"{number}" };
            await box.GetBlobClient($"folder-{number % 5}/{number:00}").UploadAsync(
                new BinaryData("x"), new BlobUploadOptions { Metadata = metadata });
        }
        var pages = new List<int>();
        await foreach (var page in box.GetBlobsAsync(BlobTraits.Metadata, BlobStates.None, "folder", default).AsPages(pageSizeHint: 10))
        {
            pages.Add(page.Values.Count);
            Assert.All(page.Values, it => Assert.EndsWith(it.Metadata["number"].PadLeft(2, '0'), it.Name));
        }
        Assert.Equal([10, 10, 5], pages);
        var folders = new List<string>();
        await foreach (var item in box.GetBlobsByHierarchyAsync(BlobTraits.None, BlobStates.None, "/", null, default))
        {
            Assert.True(item.IsPrefix);
            folders.Add(item.Prefix);
        }
        Assert.Equal(Enumerable.Range(0, 5).Select(number => $"folder-{number}/"), folders);
    }

    [Fact]
    public async Task A_leased_blob_is_changed_by_its_holder_alone()
    {
        var blob = box.GetBlobClient("leased");
        await blob.UploadAsync(new BinaryData("1"));
        var lease = blob.GetBlobLeaseClient();
        await lease.AcquireAsync(TimeSpan.FromSeconds(15));
        await FailsAsync(409, "LeaseAlreadyPresent", () => blob.GetBlobLeaseClient().AcquireAsync(TimeSpan.FromSeconds(15)));
        await FailsAsync(412, "LeaseIdMissing", () => blob.UploadAsync(new BinaryData("2"), overwrite: true));
        await blob.UploadAsync(new BinaryData("2"),
            new BlobUploadOptions { Conditions = new BlobRequestConditions { LeaseId = lease.LeaseId } });
        await lease.RenewAsync();
        await lease.ChangeAsync(Guid.NewGuid().ToString());
        BlobProperties properties = await blob.GetPropertiesAsync();
        Assert.Equal((LeaseState.Leased, LeaseStatus.Locked, LeaseDurationType.Fixed),
            (properties.LeaseState, properties.LeaseStatus, properties.LeaseDuration));
        await lease.ReleaseAsync();
        await blob.DeleteAsync();
    }

    [Fact]
    public async Task Pages_are_written_cleared_listed_and_compared_with_a_snapshot()
    {
        var blob = box.GetPageBlobClient("disk");
        await blob.CreateAsync(4096, new PageBlobCreateOptions { SequenceNumber = 3 });
        await FailsAsync(409, "BlobAlreadyExists",
            () => blob.CreateAsync(4096, new PageBlobCreateOptions { Conditions = new PageBlobRequestConditions { IfNoneMatch = ETag.All } }));
        byte[] content = Random(1024);
        PageInfo written = await blob.UploadPagesAsync(new MemoryStream(content), 512);
        Assert.Equal(3, written.BlobSequenceNumber);
        await FailsAsync(412, "SequenceNumberConditionNotMet", () => blob.UploadPagesAsync(new MemoryStream(content), 0,
            new PageBlobUploadPagesOptions { Conditions = new PageBlobRequestConditions { IfSequenceNumberLessThan = 3 } }));
        BlobSnapshotInfo snapshot = await blob.CreateSnapshotAsync();
        await blob.ClearPagesAsync(new HttpRange(512, 512));
        await blob.UploadPagesAsync(new MemoryStream(content), 2048);
        Assert.Equal([(1024, 512), (2048, 1024)], await RangesAsync(blob.GetAllPageRangesAsync()));
        var since = new GetPageRangesDiffOptions { PreviousSnapshot = snapshot.Snapshot };
        var changed = new List<(long, long?, bool)>();
        await foreach (var item in blob.GetAllPageRangesDiffAsync(since))
        {
            changed.Add((item.Range.Offset, item.Range.Length, item.IsClear));
        }
        Assert.Equal([(2048, 1024, false), (512, 512, true)], changed.OrderBy(item => item.Item3));
        BlobDownloadResult read = await blob.DownloadContentAsync();
        byte[] expected = [.. new byte[1024], .. content[512..], .. new byte[512], .. content, .. new byte[1024]];
        Assert.Equal(expected, read.Content.ToArray());
        PageBlobInfo resized = await blob.ResizeAsync(1536);
        PageBlobInfo numbered = await blob.UpdateSequenceNumberAsync(SequenceNumberAction.Increment);
        Assert.Equal((3, 4), (resized.BlobSequenceNumber, numbered.BlobSequenceNumber));
        Assert.Equal([(1024, 512)], await RangesAsync(blob.GetAllPageRangesAsync()));
        Assert.Equal(content, (await blob.WithSnapshot(snapshot.Snapshot).DownloadContentAsync()).Value.Content.ToArray()[512..1536]);
    }

    private static async Task<List<(long, long?)>> RangesAsync(AsyncPageable<PageRangeItem> pages)
    {
        var ranges = new List<(long, long?)>();
        await foreach (var item in pages)
        {
            ranges.Add((item.Range.Offset, item.Range.Length));
        }
        return ranges;
    }

    [Fact]
    public async Task A_signature_opens_what_it_names()
    {
        await box.GetBlobClient("signed").UploadAsync(new BinaryData("content"));
        var soon = DateTimeOffset.UtcNow.AddHours(1);
        var reader = new BlobClient(box.GetBlobClient("signed").GenerateSasUri(BlobSasPermissions.Read, soon));
        Assert.Equal("content", (await reader.DownloadContentAsync()).Value.Content.ToString());
        await FailsAsync(403, "AuthorizationPermissionMismatch", () => reader.DeleteAsync());
        var lister = new BlobContainerClient(box.GenerateSasUri(BlobContainerSasPermissions.List | BlobContainerSasPermissions.Read, soon));
        var names = new List<string>();
        await foreach (var found in lister.GetBlobsAsync())
        {
            names.Add(found.Name);
        }
        Assert.Equal(["signed"], names);
        var whole = account.GenerateAccountSasUri(AccountSasPermissions.All, soon, AccountSasResourceTypes.All);
        await new BlobServiceClient(whole).GetBlobContainerClient("made").CreateAsync();
        var late = new BlobClient(box.GetBlobClient("signed").GenerateSasUri(BlobSasPermissions.Read, DateTimeOffset.UtcNow.AddHours(-1)));
        await FailsAsync(403, "AuthenticationFailed", () => late.DownloadContentAsync());
    }

    [Fact]
    public async Task What_is_not_supported_is_an_error_and_nothing_is_stored()
    {
        var blob = box.GetBlobClient("unsupported");
        var held = new BlobUploadOptions { LegalHold = true };
        await FailsAsync(400, "UnsupportedHeader", () => blob.UploadAsync(new BinaryData("x"), held));
        Assert.False((await blob.ExistsAsync()).Value);
    }
}
