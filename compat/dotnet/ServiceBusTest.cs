using Azure.Messaging.ServiceBus;
using Azure.Messaging.ServiceBus.Administration;

namespace Parshall.Compat;

/// <summary>A test of queues and topics: a service of its own, with this namespace, and a client that doesn't retry.</summary>
public abstract class ServiceBusTest(string configuration, params string[] arguments) : IAsyncLifetime
{
    /// <summary>Time after which a test takes it that nothing arrives.</summary>
    protected static readonly TimeSpan Silence = TimeSpan.FromMilliseconds(500);

    protected Service Service { get; private set; } = null!;

    protected ServiceBusClient Client { get; private set; } = null!;

    protected ServiceBusAdministrationClient Administration { get; private set; } = null!;

    public async Task InitializeAsync()
    {
        Service = await Service.StartAsync(configuration, arguments);
        Client = NewClient();
        Administration = new ServiceBusAdministrationClient(Service.ConnectionString);
    }

    public async Task DisposeAsync()
    {
        await Client.DisposeAsync();
        await Service.DisposeAsync();
    }

    /// <summary>Another client, on a connection of its own.</summary>
    protected ServiceBusClient NewClient(Action<ServiceBusClientOptions>? set = null)
    {
        var options = new ServiceBusClientOptions();
        options.RetryOptions.MaxRetries = 0;
        options.RetryOptions.TryTimeout = Service.Patience;
        set?.Invoke(options);
        return new ServiceBusClient(Service.ConnectionString, options);
    }

    protected async Task SendAsync(string entity, params ServiceBusMessage[] messages)
    {
        await using var sender = Client.CreateSender(entity);
        await sender.SendMessagesAsync(messages);
    }

    protected Task SendAsync(string entity, params string[] bodies) =>
        SendAsync(entity, [.. bodies.Select(body => new ServiceBusMessage(body))]);

    /// <summary>Returns the next message, and fails if none arrives.</summary>
    protected static async Task<ServiceBusReceivedMessage> ReceiveAsync(ServiceBusReceiver receiver)
    {
        var message = await receiver.ReceiveMessageAsync(Service.Patience);
        Assert.NotNull(message);
        return message;
    }

    /// <summary>Returns this many messages, and fails if fewer arrive.</summary>
    protected static async Task<List<ServiceBusReceivedMessage>> ReceiveAsync(ServiceBusReceiver receiver, int count)
    {
        var messages = new List<ServiceBusReceivedMessage>();
        while (messages.Count < count)
        {
            var more = await receiver.ReceiveMessagesAsync(count - messages.Count, Service.Patience);
            Assert.True(more.Count > 0, $"only {messages.Count} of {count} messages came");
            messages.AddRange(more);
        }
        return messages;
    }

    protected static async Task AssertEmptyAsync(ServiceBusReceiver receiver) =>
        Assert.Empty(await receiver.ReceiveMessagesAsync(1, Silence));

    protected ServiceBusReceiver DeadLetters(string entity) =>
        Client.CreateReceiver(entity, new ServiceBusReceiverOptions { SubQueue = SubQueue.DeadLetter });

    protected static async Task<ServiceBusException> FailsAsync(ServiceBusFailureReason reason, Func<Task> work)
    {
        var failed = await Assert.ThrowsAsync<ServiceBusException>(work);
        Assert.Equal(reason, failed.Reason);
        return failed;
    }

    protected static string[] Bodies(IEnumerable<ServiceBusReceivedMessage> messages) =>
        [.. messages.Select(message => message.Body.ToString())];
}
