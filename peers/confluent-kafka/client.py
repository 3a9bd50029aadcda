"""One half of a client on confluent-kafka, as a role of the lab starts it: see docs/external-clients.md."""

import base64
import os
import queue
import struct
import sys
import threading
import time

import google_crc32c
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

TOPIC = os.environ["PARSHALL_TOPIC"]
EPOCH_NS = int(os.environ["PARSHALL_EPOCH_NS"])
CONNECTED_WITHIN = 30

output = sys.stdout.buffer
output_lock = threading.Lock()


def say(text):
    """Says whole lines, in one write."""
    with output_lock:
        output.write(text.encode() + b"\n")
        output.flush()


def now():
    """Microseconds of the run."""
    return (time.monotonic_ns() - EPOCH_NS) // 1000


def properties():
    """What the role tells, with the names of librdkafka, which are those of this client."""
    lines = os.environ["PARSHALL_PROPERTIES"].splitlines()
    return dict(line.split("=", 1) for line in lines)


class Reasons:
    """What librdkafka says of errors that end no call, such as a login that is refused, until there is a connection."""

    def __init__(self):
        self.last = None

    def __call__(self, error):
        self.last = error

    def settings(self):
        return {**properties(), "error_cb": self}


def check_topic(client, reasons):
    """Waits until the topic is found, or it is clear why it is not."""
    try:
        topic = client.list_topics(TOPIC, timeout=CONNECTED_WITHIN).topics[TOPIC]
    except KafkaException as error:
        reason = reasons.last or error.args[0]
        raise SystemExit(f"{reason.name()}: {reason.str()}") from error
    if topic.error is not None:
        raise SystemExit(f"{topic.error.name()}: {topic.error.str()}")


def stamped(payload):
    """The payload with the instant at which it is sent, if it has room for that."""
    if len(payload) < 24:
        return payload
    head, rest = payload[:12], struct.pack(">Q", now()) + payload[24:]
    return head + struct.pack(">I", google_crc32c.value(head + rest)) + rest


def produce():
    reasons = Reasons()
    producer = Producer(reasons.settings())
    check_topic(producer, reasons)
    say("ready")
    stopped = threading.Event()

    def hear():
        while not stopped.is_set():
            producer.poll(0.1)

    def delivered(number):
        def tell(error, _):
            say(f"sent {number}" if error is None else f"failed {number} {error.name()}: {error.str()}")

        return tell

    listener = threading.Thread(target=hear)
    listener.start()
    for line in sys.stdin.buffer:
        word, number, partition, payload = line.split()
        number = number.decode()
        try:
            producer.produce(
                TOPIC,
                stamped(base64.b64decode(payload)),
                partition=int(partition),
                on_delivery=delivered(number),
            )
        except (KafkaException, BufferError) as error:
            say(f"failed {number} {error}")
    producer.flush(5)
    stopped.set()
    listener.join()


def consume():
    reasons = Reasons()
    # A group is asked for, and never joined: partitions are assigned.
    usual = {"group.id": "parshall-client", "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer({**usual, **reasons.settings()})
    check_topic(consumer, reasons)
    say("ready")
    asked = queue.SimpleQueue()

    def hear():
        for line in sys.stdin.buffer:
            asked.put(line.decode().split())
        asked.put(None)

    threading.Thread(target=hear, daemon=True).start()
    while True:
        while not asked.empty():
            opened = asked.get()
            if opened is None:
                consumer.close()
                return
            _, partition, offset = opened
            # -2 is the beginning.
            start = -2 if offset == "earliest" else int(offset)
            consumer.incremental_assign([TopicPartition(TOPIC, int(partition), start)])
        received = []
        message = consumer.poll(0.1)
        # What came with it is in hand at the same time.
        while message is not None:
            if message.error() is not None:
                raise SystemExit(f"{message.error().name()}: {message.error().str()}")
            payload = base64.b64encode(message.value()).decode()
            received.append(f"received {message.partition()} {message.offset()} {now()} {payload}")
            message = consumer.poll(0) if len(received) < 1000 else None
        if received:
            say("\n".join(received))


if __name__ == "__main__":
    try:
        produce() if os.environ["PARSHALL_CLIENT"] == "producer" else consume()
    except SystemExit as reason:
        say(f"error {reason}")
        os._exit(1)
    except BrokenPipeError:
        os._exit(1)
