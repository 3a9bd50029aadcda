"""What a client can ask about a hub and its partitions."""

import datetime

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub.aio import EventHubConsumerClient as AsyncConsumerClient
from azure.eventhub.aio import EventHubProducerClient as AsyncProducerClient
from azure.eventhub.exceptions import EventHubError

from service import PARTITIONS, connect

EXPECTED_IDS = [str(number) for number in range(PARTITIONS)]


def test_a_hub_tells_its_name_its_age_and_its_partitions(service, hub):
    with connect(EventHubConsumerClient, service.connection_string, hub) as client:
        properties = client.get_eventhub_properties()
    assert properties["eventhub_name"] == hub
    assert properties["partition_ids"] == EXPECTED_IDS
    age = datetime.datetime.now(datetime.timezone.utc) - properties["created_at"]
    assert datetime.timedelta() <= age < datetime.timedelta(hours=1)


def test_a_producer_is_told_the_same(service, hub):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        assert client.get_partition_ids() == EXPECTED_IDS


def test_a_partition_tells_where_it_begins_and_ends(service, hub):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        empty = client.get_partition_properties("1")
        assert empty["is_empty"] is True
        assert empty["last_enqueued_sequence_number"] == -1
        for number in range(3):
            client.send_event(EventData(str(number)), partition_id="1")
        filled = client.get_partition_properties("1")
    assert (filled["eventhub_name"], filled["id"], filled["is_empty"]) == (hub, "1", False)
    assert (filled["beginning_sequence_number"], filled["last_enqueued_sequence_number"]) == (0, 2)
    assert filled["last_enqueued_offset"] == "2"
    age = datetime.datetime.now(datetime.timezone.utc) - filled["last_enqueued_time_utc"]
    assert datetime.timedelta() <= age < datetime.timedelta(minutes=5)


async def test_the_asynchronous_clients_are_told_the_same(service, hub):
    async with connect(AsyncProducerClient, service.connection_string, hub) as client:
        await client.send_event(EventData("one"), partition_id="1")
        assert await client.get_partition_ids() == EXPECTED_IDS
    async with connect(AsyncConsumerClient, service.connection_string, hub) as client:
        properties = await client.get_eventhub_properties()
        assert (properties["eventhub_name"], properties["partition_ids"]) == (hub, EXPECTED_IDS)
        filled = await client.get_partition_properties("1")
        assert (filled["last_enqueued_sequence_number"], filled["last_enqueued_offset"]) == (0, "0")
    async with connect(AsyncConsumerClient, service.connection_string, hub, retry_total=0) as client:
        with pytest.raises(EventHubError, match="400"):
            await client.get_partition_properties(str(PARTITIONS))
    async with connect(AsyncConsumerClient, service.connection_string, "nowhere", retry_total=0) as client:
        with pytest.raises(EventHubError, match="could not be found"):
            await client.get_eventhub_properties()


def test_an_unknown_partition_or_hub_has_no_properties(service, hub):
    with connect(EventHubConsumerClient, service.connection_string, hub, retry_total=0) as client:
        with pytest.raises(EventHubError, match="400"):
            client.get_partition_properties(str(PARTITIONS))
    with connect(EventHubConsumerClient, service.connection_string, "nowhere", retry_total=0) as client:
        with pytest.raises(EventHubError, match="could not be found"):
            client.get_eventhub_properties()
