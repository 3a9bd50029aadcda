"""A connection that the service ends because it is silent."""

import asyncio
import gc

import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.aio import EventHubProducerClient as AsyncProducerClient

from service import Service, connect


@pytest.fixture
def impatient_service(tmp_path):
    running = Service(tmp_path, 1, "idle_timeout: 300 ms")
    yield running
    assert running.stop() == 0


# The client forgets the socket of the connection that ended, and leaves closing it to the collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_an_asynchronous_producer_that_was_silent_for_too_long_connects_again(impatient_service):
    service, hub = impatient_service, impatient_service.unused_hub()
    async with connect(AsyncProducerClient, service.connection_string, hub, keep_alive=None) as client:
        await client.send_event(EventData("before"), partition_id="0")
        while await asyncio.to_thread(service.open_connections):
            pass
        await client.send_event(EventData("after"), partition_id="0")
    async with connect(AsyncProducerClient, service.connection_string, hub) as client:
        assert (await client.get_partition_properties("0"))["last_enqueued_sequence_number"] == 1
    gc.collect()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_producer_that_was_silent_for_too_long_connects_again(impatient_service):
    service, hub = impatient_service, impatient_service.unused_hub()
    with connect(EventHubProducerClient, service.connection_string, hub, keep_alive=None) as client:
        client.send_event(EventData("before"), partition_id="0")
        while service.open_connections():
            pass
        client.send_event(EventData("after"), partition_id="0")
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        assert client.get_partition_properties("0")["last_enqueued_sequence_number"] == 1
    gc.collect()
