using Azure;
using Azure.Messaging.EventHubs.Primitives;
using Azure.Messaging.EventHubs.Processor;
using Azure.Storage.Blobs;
using Azure.Storage.Blobs.Models;

namespace Parshall.Compat;

/// <summary>Claims of processors in blobs, laid out and judged as by Azure.Messaging.EventHubs.Processor; no checkpoints.</summary>
public sealed class BlobClaims(BlobContainerClient container) : CheckpointStore
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

    public override Task<EventProcessorCheckpoint> GetCheckpointAsync(
        string fullyQualifiedNamespace, string eventHubName, string consumerGroup, string partitionId,
        CancellationToken cancellation) => Task.FromResult<EventProcessorCheckpoint>(null!);

    public override Task UpdateCheckpointAsync(
        string fullyQualifiedNamespace, string eventHubName, string consumerGroup, string partitionId, string clientIdentifier,
        CheckpointPosition position, CancellationToken cancellation) => Task.CompletedTask;

    private static string Prefix(string fullyQualifiedNamespace, string eventHubName, string consumerGroup) =>
        $"{fullyQualifiedNamespace}/{eventHubName}/{consumerGroup}/ownership/".ToLowerInvariant();
}
