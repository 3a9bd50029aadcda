using System.Collections.Concurrent;
using Azure.Messaging.ServiceBus;

namespace Parshall.Compat;

/// <summary>Sessions: locked as a whole, in order, with a state.</summary>
public sealed class SessionTests() : ServiceBusTest("""
    queues:
      - {name: orders, requires_session: true}
      - {name: brief, requires_session: true, lock_duration: 30 s}
    """, "--time-control")
{
    private static ServiceBusMessage Of(string session, string body) => new(body) { SessionId = session };

    [Fact]
    public async Task A_session_is_accepted_by_name_or_as_the_next_and_keeps_its_order()
    {
        await SendAsync("orders", Of("a", "a1"), Of("b", "b1"), Of("a", "a2"));
        await using var named = await Client.AcceptSessionAsync("orders", "b");
        Assert.Equal("b", named.SessionId);
        await using var next = await Client.AcceptNextSessionAsync("orders");
        Assert.Equal("a", next.SessionId);
        Assert.InRange(next.SessionLockedUntil, DateTimeOffset.UtcNow, DateTimeOffset.UtcNow.AddSeconds(62));
        Assert.Equal(["a1", "a2"], Bodies(await ReceiveAsync(next, 2)));
        Assert.Equal(["b1"], Bodies(await ReceiveAsync(named, 1)));
    }

    [Fact]
    public async Task A_session_that_is_held_or_that_is_not_there_has_its_reason()
    {
        await SendAsync("orders", Of("a", "1"));
        await using var holder = await Client.AcceptSessionAsync("orders", "a");
        await FailsAsync(ServiceBusFailureReason.SessionCannotBeLocked, () => Client.AcceptSessionAsync("orders", "a"));
        await using var impatient = NewClient(options => options.RetryOptions.TryTimeout = TimeSpan.FromSeconds(2));
        await FailsAsync(ServiceBusFailureReason.ServiceTimeout, () => impatient.AcceptNextSessionAsync("orders"));
        await holder.CloseAsync();
        await using var other = await Client.AcceptSessionAsync("orders", "a");
        Assert.Equal("1", (await ReceiveAsync(other)).Body.ToString());
    }

    [Fact]
    public async Task A_state_is_kept_and_cleared()
    {
        await SendAsync("orders", Of("a", "1"));
        await using (var session = await Client.AcceptSessionAsync("orders", "a"))
        {
            Assert.Null(await session.GetSessionStateAsync());
            await session.SetSessionStateAsync(new BinaryData("state"));
        }
        await using (var session = await Client.AcceptSessionAsync("orders", "a"))
        {
            Assert.Equal("state", (await session.GetSessionStateAsync()).ToString());
            await session.SetSessionStateAsync(null);
            Assert.Null(await session.GetSessionStateAsync());
        }
    }

    [Fact]
    public async Task A_lock_is_renewed_and_without_renewal_the_session_is_free()
    {
        await SendAsync("brief", Of("a", "1"));
        var session = await Client.AcceptSessionAsync("brief", "a");
        var message = await ReceiveAsync(session);
        for (var round = 0; round < 4; round++)
        {
            await Service.AdvanceAsync("20 s");
            var until = session.SessionLockedUntil;
            await session.RenewSessionLockAsync();
            Assert.True(session.SessionLockedUntil > until);
        }
        await session.AbandonMessageAsync(message);
        await Service.AdvanceAsync("30 s");
        await using var other = NewClient(options => options.RetryOptions.TryTimeout = Service.Patience);
        await using var next = await other.AcceptNextSessionAsync("brief");
        Assert.Equal("1", (await ReceiveAsync(next)).Body.ToString());
    }

    /// <summary>A message of a session has no lock of its own that could end.</summary>
    [Fact]
    public async Task A_deferred_message_is_settled_after_the_session_was_renewed()
    {
        await SendAsync("brief", Of("a", "1"));
        await using var session = await Client.AcceptSessionAsync("brief", "a");
        var message = await ReceiveAsync(session);
        Assert.Equal(DateTimeOffset.MaxValue.Year, message.LockedUntil.Year);
        await session.DeferMessageAsync(message);
        var deferred = await session.ReceiveDeferredMessageAsync(message.SequenceNumber);
        for (var round = 0; round < 4; round++)
        {
            await Service.AdvanceAsync("20 s");
            await session.RenewSessionLockAsync();
        }
        await session.CompleteMessageAsync(deferred);
        Assert.Null(await session.PeekMessageAsync());
    }

    [Fact]
    public async Task A_message_that_is_gone_is_a_lost_lock_of_the_message()
    {
        await SendAsync("orders", Of("a", "1"), Of("a", "2"));
        await using var session = await Client.AcceptSessionAsync("orders", "a");
        var message = await ReceiveAsync(session);
        await session.DeferMessageAsync(message);
        // It is settled by request, since it didn't come over the link.
        var deferred = await session.ReceiveDeferredMessageAsync(message.SequenceNumber);
        await session.CompleteMessageAsync(deferred);
        await FailsAsync(ServiceBusFailureReason.MessageLockLost, () => session.CompleteMessageAsync(deferred));
        Assert.Equal("2", (await ReceiveAsync(session)).Body.ToString());
    }

    /// <summary>A service that doesn't have them says so in words that the client knows.</summary>
    [Fact]
    public async Task Sessions_that_are_not_exclusive_are_not_supported()
    {
        await SendAsync("orders", Of("a", "1"));
        var options = new ServiceBusSessionReceiverOptions { EnableNonExclusiveSession = true };
        await Assert.ThrowsAsync<NotSupportedException>(() => Client.AcceptSessionAsync("orders", "a", options));
        await using var session = await Client.AcceptSessionAsync("orders", "a");
        Assert.Equal("1", (await ReceiveAsync(session)).Body.ToString());
    }

    [Fact]
    public async Task Sessions_are_listed()
    {
        await SendAsync("orders", [.. Enumerable.Range(0, 150).Select(number => Of($"session-{number}", "1"))]);
        var since = DateTimeOffset.UtcNow.AddSeconds(-2);
        await using (var session = await Client.AcceptSessionAsync("orders", "session-7"))
        {
            await session.SetSessionStateAsync(new BinaryData("state"));
        }
        var all = new List<string>();
        await foreach (var id in Client.GetMessageSessionsAsync("orders"))
        {
            all.Add(id);
        }
        Assert.Equal(150, all.Distinct().Count());
        Assert.Equal(150, all.Count);
        var changed = new List<string>();
        await foreach (var id in Client.GetMessageSessionsAsync("orders", since))
        {
            changed.Add(id);
        }
        Assert.Equal(["session-7"], changed);
    }

    [Fact]
    public async Task A_processor_works_on_several_sessions_at_once_and_on_each_in_order()
    {
        const int Sessions = 20;
        const int Each = 10;
        var messages = Enumerable.Range(0, Sessions * Each).Select(number => Of($"{number % Sessions}", $"{number / Sessions}"));
        await SendAsync("orders", [.. messages]);
        var seen = new ConcurrentDictionary<string, List<string>>();
        var left = Sessions * Each;
        var done = new TaskCompletionSource();
        int opened = 0, closed = 0;
        await using var processor = Client.CreateSessionProcessor("orders", new ServiceBusSessionProcessorOptions
        {
            MaxConcurrentSessions = 5,
            SessionIdleTimeout = TimeSpan.FromSeconds(1),
        });
        processor.SessionInitializingAsync += _ =>
        {
            Interlocked.Increment(ref opened);
            return Task.CompletedTask;
        };
        processor.SessionClosingAsync += _ =>
        {
            Interlocked.Increment(ref closed);
            return Task.CompletedTask;
        };
        processor.ProcessMessageAsync += async it =>
        {
            await it.SetSessionStateAsync(new BinaryData(it.Message.Body.ToString()));
            seen.GetOrAdd(it.SessionId, _ => []).Add(it.Message.Body.ToString());
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
        var ordered = Enumerable.Range(0, Each).Select(number => $"{number}").ToList();
        Assert.All(seen.Values, bodies => Assert.Equal(ordered, bodies));
        Assert.Equal(Sessions, seen.Count);
        Assert.Equal(Sessions, opened);
        // It doesn't tell of those that are open when it is stopped.
        Assert.InRange(closed, Sessions - 5, Sessions);
        Assert.Equal(0, (await Administration.GetQueueRuntimePropertiesAsync("orders")).Value.TotalMessageCount);
    }
}
