using Azure.Messaging.ServiceBus;
using Azure.Messaging.ServiceBus.Administration;

namespace Parshall.Compat;

/// <summary>ServiceBusAdministrationClient, at the port of AMQP and at that of health and metrics.</summary>
public sealed class AdministrationTests() : ServiceBusTest("queues: [{name: present}]")
{
    [Fact]
    public async Task A_queue_has_the_options_that_it_was_created_with()
    {
        await Administration.CreateQueueAsync("target");
        var options = new CreateQueueOptions("made")
        {
            LockDuration = TimeSpan.FromSeconds(45),
            MaxSizeInMegabytes = 2048,
            RequiresDuplicateDetection = true,
            DuplicateDetectionHistoryTimeWindow = TimeSpan.FromMinutes(5),
            DefaultMessageTimeToLive = TimeSpan.FromDays(2),
            DeadLetteringOnMessageExpiration = true,
            MaxDeliveryCount = int.MaxValue,
            AutoDeleteOnIdle = TimeSpan.FromHours(1),
            ForwardTo = "target",
            ForwardDeadLetteredMessagesTo = "target",
            EnableBatchedOperations = false,
            Status = EntityStatus.SendDisabled,
            UserMetadata = "  kept as it is ",
        };
        options.AuthorizationRules.Add(new SharedAccessAuthorizationRule("sender", [AccessRights.Send]));
        var before = DateTimeOffset.UtcNow.AddSeconds(-2);
        await Administration.CreateQueueAsync(options);
        var made = (await Administration.GetQueueAsync("made")).Value;
        Assert.EndsWith("/target", made.ForwardTo);
        Assert.EndsWith("/target", made.ForwardDeadLetteredMessagesTo);
        made.ForwardTo = made.ForwardDeadLetteredMessagesTo = "target";
        made.MaxMessageSizeInKilobytes = null;
        Assert.Equal(options, new CreateQueueOptions(made));
        Assert.Equal(int.MaxValue, made.MaxDeliveryCount);
        Assert.Equal("  kept as it is ", made.UserMetadata);
        var figures = (await Administration.GetQueueRuntimePropertiesAsync("made")).Value;
        Assert.InRange(figures.CreatedAt, before, DateTimeOffset.UtcNow.AddSeconds(2));
        Assert.True(figures.UpdatedAt >= figures.CreatedAt);
    }

    [Fact]
    public async Task A_queue_is_changed_listed_and_deleted()
    {
        var queue = (await Administration.GetQueueAsync("present")).Value;
        queue.MaxDeliveryCount = 7;
        queue.LockDuration = TimeSpan.FromSeconds(20);
        var changed = (await Administration.UpdateQueueAsync(queue)).Value;
        Assert.Equal((7, TimeSpan.FromSeconds(20)), (changed.MaxDeliveryCount, changed.LockDuration));
        await Administration.CreateQueueAsync("another");
        var names = new List<string>();
        await foreach (var found in Administration.GetQueuesAsync())
        {
            names.Add(found.Name);
        }
        Assert.Equal(["another", "present"], names.Order());
        Assert.True((await Administration.QueueExistsAsync("present")).Value);
        await Administration.DeleteQueueAsync("present");
        Assert.False((await Administration.QueueExistsAsync("present")).Value);
        await FailsAsync(ServiceBusFailureReason.MessagingEntityNotFound, () => Administration.GetQueueAsync("present"));
        await FailsAsync(ServiceBusFailureReason.MessagingEntityNotFound, () => Administration.DeleteQueueAsync("present"));
        await FailsAsync(ServiceBusFailureReason.MessagingEntityAlreadyExists, () => Administration.CreateQueueAsync("another"));
    }

    [Fact]
    public async Task Topics_subscriptions_and_rules_are_created_changed_listed_and_deleted()
    {
        await Administration.CreateTopicAsync(new CreateTopicOptions("news") { UserMetadata = "topic", SupportOrdering = true });
        var subscription = new CreateSubscriptionOptions("news", "urgent")
        {
            MaxDeliveryCount = 3,
            ForwardTo = "present",
            UserMetadata = "subscription",
            EnableDeadLetteringOnFilterEvaluationExceptions = false,
        };
        var rule = new CreateRuleOptions("red", new SqlRuleFilter("colour = 'red'")) { Action = new SqlRuleAction("SET seen = TRUE") };
        await Administration.CreateSubscriptionAsync(subscription, rule);
        var made = (await Administration.GetSubscriptionAsync("news", "urgent")).Value;
        // The client names what it forwards to by an address, and is answered with it.
        Assert.EndsWith("/present", made.ForwardTo);
        made.ForwardTo = "present";
        Assert.Equal(subscription, new CreateSubscriptionOptions(made));
        var found = (await Administration.GetRuleAsync("news", "urgent", "red")).Value;
        Assert.Equal("colour = 'red'", Assert.IsType<SqlRuleFilter>(found.Filter).SqlExpression);
        Assert.Equal("SET seen = TRUE", Assert.IsType<SqlRuleAction>(found.Action).SqlExpression);
        found.Filter = new CorrelationRuleFilter { Subject = "s", ApplicationProperties = { ["n"] = 1L, ["t"] = TimeSpan.FromHours(1) } };
        await Administration.UpdateRuleAsync("news", "urgent", found);
        await Administration.CreateRuleAsync("news", "urgent", new CreateRuleOptions("all", new TrueRuleFilter()));
        var rules = new List<RuleProperties>();
        await foreach (var each in Administration.GetRulesAsync("news", "urgent"))
        {
            rules.Add(each);
        }
        Assert.Equal(["all", "red"], rules.Select(each => each.Name));
        Assert.Equal(found.Filter, rules[1].Filter);
        await Administration.DeleteRuleAsync("news", "urgent", "all");
        Assert.False((await Administration.RuleExistsAsync("news", "urgent", "all")).Value);
        await Administration.DeleteSubscriptionAsync("news", "urgent");
        Assert.False((await Administration.SubscriptionExistsAsync("news", "urgent")).Value);
        await Administration.DeleteTopicAsync("news");
        Assert.False((await Administration.TopicExistsAsync("news")).Value);
    }

