using Azure.Messaging.EventHubs;
using Azure.Messaging.EventHubs.Consumer;
using Azure.Messaging.EventHubs.Primitives;
using Azure.Messaging.EventHubs.Producer;

namespace Parshall.Compat;

/// <summary>Hubs: producing and consuming, as the documentation of Azure.Messaging.EventHubs describes it.</summary>
public sealed class EventHubsTests() : EventHubsTest("hubs: [{name: events, partitions: 4, consumer_groups: [billing]}]")
{
    [Fact]
    public async Task A_hub_tells_its_properties_and_those_of_its_partitions()
    {
        await using var producer = NewProducer();
        var hub = await producer.GetEventHubPropertiesAsync();
        Assert.Equal("events", hub.Name);
        Assert.Equal(["0", "1", "2", "3"], hub.PartitionIds);
        Assert.InRange(hub.CreatedOn, DateTimeOffset.UtcNow.AddMinutes(-1), DateTimeOffset.UtcNow.AddSeconds(2));
        var empty = await producer.GetPartitionPropertiesAsync("3");
        Assert.True(empty.IsEmpty);
        Assert.Equal((-1, -1), (empty.BeginningSequenceNumber, empty.LastEnqueuedSequenceNumber));
        await producer.SendAsync(Numbered(3), new SendEventOptions { PartitionId = "3" });
        var filled = await producer.GetPartitionPropertiesAsync("3");
        Assert.False(filled.IsEmpty);
        Assert.Equal((0, 2), (filled.BeginningSequenceNumber, filled.LastEnqueuedSequenceNumber));
        Assert.InRange(filled.LastEnqueuedTime, DateTimeOffset.UtcNow.AddMinutes(-1), DateTimeOffset.UtcNow.AddSeconds(2));
    }

    /// <summary>A container is known by a name of its own, and the token of a request names it.</summary>
    [Fact]
    public async Task A_hub_tells_its_properties_at_another_host_than_that_of_the_namespace()
    {
        var elsewhere = Service.ConnectionString.Replace("localhost", "127.0.0.1");
        await using var producer = NewProducer(connectionString: elsewhere);
        Assert.Equal(4, (await producer.GetPartitionIdsAsync()).Length);
        await producer.SendAsync(Numbered(1), new SendEventOptions { PartitionId = "0" });
        Assert.Equal(0, (await producer.GetPartitionPropertiesAsync("0")).LastEnqueuedSequenceNumber);
    }

    [Fact]
    public async Task An_event_arrives_as_it_was_sent()
    {
        var sent = new EventData(new byte[] { 0, 255, 1 })
        {
            MessageId = "id",
            CorrelationId = "correlation",
            ContentType = "application/octet-stream",
            Properties =
            {
                ["string"] = "text",
                ["int"] = -3,
                ["ulong"] = ulong.MaxValue,
                ["double"] = 2.5,
                ["decimal"] = 12.34m,
                ["Guid"] = Guid.NewGuid(),
                ["DateTimeOffset"] = new DateTimeOffset(2026, 1, 2, 3, 4, 5, TimeSpan.Zero),
                ["TimeSpan"] = TimeSpan.FromTicks(12_345_678_901),
                ["Uri"] = new Uri("https://example.com/"),
            },
        };
        await using var producer = NewProducer();
        await producer.SendAsync([sent], new SendEventOptions { PartitionKey = "key" });
        await using var consumer = NewConsumer("billing");
        using var cancellation = new CancellationTokenSource(Service.Patience);
        await foreach (var read in consumer.ReadEventsAsync(cancellation.Token))
        {
            var found = read.Data;
            Assert.Equal([0, 255, 1], found.EventBody.ToArray());
            Assert.Equal(("id", "correlation", "application/octet-stream"), (found.MessageId, found.CorrelationId, found.ContentType));
            Assert.Equal(sent.Properties.OrderBy(it => it.Key), found.Properties.OrderBy(it => it.Key));
            Assert.Equal(("key", 0), (found.PartitionKey, found.SequenceNumber));
            Assert.InRange(found.EnqueuedTime, DateTimeOffset.UtcNow.AddMinutes(-1), DateTimeOffset.UtcNow.AddSeconds(2));
            break;
        }
    }

