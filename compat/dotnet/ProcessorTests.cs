using System.Collections.Concurrent;
using Azure.Messaging.ServiceBus;

namespace Parshall.Compat;

/// <summary>ServiceBusProcessor: concurrency, completion, failures, and locks that it renews.</summary>
public sealed class ProcessorTests() : ServiceBusTest("""
    queues:
      - {name: jobs, maximum_delivery_count: 3}
      - {name: brief, lock_duration: 8 s}
    """)
{
    [Theory]
    [InlineData(1, 0)]
    [InlineData(16, 0)]
    [InlineData(16, 50)]
    public async Task Every_message_is_worked_on_once(int calls, int prefetch)
    {
        const int Count = 500;
        await SendAsync("jobs", [.. Enumerable.Range(0, Count).Select(number => $"{number}")]);
        var seen = new ConcurrentDictionary<string, int>();
        var left = Count;
        var done = new TaskCompletionSource();
        var options = new ServiceBusProcessorOptions { MaxConcurrentCalls = calls, PrefetchCount = prefetch };
        await using var processor = Client.CreateProcessor("jobs", options);
        processor.ProcessMessageAsync += it =>
        {
            seen.AddOrUpdate(it.Message.Body.ToString(), 1, (_, times) => times + 1);
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
        await done.Task.WaitAsync(2 * Service.Patience);
        await processor.StopProcessingAsync();
        Assert.Equal(Count, seen.Count);
        Assert.All(seen.Values, times => Assert.Equal(1, times));
        Assert.Equal(0, (await Administration.GetQueueRuntimePropertiesAsync("jobs")).Value.TotalMessageCount);
    }

    [Fact]
    public async Task A_message_whose_handler_fails_is_tried_again_and_then_a_dead_letter()
    {
        await SendAsync("jobs", "poison");
        var deliveries = new ConcurrentQueue<int>();
        var errors = new ConcurrentQueue<(ServiceBusErrorSource Source, string Path)>();
        await using var processor = Client.CreateProcessor("jobs");
        processor.ProcessMessageAsync += it =>
        {
            deliveries.Enqueue(it.Message.DeliveryCount);
            throw new InvalidOperationException("it failed");
        };
        processor.ProcessErrorAsync += it =>
        {
            errors.Enqueue((it.ErrorSource, it.EntityPath));
            return Task.CompletedTask;
        };
        await processor.StartProcessingAsync();
        await using var dead = DeadLetters("jobs");
        var buried = await ReceiveAsync(dead);
        await processor.StopProcessingAsync();
        Assert.Equal("MaxDeliveryCountExceeded", buried.DeadLetterReason);
        Assert.Equal([1, 2, 3], deliveries);
        Assert.All(errors, error => Assert.Equal((ServiceBusErrorSource.ProcessMessageCallback, "jobs"), error));
    }

    [Fact]
    public async Task A_handler_settles_by_itself_and_the_lock_lasts_as_long_as_it_works()
    {
        await SendAsync("brief", "slow");
        var done = new TaskCompletionSource<int>();
        await using var processor = Client.CreateProcessor("brief", new ServiceBusProcessorOptions { AutoCompleteMessages = false });
        processor.ProcessMessageAsync += async it =>
        {
            await Task.Delay(TimeSpan.FromSeconds(9));
            await it.DeadLetterMessageAsync(it.Message, "by hand");
            done.TrySetResult(it.Message.DeliveryCount);
        };
        processor.ProcessErrorAsync += it =>
        {
            done.TrySetException(it.Exception);
            return Task.CompletedTask;
        };
        await processor.StartProcessingAsync();
        Assert.Equal(1, await done.Task.WaitAsync(Service.Patience));
        await processor.StopProcessingAsync();
        await using var dead = DeadLetters("brief");
        Assert.Equal("by hand", (await ReceiveAsync(dead)).DeadLetterReason);
    }

    [Fact]
    public async Task A_processor_of_an_unknown_queue_says_so()
    {
        var told = new TaskCompletionSource<Exception>();
        await using var processor = Client.CreateProcessor("nowhere");
        processor.ProcessMessageAsync += _ => Task.CompletedTask;
        processor.ProcessErrorAsync += it =>
        {
            told.TrySetResult(it.Exception);
            return Task.CompletedTask;
        };
        await processor.StartProcessingAsync();
        var failed = Assert.IsType<ServiceBusException>(await told.Task.WaitAsync(Service.Patience));
        Assert.Equal(ServiceBusFailureReason.MessagingEntityNotFound, failed.Reason);
        await processor.StopProcessingAsync();
    }
}
