"""Hubs are topics for the clients of Kafka: librdkafka, through `confluent-kafka`, unmodified."""

import threading
import time

import pytest
from azure.eventhub import EventData, EventHubProducerClient
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from receiving import receive
from service import LISTEN_ONLY, PARTITIONS, Service, connect

PATIENCE = 30

#: States of a group in which nobody is joining.
SETTLED = (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)

#: How often a service is killed.
KILLS = 20


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    running = Service(
        tmp_path_factory.mktemp("kafka"), 32, arguments=("--kafka", "127.0.0.1:0", "--kafka-tls", "127.0.0.1:0")
    )
    yield running
    assert running.stop() == 0


def settings(service, tls=False, **more):
    """What a client needs to connect, as users write it."""
    common = {"sasl.mechanism": "PLAIN", "sasl.username": "$ConnectionString", "sasl.password": service.connection_string}
    if tls:
        address = {"bootstrap.servers": service.kafka_tls_address, "security.protocol": "SASL_SSL"}
        address["ssl.ca.location"] = service.authority
    else:
        address = {"bootstrap.servers": service.kafka_address, "security.protocol": "SASL_PLAINTEXT"}
    return {**common, **address, **more}


def produce(service, topic, messages, tls=False, **more):
    """Sends messages, each as arguments of `produce`, and fails unless all are acknowledged."""
    producer = Producer(settings(service, tls, **more))
    errors = []
    for message in messages:
        producer.produce(topic, on_delivery=lambda error, _: errors.append(error) if error else None, **message)
    assert producer.flush(PATIENCE) == 0
    assert errors == []


def consume(service, topic, count, tls=False, partitions=range(PARTITIONS), **more):
    """So many messages of a topic, from its beginning."""
    consumer = Consumer(settings(service, tls, **{"group.id": "reader", "enable.auto.commit": False, **more}))
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    messages = []
    end = time.monotonic() + PATIENCE
    while len(messages) < count and time.monotonic() < end:
        for message in consumer.consume(count - len(messages), timeout=1):
            assert message.error() is None, message.error()
            messages.append(message)
    consumer.close()
    assert len(messages) == count
    return messages


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent_in_their_order(kafka, compression, tls):
    topic = kafka.unused_hub()
    sent = [
        {"partition": 1, "key": b"key", "value": b"value", "headers": [("a", b"1"), ("a", b"2"), ("b", b"")]},
        {"partition": 1, "key": b"tombstone"},
        {"partition": 1, "value": b""},
        *({"partition": 1, "value": b"%d " % number * 200} for number in range(500)),
    ]
    produce(kafka, topic, sent, tls, **{"compression.type": compression, "enable.idempotence": True})
    received = consume(kafka, topic, len(sent), tls, partitions=[1])
    assert [message.offset() for message in received] == list(range(len(sent)))
    assert [message.value() for message in received] == [message.get("value") for message in sent]
    assert [message.key() for message in received[:3]] == [b"key", b"tombstone", None]
    assert received[0].headers() == sent[0]["headers"]


def test_a_consumer_that_waits_gets_an_event_at_once(kafka):
    topic = kafka.unused_hub()
    # Were it told by the end of its wait only, this would take minutes.
    consumer = Consumer(settings(kafka, **{"group.id": "waiter", "fetch.wait.max.ms": 20_000}))
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    for number in range(20):
        produce(kafka, topic, [{"partition": 0, "value": b"%d" % number}])
        message = consumer.poll(PATIENCE)
        assert message.value() == b"%d" % number
    consumer.close()


def test_the_ends_of_a_partition_and_points_in_time_are_found(kafka):
    topic = kafka.unused_hub()
    produce(kafka, topic, [{"partition": 0, "value": b"x", "timestamp": 1_700_000_000_000 + n} for n in range(100)])
    consumer = Consumer(settings(kafka, **{"group.id": "reader"}))
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE) == (0, 100)
    assert consumer.get_watermark_offsets(TopicPartition(topic, 1), timeout=PATIENCE) == (0, 0)
    for time_ms, offset in [(1_700_000_000_050, 50), (1_600_000_000_000, 0), (1_800_000_000_000, -1)]:
        [found] = consumer.offsets_for_times([TopicPartition(topic, 0, time_ms)], timeout=PATIENCE)
        assert found.offset == offset
    consumer.close()


