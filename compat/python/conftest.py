"""The service that all tests share, and a hub for each of them."""

import pytest

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
