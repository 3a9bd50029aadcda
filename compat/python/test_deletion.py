"""A hub that is deleted under its clients."""

import asyncio

import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.exceptions import EventHubError

from receiving import batches, bodies
from service import connect


async def test_a_consumer_is_told_that_its_hub_is_gone_and_a_producer_too(service, hub):
    with connect(EventHubProducerClient, service.connection_string, hub, retry_total=0) as client:
        await asyncio.to_thread(client.send_event, EventData("first"), partition_id="0")
        consumer = batches(service.connection_string, hub, "0", retry_total=0)
        assert bodies(await anext(consumer)) == ["first"]
        waiting = asyncio.ensure_future(anext(consumer))
        await asyncio.to_thread(service.run, "hub", "delete", hub)
        with pytest.raises(EventHubError, match="could not be found"):
            await waiting
        with pytest.raises(EventHubError, match="could not be found"):
            await asyncio.to_thread(client.send_event, EventData("lost"), partition_id="0")
        await consumer.aclose()