async def test_readers_of_amqp_get_what_kafka_produced(kafka):
    topic = kafka.unused_hub()
    sent = [
        {"partition": 0, "key": b"\x01key", "value": b"plain", "headers": [("name", b"\x00\xff")]},
        {"partition": 0, "value": b"packed " * 100},
    ]
    produce(kafka, topic, sent[:1])
    produce(kafka, topic, sent[1:], **{"compression.type": "zstd"})
    first, second = await receive(kafka.connection_string, topic, "0", 2)
    assert (first.body_as_str(), first.sequence_number, first.offset) == ("plain", 0, "0")
    assert first.properties == {b"name": b"\x00\xff"}
    assert first.raw_amqp_message.annotations[b"x-opt-kafka-key"] == b"\x01key"
    assert first.partition_key is None
    assert (second.body_as_str(), second.sequence_number) == ("packed " * 100, 1)


def test_readers_of_kafka_get_what_came_over_amqp(kafka):
    topic = kafka.unused_hub()
    event = EventData(b"body")
    event.properties = {"text": "a", "number": 7}
    event.message_id = "id"
    with connect(EventHubProducerClient, kafka.connection_string, topic) as client:
        client.send_event(EventData(b"plain"), partition_id="2")
        client.send_event(event, partition_id="2")
    produce(kafka, topic, [{"partition": 2, "value": b"kafka"}])
    received = consume(kafka, topic, 3, partitions=[2])
    assert [message.value() for message in received] == [b"plain", b"body", b"kafka"]
    assert [message.offset() for message in received] == [0, 1, 2]
    headers = dict(received[1].headers())
    assert headers == {"text": b"\xa1\x01a", "number": headers["number"], "message-id": b"id"}
    # The encoding of AMQP: a constructor, and the value.
    assert headers["number"][-1] == 7


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "uniform"])
def test_members_that_come_and_go_share_a_topic_without_losing_an_event(kafka, strategy):
    topic, count = kafka.unused_hub(), 2_000
    seen, assigned, is_over = {}, threading.Event(), threading.Event()

    def member(leaves: threading.Event):
        options = {"group.id": topic, "auto.offset.reset": "earliest"}
        if strategy == "uniform":
            # The broker assigns.
            options |= {"group.protocol": "consumer", "group.remote.assignor": strategy}
        else:
            options |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 100}
            options |= {"partition.assignment.strategy": strategy}
        consumer = Consumer(settings(kafka, **options))
        consumer.subscribe([topic], on_assign=lambda *_: assigned.set())
        while not leaves.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                seen.setdefault(message.value(), []).append(message.offset())
        consumer.close()

    events = [threading.Event() for _ in range(3)]
    members = [threading.Thread(target=member, args=(leaves,)) for leaves in events]
    members[0].start()
    assert assigned.wait(PATIENCE)
    for number in range(count):
        if number == count // 4:
            members[1].start()
            members[2].start()
        if number == count // 2:
            events[0].set()
        if number % 100 == 99:
            produce(kafka, topic, [{"value": b"%d" % each} for each in range(number - 99, number + 1)])
    end = time.monotonic() + PATIENCE
    while len(seen) < count and time.monotonic() < end:
        is_over.wait(0.05)
    assert len(seen) == count
    admin = AdminClient(settings(kafka))
    group = admin.describe_consumer_groups([topic])[topic].result(PATIENCE)
    assert (group.partition_assignor, len(group.members)) == (strategy, 2)
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([topic])[topic].result(PATIENCE)
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    end = time.monotonic() + PATIENCE
    for leaves, thread in zip(events, members):
        # Who leaves while it joins anew commits under a generation that is over, which is refused.
        while admin.describe_consumer_groups([topic])[topic].result(PATIENCE).state not in SETTLED:
            assert time.monotonic() < end
            is_over.wait(0.05)
        leaves.set()
        thread.join(PATIENCE)
    [committed] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)]).values()
    offsets = {it.partition: it.offset for it in committed.result(PATIENCE).topic_partitions}
    consumer = Consumer(settings(kafka, **{"group.id": "reader"}))
    ends = {n: consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=PATIENCE)[1] for n in range(PARTITIONS)}
    consumer.close()
    assert offsets == {partition: end for partition, end in ends.items() if end > 0}
    admin.delete_consumer_groups([topic])[topic].result(PATIENCE)


