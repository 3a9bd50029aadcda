using System.Globalization;
using Azure;
using Azure.Messaging.EventHubs.Consumer;
using Azure.Messaging.EventHubs.Primitives;
using Azure.Messaging.EventHubs.Processor;
using Azure.Storage.Blobs;
using Azure.Storage.Blobs.Models;

namespace Parshall.Compat;

/// <summary>Claims and checkpoints of processors in blobs, laid out and judged as by Azure.Messaging.EventHubs.Processor.</summary>
public sealed class BlobCheckpoints(BlobContainerClient container) : CheckpointStore
{
    private const string Owner = "ownerid";

    public override async Task<IEnumerable<EventProcessorPartitionOwnership>> ListOwnershipAsync(
        string fullyQualifiedNamespace, string eventHubName, string consumerGroup, CancellationToken cancellation)
    {
        var claims = new List<EventProcessorPartitionOwnership>();
        var prefix = Prefix(fullyQualifiedNamespace, eventHubName, consumerGroup);
        var found = container.GetBlobsAsync(BlobTraits.Metadata, BlobStates.None, prefix, cancellation);
        await foreach (var blob in found)
        {
            claims.Add(new EventProcessorPartitionOwnership
            {
                FullyQualifiedNamespace = fullyQualifiedNamespace,
                EventHubName = eventHubName,
                ConsumerGroup = consumerGroup,
                PartitionId = blob.Name[prefix.Length..],
                OwnerIdentifier = blob.Metadata[Owner],
                LastModifiedTime = blob.Properties.LastModified.GetValueOrDefault(),
                Version = blob.Properties.ETag.ToString(),
            });
        }
        return claims;
    }

    public override async Task<IEnumerable<EventProcessorPartitionOwnership>> ClaimOwnershipAsync(
        IEnumerable<EventProcessorPartitionOwnership> desired, CancellationToken cancellation)
    {
        var claimed = new List<EventProcessorPartitionOwnership>();
        foreach (var claim in desired)
        {
            var name = Prefix(claim.FullyQualifiedNamespace, claim.EventHubName, claim.ConsumerGroup) + claim.PartitionId;
            var conditions = claim.Version is null
                ? new BlobRequestConditions { IfNoneMatch = ETag.All }
                : new BlobRequestConditions { IfMatch = new ETag(claim.Version) };
            var options = new BlobUploadOptions
            {
                Conditions = conditions,
                Metadata = new Dictionary<string, string> { [Owner] = claim.OwnerIdentifier },
            };
            try
            {
                BlobContentInfo written =
                    await container.GetBlobClient(name).UploadAsync(new BinaryData(""), options, cancellation);
                claim.LastModifiedTime = written.LastModified;
                claim.Version = written.ETag.ToString();
                claimed.Add(claim);
            }
            catch (RequestFailedException lost) when (lost.Status is 409 or 412)
            {
                // Somebody else has it.
            }
        }
        return claimed;
    }

    public override async Task<EventProcessorCheckpoint> GetCheckpointAsync(
        string fullyQualifiedNamespace, string eventHubName, string consumerGroup, string partitionId, CancellationToken cancellation)
    {
        var name = Prefix(fullyQualifiedNamespace, eventHubName, consumerGroup, "checkpoint") + partitionId;
        try
        {
            BlobProperties found = await container.GetBlobClient(name).GetPropertiesAsync(cancellationToken: cancellation);
            return new EventProcessorCheckpoint
            {
                FullyQualifiedNamespace = fullyQualifiedNamespace,
                EventHubName = eventHubName,
                ConsumerGroup = consumerGroup,
                PartitionId = partitionId,
                StartingPosition = EventPosition.FromOffset(found.Metadata["offset"], isInclusive: false),
            };
        }
        catch (RequestFailedException missing) when (missing.Status is 404)
        {
            return null!;
        }
    }

    public override async Task UpdateCheckpointAsync(
        string fullyQualifiedNamespace, string eventHubName, string consumerGroup, string partitionId, string clientIdentifier,
        CheckpointPosition position, CancellationToken cancellation)
    {
        var name = Prefix(fullyQualifiedNamespace, eventHubName, consumerGroup, "checkpoint") + partitionId;
        var metadata = new Dictionary<string, string>
        {
            ["offset"] = position.OffsetString,
            ["sequencenumber"] = position.SequenceNumber.ToString(CultureInfo.InvariantCulture),
            ["clientidentifier"] = clientIdentifier,
        };
        var blob = container.GetBlobClient(name);
        try
        {
            await blob.SetMetadataAsync(metadata, cancellationToken: cancellation);
        }
        catch (RequestFailedException missing) when (missing.Status is 404)
        {
            await blob.UploadAsync(new BinaryData(""), new BlobUploadOptions { Metadata = metadata }, cancellation);
        }
    }

    private static string Prefix(string fullyQualifiedNamespace, string eventHubName, string consumerGroup, string kind = "ownership") =>
        $"{fullyQualifiedNamespace}/{eventHubName}/{consumerGroup}/{kind}/".ToLowerInvariant();
}
