using Azure;
using Azure.Core.Amqp;
using Azure.Messaging.ServiceBus;

namespace Parshall.Compat;

/// <summary>Messages and how they are sent, with everything that the client lets through.</summary>
public sealed class MessageTests() : ServiceBusTest("""
    queues:
      - {name: jobs}
      - {name: sessions, requires_session: true}
    topics:
      - {name: news, subscriptions: [{name: all}, {name: sessions, requires_session: true}]}
    """)
{
    public static readonly TheoryData<object> Values =
    [
        "text", 1, 2L, (short)3, (byte)4, 5u, 6ul, (ushort)7, (sbyte)8, 1.5f, 2.5, 12.34m, true, 'c', new DateTime(2026, 1, 2, 3, 4, 5, DateTimeKind.Utc),
        Guid.Parse("01234567-89ab-cdef-0123-456789abcdef"), new byte[] { 1, 2, 3 }, new[] { 1, 2 }, new List<object> { "a", 1 },
        new Dictionary<string, object> { ["k"] = 1, ["l"] = "two" }, DateTimeOffset.UnixEpoch, TimeSpan.FromSeconds(5),
    ];

    [Theory]
    [MemberData(nameof(Values))]
    public async Task A_body_may_be_any_value(object value)
    {
        var sent = new ServiceBusMessage();
        sent.GetRawAmqpMessage().Body = AmqpMessageBody.FromValue(value);
        await using var sender = Client.CreateSender("jobs");
        await sender.SendMessageAsync(sent);
        await using var receiver = Client.CreateReceiver("jobs");
        var message = await ReceiveAsync(receiver);
        Assert.True(message.GetRawAmqpMessage().Body.TryGetValue(out var found));
        Assert.Equivalent(value, found);
    }

    [Fact]
    public async Task Properties_of_AMQP_arrive_as_they_were_sent()
    {
        var sent = new ServiceBusMessage("body");
        var raw = sent.GetRawAmqpMessage();
        raw.Properties.MessageId = new AmqpMessageId("id");
        raw.Properties.CorrelationId = new AmqpMessageId("correlation");
        raw.Properties.ContentEncoding = "gzip";
        raw.Properties.GroupId = "group";
        raw.Properties.GroupSequence = 5;
        raw.Properties.ReplyToGroupId = "reply group";
        raw.Properties.UserId = new byte[] { 1, 2 };
        raw.Properties.CreationTime = DateTimeOffset.Parse("2026-01-02T03:04:05Z");
        raw.Properties.AbsoluteExpiryTime = DateTimeOffset.UtcNow.AddDays(2);
        raw.Header.FirstAcquirer = true;
        raw.Header.DeliveryCount = 3;
        raw.ApplicationProperties["nothing"] = null;
        raw.MessageAnnotations["x-opt-text"] = "two";
        await SendAsync("jobs", sent);
        await using var receiver = Client.CreateReceiver("jobs");
        var message = await ReceiveAsync(receiver);
        var found = message.GetRawAmqpMessage();
        Assert.Equal("gzip", found.Properties.ContentEncoding);
        Assert.Equal(("group", 5u, "reply group"), (found.Properties.GroupId, found.Properties.GroupSequence, found.Properties.ReplyToGroupId));
        Assert.Equal([1, 2], found.Properties.UserId!.Value.ToArray());
        Assert.Equal(raw.Properties.CreationTime, found.Properties.CreationTime);
        Assert.Equal(raw.Properties.AbsoluteExpiryTime.Value.ToUnixTimeMilliseconds(), found.Properties.AbsoluteExpiryTime!.Value.ToUnixTimeMilliseconds());
        Assert.Null(found.ApplicationProperties["nothing"]);
        Assert.Equal("two", found.MessageAnnotations["x-opt-text"]);
        Assert.Equal(1, message.DeliveryCount);
    }

    [Fact]
    public async Task A_received_message_is_sent_again()
    {
        var sent = new ServiceBusMessage("body") { Subject = "subject", ApplicationProperties = { ["a"] = 1 } };
        sent.GetRawAmqpMessage().MessageAnnotations["x-opt-mine"] = 1;
        await SendAsync("jobs", sent);
        await using var receiver = Client.CreateReceiver("jobs");
        var first = await ReceiveAsync(receiver);
        await receiver.DeadLetterMessageAsync(first, "reason");
        await using var dead = DeadLetters("jobs");
        var buried = await ReceiveAsync(dead);
        await SendAsync("jobs", new ServiceBusMessage(buried));
        await dead.CompleteMessageAsync(buried);
        var again = await ReceiveAsync(receiver);
        Assert.Equal(("body", "subject", 1, 1), (again.Body.ToString(), again.Subject, again.ApplicationProperties["a"], again.DeliveryCount));
        Assert.Null(again.DeadLetterReason);
        Assert.True(again.SequenceNumber > first.SequenceNumber);
    }

    [Fact]
    public async Task An_entity_with_sessions_takes_messages_with_a_session_alone()
    {
        await Assert.ThrowsAsync<InvalidOperationException>(() => SendAsync("sessions", "without"));
        await SendAsync("jobs", new ServiceBusMessage("with") { SessionId = "ignored" });
        await using var receiver = Client.CreateReceiver("jobs");
        Assert.Equal("ignored", (await ReceiveAsync(receiver)).SessionId);
        await Assert.ThrowsAsync<InvalidOperationException>(() => Client.CreateReceiver("sessions").ReceiveMessageAsync(Silence));
        await Assert.ThrowsAsync<InvalidOperationException>(() => Client.AcceptNextSessionAsync("jobs"));
        await Assert.ThrowsAsync<InvalidOperationException>(() => Client.AcceptSessionAsync("jobs", "a"));
    }

    [Fact]
    public async Task Empty_bodies_and_batches_and_messages_of_the_largest_size_are_taken()
    {
        await using var sender = Client.CreateSender("jobs");
        using (var empty = await sender.CreateMessageBatchAsync())
        {
            await sender.SendMessagesAsync(empty);
        }
        await sender.SendMessagesAsync(Array.Empty<ServiceBusMessage>());
        using var batch = await sender.CreateMessageBatchAsync();
        for (var number = 0; number < 100; number++)
        {
            Assert.True(batch.TryAddMessage(new ServiceBusMessage(Array.Empty<byte>())));
        }
        await sender.SendMessagesAsync(batch);
        await sender.SendMessageAsync(new ServiceBusMessage(new byte[255 * 1024]));
        await using var receiver = Client.CreateReceiver("jobs");
        var messages = await ReceiveAsync(receiver, 101);
        Assert.Equal(255 * 1024, messages.Sum(message => message.Body.ToMemory().Length));
    }

    [Fact]
    public async Task Messages_are_received_as_a_sequence()
    {
        await SendAsync("jobs", [.. Enumerable.Range(0, 20).Select(number => $"{number}")]);
        await using var receiver = Client.CreateReceiver("jobs");
        using var cancellation = new CancellationTokenSource(Service.Patience);
        var bodies = new List<string>();
        await foreach (var message in receiver.ReceiveMessagesAsync(cancellation.Token))
        {
            bodies.Add(message.Body.ToString());
            await receiver.CompleteMessageAsync(message);
            if (bodies.Count == 20)
            {
                break;
            }
        }
        Assert.Equal(Enumerable.Range(0, 20).Select(number => $"{number}"), bodies);
    }

    [Fact]
    public async Task A_connection_string_with_a_signature_opens_what_it_was_made_for()
    {
        var properties = ServiceBusConnectionStringProperties.Parse(Service.ConnectionString);
        var sas = new AzureSasCredential(Signature("sb://localhost/jobs", properties.SharedAccessKeyName, properties.SharedAccessKey));
        var with = $"Endpoint={properties.Endpoint};SharedAccessSignature={sas.Signature};UseDevelopmentEmulator=true";
        await using var client = new ServiceBusClient(with, new ServiceBusClientOptions { RetryOptions = { MaxRetries = 0 } });
        await client.CreateSender("jobs").SendMessageAsync(new ServiceBusMessage("signed"));
        Assert.Equal("signed", (await ReceiveAsync(client.CreateReceiver("jobs"))).Body.ToString());
        await Assert.ThrowsAsync<UnauthorizedAccessException>(() => client.CreateSender("news").SendMessageAsync(new ServiceBusMessage("no")));
    }

    private static string Signature(string resource, string name, string key)
    {
        var encoded = Uri.EscapeDataString(resource);
        var end = DateTimeOffset.UtcNow.AddHours(1).ToUnixTimeSeconds();
        using var hash = new System.Security.Cryptography.HMACSHA256(System.Text.Encoding.UTF8.GetBytes(key));
        var signature = Convert.ToBase64String(hash.ComputeHash(System.Text.Encoding.UTF8.GetBytes($"{encoded}\n{end}")));
        return $"SharedAccessSignature sr={encoded}&sig={Uri.EscapeDataString(signature)}&se={end}&skn={name}";
    }

    [Fact]
    public async Task Sessions_of_a_subscription_are_received_and_deferred_with_their_dead_letters()
    {
        await SendAsync("news", [.. Enumerable.Range(0, 3).Select(number => new ServiceBusMessage($"{number}") { SessionId = "one" })]);
        await using var session = await Client.AcceptNextSessionAsync("news", "sessions");
        var messages = await ReceiveAsync(session, 3);
        await session.DeferMessageAsync(messages[0]);
        await session.DeadLetterMessageAsync(messages[1], "reason");
        await session.AbandonMessageAsync(messages[2]);
        var again = await ReceiveAsync(session);
        Assert.Equal(("2", 2), (again.Body.ToString(), again.DeliveryCount));
        var deferred = await session.ReceiveDeferredMessagesAsync([messages[0].SequenceNumber]);
        await session.CompleteMessageAsync(deferred[0]);
        await using var dead = Client.CreateReceiver("news", "sessions", new ServiceBusReceiverOptions { SubQueue = SubQueue.DeadLetter });
        Assert.Equal("one", (await ReceiveAsync(dead)).SessionId);
        Assert.Equal("2", (await session.PeekMessageAsync()).Body.ToString());
    }

    [Fact]
    public async Task A_peeked_message_is_settled_by_none()
    {
        await SendAsync("jobs", "one");
        await using var receiver = Client.CreateReceiver("jobs");
        var peeked = await receiver.PeekMessageAsync();
        await Assert.ThrowsAsync<InvalidOperationException>(() => receiver.CompleteMessageAsync(peeked));
        Assert.Equal("one", (await ReceiveAsync(receiver)).Body.ToString());
    }

    [Fact]
    public async Task Links_come_and_go_on_one_connection()
    {
        for (var round = 0; round < 30; round++)
        {
            await using var sender = Client.CreateSender("jobs");
            await sender.SendMessageAsync(new ServiceBusMessage($"{round}"));
            await using var receiver = Client.CreateReceiver("jobs");
            var message = await ReceiveAsync(receiver);
            Assert.Equal($"{round}", message.Body.ToString());
            await receiver.CompleteMessageAsync(message);
        }
    }
}