def test_a_wrong_key_is_refused_and_a_right_that_is_missing_is_named(kafka):
    topic = kafka.unused_hub()
    wrong = kafka.connection_string_with("RootManageSharedAccessKey", "no such value")
    errors = []
    stranger = Producer(settings(kafka, **{"sasl.password": wrong, "error_cb": errors.append, "reconnect.backoff.ms": 500}))
    end = time.monotonic() + PATIENCE
    while not errors and time.monotonic() < end:
        stranger.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION, errors
    assert "Invalid key name or key value" in errors[0].str()
    listener = kafka.connection_string_with(*LISTEN_ONLY)
    produced = []
    producer = Producer(settings(kafka, **{"sasl.password": listener}))
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: produced.append(error.code()))
    producer.flush(PATIENCE)
    assert produced == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    produce(kafka, topic, [{"partition": 0, "value": b"allowed"}])
    [message] = consume(kafka, topic, 1, **{"sasl.password": listener})
    assert message.value() == b"allowed"


def test_the_keys_name_and_value_will_do_as_user_and_password(kafka):
    topic = kafka.unused_hub()
    name, value = LISTEN_ONLY
    produce(kafka, topic, [{"partition": 0, "value": b"x"}])
    consume(kafka, topic, 1, **{"sasl.username": name, "sasl.password": value})


def test_what_is_acknowledged_survives_a_crash_once(tmp_path):
    service = Service(
        tmp_path, 1, arguments=("--kafka", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), "--sync", "50ms")
    )
    topic, acknowledged = service.unused_hub(), []
    options = {"enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 50}
    for restart in range(KILLS):
        producer = Producer(settings(service, **options, **{"message.timeout.ms": 2_000}))
        killer = threading.Timer(0.3, service.kill)
        before, number = len(acknowledged), 0
        while killer.ident is None or killer.is_alive():
            # No more than a few batches ahead of what is acknowledged.
            if len(producer) < 1_000:
                producer.produce(
                    topic,
                    b"%d/%d" % (restart, number),
                    partition=0,
                    on_delivery=lambda error, it: error or acknowledged.append(it.value()),
                )
                number += 1
            producer.poll(0.0001)
            # It dies in the middle of acknowledging, not before.
            if killer.ident is None and len(acknowledged) > before:
                killer.start()
        producer.purge()
        producer.flush(PATIENCE)
        service.start()
    produce(service, topic, [{"partition": 0, "value": b"last"}])
    consumer = Consumer(settings(service, **{"group.id": "reader"}))
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE)
    consumer.close()
    stored = [message.value() for message in consume(service, topic, end, partitions=[0])]
    assert len(stored) == len(set(stored)), "none is stored twice"
    assert set(acknowledged) <= set(stored)
    assert len(acknowledged) > 0
    assert service.stop() == 0


@pytest.mark.parametrize(
    "membership",
    [
        {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 200},
        {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 200, "group.instance.id": "one"},
        {"group.protocol": "consumer"},
    ],
    ids=["dynamic", "static", "new-protocol"],
)
def test_a_member_goes_on_over_a_crash_without_a_rebalance(tmp_path, membership):
    arguments = ("--kafka", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    service = Service(tmp_path, 1, arguments=arguments)
    topic, changes, read = service.unused_hub(), [], []
    options = {"group.id": "workers", "auto.offset.reset": "earliest", "enable.auto.commit": False, **membership}
    consumer = Consumer(settings(service, **options))
    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: changes.append(("assign", len(partitions))),
        on_revoke=lambda _, partitions: changes.append(("revoke", len(partitions))),
        on_lost=lambda _, partitions: changes.append(("lost", len(partitions))),
    )

    def read_and_commit(count):
        end = time.monotonic() + PATIENCE
        while len(read) < count and time.monotonic() < end:
            message = consumer.poll(0.1)
            if message and not message.error():
                read.append(message.value())
        while time.monotonic() < end:
            try:
                return consumer.commit(asynchronous=False)
            except KafkaException as error:
                # The broker is not there, or not found again yet. A member that has to join again is told otherwise.
                code = error.args[0].code()
                assert code < 0 or code in (KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR), error
                consumer.poll(0.1)
        raise AssertionError("no commit was taken")

    for life in range(3):
        produce(service, topic, [{"partition": 0, "value": b"%d/%d" % (life, number)} for number in range(10)])
        read_and_commit(10 * (life + 1))
        service.kill()
        service.start()
    produce(service, topic, [{"partition": 0, "value": b"last"}])
    read_and_commit(31)
    assert read == [b"%d/%d" % (life, number) for life in range(3) for number in range(10)] + [b"last"]
    assert changes == [("assign", PARTITIONS)]
    consumer.close()
    assert service.stop() == 0
