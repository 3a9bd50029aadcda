using Azure.Messaging.ServiceBus;
using Azure.Messaging.ServiceBus.Administration;

namespace Parshall.Compat;

/// <summary>Topics: subscriptions and the rules by which they select messages.</summary>
public sealed class TopicTests() : ServiceBusTest("""
    topics:
      - name: news
        subscriptions: [{name: all}, {name: ruled, rules: []}, {name: failing, maximum_delivery_count: 1}]
    """)
{
    private static ServiceBusMessage Coloured(string colour, int size = 1) =>
        new(colour) { Subject = colour, ApplicationProperties = { ["colour"] = colour, ["size"] = size } };

    private async Task<string[]> SelectedByAsync(CreateRuleOptions rule, params ServiceBusMessage[] messages)
    {
        await using var rules = Client.CreateRuleManager("news", "ruled");
        await rules.CreateRuleAsync(rule);
        await SendAsync("news", messages);
        await SendAsync("news", "last");
        await using var all = Client.CreateReceiver("news", "all");
        await ReceiveAsync(all, messages.Length + 1);
        await using var receiver = Client.CreateReceiver("news", "ruled");
        var selected = await receiver.ReceiveMessagesAsync(messages.Length + 1, Silence);
        return Bodies(selected);
    }

    [Fact]
    public async Task Every_subscription_has_a_copy_and_dead_letters_of_its_own()
    {
        await SendAsync("news", "one");
        await using var all = Client.CreateReceiver("news", "all");
        await all.CompleteMessageAsync(await ReceiveAsync(all));
        await using var failing = Client.CreateReceiver("news", "failing");
        await failing.AbandonMessageAsync(await ReceiveAsync(failing));
        await using var dead = Client.CreateReceiver("news", "failing", new ServiceBusReceiverOptions { SubQueue = SubQueue.DeadLetter });
        Assert.Equal("MaxDeliveryCountExceeded", (await ReceiveAsync(dead)).DeadLetterReason);
    }

    [Fact]
    public async Task A_SQL_filter_selects() =>
        Assert.Equal(["red"], await SelectedByAsync(
            new CreateRuleOptions("sql", new SqlRuleFilter("colour = 'red' AND size > 2 OR sys.Label LIKE 'purple%'")),
            Coloured("red", 3), Coloured("red", 2), Coloured("blue", 3)));

    [Fact]
    public async Task A_SQL_filter_has_parameters()
    {
        // The client sends them to administration alone.
        await Administration.CreateRuleAsync("news", "ruled",
            new CreateRuleOptions("sql", new SqlRuleFilter("colour = @colour") { Parameters = { ["@colour"] = "blue" } }));
        await SendAsync("news", Coloured("red"), Coloured("blue"));
        await using var receiver = Client.CreateReceiver("news", "ruled");
        Assert.Equal(["blue"], Bodies(await receiver.ReceiveMessagesAsync(2, Silence)));
    }

    [Fact]
    public async Task A_correlation_filter_selects() =>
        Assert.Equal(["red"], await SelectedByAsync(
            new CreateRuleOptions("correlation", new CorrelationRuleFilter { Subject = "red", ApplicationProperties = { ["size"] = 3 } }),
            Coloured("red", 3), Coloured("red", 2), Coloured("blue", 3)));

    [Fact]
    public async Task Blanks_of_a_correlation_filter_are_kept() =>
        Assert.Equal([" red "], await SelectedByAsync(
            new CreateRuleOptions("blanks", new CorrelationRuleFilter { Subject = " red " }), Coloured("red"), Coloured(" red ")));

    [Fact]
    public async Task An_action_changes_the_copy()
    {
        await using var rules = Client.CreateRuleManager("news", "ruled");
        await rules.CreateRuleAsync(new CreateRuleOptions("red", new SqlRuleFilter("colour = 'red'"))
        {
            Action = new SqlRuleAction("SET size = 10; SET sys.CorrelationId = 'changed'; REMOVE colour"),
        });
        await SendAsync("news", Coloured("red"));
        await using var receiver = Client.CreateReceiver("news", "ruled");
        var message = await ReceiveAsync(receiver);
        Assert.Equal("changed", message.CorrelationId);
        Assert.Equal(10, Convert.ToInt32(message.ApplicationProperties["size"]));
        Assert.Equal("red", message.ApplicationProperties["RuleName"]);
        Assert.DoesNotContain("colour", message.ApplicationProperties.Keys);
    }

    [Fact]
    public async Task Rules_are_added_listed_by_name_and_removed()
    {
        await using var rules = Client.CreateRuleManager("news", "ruled");
        await rules.CreateRuleAsync("zebra", new TrueRuleFilter());
        await rules.CreateRuleAsync("ant", new CorrelationRuleFilter { CorrelationId = "x" });
        await rules.CreateRuleAsync(new CreateRuleOptions("mole", new SqlRuleFilter("1 = 1")) { Action = new SqlRuleAction("SET a = 1") });
        await FailsAsync(ServiceBusFailureReason.MessagingEntityAlreadyExists, () => rules.CreateRuleAsync("ant", new FalseRuleFilter()));
        var found = new List<RuleProperties>();
        await foreach (var rule in rules.GetRulesAsync())
        {
            found.Add(rule);
        }
        Assert.Equal(["ant", "mole", "zebra"], found.Select(rule => rule.Name));
        Assert.Equal("x", Assert.IsType<CorrelationRuleFilter>(found[0].Filter).CorrelationId);
        Assert.Equal("1 = 1", Assert.IsType<SqlRuleFilter>(found[1].Filter).SqlExpression);
        Assert.Equal("SET a = 1", Assert.IsType<SqlRuleAction>(found[1].Action).SqlExpression);
        // Over AMQP, the client sends a filter that is true as SQL.
        Assert.IsAssignableFrom<SqlRuleFilter>(found[2].Filter);
        await rules.DeleteRuleAsync("mole");
        await FailsAsync(ServiceBusFailureReason.MessagingEntityNotFound, () => rules.DeleteRuleAsync("mole"));
    }

    [Fact]
    public async Task Peeking_at_a_topic_shows_its_scheduled_messages()
    {
        await using var sender = Client.CreateSender("news");
        var due = DateTimeOffset.UtcNow.AddHours(1);
        var number = await sender.ScheduleMessageAsync(new ServiceBusMessage("scheduled"), due);
        await using var topic = Client.CreateReceiver("news");
        var peeked = await topic.PeekMessageAsync();
        Assert.Equal(("scheduled", ServiceBusMessageState.Scheduled), (peeked.Body.ToString(), peeked.State));
        Assert.Equal(1, (await Administration.GetTopicRuntimePropertiesAsync("news")).Value.ScheduledMessageCount);
        await sender.CancelScheduledMessageAsync(number);
        Assert.Null(await topic.PeekMessageAsync(0));
    }
}
