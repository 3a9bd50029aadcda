"""An official processor and a Parshall relay in one consumer group: they take partitions over from one another, by the
same blobs, and no event is left out."""

import os
import subprocess
import threading
import time

from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore
from azure.storage.blob import ContainerClient

from service import PARTITIONS, Service, connect

PATIENCE_S = 60
# Blobs tell nobody that they have changed.
LOOK_AGAIN_S = 0.05
CONTAINER = "takeover"


class Stamping(threading.Thread):
    """Sends numbered events to all partitions in turn, until told to stop."""

    def __init__(self, connection_string, hub):
        super().__init__(daemon=True)
        self.sent = 0
        self._stop_sending = threading.Event()
        self._client = connect(EventHubProducerClient, connection_string, hub)
        self.start()

    def run(self):
        with self._client:
            while not self._stop_sending.wait(0.01):
                numbers = range(self.sent, self.sent + 5)
                events = [EventData(str(number)) for number in numbers]
                self._client.send_batch(events, partition_id=str(self.sent // 5 % PARTITIONS))
                self.sent += 5

    def finish(self):
        self._stop_sending.set()
        self.join(PATIENCE_S)
        return self.sent


class Seen:
    """Numbers of events, noted by threads that receive them, and the test that waits for them."""

    def __init__(self):
        self.numbers = set()
        self._noted = threading.Condition()

    def note(self, events):
        with self._noted:
            self.numbers.update(int(event.body_as_str()) for event in events)
            self._noted.notify()

    def until(self, holds, what):
        deadline = time.monotonic() + PATIENCE_S
        with self._noted:
            while not holds():
                assert time.monotonic() < deadline, what
                self._noted.wait(LOOK_AGAIN_S)


class Processor:
    """The official processor, which notes what it is given and checkpoints each batch."""

    def __init__(self, service, hub, seen):
        store = BlobCheckpointStore.from_connection_string(service.storage_connection_string, CONTAINER)
        self._seen = seen
        self._client = connect(
            EventHubConsumerClient,
            service.connection_string,
            hub,
            checkpoint_store=store,
            load_balancing_interval=0.5,
            partition_ownership_expiration_interval=5,
        )
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def _receive(self):
        self._client.receive_batch(self._batch, max_batch_size=20, max_wait_time=0.2, starting_position="-1")

    def _batch(self, context, events):
        self._seen.note(events)
        if events:
            context.update_checkpoint()

    def stop(self):
        self._client.close()
        self._thread.join(PATIENCE_S)


class Relay:
    """A relay as a process."""

    def __init__(self, directory, name):
        self._log = open(directory / f"{name}.log", "w")
        command = [os.environ["PARSHALL_BINARY"], "relay", str(directory / "pipeline.yaml")]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self._log)

    def stop(self):
        self._process.terminate()
        assert self._process.wait(timeout=PATIENCE_S) == 0, open(self._log.name).read()
        self._log.close()


def test_a_processor_and_a_relay_take_partitions_over_from_one_another(tmp_path):
    service = Service(tmp_path, 2, arguments=("--blob", "127.0.0.1:0"))
    source, destination = service.unused_hub(), service.unused_hub()
    (tmp_path / "pipeline.yaml").write_text(
        f"""
source: {{event_hubs: {{connection_string: '{service.connection_string}', hub: {source}}}}}
sink: {{event_hubs: {{connection_string: '{service.connection_string}', hub: {destination}}}}}
checkpoint:
  store:
    blob: {{connection_string: '{service.storage_connection_string}', container: {CONTAINER}, namespace: '{service.address}'}}
batch: {{events: 20, wait: 5 ms}}
ownership: {{mode: greedy, renew: 500 ms, expire: 5 s, identity: relay}}
"""
    )
    container = ContainerClient.from_connection_string(service.storage_connection_string, CONTAINER)
    container.create_container()

    def owned_by_the_relay():
        prefix = f"{service.address}/{source}/$default/ownership/"
        blobs = container.list_blobs(name_starts_with=prefix, include=["metadata"])
        owners = [blob.metadata.get("ownerid") for blob in blobs]
        assert len(owners) <= PARTITIONS
        return owners.count("relay"), len(owners) - owners.count("relay") - owners.count("")

    seen, by_processor = Seen(), Seen()
    reader = connect(EventHubConsumerClient, service.connection_string, destination)
    reading = threading.Thread(
        target=lambda: reader.receive(
            lambda _, event: seen.note([event]), starting_position="-1"
        ),
        daemon=True,
    )
    reading.start()

    stamping = Stamping(service.connection_string, source)
    half = (PARTITIONS // 2, PARTITIONS - PARTITIONS // 2)
    relay = Relay(tmp_path, "first")
    seen.until(lambda: owned_by_the_relay() == (PARTITIONS, 0), "the relay has all")
    processor = Processor(service, source, by_processor)
    seen.until(lambda: owned_by_the_relay() == half, "the processor takes its half")
    by_processor.until(lambda: len(by_processor.numbers) > 100, "the processor works")
    relay.stop()
    seen.until(lambda: owned_by_the_relay() == (0, PARTITIONS), "the processor has all")
    relay = Relay(tmp_path, "second")
    seen.until(lambda: owned_by_the_relay() == half, "the relay takes its half")
    processor.stop()
    seen.until(lambda: owned_by_the_relay() == (PARTITIONS, 0), "the relay has all again")
    sent = stamping.finish()
    all_numbers = lambda: len(seen.numbers | by_processor.numbers)
    seen.until(lambda: all_numbers() == sent, f"all {sent} events are seen by one or the other")
    relay.stop()
    reader.close()
    assert service.stop() == 0
