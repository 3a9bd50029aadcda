"""What operators do with topics over Kafka: librdkafka's AdminClient, through `confluent-kafka`, unmodified."""

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from receiving import receive
from service import LISTEN_ONLY, Service, connect
from test_kafka import PATIENCE, consume, produce, settings


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    arguments = ("--kafka", "127.0.0.1:0", "--kafka-tls", "127.0.0.1:0", "--kafka-auto-create", "on")
    running = Service(tmp_path_factory.mktemp("kafka-admin"), 8, arguments=arguments)
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def admin(kafka):
    return AdminClient(settings(kafka))


def done(futures):
    """The results by their names, once all are there."""
    return {name: future.result(PATIENCE) for name, future in futures.items()}


def code(future):
    with pytest.raises(KafkaException) as refused:
        future.result(PATIENCE)
    return refused.value.args[0].code()


def create(admin, name, partitions=2, **config):
    done(admin.create_topics([NewTopic(name, partitions, 1, config=config)]))
    return name


def partitions_of(admin, topic):
    return sorted(admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions)


async def test_a_topic_that_is_created_is_a_hub_at_once_and_events_cross(kafka, admin):
    topic = create(admin, "created", 3)
    assert partitions_of(admin, topic) == [0, 1, 2]
    produce(kafka, topic, [{"partition": 2, "value": b"over kafka"}])
    with connect(EventHubProducerClient, kafka.connection_string, topic) as client:
        assert sorted(client.get_partition_ids()) == ["0", "1", "2"]
        client.send_event(EventData(b"over amqp"), partition_id="2")
    events = await receive(kafka.connection_string, topic, "2", 2)
    assert [event.body_as_str() for event in events] == ["over kafka", "over amqp"]
    assert [message.value() for message in consume(kafka, topic, 2, partitions=[2])] == [b"over kafka", b"over amqp"]
    assert "created" in kafka.run("hub", "list")


def test_a_hub_that_was_created_over_amqp_is_a_topic(kafka, admin):
    kafka.run("hub", "create", "over-amqp", "--partitions", "5")
    assert partitions_of(admin, "over-amqp") == list(range(5))
    kafka.run("hub", "delete", "over-amqp")
    assert "over-amqp" not in admin.list_topics(timeout=PATIENCE).topics


