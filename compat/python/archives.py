"""What the tests of archives share: events with properties, a relay that archives them, and readers of what it wrote."""

import datetime
import io
import json
import os
import signal
import subprocess
import time
import urllib.request

import duckdb
import fastavro
from azure.eventhub import EventData, EventHubProducerClient

from service import PARTITIONS, connect

PATIENCE_S = 60
EVENTS = 400
# The schema of Event Hubs Capture's own files.
FIELDS = ["SequenceNumber", "Offset", "EnqueuedTimeUtc", "SystemProperties", "Properties", "Body"]


def publish(service, hub, keys=()):
    """Sends all events; with keys, the first ones to the partitions that these have, in the place of those of the last partition."""
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        for first in range(0, EVENTS, 100):
            batch = client.create_batch(partition_id=str(first // 100 % PARTITIONS))
            for number in range(first, first + 100):
                batch.add(_event(number))
            client.send_batch(batch)
        for number, key in enumerate(keys):
            batch = client.create_batch(partition_key=key)
            batch.add(_event(EVENTS + number))
            client.send_batch(batch)


def _event(number):
    event = EventData(f"event {number}")
    event.properties = {"number": number, "ratio": number / 8, "text": "words", "bytes": b"\xff", "is": True}
    return event


class Relay:
    """A relay with an archive, as a child process."""

    def __init__(self, service, hub, directory, archive, settings="", environment=None):
        pipeline = directory / "pipeline.yaml"
        pipeline.write_text(
            f"""
source: {{event_hubs: {{connection_string: '{service.connection_string}', hub: {hub}}}}}
sinks:
- archive:
    {archive}
checkpoint: {{store: {{files: '{directory / "checkpoints"}'}}}}
metrics: 127.0.0.1:0
{settings}
"""
        )
        self._command = [os.environ["PARSHALL_BINARY"], "relay", str(pipeline)]
        self._environment = {**os.environ, **(environment or {})}
        self._log = directory / "relay.log"

    def start(self):
        with open(self._log, "a") as log:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, env=self._environment
            )
        self._metrics = next(word for line in self.process.stdout for word in line.split() if word.endswith("/metrics"))
        return self

    def completed(self):
        with urllib.request.urlopen(self._metrics, timeout=20) as response:
            for line in response.read().decode().splitlines():
                if line.startswith("parshall_relay_completed_events_total "):
                    return int(float(line.split()[-1]))
        return 0

    def until(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not condition(self):
            assert time.monotonic() < deadline, self.log()
            assert self.process.poll() is None, self.log()

    def log(self):
        return self._log.read_text()

    def kill(self):
        self.process.kill()
        self._end()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self._end() == 0, self.log()

    def end(self):
        """Waits until it ends by itself, and gives its status."""
        return self._end()

    def _end(self):
        status = self.process.wait(timeout=PATIENCE_S)
        self.process.stdout.close()
        return status


def carry(service, hub, directory, archive, events=EVENTS, **options):
    """Runs a relay until it has read everything, and lets it end in good order."""
    relay = Relay(service, hub, directory, archive, **options).start()
    relay.until(lambda relay: relay.completed() >= events)
    relay.stop()
    return relay


def are_captures(files):
    """Asserts that files of Avro, by name, have all events in the layout of Capture."""
    bodies = {}
    for name, content in files.items():
        reader = fastavro.reader(io.BytesIO(content))
        assert [field["name"] for field in reader.writer_schema["fields"]] == FIELDS
        assert reader.codec == "null"
        records = list(reader)
        *_, partition, _, _, _, first = name.removesuffix(".avro").split("/")
        assert int(first) == records[0]["SequenceNumber"]
        for place, record in enumerate(records):
            assert record["SequenceNumber"] == records[0]["SequenceNumber"] + place
            assert record["SystemProperties"]["x-opt-sequence-number"] == record["SequenceNumber"]
            time.strptime(record["EnqueuedTimeUtc"], "%m/%d/%Y %I:%M:%S %p")
            number = record["Properties"]["number"]
            expected = {"number": number, "ratio": number / 8, "text": "words", "bytes": b"\xff", "is": "true"}
            assert record["Properties"] == expected
            bodies[(partition, record["SequenceNumber"])] = record["Body"]
    are_all(bodies.values())


def are_tables(files, directory):
    """Asserts that files of Parquet have all events, with columns and statistics."""
    directory.mkdir()
    for number, content in enumerate(files.values()):
        (directory / f"{number}.parquet").write_bytes(content)
    pattern = str(directory / "*.parquet")
    rows = duckdb.sql(f"SELECT * FROM read_parquet('{pattern}', filename=true) ORDER BY filename, SequenceNumber")
    assert rows.columns[:-1] == FIELDS
    assert [str(kind) for kind in rows.types[:-1]] == ["BIGINT", "VARCHAR", "TIMESTAMP", "JSON", "JSON", "BLOB"]
    before = {}
    for sequence_number, offset, enqueued, system, properties, body, filename in rows.fetchall():
        assert before.get(filename, sequence_number - 1) == sequence_number - 1
        before[filename] = sequence_number
        system, properties = json.loads(system), json.loads(properties)
        assert (system["x-opt-sequence-number"], system["x-opt-offset"]) == (sequence_number, offset)
        assert system["x-opt-enqueued-time"] == round(enqueued.replace(tzinfo=datetime.UTC).timestamp() * 1000)
        assert body == f"event {properties['number']}".encode()
        assert (properties["ratio"], properties["text"], properties["is"]) == (properties["number"] / 8, "words", True)
    assert len(before) > 1 and len(rows) == EVENTS
    statistics = f"SELECT count(*) FROM parquet_metadata('{pattern}') WHERE path_in_schema = 'SequenceNumber' AND stats_min_value IS NOT NULL"
    assert duckdb.sql(statistics).fetchall()[0][0] >= len(before)


def are_lines(files):
    """Asserts that files of lines of JSON have all events."""
    lines = [json.loads(line) for content in files.values() for line in content.decode().splitlines()]
    assert {type(line["properties"]["ratio"]) for line in lines} == {float}
    are_all(line["body"].encode() for line in lines)


def are_all(bodies, events=EVENTS):
    """Asserts that these are the bodies of all events, each once."""
    assert sorted(bodies) == sorted(f"event {number}".encode() for number in range(events))
