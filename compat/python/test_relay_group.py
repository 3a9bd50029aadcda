"""An unmodified consumer of librdkafka and a Parshall relay as members of one consumer group: each leads it once and divides
the partitions for both, and no event is left out."""

import os
import subprocess
import threading
import time
import urllib.request

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from service import PARTITIONS, Service

PATIENCE_S = 60
#: Nobody tells that a group has changed but those who are in it.
LOOK_AGAIN_S = 0.05
GROUP = "shared"
MEMBER = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}


def settings(service, **more):
    return {
        "bootstrap.servers": service.kafka_address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "$ConnectionString",
        "sasl.password": service.connection_string,
        **more,
    }


def until(holds, what):
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(LOOK_AGAIN_S)


class Producing(threading.Thread):
    """Sends numbered records to all partitions in turn, until told to stop."""

    def __init__(self, service, topic):
        super().__init__(daemon=True)
        self.sent = 0
        self._stop_sending = threading.Event()
        self._producer = Producer(settings(service, **{"linger.ms": 5}))
        self._topic = topic
        self.start()

    def run(self):
        while not self._stop_sending.wait(0.01):
            for _ in range(5):
                self._producer.produce(self._topic, str(self.sent).encode(), partition=self.sent % PARTITIONS)
                self.sent += 1
            self._producer.poll(0)

    def finish(self):
        self._stop_sending.set()
        self.join(PATIENCE_S)
        assert self._producer.flush(PATIENCE_S) == 0
        return self.sent


class Consuming(threading.Thread):
    """A consumer that notes what it is given, and commits that."""

    def __init__(self, service, topic, seen):
        super().__init__(daemon=True)
        self.owned = 0
        self._seen = seen
        self._stop_consuming = threading.Event()
        strategy = {"partition.assignment.strategy": "cooperative-sticky", "auto.offset.reset": "earliest"}
        more = {"group.id": GROUP, "enable.auto.commit": False, **strategy, **MEMBER}
        self._consumer = Consumer(settings(service, **more))
        self._consumer.subscribe([topic])
        self.start()

    def run(self):
        while not self._stop_consuming.is_set():
            message = self._consumer.poll(LOOK_AGAIN_S)
            if message is not None and message.error() is None:
                self._seen.add(int(message.value()))
                self._consumer.commit(message, asynchronous=True)
            self.owned = len(self._consumer.assignment())
        self._consumer.close()

    def stop(self):
        self._stop_consuming.set()
        self.join(PATIENCE_S)


class Relay:
    """A relay as a process."""

    def __init__(self, directory, name):
        self._log = open(directory / f"{name}.log", "w")
        command = [os.environ["PARSHALL_BINARY"], "relay", str(directory / "pipeline.yaml")]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        told = (line for line in self._process.stdout if line.startswith("metrics "))
        self._metrics = next(told).split()[1]

    @property
    def owned(self):
        with urllib.request.urlopen(self._metrics) as answer:
            lines = answer.read().decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("parshall_relay_owned_partitions "))

    def stop(self):
        self._process.terminate()
        assert self._process.wait(timeout=PATIENCE_S) == 0, open(self._log.name).read()
        self._process.stdout.close()
        self._log.close()


def read(service, topic, seen, total):
    """Notes what a topic holds, until all numbers have been seen."""
    consumer = Consumer(settings(service, **{"group.id": "reader", "enable.auto.commit": False}))
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    deadline = time.monotonic() + PATIENCE_S
    while len(seen) < total and time.monotonic() < deadline:
        for message in consumer.consume(1_000, LOOK_AGAIN_S):
            seen.add(int(message.value()))
    consumer.close()


def test_a_consumer_and_a_relay_share_a_topic_whoever_leads_the_group(tmp_path):
    service = Service(tmp_path, 2, arguments=("--kafka", "127.0.0.1:0"))
    source, destination = service.unused_hub(), service.unused_hub()
    cluster = (
        f"bootstrap: '{service.kafka_address}', properties: {{security.protocol: SASL_PLAINTEXT, "
        f"sasl.username: $ConnectionString, sasl.password: '{service.connection_string}'"
    )
    members = "".join(f", {name}: {value}" for name, value in MEMBER.items())
    (tmp_path / "pipeline.yaml").write_text(
        f"""
source: {{kafka: {{topic: {source}, group: {GROUP}, {cluster}{members}}}}}}}
sink: {{kafka: {{topic: {destination}, {cluster}}}}}}}
checkpoint: {{store: group}}
ownership: {{mode: group}}
metrics: 127.0.0.1:0
"""
    )
    seen = set()
    producing = Producing(service, source)

    def shared(one, other):
        owned = sorted((one.owned, other.owned))
        return owned == [PARTITIONS // 2, PARTITIONS - PARTITIONS // 2]

    # The consumer leads, and divides for the relay.
    consumer = Consuming(service, source, seen)
    until(lambda: consumer.owned == PARTITIONS, lambda: f"the consumer has {consumer.owned}")
    relay = Relay(tmp_path, "first")
    until(lambda: shared(consumer, relay), lambda: f"the consumer has {consumer.owned}, the relay {relay.owned}")
    consumer.stop()
    until(lambda: relay.owned == PARTITIONS, lambda: f"the relay has {relay.owned}")
    # Now the relay leads, and divides for the consumer.
    consumer = Consuming(service, source, seen)
    until(lambda: shared(consumer, relay), lambda: f"the consumer has {consumer.owned}, the relay {relay.owned}")
    relay.stop()
    until(lambda: consumer.owned == PARTITIONS, lambda: f"the consumer has {consumer.owned}")
    total = producing.finish()
    forwarded = set()
    until(lambda: max(seen) >= total - PARTITIONS, lambda: "the consumer does not come to the end")
    read(service, destination, forwarded, total - len(seen))
    until(lambda: len(seen | forwarded) == total, lambda: f"{total - len(seen | forwarded)} events are left out")
    consumer.stop()
    assert forwarded and seen and len(forwarded & seen) < total // 10, "few were carried by both"
    assert service.stop() == 0
