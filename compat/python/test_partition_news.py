"""What a consumer is told of its partition with each event."""

from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.aio import EventHubConsumerClient

from receiving import DEADLINE_S
from service import connect

import asyncio


async def news(service, hub, tracking):
    told = asyncio.get_running_loop().create_future()

    async def on_batch(context, events):
        if events and not told.done():
            told.set_result(context.last_enqueued_event_properties)

    async with connect(EventHubConsumerClient, service.connection_string, hub) as client:
        task = asyncio.create_task(
            client.receive_batch(
                on_batch,
                partition_id="0",
                starting_position="-1",
                track_last_enqueued_event_properties=tracking,
            )
        )
        try:
            return await asyncio.wait_for(told, DEADLINE_S)
        finally:
            await client.close()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_consumer_that_asks_is_told_of_the_last_event(service, hub):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        for body in ["a", "b", "c"]:
            client.send_event(EventData(body), partition_id="0")
        properties = client.get_partition_properties("0")
    told = await news(service, hub, True)
    assert told["sequence_number"] == properties["last_enqueued_sequence_number"] == 2
    assert told["offset"] == properties["last_enqueued_offset"]
    assert told["enqueued_time"] == properties["last_enqueued_time_utc"]
    assert told["retrieval_time"] >= told["enqueued_time"]


async def test_a_consumer_that_does_not_ask_is_not_told(service, hub):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        client.send_event(EventData("a"), partition_id="0")
    assert not await news(service, hub, False)
