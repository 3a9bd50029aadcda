"""A service with a profile: the official client sees its quota and its failures as those of the real service."""

import time

import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.aio import EventHubProducerClient as AsyncProducerClient
from azure.eventhub._constants import CUSTOM_CONDITION_BACKOFF, NO_RETRY_ERRORS
from azure.eventhub.exceptions import EventDataSendError

from receiving import bodies, receive
from service import Service, connect

PROFILE = """
profile:
  round_trip: 2 ms
  connection_setup: 20 ms
  service_time: {send: {median: 1 ms, p99: 5 ms}, request: 1 ms}
  quota: {ingress_events_per_s: 20}
"""

SERVER_BUSY = b"com.microsoft:server-busy"
DEADLINE_S = 20


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("profiled"), 4, PROFILE)
    yield running
    assert running.stop() == 0


def test_server_busy_is_a_condition_that_the_client_waits_and_tries_again_for():
    # What the client's tables say about the condition, which the next test receives.
    assert SERVER_BUSY not in NO_RETRY_ERRORS
    assert CUSTOM_CONDITION_BACKOFF[SERVER_BUSY] == 4


async def test_what_is_throttled_is_not_stored_and_gets_through_later(service, hub):
    sent, throttled = [], 0
    give_up_at = time.monotonic() + DEADLINE_S
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        while len(sent) < 50:
            assert time.monotonic() < give_up_at
            batch = client.create_batch(partition_id="1")
            next_ten = [str(number) for number in range(len(sent), len(sent) + 10)]
            for body in next_ten:
                batch.add(EventData(body))
            try:
                client.send_batch(batch)
            except EventDataSendError as error:
                assert error.error == "server-busy"
                assert "Error code : 50002. Please wait 4 seconds" in str(error)
                throttled += 1
            else:
                sent += next_ten
        assert client.get_partition_properties("1")["last_enqueued_sequence_number"] == len(sent) - 1
    assert throttled > 0
    assert bodies(await receive(service.connection_string, hub, "1", len(sent))) == sent


async def test_the_asynchronous_client_is_told_to_wait_as_well(service, hub):
    give_up_at = time.monotonic() + DEADLINE_S
    async with connect(AsyncProducerClient, service.connection_string, hub) as client:
        with pytest.raises(EventDataSendError, match="Error code : 50002. Please wait 4 seconds") as told:
            while time.monotonic() < give_up_at:
                await client.send_batch([EventData(str(number)) for number in range(10)], partition_id="1")
        assert told.value.error == "server-busy"
