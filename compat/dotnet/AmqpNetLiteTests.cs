using System.Transactions;
using Amqp;
using Amqp.Framing;
using Amqp.Types;
using Azure.Messaging.ServiceBus;
using Azure.Messaging.ServiceBus.Administration;

namespace Parshall.Compat;

/// <summary>AMQPNetLite, a client of AMQP 1.0 that knows nothing of Service Bus.</summary>
public sealed class AmqpNetLiteTests : IAsyncLifetime
{
    private Service service = null!;
    private ServiceBusAdministrationClient administration = null!;
    private Connection connection = null!;
    private Session session = null!;

    public async Task InitializeAsync()
    {
        service = await Service.StartAsync("""
            hubs: [{name: events, partitions: 1}]
            queues: [{name: jobs}]
            """);
        administration = new ServiceBusAdministrationClient(service.ConnectionString);
        var properties = ServiceBusConnectionStringProperties.Parse(service.ConnectionString);
        var port = properties.Endpoint.Port;
        var address = new Address("localhost", port, properties.SharedAccessKeyName, properties.SharedAccessKey, "/", "amqp");
        connection = await Connection.Factory.CreateAsync(address);
        session = new Session(connection);
    }

    public async Task DisposeAsync()
    {
        connection.Close(TimeSpan.Zero, null);
        await service.DisposeAsync();
    }

    private async Task<(long Active, long Dead)> FiguresAsync()
    {
        var figures = (await administration.GetQueueRuntimePropertiesAsync("jobs")).Value;
        return (figures.ActiveMessageCount, figures.DeadLetterMessageCount);
    }

    private async Task SendAsync(string entity, params object[] bodies)
    {
        var sender = new SenderLink(session, "sender", entity);
        foreach (var body in bodies)
        {
            var message = new Message { BodySection = new AmqpValue { Value = body } };
            message.Properties = new Properties { MessageId = $"{body}", Subject = "subject" };
            message.ApplicationProperties = new ApplicationProperties { ["number"] = 5 };
            await sender.SendAsync(message);
        }
        await sender.CloseAsync();
    }

    [Fact]
    public async Task Messages_are_sent_received_and_settled_in_every_way()
    {
        await SendAsync("jobs", "accept", "reject", "release", "modify");
        var receiver = new ReceiverLink(session, "receiver", "jobs");
        receiver.SetCredit(10, autoRestore: false);
        var messages = new Dictionary<string, Message>();
        for (var number = 0; number < 4; number++)
        {
            var message = await receiver.ReceiveAsync(Service.Patience);
            Assert.Equal(("subject", 5), (message.Properties.Subject, message.ApplicationProperties["number"]));
            messages.Add((string)message.Body, message);
        }
        receiver.Accept(messages["accept"]);
        receiver.Reject(messages["reject"], new Error(new Symbol("my:reason")) { Description = "description" });
        receiver.Release(messages["release"]);
        receiver.Modify(messages["modify"], deliveryFailed: true);
        for (var number = 0; number < 2; number++)
        {
            var again = await receiver.ReceiveAsync(Service.Patience);
            Assert.Contains((string)again.Body, new[] { "release", "modify" });
            receiver.Accept(again);
        }
        await receiver.CloseAsync();
        Assert.Equal((0, 1), await FiguresAsync());
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_transaction_is_committed_or_rolled_back_as_a_whole(bool commits)
    {
        await SendAsync("jobs", "received");
        var receiver = new ReceiverLink(session, "receiver", "jobs");
        var sender = new SenderLink(session, "sender", "jobs");
        receiver.SetCredit(1, autoRestore: false);
        var message = await receiver.ReceiveAsync(Service.Patience);
        // The client commits at the end of the scope, and must not do so on the thread that reads its connection.
        await Task.Run(() =>
        {
            using var scope = new TransactionScope();
            sender.Send(new Message("sent"), Service.Patience);
            receiver.Accept(message);
            if (commits)
            {
                scope.Complete();
            }
        });
        if (commits)
        {
            receiver.SetCredit(1, autoRestore: false);
            var sent = await receiver.ReceiveAsync(Service.Patience);
            Assert.Equal("sent", sent.Body);
            receiver.Accept(sent);
        }
        else
        {
            // It isn't settled, and the link can do so now (AMQP 1.0 part 4, 4.4.2).
            receiver.Accept(message);
        }
        await receiver.CloseAsync();
        Assert.Equal((0, 0), await FiguresAsync());
    }

    [Fact]
    public async Task A_message_larger_than_a_frame_arrives_whole()
    {
        var content = new byte[200_000];
        Random.Shared.NextBytes(content);
        var sender = new SenderLink(session, "sender", "jobs");
        await sender.SendAsync(new Message { BodySection = new Data { Binary = content } });
        var receiver = new ReceiverLink(session, "receiver", "jobs");
        var message = await receiver.ReceiveAsync(Service.Patience);
        Assert.Equal(content, ((Data)message.BodySection).Binary);
        receiver.Accept(message);
    }

    /// <summary>A filter is what its descriptor says, whatever its key (AMQP 1.0 part 3, 3.5.8).</summary>
    [Theory]
    [InlineData("apache.org:selector-filter:string")]
    [InlineData("start")]
    public async Task A_hub_is_read_from_a_position(string key)
    {
        await SendAsync("events", "0", "1", "2", "3");
        var selector = new DescribedValue(new Symbol("apache.org:selector-filter:string"), "amqp.annotation.x-opt-sequence-number > '1'");
        var source = new Source { Address = "events/ConsumerGroups/$Default/Partitions/0", FilterSet = new Map { [new Symbol(key)] = selector } };
        var receiver = new ReceiverLink(session, "receiver", source, null);
        var message = await receiver.ReceiveAsync(Service.Patience);
        Assert.Equal("2", message.Body);
    }

    /// <summary>What the service doesn't do, it doesn't answer as done (AMQP 1.0 part 3, 3.5.3).</summary>
    [Fact]
    public async Task A_selector_on_a_queue_is_not_answered_as_applied()
    {
        var selector = new DescribedValue(new Symbol("apache.org:selector-filter:string"), "number = 1");
        var source = new Source { Address = "jobs", FilterSet = new Map { [new Symbol("selector")] = selector } };
        var answered = new TaskCompletionSource<Source?>();
        var receiver = new ReceiverLink(session, "receiver", source, (_, attach) => answered.TrySetResult(attach.Source as Source));
        receiver.AddClosedCallback((_, _) => answered.TrySetResult(null));
        var told = await answered.Task.WaitAsync(Service.Patience);
        Assert.True(told?.FilterSet is null || told.FilterSet.Count == 0, "the filter came back, and isn't applied");
    }
}
