using Azure.Messaging.EventHubs;
using Azure.Messaging.EventHubs.Primitives;
using Azure.Messaging.ServiceBus;
using Azure.Storage.Blobs;

namespace Parshall.Compat;

/// <summary>Time under control: what the clients see once the service's clock was advanced, and their own was not.</summary>
public sealed class TimeTests : IAsyncLifetime
{
    private const string Namespace = """
        hubs: [{name: events, partitions: 2}]
        queues:
          - {name: brief, lock_duration: 8 s}
          - {name: sessions, lock_duration: 8 s, requires_session: true}
          - {name: idle}
        """;

    private static readonly TimeSpan Lock = TimeSpan.FromSeconds(8);

    private Service service = null!;
    private ServiceBusClient client = null!;

    public async Task InitializeAsync()
    {
        service = await Service.StartAsync(Namespace, "--blob", "127.0.0.1:0", "--time-control");
        client = new ServiceBusClient(service.ConnectionString);
    }

    public async Task DisposeAsync()
    {
        await client.DisposeAsync();
        await service.DisposeAsync();
    }

    private async Task ScheduleAsync(string queue, int hours, ServiceBusMessage message)
    {
        await using var sender = client.CreateSender(queue);
        await sender.ScheduleMessageAsync(message, (await service.NowAsync()).AddHours(hours));
    }

    [Theory]
    [InlineData("brief")]
    [InlineData("sessions")]
    public async Task An_idle_processor_is_given_what_came_once_and_renews_its_lock(string queue)
    {
        var worked = new TaskCompletionSource<(string Body, int Deliveries, TimeSpan Left)>();
        async Task Work(ServiceBusReceivedMessage message, DateTimeOffset lockedUntil, Func<ServiceBusReceivedMessage, Task> complete)
        {
            try
            {
                var left = lockedUntil - DateTimeOffset.UtcNow;
                // For longer than the lock lasts by itself.
                await Task.Delay(Lock + TimeSpan.FromSeconds(1));
                await complete(message);
                worked.TrySetResult((message.Body.ToString(), message.DeliveryCount, left));
            }
            catch (Exception failed)
            {
                worked.TrySetException(failed);
            }
        }
        IAsyncDisposable processor;
        if (queue == "sessions")
        {
            var sessions = client.CreateSessionProcessor(queue, new ServiceBusSessionProcessorOptions { AutoCompleteMessages = false });
            sessions.ProcessMessageAsync += it => Work(it.Message, it.SessionLockedUntil, message => it.CompleteMessageAsync(message));
            sessions.ProcessErrorAsync += _ => Task.CompletedTask;
            await sessions.StartProcessingAsync();
            processor = sessions;
        }
        else
        {
            var single = client.CreateProcessor(queue, new ServiceBusProcessorOptions { AutoCompleteMessages = false });
            single.ProcessMessageAsync += it => Work(it.Message, it.Message.LockedUntil, message => it.CompleteMessageAsync(message));
            single.ProcessErrorAsync += _ => Task.CompletedTask;
            await single.StartProcessingAsync();
            processor = single;
        }
        await using var _ = processor;
        await ScheduleAsync(queue, 7, new ServiceBusMessage("later") { SessionId = queue == "sessions" ? "one" : null });
        var happened = await service.AdvanceAsync("8 h");
        Assert.Equal(1, happened.GetProperty("scheduled_messages_enqueued").GetInt32());
        Assert.Equal(0, happened.GetProperty("message_locks_ended").GetInt32());
        var (body, deliveries, left) = await worked.Task.WaitAsync(2 * Service.Patience);
        Assert.Equal(("later", 1), (body, deliveries));
        Assert.InRange(left, TimeSpan.Zero, Lock);
    }

    [Fact]
    public async Task A_hundred_messages_that_came_in_one_advance_are_each_delivered_once()
    {
        await using var receiver = client.CreateReceiver("idle", new ServiceBusReceiverOptions { PrefetchCount = 200 });
        // Opens the link, which has credit from then on.
        Assert.Null(await receiver.ReceiveMessageAsync(TimeSpan.FromMilliseconds(500)));
        for (var number = 0; number < 100; number++)
        {
            await ScheduleAsync("idle", 1 + number % 24, new ServiceBusMessage("later"));
        }
        await service.AdvanceAsync("30 h");
        for (var number = 0; number < 100; number++)
        {
            var message = await receiver.ReceiveMessageAsync(Service.Patience);
            Assert.Equal(1, message.DeliveryCount);
            await receiver.CompleteMessageAsync(message);
        }
    }

    /// <summary>The client shows a signature of its own for half an hour by its own clock.</summary>
    [Fact]
    public async Task Clients_go_on_after_hours_and_days()
    {
        await using var sender = client.CreateSender("idle");
        await using var receiver = client.CreateReceiver("idle");
        foreach (var distance in new[] { "31 min", "2 h", "3 d" })
        {
            // What is signed within the second has the same text, and counts as new.
            await Task.Delay(TimeSpan.FromSeconds(1));
            await sender.SendMessageAsync(new ServiceBusMessage(distance));
            var message = await receiver.ReceiveMessageAsync(Service.Patience);
            Assert.Equal(distance, message.Body.ToString());
            await receiver.CompleteMessageAsync(message);
            await service.AdvanceAsync(distance);
            // Another connection, which shows what was signed before.
            await using var other = client.CreateReceiver("idle");
            Assert.Null(await other.PeekMessageAsync());
        }
    }

    [Fact]
    public async Task A_processor_takes_over_from_one_that_has_died()
    {
        var container = new BlobContainerClient(service.StorageConnectionString, "claims");
        await container.CreateAsync();
        var store = new BlobCheckpoints(container);
        await service.AdvanceAsync("8 h");
        var dead = new EventProcessorPartitionOwnership
        {
            FullyQualifiedNamespace = "localhost",
            EventHubName = "events",
            ConsumerGroup = "$Default",
            PartitionId = "0",
            OwnerIdentifier = "dead",
        };
        Assert.Single(await store.ClaimOwnershipAsync([dead], default));
        var processor = new Processor(store, service.ConnectionString);
        await processor.StartProcessingAsync();
        try
        {
            await processor.HasAll.Task.WaitAsync(2 * Service.Patience);
        }
        finally
        {
            await processor.StopProcessingAsync();
        }
    }

    /// <summary>Takes the partitions of who has not renewed its claims for some seconds.</summary>
    private sealed class Processor(BlobCheckpoints store, string connectionString)
        : PluggableCheckpointStoreEventProcessor<EventProcessorPartition>(store, 10, "$Default", connectionString, "events",
            new EventProcessorOptions
            {
                LoadBalancingUpdateInterval = TimeSpan.FromSeconds(1),
                PartitionOwnershipExpirationInterval = TimeSpan.FromSeconds(4),
            })
    {
        private readonly HashSet<string> has = [];

        public TaskCompletionSource HasAll { get; } = new();

        protected override Task OnInitializingPartitionAsync(EventProcessorPartition partition, CancellationToken cancellation)
        {
            lock (has)
            {
                has.Add(partition.PartitionId);
                if (has.Count == 2)
                {
                    HasAll.TrySetResult();
                }
            }
            return Task.CompletedTask;
        }

        protected override Task OnProcessingEventBatchAsync(
            IEnumerable<EventData> events, EventProcessorPartition partition, CancellationToken cancellation) => Task.CompletedTask;

        protected override Task OnProcessingErrorAsync(
            Exception exception, EventProcessorPartition partition, string operation, CancellationToken cancellation) =>
            Task.CompletedTask;
    }
}
