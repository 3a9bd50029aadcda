"""What a relay keeps of events, as the official clients see it: keys and the partitions that the service chooses by them,
or partitions without keys, and everything that producers set."""

import os
import subprocess
import threading

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode

from service import Service, connect

PATIENCE_S = 60
KEYS = [f"device-{number}" for number in range(48)]
EVENTS_PER_KEY = 4


@pytest.fixture
def served(tmp_path):
    running = Service(
        tmp_path,
        0,
        "  - {name: source, partitions: 32}",
        "  - {name: wide, partitions: 32}",
        "  - {name: narrow, partitions: 8}",
        "queues:",
        "  - {name: jobs}",
    )
    yield running
    assert running.stop() == 0


class Relay:
    """A relay as a process, from the hub `source`."""

    def __init__(self, service, directory, sink, *settings):
        self._pipeline = directory / "pipeline.yaml"
        lines = [
            f"source: {{event_hubs: {{connection_string: '{service.connection_string}', hub: source}}}}",
            f"sink: {sink}",
            f"checkpoint: {{store: {{files: '{directory / 'checkpoints'}'}}}}",
            *settings,
        ]
        self._pipeline.write_text("\n".join(lines))
        self._command = [os.environ["PARSHALL_BINARY"], "relay", str(self._pipeline)]

    def refusal(self):
        """Runs it to its end, and gives exit status and what it says."""
        ended = subprocess.run(self._command, capture_output=True, text=True, timeout=PATIENCE_S)
        return ended.returncode, " ".join(ended.stderr.replace("|", " ").split())

    def __enter__(self):
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self._process.terminate()
        _, said = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 0, said


def hub_sink(service, hub):
    return f"{{event_hubs: {{connection_string: '{service.connection_string}', hub: {hub}}}}}"


def event_of(key, number):
    event = EventData(f"{key}/{number}")
    event.properties = {"key": key, "number": number}
    event.content_type = "text/plain"
    event.message_id = f"{key}-{number}"
    event.correlation_id = "correlation"
    return event


def send_by_key(service):
    with connect(EventHubProducerClient, service.connection_string, "source") as producer:
        for number in range(EVENTS_PER_KEY):
            for key in KEYS:
                producer.send_batch([event_of(key, number)], partition_key=key)
    return len(KEYS) * EVENTS_PER_KEY


def read(service, hub, count):
    """So many events of a hub, as pairs of partition and event in the order of each partition."""
    found = []
    enough = threading.Event()
    reader = connect(EventHubConsumerClient, service.connection_string, hub)

    def note(context, events):
        found.extend((context.partition_id, event) for event in events)
        if len(found) >= count:
            enough.set()

    receive = lambda: reader.receive_batch(note, max_wait_time=0.2, starting_position="-1")
    reading = threading.Thread(target=receive, daemon=True)
    reading.start()
    assert enough.wait(PATIENCE_S), f"{len(found)} of {count} events"
    reader.close()
    reading.join(PATIENCE_S)
    assert len(found) == count
    return found


def check_content(events):
    for _, event in events:
        key, number = event.body_as_str().split("/")
        assert event.properties == {b"key": key.encode(), b"number": int(number)}
        assert event.content_type == "text/plain"
        assert event.message_id == f"{key}-{number}"
        assert event.correlation_id == "correlation"


def partitions_by_key(events):
    """Where the events of each key are; they are in order there."""
    partitions, numbers = {}, {}
    for partition, event in events:
        key, number = event.body_as_str().split("/")
        partitions.setdefault(key, set()).add(partition)
        numbers.setdefault(key, []).append(int(number))
    assert all(found == list(range(EVENTS_PER_KEY)) for found in numbers.values())
    assert all(len(found) == 1 for found in partitions.values())
    return {key: found.pop() for key, found in partitions.items()}


@pytest.mark.parametrize("hub", ["wide", "narrow"])
def test_a_route_by_key_keeps_the_keys_and_what_has_one_together(served, tmp_path, hub):
    count = send_by_key(served)
    with Relay(served, tmp_path, hub_sink(served, hub), "route: key"):
        carried = read(served, hub, count)
    assert all(event.partition_key == event.properties[b"key"] for _, event in carried)
    check_content(carried)
    partitions = partitions_by_key(carried)
    if hub == "wide":
        assert partitions == partitions_by_key(read(served, "source", count))


def test_a_route_by_partition_keeps_the_partition_and_its_order(served, tmp_path):
    count = send_by_key(served)
    with connect(EventHubProducerClient, served.connection_string, "source") as producer:
        producer.send_batch([event_of("none", 0)], partition_id="7")
    with Relay(served, tmp_path, hub_sink(served, "wide"), "route: same-partition"):
        carried = read(served, "wide", count + 1)
    check_content(carried)
    assert all(event.partition_key is None for _, event in carried)
    by_partition = lambda events: {
        partition: [event.body_as_str() for at, event in events if at == partition] for partition, _ in events
    }
    assert by_partition(carried) == by_partition(read(served, "source", count + 1))


def test_fewer_partitions_are_refused_unless_they_are_asked_for(served, tmp_path):
    sink = hub_sink(served, "narrow")
    status, said = Relay(served, tmp_path, sink, "route: same-partition").refusal()
    assert status == 2
    assert "the source has 32 partitions, and the sink 8" in said
    assert "`fan_out: 8`" in said
    count = send_by_key(served)
    with Relay(served, tmp_path, sink, "route: same-partition", "fan_out: 8"):
        carried = read(served, "narrow", count)
    found = partitions_by_key(carried)
    source = partitions_by_key(read(served, "source", count))
    assert found == {key: str(int(partition) % 8) for key, partition in source.items()}


@pytest.mark.parametrize("send", ["single", "batch"])
def test_a_queue_gets_the_key_and_what_the_producer_set(served, tmp_path, send):
    count = send_by_key(served)
    sink = f"{{service_bus: {{connection_string: '{served.connection_string}', queue: jobs, send: {send}}}}}"
    found = []
    with Relay(served, tmp_path, sink):
        with ServiceBusClient.from_connection_string(served.connection_string) as client:
            with client.get_queue_receiver("jobs", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
                while len(found) < count:
                    messages = receiver.receive_messages(max_message_count=100, max_wait_time=PATIENCE_S)
                    assert messages, f"{len(found)} of {count} messages"
                    found.extend(messages)
    for message in found:
        key = message.application_properties[b"key"].decode()
        assert message.partition_key == key
        assert message.content_type == "text/plain"
        assert message.message_id == f"{key}-{message.application_properties[b'number']}"
