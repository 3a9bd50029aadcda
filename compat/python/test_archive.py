"""What a relay archives, read by others than those who wrote it: files of Avro by fastavro, of Parquet by DuckDB, lines of JSON by Python."""

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
import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.storage.blob import ContainerClient

from service import PARTITIONS, Service, connect

PATIENCE_S = 60
EVENTS = 400
CONTAINER = "archive"
# The schema of Event Hubs Capture's own files.
FIELDS = ["SequenceNumber", "Offset", "EnqueuedTimeUtc", "SystemProperties", "Properties", "Body"]


@pytest.fixture
def service(tmp_path):
    running = Service(tmp_path, 1, arguments=("--blob", "127.0.0.1:0"))
    yield running
    assert running.stop() == 0


def publish(service, hub):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        for first in range(0, EVENTS, 100):
            batch = client.create_batch(partition_id=str(first // 100 % PARTITIONS))
            for number in range(first, first + 100):
                event = EventData(f"event {number}")
                event.properties = {"number": number, "ratio": number / 8, "text": "words", "bytes": b"\xff", "is": True}
                batch.add(event)
            client.send_batch(batch)


def carry(service, hub, tmp_path, archive):
    """Runs a relay until it has read everything, and lets it end in good order."""
    checkpoints = tmp_path / "checkpoints"
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(
        f"""
source: {{event_hubs: {{connection_string: '{service.connection_string}', hub: {hub}}}}}
sinks:
- archive:
    to: {{blob: {{connection_string: '{service.storage_connection_string}', container: {CONTAINER}, create: true}}}}
    {archive}
checkpoint: {{store: {{files: '{checkpoints}'}}}}
metrics: 127.0.0.1:0
"""
    )
    log = open(tmp_path / "relay.log", "w")
    command = [os.environ["PARSHALL_BINARY"], "relay", str(pipeline)]
    relay = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    metrics = next(word for line in relay.stdout for word in line.split() if word.endswith("/metrics"))
    deadline = time.monotonic() + PATIENCE_S
    while completed(metrics) < EVENTS:
        assert time.monotonic() < deadline, open(log.name).read()
    relay.send_signal(signal.SIGTERM)
    assert relay.wait(timeout=PATIENCE_S) == 0, open(log.name).read()
    relay.stdout.close()
    log.close()


def completed(metrics):
    with urllib.request.urlopen(metrics, timeout=20) as response:
        for line in response.read().decode().splitlines():
            if line.startswith("parshall_relay_completed_events_total "):
                return int(float(line.split()[-1]))
    return 0


def blobs(service):
    with ContainerClient.from_connection_string(service.storage_connection_string, CONTAINER) as container:
        return {blob.name: container.download_blob(blob.name).readall() for blob in container.list_blobs()}


def test_files_of_avro_are_those_of_capture(service, tmp_path):
    hub = service.unused_hub()
    publish(service, hub)
    carry(service, hub, tmp_path, "files: {size: 20 KiB}\n    format: avro")
    bodies = {}
    for name, content in blobs(service).items():
        reader = fastavro.reader(io.BytesIO(content))
        assert [field["name"] for field in reader.writer_schema["fields"]] == FIELDS
        assert reader.codec == "null"
        records = list(reader)
        namespace, partition, *_, first = name.removesuffix(".avro").split("/")
        assert (namespace, int(first)) == (hub, records[0]["SequenceNumber"])
        for place, record in enumerate(records):
            assert record["SequenceNumber"] == records[0]["SequenceNumber"] + place
            assert record["SystemProperties"]["x-opt-sequence-number"] == record["SequenceNumber"]
            time.strptime(record["EnqueuedTimeUtc"], "%m/%d/%Y %I:%M:%S %p")
            number = record["Properties"]["number"]
            expected = {"number": number, "ratio": number / 8, "text": "words", "bytes": b"\xff", "is": "true"}
            assert record["Properties"] == expected
            bodies[(partition, record["SequenceNumber"])] = record["Body"]
    assert sorted(bodies.values()) == sorted(f"event {number}".encode() for number in range(EVENTS))


def test_files_of_parquet_are_read_with_columns_and_statistics(service, tmp_path):
    hub = service.unused_hub()
    publish(service, hub)
    carry(service, hub, tmp_path, "files: {size: 4 KiB}\n    format: parquet")
    files = tmp_path / "files"
    files.mkdir()
    for number, content in enumerate(blobs(service).values()):
        (files / f"{number}.parquet").write_bytes(content)
    pattern = str(files / "*.parquet")
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


def test_lines_of_json_are_what_was_sent(service, tmp_path):
    hub = service.unused_hub()
    publish(service, hub)
    carry(service, hub, tmp_path, "files: {size: 1 MiB}")
    lines = [json.loads(line) for content in blobs(service).values() for line in content.decode().splitlines()]
    assert sorted(line["body"] for line in lines) == sorted(f"event {number}" for number in range(EVENTS))
    assert {type(line["properties"]["ratio"]) for line in lines} == {float}


def test_single_events_are_blobs_with_their_bodies(service, tmp_path):
    hub = service.unused_hub()
    publish(service, hub)
    carry(service, hub, tmp_path, "files: per-event")
    assert sorted(blobs(service).values()) == sorted(f"event {number}".encode() for number in range(EVENTS))