    [Fact]
    public async Task Events_with_a_key_share_a_partition_and_those_without_one_are_spread()
    {
        await using var producer = NewProducer();
        for (var round = 0; round < 8; round++)
        {
            await producer.SendAsync(Numbered(1), new SendEventOptions { PartitionKey = "key" });
        }
        var counts = await CountsAsync(producer);
        Assert.Equal([0, 0, 0, 8], counts.Order());
        for (var round = 0; round < 40; round++)
        {
            await producer.SendAsync(Numbered(1));
        }
        counts = await CountsAsync(producer);
        Assert.Equal(48, counts.Sum());
        Assert.All(counts, count => Assert.NotEqual(0, count));
    }

    private static async Task<List<long>> CountsAsync(EventHubProducerClient producer)
    {
        var counts = new List<long>();
        foreach (var partition in await producer.GetPartitionIdsAsync())
        {
            counts.Add((await producer.GetPartitionPropertiesAsync(partition)).LastEnqueuedSequenceNumber + 1);
        }
        return counts;
    }

    [Fact]
    public async Task A_batch_takes_what_fits_and_an_event_that_is_too_large_is_an_error()
    {
        await using var producer = NewProducer();
        using var batch = await producer.CreateBatchAsync(new CreateBatchOptions { PartitionId = "0" });
        while (batch.TryAdd(new EventData(new byte[10_000])))
        {
        }
        Assert.InRange(batch.SizeInBytes, batch.MaximumSizeInBytes - 10_200, batch.MaximumSizeInBytes);
        await producer.SendAsync(batch);
        Assert.Equal(batch.Count - 1, (await producer.GetPartitionPropertiesAsync("0")).LastEnqueuedSequenceNumber);
        await FailsAsync(EventHubsException.FailureReason.MessageSizeExceeded, () => producer.SendAsync([new EventData(new byte[2_000_000])]));
    }

    [Fact]
    public async Task A_consumer_starts_where_it_is_told()
    {
        await using var producer = NewProducer();
        var options = new SendEventOptions { PartitionId = "1" };
        await producer.SendAsync(Numbered(5), options);
        await Task.Delay(TimeSpan.FromMilliseconds(50));
        var time = DateTimeOffset.UtcNow;
        await Task.Delay(TimeSpan.FromMilliseconds(50));
        await producer.SendAsync(Numbered(5, first: 5), options);
        var all = await ReadAsync("1", 10);
        Assert.Equal(Numbered(10).Select(it => it.EventBody.ToString()), Bodies(all));
        Assert.Equal(Enumerable.Range(0, 10).Select(number => (long)number), all.Select(it => it.Data.SequenceNumber));
        Assert.Equal(["4", "5"], Bodies(await ReadAsync("1", 2, EventPosition.FromSequenceNumber(3, isInclusive: false))));
        Assert.Equal(["3", "4"], Bodies(await ReadAsync("1", 2, EventPosition.FromSequenceNumber(3))));
        Assert.Equal(["7"], Bodies(await ReadAsync("1", 1, EventPosition.FromOffset(all[7].Data.OffsetString))));
        Assert.Equal(["8"], Bodies(await ReadAsync("1", 1, EventPosition.FromOffset(all[7].Data.OffsetString, isInclusive: false))));
        Assert.Equal(["5"], Bodies(await ReadAsync("1", 1, EventPosition.FromEnqueuedTime(time))));
    }

    [Fact]
    public async Task A_consumer_from_the_latest_gets_what_comes_and_the_last_event_with_it()
    {
        await using var producer = NewProducer();
        var send = new SendEventOptions { PartitionId = "0" };
        await producer.SendAsync(Numbered(3), send);
        await using var consumer = NewConsumer();
        using var cancellation = new CancellationTokenSource(2 * Service.Patience);
        var options = new ReadEventOptions { MaximumWaitTime = TimeSpan.FromMilliseconds(300), TrackLastEnqueuedEventProperties = true };
        var sent = false;
        await foreach (var read in consumer.ReadEventsFromPartitionAsync("0", EventPosition.Latest, options, cancellation.Token))
        {
            if (!sent)
            {
                // The link is open, and nothing has come.
                Assert.Null(read.Data);
                await producer.SendAsync(Numbered(2, first: 3), send);
                sent = true;
            }
            else if (read.Data is not null)
            {
                Assert.Equal("3", read.Data.EventBody.ToString());
                Assert.Equal(4, read.Partition.ReadLastEnqueuedEventProperties().SequenceNumber);
                break;
            }
        }
    }

