using Azure.Messaging.EventHubs;
using Azure.Messaging.EventHubs.Producer;
using Confluent.Kafka;
using Confluent.Kafka.Admin;

namespace Parshall.Compat;

/// <summary>Confluent.Kafka: hubs as topics.</summary>
public sealed class KafkaTests() : EventHubsTest(
    "hubs: [{name: events, partitions: 2}, {name: moved, partitions: 1}]", "--kafka", "127.0.0.1:0", "--data-dir", "{directory}/data")
{
    /// <summary>As connection strings of Event Hubs are used with Kafka.</summary>
    private T Connected<T>(T config) where T : ClientConfig
    {
        config.BootstrapServers = Service.Address("kafka", tls: false);
        config.SecurityProtocol = SecurityProtocol.SaslPlaintext;
        config.SaslMechanism = SaslMechanism.Plain;
        config.SaslUsername = "$ConnectionString";
        config.SaslPassword = Service.ConnectionString;
        return config;
    }

    private IProducer<string, string> NewProducer(Action<ProducerConfig>? set = null)
    {
        var config = Connected(new ProducerConfig { LingerMs = 5 });
        set?.Invoke(config);
        return new ProducerBuilder<string, string>(config).Build();
    }

    private IConsumer<string, string> NewConsumer(string group, IsolationLevel isolation = IsolationLevel.ReadUncommitted) =>
        new ConsumerBuilder<string, string>(Connected(new ConsumerConfig
        {
            GroupId = group,
            AutoOffsetReset = AutoOffsetReset.Earliest,
            EnableAutoCommit = false,
            SessionTimeoutMs = 6_000,
            IsolationLevel = isolation,
        })).Build();

    private static List<ConsumeResult<string, string>> Read(IConsumer<string, string> consumer, int count)
    {
        var read = new List<ConsumeResult<string, string>>();
        var deadline = DateTime.UtcNow + 2 * Service.Patience;
        while (read.Count < count && DateTime.UtcNow < deadline)
        {
            if (consumer.Consume(TimeSpan.FromMilliseconds(200)) is { } one)
            {
                read.Add(one);
            }
        }
        Assert.Equal(count, read.Count);
        return read;
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Records_arrive_with_keys_headers_and_timestamps(bool idempotent)
    {
        using var producer = NewProducer(config => config.EnableIdempotence = idempotent);
        var sent = await Task.WhenAll(Enumerable.Range(0, 200).Select(number => producer.ProduceAsync("events", new Message<string, string>
        {
            Key = $"{number % 10}",
            Value = $"{number}",
            Headers = new Headers { { "header", [1, 2] } },
            Timestamp = new Timestamp(1_700_000_000_000 + number, TimestampType.CreateTime),
        })));
        Assert.All(sent, it => Assert.Equal(PersistenceStatus.Persisted, it.Status));
        using var consumer = NewConsumer("readers");
        consumer.Subscribe("events");
        var read = Read(consumer, 200);
        consumer.Close();
        Assert.Equal(200, read.Select(it => it.Message.Value).Distinct().Count());
        Assert.All(read, it => Assert.Equal($"{int.Parse(it.Message.Value) % 10}", it.Message.Key));
        Assert.All(read, it => Assert.Equal([1, 2], it.Message.Headers.GetLastBytes("header")));
        Assert.All(read.GroupBy(it => it.Message.Key), group => Assert.Single(group.Select(it => it.Partition).Distinct()));
    }

    [Fact]
    public async Task A_group_commits_and_reads_no_record_again()
    {
        using var producer = NewProducer();
        await Task.WhenAll(Enumerable.Range(0, 100).Select(number =>
            producer.ProduceAsync("events", new Message<string, string> { Key = $"{number}", Value = $"{number}" })));
        using (var first = NewConsumer("workers"))
        {
            first.Subscribe("events");
            Read(first, 100);
            first.Commit();
            first.Close();
        }
        await producer.ProduceAsync("events", new Message<string, string> { Key = "new", Value = "new" });
        using var second = NewConsumer("workers");
        second.Subscribe("events");
        Assert.Equal("new", Read(second, 1)[0].Message.Value);
        second.Close();
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_transaction_moves_records_and_offsets_together(bool commits)
    {
        await using (var official = new EventHubProducerClient(Service.ConnectionString, "moved"))
        {
            await official.SendAsync([new EventData("from AMQP")]);
        }
        using var consumer = NewConsumer("movers");
        consumer.Subscribe("moved");
        Assert.Equal("from AMQP", Read(consumer, 1)[0].Message.Value);
        using var producer = NewProducer(config => config.TransactionalId = "mover");
        producer.InitTransactions(Service.Patience);
        producer.BeginTransaction();
        producer.Produce("events", new Message<string, string> { Key = "k", Value = "moved" });
        producer.SendOffsetsToTransaction([new TopicPartitionOffset("moved", 0, 1)], consumer.ConsumerGroupMetadata, Service.Patience);
        if (commits)
        {
            producer.CommitTransaction(Service.Patience);
        }
        else
        {
            producer.AbortTransaction(Service.Patience);
        }
        var committed = consumer.Committed([new TopicPartition("moved", 0)], Service.Patience)[0].Offset;
        Assert.Equal(commits ? new Offset(1) : Offset.Unset, committed);
        consumer.Close();
        using var plain = NewProducer();
        await plain.ProduceAsync("events", new Message<string, string> { Key = "k", Value = "after" });
        using var reader = NewConsumer("readers", IsolationLevel.ReadCommitted);
        reader.Subscribe("events");
        var values = Read(reader, commits ? 2 : 1).Select(it => it.Message.Value);
        Assert.Equal(commits ? ["moved", "after"] : ["after"], values);
        reader.Close();
    }

    [Fact]
    public async Task Topics_and_groups_are_administered()
    {
        using var admin = new AdminClientBuilder(Connected(new AdminClientConfig())).Build();
        await admin.CreateTopicsAsync([new TopicSpecification { Name = "made", NumPartitions = 3, ReplicationFactor = 1 }]);
        var exists = await Assert.ThrowsAsync<CreateTopicsException>(
            () => admin.CreateTopicsAsync([new TopicSpecification { Name = "made", NumPartitions = 3, ReplicationFactor = 1 }]));
        Assert.Equal(ErrorCode.TopicAlreadyExists, exists.Results[0].Error.Code);
        var described = await admin.DescribeTopicsAsync(TopicCollection.OfTopicNames(["made"]),
            new DescribeTopicsOptions { IncludeAuthorizedOperations = true });
        Assert.Equal(3, described.TopicDescriptions[0].Partitions.Count);
        Assert.Contains(AclOperation.Read, described.TopicDescriptions[0].AuthorizedOperations);
        var cluster = await admin.DescribeClusterAsync(new DescribeClusterOptions { IncludeAuthorizedOperations = true });
        Assert.NotEmpty(cluster.ClusterId);
        Assert.Contains(AclOperation.Describe, cluster.AuthorizedOperations);
        using (var consumer = NewConsumer("members"))
        {
            consumer.Subscribe("made");
            consumer.Consume(TimeSpan.FromSeconds(5));
            var groups = await admin.ListConsumerGroupsAsync();
            Assert.Contains(groups.Valid, it => it.GroupId == "members");
            consumer.Close();
        }
        await admin.DeleteGroupsAsync(["members"]);
        await admin.DeleteTopicsAsync(["made"]);
        await using var official = new EventHubProducerClient(Service.ConnectionString, "made");
        await FailsAsync(EventHubsException.FailureReason.ResourceNotFound, () => official.GetEventHubPropertiesAsync());
    }

    [Fact]
    [Trait("Length", "long")]
    public async Task An_idempotent_producer_loses_and_repeats_nothing_though_the_service_is_killed()
    {
        using (var producer = NewProducer(config => config.EnableIdempotence = true))
        {
            var sent = new List<Task<DeliveryResult<string, string>>>();
            for (var round = 0; round < 4; round++)
            {
                for (var number = 0; number < 1_000; number++)
                {
                    sent.Add(producer.ProduceAsync(new TopicPartition("events", 0), new Message<string, string> { Value = $"{1_000 * round + number}" }));
                }
                await Service.KillAndStartAsync();
            }
            await Task.WhenAll(sent);
        }
        using var consumer = NewConsumer("readers");
        consumer.Assign(new TopicPartitionOffset("events", 0, Offset.Beginning));
        Assert.Equal(Enumerable.Range(0, 4_000).Select(number => $"{number}"), Read(consumer, 4_000).Select(it => it.Message.Value));
    }
}
