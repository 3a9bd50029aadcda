"""A connection that the service ends because it is silent."""

import gc

import pytest
from azure.eventhub import EventData, EventHubProducerClient

from service import Service, connect


@pytest.fixture
def impatient_service(tmp_path):
    running = Service(tmp_path, 1, "idle_timeout: 300 ms")
    yield running
    assert running.stop() == 0


# The client forgets the socket of the connection that ended, and leaves closing it to the collector.
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
