"""One half of a client on confluent-kafka, as a role of the lab starts it: see docs/external-clients.md."""

import base64
import os
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python-shared"))

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition  # noqa: E402
from lab import TOPIC, Call, lines, now, run, say, stamped  # noqa: E402

CONNECTED_WITHIN = 30
#: Threads that have a producer for each call, as in the published study.
THREADS = 100


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


def gathering():
    """How a producer that is called lets records gather."""
    if os.environ.get("PARSHALL_BUFFERING", "none") == "none":
        return {"linger.ms": 0} if "PARSHALL_CONNECTIONS" in os.environ else {}
    most, delay = os.environ["PARSHALL_MAX_EVENTS"], os.environ.get("PARSHALL_DELAY_MS", "0")
    return {"batch.num.messages": most, "linger.ms": delay}


class Unreported:
    """The records of a call of which the client has not reported the delivery."""

    def __init__(self, call, count):
        self.number, self.count, self.reason = call.number, count, None

    def report(self, error, _=None):
        self.reason = self.reason or error
        self.count -= 1
        if self.count == 0:
            failed = None if self.reason is None else f"failed {self.number} {text(self.reason)}"
            say(failed or f"sent {self.number}")


def text(error):
    return f"{error.name()}: {error.str()}" if hasattr(error, "name") else str(error)


def call(producer, asked):
    """Sends the records of a call, wherever the client wants them."""
    payloads = asked.payloads()
    unreported = Unreported(asked, len(payloads))
    for payload in payloads:
        try:
            producer.produce(TOPIC, payload, on_delivery=unreported.report)
        except (KafkaException, BufferError) as error:
            unreported.report(error)


def call_isolated(asked):
    """The same by a producer that is made for it."""
    producer = Producer({**gathering(), **properties()})
    call(producer, asked)
    producer.flush(CONNECTED_WITHIN)


def send(producer, words):
    _, number, partition, payload = words
    number = number.decode()

    def delivered(error, _):
        say(f"sent {number}" if error is None else f"failed {number} {text(error)}")

    try:
        payload = stamped(base64.b64decode(payload))
        producer.produce(TOPIC, payload, partition=int(partition), on_delivery=delivered)
    except (KafkaException, BufferError) as error:
        say(f"failed {number} {error}")


def produce():
    connections = os.environ.get("PARSHALL_CONNECTIONS", "single")
    if connections == "pooled":
        raise SystemExit("a producer of confluent-kafka has one connection to a broker: write `connections: single`")
    reasons = Reasons()
    producer = Producer({**gathering(), **reasons.settings()})
    check_topic(producer, reasons)
    say("ready")
    stopped = threading.Event()

    def hear():
        while not stopped.is_set():
            producer.poll(0.1)

    listener = threading.Thread(target=hear)
    listener.start()
    with ThreadPoolExecutor(THREADS) as threads:
        for words in lines():
            if words[:1] == [b"send"]:
                send(producer, words)
            elif words[:1] == [b"call"] and connections == "per-event":
                threads.submit(call_isolated, Call(words))
            elif words[:1] == [b"call"]:
                call(producer, Call(words))
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
        for words in lines():
            asked.put([word.decode() for word in words])
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
    run(produce if os.environ["PARSHALL_CLIENT"] == "producer" else consume)
