using System.Collections.Concurrent;
using Azure.Messaging.EventHubs;
using Azure.Messaging.EventHubs.Primitives;
using Azure.Messaging.EventHubs.Processor;
using Azure.Messaging.EventHubs.Producer;
using Azure.Storage.Blobs;

namespace Parshall.Compat;

/// <summary>Processors that share a hub, with their claims and checkpoints in blobs.</summary>
public sealed class EventProcessorTests() : EventHubsTest("""
    hubs: [{name: events, partitions: 4}]
    blob: {containers: [claims]}
    """, "--blob", "127.0.0.1:0", "--data-dir", "{directory}/data")
{
    private BlobCheckpoints Store => new(new BlobContainerClient(Service.StorageConnectionString, "claims"));

    private async Task SendAsync(int first, int count)
    {
        await using var producer = NewProducer();
        for (var partition = 0; partition < 4; partition++)
        {
            await producer.SendAsync(Numbered(count, first), new SendEventOptions { PartitionId = $"{partition}" });
        }
    }

    private Processor NewProcessor(Seen seen) => new(Store, Service.ConnectionString, seen);

    [Fact]
    public async Task A_processor_continues_after_the_checkpoint_of_the_last()
    {
        await SendAsync(0, 50);
        var seen = new Seen(4 * 50);
        var first = NewProcessor(seen);
        await first.StartProcessingAsync();
        await seen.All.WaitAsync(2 * Service.Patience);
        await first.StopProcessingAsync();
        seen.AssertOnce();

        await SendAsync(50, 50);
        var later = new Seen(4 * 50);
        var second = NewProcessor(later);
        await second.StartProcessingAsync();
        await later.All.WaitAsync(2 * Service.Patience);
        await second.StopProcessingAsync();
        later.AssertOnce();
        Assert.DoesNotContain(later.Numbers, number => number < 50);
    }

    [Fact]
    public async Task Two_processors_share_the_partitions_and_one_takes_over_from_the_other()
    {
        var seen = new Seen(4 * 100);
        var first = NewProcessor(seen);
        var second = NewProcessor(seen);
        await first.StartProcessingAsync();
        await second.StartProcessingAsync();
        await UntilAsync(() => first.Owned.Count == 2 && second.Owned.Count == 2);
        await SendAsync(0, 50);
        await UntilAsync(() => seen.Count >= 4 * 50);
        await first.StopProcessingAsync();
        Assert.Empty(first.Owned);
        await UntilAsync(() => second.Owned.Count == 4);
        await SendAsync(50, 50);
        await seen.All.WaitAsync(2 * Service.Patience);
        await second.StopProcessingAsync();
        Assert.Equal(4 * 100, seen.DistinctCount);
    }

    [Fact]
    [Trait("Length", "long")]
    public async Task Processors_miss_nothing_though_the_service_is_killed()
    {
        const int Rounds = 5;
        var seen = new Seen(4 * 100 * Rounds);
        var processor = NewProcessor(seen);
        await processor.StartProcessingAsync();
        for (var round = 0; round < Rounds; round++)
        {
            await SendAsync(100 * round, 100);
            await Service.KillAndStartAsync();
        }
        await seen.All.WaitAsync(4 * Service.Patience);
        await processor.StopProcessingAsync();
    }

    private static async Task UntilAsync(Func<bool> holds)
    {
        using var cancellation = new CancellationTokenSource(2 * Service.Patience);
        while (!holds())
        {
            await Task.Delay(50, cancellation.Token);
        }
    }

    /// <summary>Events that processors have seen, by partition and number.</summary>
    private sealed class Seen(int expected)
    {
        private readonly ConcurrentDictionary<(string Partition, int Number), int> times = new();
        private readonly TaskCompletionSource all = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public Task All => all.Task;

        public int Count => times.Values.Sum();

        public int DistinctCount => times.Count;

        public IEnumerable<int> Numbers => times.Keys.Select(it => it.Number);

        public void Add(string partition, int number)
        {
            times.AddOrUpdate((partition, number), 1, (_, before) => before + 1);
            if (times.Count == expected)
            {
                all.TrySetResult();
            }
        }

        public void AssertOnce() => Assert.All(times.Values, each => Assert.Equal(1, each));
    }

    private sealed class Processor(BlobCheckpoints store, string connectionString, Seen seen)
        : PluggableCheckpointStoreEventProcessor<EventProcessorPartition>(store, 25, Group, connectionString, "events",
            new EventProcessorOptions
            {
                DefaultStartingPosition = Azure.Messaging.EventHubs.Consumer.EventPosition.Earliest,
                LoadBalancingStrategy = LoadBalancingStrategy.Greedy,
                LoadBalancingUpdateInterval = TimeSpan.FromSeconds(1),
                PartitionOwnershipExpirationInterval = TimeSpan.FromSeconds(8),
                MaximumWaitTime = TimeSpan.FromSeconds(1),
                RetryOptions = { TryTimeout = TimeSpan.FromSeconds(5), Delay = TimeSpan.FromMilliseconds(100) },
            })
    {
        public ConcurrentDictionary<string, bool> Owned { get; } = new();

        protected override Task OnInitializingPartitionAsync(EventProcessorPartition partition, CancellationToken cancellation)
        {
            Owned[partition.PartitionId] = true;
            return Task.CompletedTask;
        }

        protected override Task OnPartitionProcessingStoppedAsync(
            EventProcessorPartition partition, ProcessingStoppedReason reason, CancellationToken cancellation)
        {
            Owned.TryRemove(partition.PartitionId, out _);
            return Task.CompletedTask;
        }

        protected override async Task OnProcessingEventBatchAsync(
            IEnumerable<EventData> events, EventProcessorPartition partition, CancellationToken cancellation)
        {
            var batch = events.ToList();
            if (batch.Count == 0)
            {
                return;
            }
            await UpdateCheckpointAsync(partition.PartitionId, CheckpointPosition.FromEvent(batch[^1]), cancellation);
            // Only now, since a test that has seen all of them stops the processor.
            foreach (var each in batch)
            {
                seen.Add(partition.PartitionId, int.Parse(each.EventBody.ToString()));
            }
        }

        protected override Task OnProcessingErrorAsync(
            Exception exception, EventProcessorPartition partition, string operation, CancellationToken cancellation) =>
            Task.CompletedTask;
    }
}
