using Current = Microsoft.Azure.Storage;
using First = Microsoft.WindowsAzure.Storage;

namespace Parshall.Compat;

/// <summary>The clients of blobs before Azure.Storage.Blobs: WindowsAzure.Storage and Microsoft.Azure.Storage.Blob, as legacy processors use them.</summary>
public sealed class FirstStorageTests : IAsyncLifetime
{
    private Service service = null!;

    public async Task InitializeAsync() => service = await Service.StartAsync("{hubs: [], blob: {containers: [box]}}", "--blob", "127.0.0.1:0");

    public async Task DisposeAsync() => await service.DisposeAsync();

    [Fact]
    public async Task WindowsAzure_Storage_reads_writes_lists_and_leases()
    {
        var account = First.CloudStorageAccount.Parse(service.StorageConnectionString);
        var client = account.CreateCloudBlobClient();
        var container = client.GetContainerReference("leases");
        Assert.True(await container.CreateIfNotExistsAsync());
        Assert.False(await container.CreateIfNotExistsAsync());
        var blob = container.GetBlockBlobReference("group/0");
        await blob.UploadTextAsync("{}");
        var lease = await blob.AcquireLeaseAsync(TimeSpan.FromSeconds(30), Guid.NewGuid().ToString());
        var held = First.AccessCondition.GenerateLeaseCondition(lease);
        blob.Metadata["owner"] = "host";
        await blob.SetMetadataAsync(held, null, null);
        await blob.UploadTextAsync("{\"offset\":\"5\"}", null, held, null, null);
        await blob.RenewLeaseAsync(held);
        var refused = await Assert.ThrowsAsync<First.StorageException>(() => blob.UploadTextAsync("stolen"));
        Assert.Equal(412, refused.RequestInformation.HttpStatusCode);
        var segment = await container.ListBlobsSegmentedAsync("group/", true, First.Blob.BlobListingDetails.Metadata, null, null, null, null);
        var found = Assert.IsType<First.Blob.CloudBlockBlob>(Assert.Single(segment.Results));
        Assert.Equal("{\"offset\":\"5\"}", await found.DownloadTextAsync());
        Assert.Equal(First.Blob.LeaseState.Leased, found.Properties.LeaseState);
        await blob.ReleaseLeaseAsync(held);
        await container.DeleteAsync();
    }

    [Fact]
    public async Task Microsoft_Azure_Storage_Blob_reads_writes_lists_and_leases()
    {
        var account = Current.CloudStorageAccount.Parse(service.StorageConnectionString);
        var client = Current.Blob.BlobAccountExtensions.CreateCloudBlobClient(account);
        var container = client.GetContainerReference("leases");
        Assert.True(await container.CreateIfNotExistsAsync());
        var blob = container.GetBlockBlobReference("group/0");
        await blob.UploadTextAsync("{}");
        var lease = await blob.AcquireLeaseAsync(TimeSpan.FromSeconds(30));
        var held = Current.AccessCondition.GenerateLeaseCondition(lease);
        blob.Metadata["owner"] = "host";
        await blob.SetMetadataAsync(held, null, null);
        await blob.FetchAttributesAsync();
        Assert.Equal("host", blob.Metadata["owner"]);
        var other = await Assert.ThrowsAsync<Current.StorageException>(() => blob.AcquireLeaseAsync(TimeSpan.FromSeconds(30)));
        Assert.Equal("LeaseAlreadyPresent", other.RequestInformation.ErrorCode);
        await blob.BreakLeaseAsync(TimeSpan.Zero);
        var content = new byte[6_000_000];
        Random.Shared.NextBytes(content);
        var large = container.GetBlockBlobReference("large");
        large.StreamWriteSizeInBytes = 1 << 20;
        var options = new Current.Blob.BlobRequestOptions { SingleBlobUploadThresholdInBytes = 1 << 20, ParallelOperationThreadCount = 2 };
        await large.UploadFromByteArrayAsync(content, 0, content.Length, null, options, null);
        var copy = new byte[content.Length];
        Assert.Equal(content.Length, await large.DownloadToByteArrayAsync(copy, 0));
        Assert.Equal(content, copy);
        var append = container.GetAppendBlobReference("log");
        await append.CreateOrReplaceAsync();
        await append.AppendTextAsync("one");
        await append.AppendTextAsync("two");
        Assert.Equal("onetwo", await append.DownloadTextAsync());
        var names = new List<string>();
        var segment = await container.ListBlobsSegmentedAsync(null, true, Current.Blob.BlobListingDetails.None, null, null, null, null);
        names.AddRange(segment.Results.Cast<Current.Blob.CloudBlob>().Select(it => it.Name));
        Assert.Equal(["group/0", "large", "log"], names);
        var policy = new Current.Blob.SharedAccessBlobPolicy
        {
            Permissions = Current.Blob.SharedAccessBlobPermissions.Read,
            SharedAccessExpiryTime = DateTimeOffset.UtcNow.AddHours(1),
        };
        var signed = new Current.Blob.CloudBlockBlob(
            append.Uri, new Current.Auth.StorageCredentials(append.GetSharedAccessSignature(policy)));
        var mismatch = await Assert.ThrowsAsync<Current.StorageException>(() => signed.DeleteAsync());
        Assert.Equal(403, mismatch.RequestInformation.HttpStatusCode);
    }
}
