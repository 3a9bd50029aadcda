using System.Reflection;
using Azure.Core.Amqp;
using Azure.Messaging.ServiceBus;

namespace Parshall.Compat;

/// <summary>Queues: sending, receiving and settling, as the documentation of Azure.Messaging.ServiceBus describes it.</summary>
public sealed class QueueTests() : ServiceBusTest("""
    queues:
      - {name: jobs, maximum_delivery_count: 3}
      - {name: brief, lock_duration: 30 s}
      - {name: once, maximum_delivery_count: 1}
      - {name: duplicates, duplicate_detection: 1 min}
      - {name: expiring, dead_lettering_on_expiration: true}
      - {name: first, forward_to: second}
      - {name: second}
      - {name: failing, forward_dead_lettered_messages_to: graveyard}
      - {name: graveyard}
      - {name: closed, status: disabled}
      - {name: full, size_limit: 100 KiB}
    """, "--time-control")
{
    [Fact]
    public async Task A_message_arrives_as_it_was_sent()
    {
        var properties = new Dictionary<string, object>
        {
            ["string"] = "text",
            ["bool"] = true,
            ["byte"] = (byte)1,
            ["sbyte"] = (sbyte)-1,
            ["short"] = (short)-2,
            ["ushort"] = (ushort)2,
            ["int"] = -3,
            ["uint"] = 3u,
            ["long"] = -4L,
            ["ulong"] = 4ul,
            ["float"] = 1.5f,
            ["double"] = 2.5,
            ["decimal"] = 12.34m,
            ["char"] = 'é',
            ["Guid"] = Guid.NewGuid(),
            ["DateTime"] = new DateTime(2026, 1, 2, 3, 4, 5, 678, DateTimeKind.Utc),
            ["DateTimeOffset"] = new DateTimeOffset(2026, 1, 2, 3, 4, 5, TimeSpan.Zero),
            ["TimeSpan"] = TimeSpan.FromTicks(12_345_678_901),
            ["Uri"] = new Uri("https://example.com/a?b=c"),
        };
        var sent = new ServiceBusMessage(new byte[] { 0, 255, 1 })
        {
            MessageId = "id",
            CorrelationId = "correlation",
            Subject = " subject ",
            ContentType = "application/octet-stream",
            To = "to",
            ReplyTo = "reply",
            ReplyToSessionId = "reply session",
            PartitionKey = "key",
            TimeToLive = TimeSpan.FromHours(1),
        };
        foreach (var (name, value) in properties)
        {
            sent.ApplicationProperties[name] = value;
        }
        var before = DateTimeOffset.UtcNow.AddSeconds(-2);
        await SendAsync("jobs", sent);
        await using var receiver = Client.CreateReceiver("jobs");
        var message = await ReceiveAsync(receiver);
        Assert.Equal([0, 255, 1], message.Body.ToArray());
        Assert.Equal("id", message.MessageId);
        Assert.Equal("correlation", message.CorrelationId);
        Assert.Equal(" subject ", message.Subject);
        Assert.Equal("application/octet-stream", message.ContentType);
        Assert.Equal(("to", "reply", "reply session"), (message.To, message.ReplyTo, message.ReplyToSessionId));
        Assert.Equal("key", message.PartitionKey);
        Assert.Equal(TimeSpan.FromHours(1), message.TimeToLive);
        Assert.Equal(properties.OrderBy(it => it.Key), message.ApplicationProperties.OrderBy(it => it.Key));
        Assert.InRange(message.EnqueuedTime, before, DateTimeOffset.UtcNow.AddSeconds(2));
        // The client tells the service when it expires by its own clock.
        Assert.InRange(message.ExpiresAt - message.EnqueuedTime, TimeSpan.FromMinutes(59), TimeSpan.FromMinutes(61));
        Assert.InRange(message.LockedUntil, DateTimeOffset.UtcNow, DateTimeOffset.UtcNow.AddSeconds(62));
        Assert.Equal(1, message.DeliveryCount);
        Assert.Equal(ServiceBusMessageState.Active, message.State);
        Assert.True(message.SequenceNumber > 0);
        Assert.Equal(message.SequenceNumber, message.EnqueuedSequenceNumber);
        Assert.True(Guid.TryParse(message.LockToken, out var token) && token != Guid.Empty);
    }

    [Fact]
    public async Task Bodies_of_values_and_sequences_arrive_with_header_annotations_and_footer()
    {
        var value = new ServiceBusMessage();
        var raw = value.GetRawAmqpMessage();
        raw.Body = AmqpMessageBody.FromValue("a value");
        raw.Header.Priority = 7;
        raw.Header.Durable = true;
        raw.MessageAnnotations["x-opt-mine"] = 5;
        raw.DeliveryAnnotations["delivery"] = "there";
        raw.Footer["foot"] = "note";
        var sequence = new ServiceBusMessage();
        sequence.GetRawAmqpMessage().Body = AmqpMessageBody.FromSequence([[1, "two"], [3L]]);
        // A list of messages is one batch, which has bodies of data alone.
        await using var sender = Client.CreateSender("jobs");
        await sender.SendMessageAsync(value);
        await sender.SendMessageAsync(sequence);
        await using var receiver = Client.CreateReceiver("jobs");
        var messages = await ReceiveAsync(receiver, 2);
        raw = messages[0].GetRawAmqpMessage();
        Assert.True(raw.Body.TryGetValue(out var found));
        Assert.Equal("a value", found);
        Assert.Equal((byte)7, raw.Header.Priority);
        Assert.True(raw.Header.Durable);
        Assert.Equal(5, raw.MessageAnnotations["x-opt-mine"]);
        Assert.Equal("there", raw.DeliveryAnnotations["delivery"]);
        Assert.Equal("note", raw.Footer["foot"]);
        Assert.True(messages[1].GetRawAmqpMessage().Body.TryGetSequence(out var sequences));
        Assert.Equal([1, "two", 3L], sequences!.SelectMany(it => it));
    }

    [Fact]
    public async Task A_batch_takes_what_fits_and_no_more()
    {
        await using var sender = Client.CreateSender("jobs");
        using var batch = await sender.CreateMessageBatchAsync();
        var count = 0;
        while (batch.TryAddMessage(new ServiceBusMessage(new byte[10_000])))
        {
            count++;
        }
        Assert.InRange(batch.SizeInBytes, batch.MaxSizeInBytes - 10_200, batch.MaxSizeInBytes);
        await sender.SendMessagesAsync(batch);
        await using var receiver = Client.CreateReceiver("jobs");
        await ReceiveAsync(receiver, count);
        await AssertEmptyAsync(receiver);
    }

    [Fact]
    public async Task A_batch_may_have_more_than_4500_messages()
    {
        await using var sender = Client.CreateSender("jobs");
        using var batch = await sender.CreateMessageBatchAsync();
        while (batch.Count < 5_000)
        {
            Assert.True(batch.TryAddMessage(new ServiceBusMessage("")), $"only {batch.Count} messages fit");
        }
        await sender.SendMessagesAsync(batch);
        var queue = (await Administration.GetQueueRuntimePropertiesAsync("jobs")).Value;
        Assert.Equal(5_000, queue.ActiveMessageCount);
    }

    [Fact]
    public async Task A_message_that_is_too_large_is_an_error_and_the_next_is_sent()
    {
        await using var sender = Client.CreateSender("jobs");
        await FailsAsync(ServiceBusFailureReason.MessageSizeExceeded,
            () => sender.SendMessageAsync(new ServiceBusMessage(new byte[2_000_000])));
        await sender.SendMessageAsync(new ServiceBusMessage("small"));
        await using var receiver = Client.CreateReceiver("jobs");
        Assert.Equal("small", (await ReceiveAsync(receiver)).Body.ToString());
    }

    [Fact]
    public async Task Messages_are_settled_in_every_way_with_changed_properties()
    {
        await SendAsync("jobs", "complete", "abandon", "defer", "bury");
        await using var receiver = Client.CreateReceiver("jobs");
        var messages = await ReceiveAsync(receiver, 4);
        Assert.Equal(["complete", "abandon", "defer", "bury"], Bodies(messages));
        var changed = new Dictionary<string, object> { ["by"] = "settling" };
        await receiver.CompleteMessageAsync(messages[0]);
        await receiver.AbandonMessageAsync(messages[1], changed);
        await receiver.DeferMessageAsync(messages[2], changed);
        await receiver.DeadLetterMessageAsync(messages[3], changed, "reason", "description");

        var abandoned = await ReceiveAsync(receiver);
        Assert.Equal(("abandon", 2, "settling"),
            (abandoned.Body.ToString(), abandoned.DeliveryCount, abandoned.ApplicationProperties["by"]));
        await receiver.CompleteMessageAsync(abandoned);

        var deferred = await receiver.ReceiveDeferredMessageAsync(messages[2].SequenceNumber);
        Assert.Equal(("defer", "settling"), (deferred.Body.ToString(), deferred.ApplicationProperties["by"]));
        Assert.Equal(ServiceBusMessageState.Deferred, deferred.State);
        await receiver.CompleteMessageAsync(deferred);
        await FailsAsync(ServiceBusFailureReason.MessageNotFound,
            () => receiver.ReceiveDeferredMessageAsync(messages[2].SequenceNumber));

        await using var dead = DeadLetters("jobs");
        var buried = await ReceiveAsync(dead);
        Assert.Equal(("bury", "reason", "description", "settling"),
            (buried.Body.ToString(), buried.DeadLetterReason, buried.DeadLetterErrorDescription, buried.ApplicationProperties["by"]));
        await dead.CompleteMessageAsync(buried);
        await AssertEmptyAsync(receiver);
        await AssertEmptyAsync(dead);
    }

    [Fact]
    public async Task Received_and_deleted_is_gone()
    {
        await SendAsync("jobs", "one", "two");
        var options = new ServiceBusReceiverOptions { ReceiveMode = ServiceBusReceiveMode.ReceiveAndDelete };
        await using var receiver = Client.CreateReceiver("jobs", options);
        Assert.Equal(["one", "two"], Bodies(await ReceiveAsync(receiver, 2)));
        await using var other = Client.CreateReceiver("jobs");
        Assert.Null(await other.PeekMessageAsync());
    }

    [Fact]
    public async Task Peeking_shows_active_scheduled_and_deferred_messages_and_changes_nothing()
    {
        await SendAsync("jobs", "deferred", "active");
        await using var sender = Client.CreateSender("jobs");
        await sender.ScheduleMessageAsync(new ServiceBusMessage("scheduled"), DateTimeOffset.UtcNow.AddHours(1));
        await using var receiver = Client.CreateReceiver("jobs");
        var first = await ReceiveAsync(receiver);
        await receiver.DeferMessageAsync(first);
        var peeked = await receiver.PeekMessagesAsync(10);
        Assert.Equal(
            [("deferred", ServiceBusMessageState.Deferred), ("active", ServiceBusMessageState.Active),
                ("scheduled", ServiceBusMessageState.Scheduled)],
            peeked.Select(it => (it.Body.ToString(), it.State)));
        Assert.Empty(await receiver.PeekMessagesAsync(10));
        Assert.Equal("active", (await receiver.PeekMessageAsync(peeked[1].SequenceNumber)).Body.ToString());
        Assert.Equal(1, (await ReceiveAsync(receiver)).DeliveryCount);
    }

    [Fact]
    public async Task A_message_that_fails_too_often_is_a_dead_letter()
    {
        await SendAsync("jobs", "poison");
        await using var receiver = Client.CreateReceiver("jobs");
        for (var delivery = 1; delivery <= 3; delivery++)
        {
            var message = await ReceiveAsync(receiver);
            Assert.Equal(delivery, message.DeliveryCount);
            await receiver.AbandonMessageAsync(message);
        }
        await using var dead = DeadLetters("jobs");
        var buried = await ReceiveAsync(dead);
        Assert.Equal("MaxDeliveryCountExceeded", buried.DeadLetterReason);
        await AssertEmptyAsync(receiver);
    }

    [Fact]
    public async Task Deferring_is_no_failed_delivery()
    {
        await SendAsync("once", "kept");
        await using var receiver = Client.CreateReceiver("once");
        var message = await ReceiveAsync(receiver);
        await receiver.DeferMessageAsync(message);
        var deferred = await receiver.ReceiveDeferredMessageAsync(message.SequenceNumber);
        Assert.Equal("kept", deferred.Body.ToString());
        await receiver.CompleteMessageAsync(deferred);
    }

    [Fact]
    public async Task A_lock_is_renewed_and_without_renewal_lost()
    {
        await SendAsync("brief", "job");
        await using var receiver = Client.CreateReceiver("brief");
        var message = await ReceiveAsync(receiver);
        for (var round = 0; round < 4; round++)
        {
            await Service.AdvanceAsync("20 s");
            var until = message.LockedUntil;
            await receiver.RenewMessageLockAsync(message);
            Assert.True(message.LockedUntil > until);
        }
        await Service.AdvanceAsync("30 s");
        var again = await ReceiveAsync(receiver);
        Assert.Equal(2, again.DeliveryCount);
        await FailsAsync(ServiceBusFailureReason.MessageLockLost, () => receiver.CompleteMessageAsync(message));
        await FailsAsync(ServiceBusFailureReason.MessageLockLost, () => receiver.RenewMessageLockAsync(message));
        await receiver.CompleteMessageAsync(again);
    }

    [Fact]
    public async Task A_scheduled_message_comes_in_time_and_a_cancelled_one_never()
    {
        await using var sender = Client.CreateSender("jobs");
        var due = DateTimeOffset.UtcNow.AddSeconds(2);
        var numbers = await sender.ScheduleMessagesAsync([new ServiceBusMessage("cancelled"), new ServiceBusMessage("scheduled")], due);
        Assert.Equal(2, numbers.Count);
        await sender.CancelScheduledMessageAsync(numbers[0]);
        await FailsAsync(ServiceBusFailureReason.MessageNotFound, () => sender.CancelScheduledMessageAsync(numbers[0]));
        await using var receiver = Client.CreateReceiver("jobs");
        var message = await ReceiveAsync(receiver);
        Assert.Equal("scheduled", message.Body.ToString());
        Assert.True(DateTimeOffset.UtcNow >= due.AddMilliseconds(-50));
        Assert.Equal(due.ToUnixTimeMilliseconds(), message.ScheduledEnqueueTime.ToUnixTimeMilliseconds());
        await receiver.CompleteMessageAsync(message);
        await AssertEmptyAsync(receiver);
    }

    [Fact]
    public async Task Duplicates_are_dropped()
    {
        await SendAsync("duplicates", new ServiceBusMessage("first") { MessageId = "same" },
            new ServiceBusMessage("second") { MessageId = "same" }, new ServiceBusMessage("third") { MessageId = "other" });
        await using var receiver = Client.CreateReceiver("duplicates");
        Assert.Equal(["first", "third"], Bodies(await ReceiveAsync(receiver, 2)));
        await AssertEmptyAsync(receiver);
    }

    [Fact]
    public async Task An_expired_message_is_a_dead_letter()
    {
        await SendAsync("expiring", new ServiceBusMessage("late") { TimeToLive = TimeSpan.FromMilliseconds(300) });
        await using var dead = DeadLetters("expiring");
        Assert.Equal("TTLExpiredException", (await ReceiveAsync(dead)).DeadLetterReason);
    }

    [Fact]
    public async Task Messages_and_dead_letters_are_forwarded()
    {
        await SendAsync("first", "forwarded");
        await using var second = Client.CreateReceiver("second");
        Assert.Equal("forwarded", (await ReceiveAsync(second)).Body.ToString());

        await SendAsync("failing", "buried");
        await using var failing = Client.CreateReceiver("failing");
        await failing.DeadLetterMessageAsync(await ReceiveAsync(failing), "reason");
        await using var graveyard = Client.CreateReceiver("graveyard");
        var buried = await ReceiveAsync(graveyard);
        Assert.Equal(("buried", "reason", "failing"), (buried.Body.ToString(), buried.DeadLetterReason, buried.DeadLetterSource));
    }

    [Fact]
    public async Task Refusals_have_their_reason()
    {
        var message = new ServiceBusMessage("lost");
        await FailsAsync(ServiceBusFailureReason.MessagingEntityNotFound, () => Client.CreateSender("nowhere").SendMessageAsync(message));
        await FailsAsync(ServiceBusFailureReason.MessagingEntityNotFound, () => Client.CreateReceiver("nowhere").ReceiveMessageAsync(Silence));
        await FailsAsync(ServiceBusFailureReason.MessagingEntityDisabled, () => Client.CreateSender("closed").SendMessageAsync(message));
        await FailsAsync(ServiceBusFailureReason.QuotaExceeded, async () =>
        {
            while (true)
            {
                await Client.CreateSender("full").SendMessageAsync(new ServiceBusMessage(new byte[20_000]));
            }
        });
        var properties = ServiceBusConnectionStringProperties.Parse(Service.ConnectionString);
        var withoutRetries = new ServiceBusClientOptions { RetryOptions = { MaxRetries = 0 } };
        var wrong = Service.ConnectionString.Replace(properties.SharedAccessKey, "wrong");
        await using var stranger = new ServiceBusClient(wrong, withoutRetries);
        await Assert.ThrowsAsync<UnauthorizedAccessException>(() => stranger.CreateSender("jobs").SendMessageAsync(message));
    }

    /// <summary>The request <c>com.microsoft:batch-delete-messages</c>, whose method isn't public in this version.</summary>
    [Fact]
    public async Task Messages_are_deleted_in_one_request()
    {
        var delete = typeof(ServiceBusReceiver).GetMethod("DeleteMessagesAsync", BindingFlags.Instance | BindingFlags.NonPublic)!;
        await using var receiver = Client.CreateReceiver("jobs");
        Task<int> DeleteAsync(int count, DateTimeOffset? before) => (Task<int>)delete.Invoke(receiver, [count, before, default(CancellationToken)])!;
        await SendAsync("jobs", "1", "2", "3", "4", "5");
        await Task.Delay(Silence);
        var between = DateTimeOffset.UtcNow;
        await Task.Delay(Silence);
        await SendAsync("jobs", "6", "7");
        Assert.Equal(2, await DeleteAsync(2, between));
        Assert.Equal(["3", "4", "5", "6", "7"], Bodies(await receiver.PeekMessagesAsync(10)));
        Assert.Equal(3, await DeleteAsync(100, between));
        Assert.Equal(0, await DeleteAsync(100, between));
        Assert.Equal(["6", "7"], Bodies(await receiver.PeekMessagesAsync(10, fromSequenceNumber: 0)));
    }

    [Fact]
    public async Task A_receiver_that_is_cancelled_loses_nothing()
    {
        await using var receiver = Client.CreateReceiver("jobs", new ServiceBusReceiverOptions { PrefetchCount = 10 });
        using (var cancellation = new CancellationTokenSource(Silence))
        {
            await Assert.ThrowsAsync<TaskCanceledException>(() => receiver.ReceiveMessageAsync(Service.Patience, cancellation.Token));
        }
        await SendAsync("jobs", "one", "two");
        Assert.Equal(["one", "two"], Bodies(await ReceiveAsync(receiver, 2)));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Queues_work_over_web_sockets(bool waits)
    {
        await using var client = NewClient(options => options.TransportType = ServiceBusTransportType.AmqpWebSockets);
        await using var receiver = client.CreateReceiver("jobs");
        var received = waits ? ReceiveAsync(receiver) : null;
        await client.CreateSender("jobs").SendMessageAsync(new ServiceBusMessage(new byte[200_000]));
        var message = await (received ?? ReceiveAsync(receiver));
        Assert.Equal(200_000, message.Body.ToMemory().Length);
        await receiver.CompleteMessageAsync(message);
    }
}
