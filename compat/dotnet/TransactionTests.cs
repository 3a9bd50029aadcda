using System.Transactions;
using Azure.Messaging.ServiceBus;

namespace Parshall.Compat;

/// <summary>Transactions: all that is done in a scope takes effect together, or not at all.</summary>
public sealed class TransactionTests() : ServiceBusTest("""
    queues:
      - {name: first, lock_duration: 5 min}
      - {name: second}
      - {name: brief, lock_duration: 10 s}
      - {name: sessions, requires_session: true}
    topics:
      - {name: news, subscriptions: [{name: all}]}
    """)
{
    private static TransactionScope Scope() => new(TransactionScopeAsyncFlowOption.Enabled);

    private static ServiceBusMessage Of(string session, string body) => new(body) { SessionId = session };

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Sends_and_settlements_take_effect_together_or_not_at_all(bool commits)
    {
        await SendAsync("first", "complete", "bury", "defer");
        await using var sender = Client.CreateSender("first");
        await using var receiver = Client.CreateReceiver("first");
        var messages = await ReceiveAsync(receiver, 3);
        using (var scope = Scope())
        {
            await receiver.CompleteMessageAsync(messages[0]);
            await receiver.DeadLetterMessageAsync(messages[1], "reason");
            await receiver.DeferMessageAsync(messages[2]);
            await sender.SendMessageAsync(new ServiceBusMessage("sent"));
            if (commits)
            {
                scope.Complete();
            }
        }
        await using var dead = DeadLetters("first");
        if (commits)
        {
            Assert.Equal("sent", (await ReceiveAsync(receiver)).Body.ToString());
            Assert.Equal("reason", (await ReceiveAsync(dead)).DeadLetterReason);
            Assert.Equal("defer", (await receiver.ReceiveDeferredMessageAsync(messages[2].SequenceNumber)).Body.ToString());
            return;
        }
        await AssertEmptyAsync(receiver);
        await AssertEmptyAsync(dead);
        // They are locked still, and can be settled now.
        foreach (var message in messages)
        {
            await receiver.CompleteMessageAsync(message);
        }
        Assert.Equal(0, (await Administration.GetQueueRuntimePropertiesAsync("first")).Value.TotalMessageCount);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Messages_are_scheduled_and_cancelled_in_a_transaction(bool commits)
    {
        await using var sender = Client.CreateSender("first");
        var due = DateTimeOffset.UtcNow.AddHours(1);
        var before = await sender.ScheduleMessageAsync(new ServiceBusMessage("before"), due);
        using (var scope = Scope())
        {
            await sender.ScheduleMessageAsync(new ServiceBusMessage("within"), due);
            await sender.CancelScheduledMessageAsync(before);
            if (commits)
            {
                scope.Complete();
            }
        }
        await using var receiver = Client.CreateReceiver("first");
        Assert.Equal([commits ? "within" : "before"], Bodies(await receiver.PeekMessagesAsync(10)));
    }

    [Fact]
    public async Task A_lock_is_renewed_in_a_transaction()
    {
        await SendAsync("brief", "job");
        await using var receiver = Client.CreateReceiver("brief");
        var message = await ReceiveAsync(receiver);
        var until = message.LockedUntil;
        await Task.Delay(TimeSpan.FromMilliseconds(200));
        using (var scope = Scope())
        {
            await receiver.RenewMessageLockAsync(message);
            await receiver.CompleteMessageAsync(message);
            scope.Complete();
        }
        Assert.True(message.LockedUntil > until);
        Assert.Null(await receiver.PeekMessageAsync());
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task The_state_of_a_session_is_set_in_a_transaction(bool commits)
    {
        await SendAsync("sessions", Of("a", "1"));
        await using var session = await Client.AcceptSessionAsync("sessions", "a");
        await session.SetSessionStateAsync(new BinaryData("before"));
        var message = await ReceiveAsync(session);
        using (var scope = Scope())
        {
            await session.CompleteMessageAsync(message);
            await session.SetSessionStateAsync(new BinaryData("within"));
            if (commits)
            {
                scope.Complete();
            }
        }
        Assert.Equal(commits ? "within" : "before", (await session.GetSessionStateAsync()).ToString());
        Assert.Equal(commits, await session.PeekMessageAsync() is null);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_deferred_message_is_completed_in_a_transaction(bool commits)
    {
        await SendAsync("first", "job");
        await using var receiver = Client.CreateReceiver("first");
        var message = await ReceiveAsync(receiver);
        await receiver.DeferMessageAsync(message);
        using (var scope = Scope())
        {
            var deferred = await receiver.ReceiveDeferredMessageAsync(message.SequenceNumber);
            await receiver.CompleteMessageAsync(deferred);
            if (commits)
            {
                scope.Complete();
            }
        }
        Assert.Equal(commits, await receiver.PeekMessageAsync() is null);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_message_moves_to_a_queue_and_a_topic(bool commits)
    {
        await SendAsync("first", "order");
        await using var client = NewClient(options => options.EnableCrossEntityTransactions = true);
        await using var receiver = client.CreateReceiver("first");
        await using var second = client.CreateSender("second");
        await using var news = client.CreateSender("news");
        var order = await ReceiveAsync(receiver);
        using (var scope = Scope())
        {
            await receiver.CompleteMessageAsync(order);
            await second.SendMessageAsync(new ServiceBusMessage("invoice"));
            await news.SendMessageAsync(new ServiceBusMessage("event"));
            if (commits)
            {
                scope.Complete();
            }
        }
        if (!commits)
        {
            await receiver.CompleteMessageAsync(order);
        }
        var expected = commits ? 1 : 0;
        Assert.Equal(0, (await Administration.GetQueueRuntimePropertiesAsync("first")).Value.TotalMessageCount);
        Assert.Equal(expected, (await Administration.GetQueueRuntimePropertiesAsync("second")).Value.TotalMessageCount);
        Assert.Equal(expected, (await Administration.GetSubscriptionRuntimePropertiesAsync("news", "all")).Value.TotalMessageCount);
    }

    [Fact]
    public async Task A_receiver_of_another_entity_after_a_send_is_an_error()
    {
        await SendAsync("second", "job");
        await using var client = NewClient(options => options.EnableCrossEntityTransactions = true);
        await using var sender = client.CreateSender("first");
        using (var scope = Scope())
        {
            await sender.SendMessageAsync(new ServiceBusMessage("sent"));
            scope.Complete();
        }
        await using var receiver = client.CreateReceiver("second");
        await Assert.ThrowsAsync<InvalidOperationException>(() => receiver.ReceiveMessageAsync(Silence));
    }

    [Fact]
    public async Task Two_entities_without_cross_entity_transactions_are_an_error_and_nothing_is_done()
    {
        await using var first = Client.CreateSender("first");
        await using var second = Client.CreateSender("second");
        await Assert.ThrowsAnyAsync<Exception>(async () =>
        {
            using var scope = Scope();
            await first.SendMessageAsync(new ServiceBusMessage("one"));
            await second.SendMessageAsync(new ServiceBusMessage("two"));
            scope.Complete();
        });
        Assert.Equal(0, (await Administration.GetQueueRuntimePropertiesAsync("first")).Value.TotalMessageCount);
        Assert.Equal(0, (await Administration.GetQueueRuntimePropertiesAsync("second")).Value.TotalMessageCount);
    }

    [Fact]
    public async Task A_processor_completes_in_its_own_transaction()
    {
        await SendAsync("first", [.. Enumerable.Range(0, 50).Select(number => $"{number}")]);
        await using var client = NewClient(options => options.EnableCrossEntityTransactions = true);
        await using var processor = client.CreateProcessor("first",
            new ServiceBusProcessorOptions { AutoCompleteMessages = false, MaxConcurrentCalls = 5 });
        await using var sender = client.CreateSender("second");
        var left = 50;
        var done = new TaskCompletionSource();
        processor.ProcessMessageAsync += async it =>
        {
            using (var scope = Scope())
            {
                await it.CompleteMessageAsync(it.Message);
                await sender.SendMessageAsync(new ServiceBusMessage(it.Message.Body));
                scope.Complete();
            }
            if (Interlocked.Decrement(ref left) == 0)
            {
                done.SetResult();
            }
        };
        processor.ProcessErrorAsync += it =>
        {
            done.TrySetException(it.Exception);
            return Task.CompletedTask;
        };
        await processor.StartProcessingAsync();
        await done.Task.WaitAsync(2 * Service.Patience);
        await processor.StopProcessingAsync();
        await using var receiver = Client.CreateReceiver("second");
        var moved = Bodies(await ReceiveAsync(receiver, 50));
        Assert.Equal(Enumerable.Range(0, 50).Select(number => $"{number}").Order(), moved.Order());
        Assert.Equal(0, (await Administration.GetQueueRuntimePropertiesAsync("first")).Value.TotalMessageCount);
    }
}