    [Fact]
    public async Task Lists_have_as_many_pages_as_they_need()
    {
        await Administration.CreateTopicAsync("news");
        for (var number = 0; number < 130; number++)
        {
            await Administration.CreateSubscriptionAsync("news", $"s{number}");
        }
        var names = new HashSet<string>();
        await foreach (var found in Administration.GetSubscriptionsAsync("news"))
        {
            Assert.True(names.Add(found.SubscriptionName));
        }
        Assert.Equal(130, names.Count);
        Assert.Equal(130, (await Administration.GetTopicRuntimePropertiesAsync("news")).Value.SubscriptionCount);
    }

    [Fact]
    public async Task Figures_tell_messages_by_their_state()
    {
        await SendAsync("present", "dead", "active", "active");
        await using var sender = Client.CreateSender("present");
        await sender.ScheduleMessageAsync(new ServiceBusMessage("later"), DateTimeOffset.UtcNow.AddHours(1));
        await using var receiver = Client.CreateReceiver("present");
        await receiver.DeadLetterMessageAsync(await ReceiveAsync(receiver));
        var figures = (await Administration.GetQueueRuntimePropertiesAsync("present")).Value;
        Assert.Equal((2, 1, 1, 0, 4), (figures.ActiveMessageCount, figures.ScheduledMessageCount, figures.DeadLetterMessageCount,
            figures.TransferMessageCount, figures.TotalMessageCount));
        Assert.True(figures.SizeInBytes > 0);
        Assert.True(figures.AccessedAt >= figures.CreatedAt);
    }

    /// <summary>Frameworks name entities after types.</summary>
    [Theory]
    [InlineData("contracts~fault--orders.placed--")]
    [InlineData("orders__placed__")]
    [InlineData("_a/b.c-d~")]
    public async Task Names_are_taken_that_the_client_takes(string name)
    {
        await Administration.CreateTopicAsync(name);
        await Administration.CreateSubscriptionAsync(name, "all");
        await SendAsync(name, "sent");
        await using var receiver = Client.CreateReceiver(name, "all");
        Assert.Equal("sent", (await ReceiveAsync(receiver)).Body.ToString());
        Assert.Equal(name, (await Administration.GetTopicAsync(name)).Value.Name);
    }

    [Fact]
    public async Task What_makes_no_sense_is_an_error_and_nothing_is_created()
    {
        await Assert.ThrowsAnyAsync<Exception>(() => Administration.CreateQueueAsync(
            new CreateQueueOptions("wrong") { RequiresSession = true, ForwardTo = "present" }));
        await Assert.ThrowsAnyAsync<Exception>(() => Administration.CreateQueueAsync(new CreateQueueOptions("wrong") { ForwardTo = "nowhere" }));
        await Assert.ThrowsAnyAsync<Exception>(() => Administration.CreateQueueAsync(
            new CreateQueueOptions("wrong") { LockDuration = TimeSpan.FromMinutes(6) }));
        Assert.False((await Administration.QueueExistsAsync("wrong")).Value);
    }

    [Fact]
    public async Task A_namespace_tells_its_name_and_its_tier()
    {
        var properties = (await Administration.GetNamespacePropertiesAsync()).Value;
        Assert.NotEmpty(properties.Name);
        Assert.Equal(MessagingSku.Standard, properties.MessagingSku);
    }

    /// <summary>Microsoft's emulator has it beside its health endpoint, and samples give clients that port.</summary>
    [Fact]
    public async Task Administration_is_served_beside_health()
    {
        var port = new Uri(Service.Told("health")).Port;
        var properties = ServiceBusConnectionStringProperties.Parse(Service.ConnectionString);
        var beside = new ServiceBusAdministrationClient(
            Service.ConnectionString.Replace($"localhost:{properties.Endpoint.Port}", $"localhost:{port}"));
        Assert.True((await beside.QueueExistsAsync("present")).Value);
        await beside.CreateQueueAsync("made");
        Assert.True((await Administration.QueueExistsAsync("made")).Value);
        var stranger = new ServiceBusAdministrationClient(
            $"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=wrong;UseDevelopmentEmulator=true");
        await Assert.ThrowsAsync<UnauthorizedAccessException>(() => stranger.GetQueueAsync("present"));
    }
}