    [Fact]
    public async Task A_consumer_reads_all_partitions()
    {
        await using var producer = NewProducer();
        foreach (var partition in await producer.GetPartitionIdsAsync())
        {
            await producer.SendAsync(Numbered(25), new SendEventOptions { PartitionId = partition });
        }
        await using var consumer = NewConsumer();
        using var cancellation = new CancellationTokenSource(2 * Service.Patience);
        var seen = new Dictionary<string, int>();
        await foreach (var read in consumer.ReadEventsAsync(startReadingAtEarliestEvent: true, cancellationToken: cancellation.Token))
        {
            seen[read.Partition.PartitionId] = seen.GetValueOrDefault(read.Partition.PartitionId) + 1;
            if (seen.Values.Sum() == 100)
            {
                break;
            }
        }
        Assert.Equal([25, 25, 25, 25], seen.Values);
    }

    [Fact]
    public async Task A_reader_with_a_higher_owner_level_takes_over()
    {
        await using var producer = NewProducer();
        await producer.SendAsync(Numbered(1), new SendEventOptions { PartitionId = "0" });
        await using var first = NewReceiver(1);
        Assert.Single(await first.ReceiveBatchAsync(1, Service.Patience));
        await using var second = NewReceiver(2);
        Assert.Single(await second.ReceiveBatchAsync(1, Service.Patience));
        await FailsAsync(EventHubsException.FailureReason.ConsumerDisconnected, async () =>
        {
            // A call during which the link is taken away gets no events; the next one gets the error (`AmqpConsumer.ReceiveAsync`).
            Assert.Empty(await first.ReceiveBatchAsync(1, Service.Patience));
            await first.ReceiveBatchAsync(1, Service.Patience);
        });
        await using var third = NewReceiver(1);
        await FailsAsync(EventHubsException.FailureReason.ConsumerDisconnected, () => third.ReceiveBatchAsync(1, Service.Patience));
    }

    private PartitionReceiver NewReceiver(long? ownerLevel, string group = Group) => new(group, "0", EventPosition.Earliest, Service.ConnectionString, "events",
        new PartitionReceiverOptions { OwnerLevel = ownerLevel, RetryOptions = { MaximumRetries = 0 } });

    [Fact]
    public async Task What_is_not_there_has_its_reason()
    {
        await using var nowhere = NewProducer("nowhere");
        await FailsAsync(EventHubsException.FailureReason.ResourceNotFound, () => nowhere.GetEventHubPropertiesAsync());
        await FailsAsync(EventHubsException.FailureReason.ResourceNotFound, () => nowhere.SendAsync(Numbered(1)));
        await using var group = NewReceiver(null, "nobody");
        await FailsAsync(EventHubsException.FailureReason.ResourceNotFound, () => group.ReceiveBatchAsync(1, Service.Patience));
        await using var producer = NewProducer();
        await Assert.ThrowsAnyAsync<Exception>(() => producer.SendAsync(Numbered(1), new SendEventOptions { PartitionId = "9" }));
        await Assert.ThrowsAnyAsync<Exception>(() => producer.GetPartitionPropertiesAsync("9"));
        var properties = EventHubsConnectionStringProperties.Parse(Service.ConnectionString);
        await using var stranger = NewProducer(connectionString: Service.ConnectionString.Replace(properties.SharedAccessKey, "wrong"));
        await Assert.ThrowsAsync<UnauthorizedAccessException>(() => stranger.SendAsync(Numbered(1)));
    }

    [Fact]
    public async Task Hubs_work_over_web_sockets()
    {
        var connection = new EventHubConnectionOptions { TransportType = EventHubsTransportType.AmqpWebSockets };
        await using var producer = new EventHubProducerClient(Service.ConnectionString, "events",
            new EventHubProducerClientOptions { ConnectionOptions = connection });
        await producer.SendAsync(Numbered(100), new SendEventOptions { PartitionId = "0" });
        Assert.Equal(100, (await ReadAsync("0", 100)).Count);
        await using var receiver = new PartitionReceiver(Group, "0", EventPosition.Earliest, Service.ConnectionString, "events",
            new PartitionReceiverOptions { ConnectionOptions = connection });
        Assert.NotEmpty(await receiver.ReceiveBatchAsync(100, Service.Patience));
    }
}
