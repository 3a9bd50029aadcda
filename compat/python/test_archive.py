"""What a relay archives in blobs, read by others than those who wrote it: files of Avro by fastavro, of Parquet by DuckDB, lines of JSON by Python."""

import pytest
from azure.storage.blob import ContainerClient

from archives import are_all, are_captures, are_lines, are_tables, carry, publish
from service import Service

CONTAINER = "archive"


@pytest.fixture
def service(tmp_path):
    running = Service(tmp_path, 1, arguments=("--blob", "127.0.0.1:0"))
    yield running
    assert running.stop() == 0


def archived(service, tmp_path, archive):
    """Archives all events, and gives the blobs."""
    hub = service.unused_hub()
    publish(service, hub)
    to = f"to: {{blob: {{connection_string: '{service.storage_connection_string}', container: {CONTAINER}, create: true}}}}"
    carry(service, hub, tmp_path, f"{to}\n    {archive}")
    with ContainerClient.from_connection_string(service.storage_connection_string, CONTAINER) as container:
        blobs = {blob.name: container.download_blob(blob.name).readall() for blob in container.list_blobs()}
    assert all(name.startswith(f"{hub}/") for name in blobs)
    return blobs


def test_files_of_avro_are_those_of_capture(service, tmp_path):
    are_captures(archived(service, tmp_path, "files: {size: 20 KiB}\n    format: avro"))


def test_files_of_parquet_are_read_with_columns_and_statistics(service, tmp_path):
    are_tables(archived(service, tmp_path, "files: {size: 4 KiB}\n    format: parquet"), tmp_path / "files")


def test_lines_of_json_are_what_was_sent(service, tmp_path):
    are_lines(archived(service, tmp_path, "files: {size: 1 MiB}"))


def test_single_events_are_blobs_with_their_bodies(service, tmp_path):
    are_all(archived(service, tmp_path, "files: per-event").values())
