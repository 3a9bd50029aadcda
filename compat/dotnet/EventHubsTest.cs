using Azure.Messaging.EventHubs;
using Azure.Messaging.EventHubs.Consumer;
using Azure.Messaging.EventHubs.Producer;

namespace Parshall.Compat;

/// <summary>A test of a hub <c>events</c>, of a service of its own with this namespace.</summary>
public abstract class EventHubsTest(string configuration, params string[] arguments) : IAsyncLifetime
{
    protected const string Group = EventHubConsumerClient.DefaultConsumerGroupName;

    protected Service Service { get; private set; } = null!;

    public async Task InitializeAsync() => Service = await Service.StartAsync(configuration, arguments);

    public async Task DisposeAsync() => await Service.DisposeAsync();

    protected EventHubProducerClient NewProducer(string hub = "events", string? connectionString = null) =>
        new(connectionString ?? Service.ConnectionString, hub, new EventHubProducerClientOptions { RetryOptions = { MaximumRetries = 0 } });

    protected EventHubConsumerClient NewConsumer(string group = Group, string hub = "events") =>
        new(group, Service.ConnectionString, hub, new EventHubConsumerClientOptions { RetryOptions = { MaximumRetries = 0 } });

    protected static EventData[] Numbered(int count, int first = 0) =>
        [.. Enumerable.Range(first, count).Select(number => new EventData($"{number}"))];

    /// <summary>Returns this many events of a partition, and fails if fewer arrive.</summary>
    protected async Task<List<PartitionEvent>> ReadAsync(
        string partition, int count, EventPosition? from = null, ReadEventOptions? options = null)
    {
        await using var consumer = NewConsumer();
        using var cancellation = new CancellationTokenSource(2 * Service.Patience);
        var events = new List<PartitionEvent>();
        var position = from ?? EventPosition.Earliest;
        await foreach (var read in consumer.ReadEventsFromPartitionAsync(partition, position, options ?? new(), cancellation.Token))
        {
            events.Add(read);
            if (events.Count == count)
            {
                break;
            }
        }
        return events;
    }

    protected static string[] Bodies(IEnumerable<PartitionEvent> events) => [.. events.Select(it => it.Data.EventBody.ToString())];

    protected static async Task<EventHubsException> FailsAsync(EventHubsException.FailureReason reason, Func<Task> work)
    {
        var failed = await Assert.ThrowsAsync<EventHubsException>(work);
        Assert.Equal(reason, failed.Reason);
        return failed;
    }
}
