"""Hubs that the service captures by itself, read as a program reads the files of Event Hubs Capture: all blobs of the container, by fastavro."""

import io
import time

import fastavro
import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.storage.blob import ContainerClient

from service import PARTITIONS, Service, connect

PATIENCE_S = 60
EVENTS = 400
HUB = "orders"


def captured_hub(every):
    return f"  - {{name: {HUB}, partitions: {PARTITIONS}, capture: {{container: captured, every: {every}}}}}"


@pytest.fixture
def start(tmp_path):
    """Starts services that keep everything in the same directory."""
    running = []

    def start(every):
        arguments = ("--blob", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
        running.append(Service(tmp_path, 0, captured_hub(every), arguments=arguments))
        return running[-1]

    yield start


def publish(service, first):
    with connect(EventHubProducerClient, service.connection_string, HUB) as client:
        for partition in range(PARTITIONS):
            batch = client.create_batch(partition_id=str(partition))
            for number in range(first + partition, first + EVENTS, PARTITIONS):
                batch.add(EventData(f"event {number}"))
            client.send_batch(batch)


def captured(service):
    """The bodies of each partition with their sequence numbers, in the order of the names of the files."""
    events = {}
    with ContainerClient.from_connection_string(service.storage_connection_string, "captured") as container:
        for name in sorted(blob.name for blob in container.list_blobs()):
            namespace, hub, partition, *_, last = name.split("/")
            assert (hub, len(name.split("/"))) == (HUB, 9), name
            records = list(fastavro.reader(io.BytesIO(container.download_blob(name).readall())))
            assert int(last.removesuffix(".avro").split("-")[1]) == records[0]["SequenceNumber"]
            events.setdefault(partition, []).extend((record["SequenceNumber"], record["Body"]) for record in records)
    return events


def wait_for(service, count):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        events = captured(service)
        if sum(len({number for number, _ in of_one}) for of_one in events.values()) == count:
            return events
        assert time.monotonic() < deadline, f"{events}"


def test_every_event_is_captured_once_over_a_graceful_stop(start):
    service = start("15 min")
    publish(service, 0)
    assert service.stop() == 0
    service = start("1 s")
    publish(service, EVENTS)
    events = wait_for(service, 2 * EVENTS)
    assert len(events) == PARTITIONS
    for partition, of_one in events.items():
        assert [number for number, _ in of_one] == list(range(2 * EVENTS // PARTITIONS)), partition
        expected = [f"event {number}".encode() for number in range(int(partition), 2 * EVENTS, PARTITIONS)]
        assert [body for _, body in of_one] == expected
    assert service.stop() == 0


def test_a_service_that_is_killed_goes_on_capturing_and_its_clients_have_their_own_groups(start):
    service = start("1 s")
    publish(service, 0)
    service.kill()
    service = start("1 s")
    publish(service, EVENTS)
    events = wait_for(service, 2 * EVENTS)
    for of_one in events.values():
        numbers = [number for number, _ in of_one]
        assert sorted(set(numbers)) == list(range(2 * EVENTS // PARTITIONS))
    with connect(EventHubConsumerClient, service.connection_string, HUB, consumer_group="$Default") as client:
        assert client.get_partition_properties("0")["last_enqueued_sequence_number"] == 2 * EVENTS // PARTITIONS - 1
    assert service.stop() == 0
