"""A durable service that ends, in good order or not, and comes back where it was."""

import asyncio
import gc

import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.aio import EventHubProducerClient as AsyncProducerClient

from receiving import DEADLINE_S, batches, bodies, in_the_background
from service import Service, connect

PERSISTENT = {"retry_total": 10, "retry_mode": "fixed", "retry_backoff_factor": 0.2}


@pytest.fixture
def durable_service(tmp_path):
    running = Service(tmp_path, 1, arguments=("--data-dir", str(tmp_path / "data")))
    yield running
    assert running.stop() == 0


@pytest.fixture(params=["stopped", "killed"])
def restart(request, durable_service):
    def restart():
        if request.param == "stopped":
            assert durable_service.stop() == 0
        else:
            durable_service.kill()
        durable_service.start()

    return restart


# The clients forget the sockets of connections that ended, and leave closing them to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_synchronous_clients_go_on_where_they_were(durable_service, restart):
    service, hub = durable_service, durable_service.unused_hub()
    with connect(EventHubProducerClient, service.connection_string, hub, **PERSISTENT) as producer:
        producer.send_event(EventData("before"), partition_id="0")
        with in_the_background(service.connection_string, hub, "0", **PERSISTENT) as received:
            assert received.get(timeout=DEADLINE_S).body_as_str() == "before"
            restart()
            producer.send_event(EventData("after"), partition_id="0")
            assert received.get(timeout=DEADLINE_S).body_as_str() == "after"
    gc.collect()


async def test_asynchronous_clients_go_on_where_they_were(durable_service, restart):
    service, hub = durable_service, durable_service.unused_hub()
    async with connect(AsyncProducerClient, service.connection_string, hub, **PERSISTENT) as producer:
        await producer.send_event(EventData("before"), partition_id="0")
        consumer = batches(service.connection_string, hub, "0", **PERSISTENT)
        assert bodies(await anext(consumer)) == ["before"]
        await asyncio.to_thread(restart)
        await producer.send_event(EventData("after"), partition_id="0")
        assert bodies(await anext(consumer)) == ["after"]
        await consumer.aclose()
    gc.collect()
