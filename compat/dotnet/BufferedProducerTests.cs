using System.Collections.Concurrent;
using Azure.Messaging.EventHubs;
using Azure.Messaging.EventHubs.Producer;

namespace Parshall.Compat;

/// <summary>EventHubBufferedProducerClient, with idempotent retries and without.</summary>
public sealed class BufferedProducerTests() : EventHubsTest(
    "hubs: [{name: events, partitions: 4}]", "--data-dir", "{directory}/data")
{
    private const int Partitions = 4;

    private EventHubBufferedProducerClient NewBuffered(bool idempotent, ConcurrentBag<Exception> failures)
    {
        var options = new EventHubBufferedProducerClientOptions
        {
            EnableIdempotentRetries = idempotent,
            MaximumWaitTime = TimeSpan.FromMilliseconds(20),
            RetryOptions = { TryTimeout = TimeSpan.FromSeconds(10), Delay = TimeSpan.FromMilliseconds(100), MaximumRetries = 20 },
        };
        var producer = new EventHubBufferedProducerClient(Service.ConnectionString, "events", options);
        producer.SendEventBatchFailedAsync += it =>
        {
            failures.Add(it.Exception);
            return Task.CompletedTask;
        };
        return producer;
    }

    private static async Task EnqueueAsync(EventHubBufferedProducerClient producer, int partition, int first, int count)
    {
        for (var number = first; number < first + count; number++)
        {
            await producer.EnqueueEventAsync(new EventData($"{number}"), new EnqueueEventOptions { PartitionId = $"{partition}" });
        }
    }

    /// <summary>Asserts that each partition has these numbers, in order and none twice.</summary>
    private async Task AssertExactAsync(int count)
    {
        var expected = Enumerable.Range(0, count).Select(number => $"{number}").ToArray();
        for (var partition = 0; partition < Partitions; partition++)
        {
            Assert.Equal(expected, Bodies(await ReadAsync($"{partition}", count)));
        }
        await using var producer = NewProducer();
        for (var partition = 0; partition < Partitions; partition++)
        {
            Assert.Equal(count - 1, (await producer.GetPartitionPropertiesAsync($"{partition}")).LastEnqueuedSequenceNumber);
        }
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Every_event_is_sent_once_and_in_order(bool idempotent)
    {
        var failures = new ConcurrentBag<Exception>();
        await using (var producer = NewBuffered(idempotent, failures))
        {
            await Task.WhenAll(Enumerable.Range(0, Partitions).Select(partition => EnqueueAsync(producer, partition, 0, 1_000)));
            await producer.FlushAsync();
            Assert.Equal(0, producer.TotalBufferedEventCount);
        }
        Assert.Empty(failures);
        await AssertExactAsync(1_000);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Events_with_a_key_share_a_partition(bool idempotent)
    {
        var failures = new ConcurrentBag<Exception>();
        var sentTo = new ConcurrentDictionary<string, ConcurrentBag<string>>();
        await using (var producer = NewBuffered(idempotent, failures))
        {
            producer.SendEventBatchSucceededAsync += it =>
            {
                foreach (var sent in it.EventBatch)
                {
                    sentTo.GetOrAdd((string)sent.Properties["key"], _ => []).Add(it.PartitionId);
                }
                return Task.CompletedTask;
            };
            for (var number = 0; number < 400; number++)
            {
                var key = $"key {number % 40}";
                var data = new EventData($"{number}") { Properties = { ["key"] = key } };
                await producer.EnqueueEventAsync(data, new EnqueueEventOptions { PartitionKey = key });
            }
        }
        Assert.Empty(failures);
        Assert.Equal(400, sentTo.Values.Sum(it => it.Count));
        Assert.All(sentTo.Values, partitions => Assert.Single(partitions.Distinct()));
        Assert.True(sentTo.Values.SelectMany(it => it).Distinct().Count() > 1);
    }

    /// <summary>The producer goes on with the numbers of its partitions, on new links.</summary>
    [Theory]
    [InlineData(1)]
    [InlineData(5)]
    [Trait("Length", "long")]
    public async Task Idempotent_retries_store_each_event_once_though_the_service_is_killed(int kills)
    {
        var failures = new ConcurrentBag<Exception>();
        await using (var producer = NewBuffered(idempotent: true, failures))
        {
            for (var round = 0; round <= kills; round++)
            {
                var sending = Task.WhenAll(
                    Enumerable.Range(0, Partitions).Select(partition => EnqueueAsync(producer, partition, round * 500, 500)));
                if (round < kills)
                {
                    await Service.KillAndStartAsync();
                }
                await sending;
                await producer.FlushAsync();
            }
        }
        Assert.Empty(failures);
        await AssertExactAsync((kills + 1) * 500);
    }
}
