"""A service over plain TCP and TLS, and the client that the tests of this run are for."""

import importlib.metadata
import os

import pytest

from service import Service


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    settings = "queues: [{name: jobs}, {name: sessions, requires_session: true}]"
    running = Service(tmp_path_factory.mktemp("service"), 4, settings, arguments=("--blob", "127.0.0.1:0"))
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session", autouse=True)
def client():
    """What is tested is the version that `run` has put before the newest."""
    package, version = os.environ["COMPAT_CLIENT"].split("==")
    assert importlib.metadata.version(package) == version