def test_a_topic_that_can_not_be_is_refused_by_what_is_wrong_with_it(admin):
    create(admin, "there")
    for topic, expected in [
        (NewTopic("there", 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic("a/b", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("many", 40_000, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("odd", 1, 1, config={"no.such.thing": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("assigned", 1, replica_assignment=[[7]]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
    ]:
        [future] = admin.create_topics([topic]).values()
        assert code(future) == expected, topic
    [future] = admin.create_topics([NewTopic("looked-at", 1, 1)], validate_only=True).values()
    future.result(PATIENCE)
    assert "looked-at" not in admin.list_topics(timeout=PATIENCE).topics


def test_a_topic_that_is_deleted_is_gone_on_both_sides(kafka, admin):
    topic = create(admin, "deleted")
    produce(kafka, topic, [{"partition": 0, "value": b"x"}])
    done(admin.delete_topics([topic]))
    assert topic not in kafka.run("hub", "list")
    assert code(admin.delete_topics([topic])[topic]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    create(admin, topic)
    consumer = Consumer(settings(kafka, **{"group.id": "reader"}))
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE) == (0, 0)
    consumer.close()


def test_a_topic_gets_more_partitions_while_receivers_and_senders_are_there(kafka, admin):
    topic = create(admin, "growing", 1)
    sender = connect(EventHubProducerClient, kafka.connection_string, topic)
    sender.send_event(EventData(b"before"))
    done(admin.create_partitions([NewPartitions(topic, 4)]))
    assert partitions_of(admin, topic) == list(range(4))
    [future] = admin.create_partitions([NewPartitions(topic, 4)]).values()
    assert code(future) == KafkaError.INVALID_PARTITIONS
    # The link that was open before sends to all of them now, in turn.
    for number in range(4):
        sender.send_event(EventData(b"after"))
    sender.close()
    with connect(EventHubConsumerClient, kafka.connection_string, topic) as client:
        assert sorted(client.get_partition_ids()) == ["0", "1", "2", "3"]
        counts = [client.get_partition_properties(str(partition)) for partition in range(4)]
    assert [it["last_enqueued_sequence_number"] + 1 for it in counts] == [2, 1, 1, 1]


def test_what_a_topic_is_like_can_be_seen_and_changed(admin):
    topic = create(admin, "configured", **{"retention.ms": "60000"})

    def described():
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return done(admin.describe_configs([resource]))[resource]

    configs = described()
    assert (configs["retention.ms"].value, configs["retention.ms"].source) == (
        "60000",
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    )
    assert (configs["cleanup.policy"].value, configs["segment.bytes"].is_read_only) == ("delete", False)
    entry = ConfigEntry("retention.bytes", "4194304", incremental_operation=AlterConfigOpType.SET)
    reset = ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry, reset])
    done(admin.incremental_alter_configs([change]))
    configs = described()
    assert (configs["retention.bytes"].value, configs["retention.ms"].value) == ("4194304", "-1")
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    done(admin.incremental_alter_configs([change]))
    configs = described()
    assert (configs["cleanup.policy"].value, configs["retention.bytes"].value) == ("delete,compact", "4194304")
    entry = ConfigEntry("no.such.thing", "1000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    [future] = admin.incremental_alter_configs([change]).values()
    assert code(future) == KafkaError.INVALID_CONFIG
    broker = ConfigResource(ResourceType.BROKER, "0")
    assert done(admin.describe_configs([broker]))[broker]["num.partitions"].value == "4"


def test_offsets_are_listed_and_groups_deleted(kafka, admin):
    topic = create(admin, "listed", 1)
    produce(kafka, topic, [{"partition": 0, "value": b"x", "timestamp": 1_700_000_000_000 + n} for n in range(10)])
    partition = TopicPartition(topic, 0)
    for spec, offset in [
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 10),
        (OffsetSpec.max_timestamp(), 9),
        (OffsetSpec.for_timestamp(1_700_000_000_004), 4),
    ]:
        assert done(admin.list_offsets({partition: spec}))[partition].offset == offset
    consumer = Consumer(settings(kafka, **{"group.id": "done"}))
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    consumer.close()
    [found] = done(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("done")])).values()
    assert [it.offset for it in found.topic_partitions] == [7]
    done(admin.delete_consumer_groups(["done"]))
    assert "done" not in [group.group_id for group in admin.list_consumer_groups().result(PATIENCE).valid]


def test_a_topic_that_is_sent_to_is_created(kafka, admin):
    produce(kafka, "sent-to", [{"value": b"x", "key": b"%d" % number} for number in range(100)])
    assert partitions_of(admin, "sent-to") == list(range(4))
    consume(kafka, "sent-to", 100)
    # Whoever may only read does not create one by asking.
    reader = Producer(settings(kafka, **{"sasl.password": kafka.connection_string_with(*LISTEN_ONLY)}))
    assert reader.list_topics("read-from", timeout=PATIENCE).topics["read-from"].error is not None
    assert "read-from" not in admin.list_topics(timeout=PATIENCE).topics


def test_a_key_without_the_right_to_manage_changes_nothing(kafka, admin):
    topic = create(admin, "protected")
    reader = AdminClient(settings(kafka, **{"sasl.password": kafka.connection_string_with(*LISTEN_ONLY)}))
    expected = KafkaError.TOPIC_AUTHORIZATION_FAILED
    for futures in [
        reader.create_topics([NewTopic("new", 1, 1)]),
        reader.delete_topics([topic]),
        reader.create_partitions([NewPartitions(topic, 9)]),
    ]:
        [future] = futures.values()
        assert code(future) == expected


def test_topics_and_their_changes_survive_a_crash(tmp_path):
    arguments = ("--kafka", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    service = Service(tmp_path, 1, arguments=arguments)
    admin = AdminClient(settings(service))
    create(admin, "kept", 2, **{"retention.ms": "3600000"})
    create(admin, "gone")
    done(admin.create_partitions([NewPartitions("kept", 3), NewPartitions("hub-0", 6)]))
    produce(service, "kept", [{"partition": 2, "value": b"x"}])
    done(admin.delete_topics(["gone"]))
    service.kill()
    service.start()
    # Its port is another one.
    admin = AdminClient(settings(service))
    topics = admin.list_topics(timeout=PATIENCE).topics
    assert {name: len(it.partitions) for name, it in topics.items()} == {"kept": 3, "hub-0": 6}
    resource = ConfigResource(ResourceType.TOPIC, "kept")
    assert done(admin.describe_configs([resource]))[resource]["retention.ms"].value == "3600000"
    [message] = consume(service, "kept", 1, partitions=[2])
    assert message.value() == b"x"
    assert service.stop() == 0
