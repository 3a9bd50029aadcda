"""Transactions of librdkafka, through `confluent-kafka`: what counts, what does not, and what a crash makes of it."""

import multiprocessing
import threading
import time

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from service import Service
from test_kafka import KILLS, PATIENCE, consume, produce, settings


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("transactions"), 8, arguments=("--kafka", "127.0.0.1:0"))
    yield running
    assert running.stop() == 0


def transactional(service, name, **more):
    """A producer that may begin transactions."""
    producer = Producer(settings(service, **{"transactional.id": name, **more}))
    producer.init_transactions(PATIENCE)
    return producer


def committed(service, group, topic):
    """How far a group has come in the first partition."""
    consumer = Consumer(settings(service, **{"group.id": group}))
    [place] = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE)
    consumer.close()
    return place.offset


def decided(service, topic):
    """The values of the first partition that whoever waits for decisions gets, up to its end."""
    consumer = Consumer(settings(service, **{"group.id": "reader", "isolation.level": "read_committed"}))
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values, give_up_at = [], time.monotonic() + PATIENCE
    while consumer.position([TopicPartition(topic, 0)])[0].offset < end and time.monotonic() < give_up_at:
        for message in consumer.consume(1_000, timeout=0.2):
            assert message.error() is None, message.error()
            values.append(message.value())
    consumer.close()
    return values


def test_only_what_is_committed_is_read_with_its_offsets(kafka):
    source, target = kafka.unused_hub(), kafka.unused_hub()
    produce(kafka, source, [{"partition": 0, "value": b"%d" % number} for number in range(10)])
    producer = transactional(kafka, "mover")
    consumer = Consumer(settings(kafka, **{"group.id": "movers", "auto.offset.reset": "earliest"}))
    metadata = consumer.consumer_group_metadata()
    for commits, offset in [(True, 3), (False, 6), (True, 9), (False, 10)]:
        producer.begin_transaction()
        producer.produce(target, b"%d" % offset, partition=0)
        producer.produce(target, b"elsewhere", partition=1)
        producer.send_offsets_to_transaction([TopicPartition(source, 0, offset)], metadata, PATIENCE)
        # What has not been sent would be dropped where the producer aborts.
        assert producer.flush(PATIENCE) == 0
        if commits:
            producer.commit_transaction(PATIENCE)
            last = offset
        else:
            producer.abort_transaction(PATIENCE)
        assert committed(kafka, "movers", source) == last
    consumer.close()
    assert decided(kafka, target) == [b"3", b"9"]
    everything = consume(kafka, target, 4, partitions=[0], **{"isolation.level": "read_uncommitted"})
    assert [message.value() for message in everything] == [b"3", b"6", b"9", b"10"]


def test_a_producer_whose_place_is_taken_can_do_nothing_more(kafka):
    topic = kafka.unused_hub()
    first = transactional(kafka, "only")
    first.begin_transaction()
    first.produce(topic, b"first", partition=0)
    first.flush(PATIENCE)
    second = transactional(kafka, "only")
    second.begin_transaction()
    second.produce(topic, b"second", partition=0)
    second.commit_transaction(PATIENCE)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(PATIENCE)
    assert refused.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    assert decided(kafka, topic) == [b"second"]


def test_a_move_between_topics_through_crashes_loses_nothing_and_does_nothing_twice(tmp_path):
    service = Service(
        tmp_path, 2, arguments=("--kafka", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), "--sync", "50ms")
    )
    source, target = service.unused_hub(), service.unused_hub()
    values = [b"%d" % number for number in range(20_000)]
    produce(service, source, [{"partition": 0, "value": value} for value in values])
    processes = multiprocessing.get_context("spawn")
    for _ in range(KILLS):
        # A process of its own, which dies with the service: librdkafka may wait for ever for a broker that is gone.
        has_begun = processes.Event()
        mover = processes.Process(target=move, args=(settings(service), source, target, has_begun))
        mover.start()
        assert has_begun.wait(PATIENCE)
        killer = threading.Timer(0.25, service.kill)
        killer.start()
        killer.join()
        mover.kill()
        mover.join()
        service.start()
    has_begun = processes.Event()
    mover = processes.Process(target=move, args=(settings(service), source, target, has_begun))
    mover.start()
    # Eight thousand transactions, which take half a minute alone.
    mover.join(15 * PATIENCE)
    assert mover.exitcode == 0
    assert decided(service, target) == values
    assert committed(service, "movers", source) == len(values)
    assert service.stop() == 0


def move(connection, source, target, has_begun):
    """Moves what is in the first partition in transactions, and aborts one between each two of them."""
    producer = Producer({**connection, "transactional.id": "mover"})
    producer.init_transactions(PATIENCE)
    consumer = Consumer({**connection, "group.id": "movers", "enable.auto.commit": False})
    _, end = consumer.get_watermark_offsets(TopicPartition(source, 0), timeout=PATIENCE)
    [place] = consumer.committed([TopicPartition(source, 0)], timeout=PATIENCE)
    offset = max(place.offset, 0)
    consumer.assign([TopicPartition(source, 0, offset)])
    while offset < end:
        messages = consumer.consume(5, timeout=1)
        if not messages:
            continue
        producer.begin_transaction()
        producer.produce(target, b"aborted", partition=0)
        producer.flush(PATIENCE)
        producer.abort_transaction(PATIENCE)
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=0)
        offset = messages[-1].offset() + 1
        offsets = [TopicPartition(source, 0, offset)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE)
        producer.commit_transaction(PATIENCE)
        has_begun.set()
    consumer.close()
