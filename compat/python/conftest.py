"""The service that all tests share, and a hub for each of them."""

import pytest

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
