"""The service that all tests share, and a hub for each of them."""

import pytest
from azure.storage.blob import BlobServiceClient

from queues import Queues
from service import Service

HUBS = 64


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("service"), HUBS)
    yield running
    assert running.stop() == 0


@pytest.fixture
def hub(service):
    return service.unused_hub()


@pytest.fixture(scope="module", params=["memory", "disk"])
def blobs(request, tmp_path_factory):
    """A storage account, in memory and in a data directory."""
    directory = tmp_path_factory.mktemp("blobs")
    arguments = ("--blob", "127.0.0.1:0")
    if request.param == "disk":
        arguments += ("--data-dir", str(directory / "data"))
    running = Service(directory, 1, arguments=arguments)
    with BlobServiceClient.from_connection_string(running.storage_connection_string) as client:
        yield client
    assert running.stop() == 0


@pytest.fixture(scope="session")
def queues(tmp_path_factory):
    running = Queues(tmp_path_factory.mktemp("queues"))
    yield running
    assert running.service.stop() == 0


@pytest.fixture
def durable_queues(tmp_path):
    running = Queues(tmp_path, "--data-dir", str(tmp_path / "data"))
    yield running
    assert running.service.stop() == 0
