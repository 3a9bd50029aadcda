using System.Collections.Concurrent;
using System.Transactions;
using Azure.Messaging.ServiceBus;

namespace Parshall.Compat;

/// <summary>Queues under load, and with a service that is killed: nothing is lost, and nothing is done by halves.</summary>
[Trait("Length", "long")]
public sealed class LoadTests() : ServiceBusTest("""
    queues:
      - {name: jobs, lock_duration: 1 min}
      - {name: done}
      - {name: sessions, requires_session: true}
    """, "--data-dir", "{directory}/data")
{
    private static ServiceBusMessage[] Numbered(int first, int count) =>
        [.. Enumerable.Range(first, count).Select(number => new ServiceBusMessage($"{number}") { SessionId = $"{number % 50}" })];

    private async Task<long> CountAsync(string queue) => (await Administration.GetQueueRuntimePropertiesAsync(queue)).Value.TotalMessageCount;

    [Theory]
    [InlineData(ServiceBusTransportType.AmqpTcp)]
    [InlineData(ServiceBusTransportType.AmqpWebSockets)]
    public async Task Twenty_thousand_messages_are_each_worked_on_once(ServiceBusTransportType transport)
    {
        const int Count = 20_000;
        await using var client = NewClient(options => options.TransportType = transport);
        for (var first = 0; first < Count; first += 1_000)
        {
            await SendAsync("jobs", Numbered(first, 1_000));
        }
        var seen = new ConcurrentDictionary<string, int>();
        await using var processor = client.CreateProcessor("jobs",
            new ServiceBusProcessorOptions { MaxConcurrentCalls = 32, PrefetchCount = 200 });
        var done = Following(processor, Count, it =>
        {
            seen.AddOrUpdate(it.Message.Body.ToString(), 1, (_, times) => times + 1);
            return seen.Count;
        });
        await processor.StartProcessingAsync();
        await done.WaitAsync(TimeSpan.FromMinutes(2));
        await processor.StopProcessingAsync();
        Assert.All(seen.Values, times => Assert.Equal(1, times));
        Assert.Equal(0, await CountAsync("jobs"));
    }

    [Fact]
    public async Task A_processor_misses_nothing_though_the_service_is_killed()
    {
        const int Rounds = 5;
        var seen = new ConcurrentDictionary<string, bool>();
        await using var client = NewClient(options =>
        {
            options.RetryOptions.MaxRetries = 10;
            options.RetryOptions.Delay = TimeSpan.FromMilliseconds(100);
        });
        await using var processor = client.CreateProcessor("jobs", new ServiceBusProcessorOptions { MaxConcurrentCalls = 8 });
        var done = Following(processor, 500 * Rounds, it =>
        {
            seen[it.Message.Body.ToString()] = true;
            return seen.Count;
        }, reportsErrors: false);
        await processor.StartProcessingAsync();
        await using var sender = client.CreateSender("jobs");
        for (var round = 0; round < Rounds; round++)
        {
            await sender.SendMessagesAsync(Numbered(500 * round, 500));
            await Service.KillAndStartAsync();
        }
        await done.WaitAsync(TimeSpan.FromMinutes(2));
        await processor.StopProcessingAsync();
    }

    [Fact]
    public async Task Twenty_four_workers_move_messages_in_transactions_each_once()
    {
        const int Count = 1_200;
        await SendAsync("jobs", Numbered(0, Count));
        var left = Count;
        await Task.WhenAll(Enumerable.Range(0, 24).Select(async number =>
        {
            await using var client = NewClient(options => options.EnableCrossEntityTransactions = true);
            await using var receiver = client.CreateReceiver("jobs");
            await using var sender = client.CreateSender("done");
            while (Volatile.Read(ref left) > 0)
            {
                if (await receiver.ReceiveMessageAsync(TimeSpan.FromSeconds(1)) is not { } message)
                {
                    continue;
                }
                // One in four is rolled back first.
                foreach (var commits in message.SequenceNumber % 4 == 0 ? new[] { false, true } : [true])
                {
                    using var scope = new TransactionScope(TransactionScopeAsyncFlowOption.Enabled);
                    await sender.SendMessageAsync(new ServiceBusMessage(message.Body));
                    await receiver.CompleteMessageAsync(message);
                    if (commits)
                    {
                        scope.Complete();
                    }
                }
                Interlocked.Decrement(ref left);
            }
        }));
        await using var moved = Client.CreateReceiver("done", new ServiceBusReceiverOptions { ReceiveMode = ServiceBusReceiveMode.ReceiveAndDelete });
        var bodies = Bodies(await ReceiveAsync(moved, Count));
        Assert.Equal(Count, bodies.Distinct().Count());
        Assert.Equal((0, 0), (await CountAsync("jobs"), await CountAsync("done")));
    }

    [Fact]
    public async Task Sessions_keep_their_order_under_load()
    {
        for (var first = 0; first < 5_000; first += 1_000)
        {
            await SendAsync("sessions", Numbered(first, 1_000));
        }
        var seen = new ConcurrentDictionary<string, ConcurrentQueue<int>>();
        var left = 5_000;
        var done = new TaskCompletionSource();
        await using var processor = Client.CreateSessionProcessor("sessions", new ServiceBusSessionProcessorOptions
        {
            MaxConcurrentSessions = 16,
            PrefetchCount = 20,
            SessionIdleTimeout = TimeSpan.FromSeconds(1),
        });
        processor.ProcessMessageAsync += it =>
        {
            seen.GetOrAdd(it.SessionId, _ => []).Enqueue(int.Parse(it.Message.Body.ToString()));
            if (Interlocked.Decrement(ref left) == 0)
            {
                done.SetResult();
            }
            return Task.CompletedTask;
        };
        processor.ProcessErrorAsync += it =>
        {
            done.TrySetException(it.Exception);
            return Task.CompletedTask;
        };
        await processor.StartProcessingAsync();
        await done.Task.WaitAsync(TimeSpan.FromMinutes(2));
        await processor.StopProcessingAsync();
        Assert.Equal(50, seen.Count);
        Assert.All(seen.Values, numbers => Assert.Equal(numbers.Order(), numbers));
    }

    /// <summary>Ends when <paramref name="work"/> returns this number, or with the first error, if errors count.</summary>
    private static Task Following(ServiceBusProcessor processor, int count, Func<ProcessMessageEventArgs, int> work, bool reportsErrors = true)
    {
        var done = new TaskCompletionSource();
        processor.ProcessMessageAsync += it =>
        {
            if (work(it) >= count)
            {
                done.TrySetResult();
            }
            return Task.CompletedTask;
        };
        processor.ProcessErrorAsync += it =>
        {
            if (reportsErrors)
            {
                done.TrySetException(it.Exception);
            }
            return Task.CompletedTask;
        };
        return done.Task;
    }
}
