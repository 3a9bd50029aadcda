"""Events are sent, received and checkpointed, by the synchronous clients and the asynchronous ones."""

import asyncio
import uuid

from azure.eventhub import EventData, EventHubProducerClient, TransportType
from azure.eventhub.aio import EventHubConsumerClient
from azure.eventhub.aio import EventHubProducerClient as AsynchronousProducer
from azure.eventhub.extensions.checkpointstoreblobaio import BlobCheckpointStore
from azure.storage.blob import BlobServiceClient

from connecting import arguments
from service import PARTITIONS

COUNT = 200
DEADLINE_S = 40


def connect(client, service, hub, **options):
    connection_string, more = arguments(service, TransportType)
    return client.from_connection_string(connection_string, eventhub_name=hub, **more, **options)


def test_a_hub_tells_its_partitions(service):
    with connect(EventHubProducerClient, service, "hub-0") as producer:
        assert producer.get_partition_ids() == [str(number) for number in range(PARTITIONS)]
        assert producer.get_partition_properties("0")["last_enqueued_sequence_number"] == -1


async def test_events_are_sent_received_and_checkpointed(service):
    hub = service.unused_hub()
    with connect(EventHubProducerClient, service, hub) as producer:
        for partition in range(PARTITIONS):
            batch = producer.create_batch(partition_id=str(partition))
            for number in range(COUNT):
                event = EventData(str(number))
                event.properties = {"number": number}
                batch.add(event)
            producer.send_batch(batch)
    container = f"checkpoints-{uuid.uuid4()}"
    with BlobServiceClient.from_connection_string(service.storage_connection_string) as account:
        account.create_container(container)

    first = await consumed(service, hub, container, PARTITIONS * COUNT)
    assert sorted(first) == sorted(str(number) for number in range(COUNT) for _ in range(PARTITIONS))

    async with connect(AsynchronousProducer, service, hub) as producer:
        batch = await producer.create_batch(partition_key="key")
        batch.add(EventData("later"))
        await producer.send_batch(batch)
    # Another consumer goes on after the checkpoints of the first.
    assert await consumed(service, hub, container, 1) == ["later"]


async def consumed(service, hub, container, count):
    """The bodies of the events that a consumer gets until it has this many."""
    store = BlobCheckpointStore.from_connection_string(service.storage_connection_string, container)
    bodies = []
    done = asyncio.Event()

    async def receive(context, events):
        if events:
            await context.update_checkpoint(events[-1])
        # Only now, since the consumer is closed once it has all.
        for event in events:
            assert event.body_as_str() == "later" or event.properties[b"number"] == int(event.body_as_str())
            bodies.append(event.body_as_str())
        if len(bodies) >= count:
            done.set()

    options = {"consumer_group": "$Default", "checkpoint_store": store, "load_balancing_interval": 1}
    async with store, connect(EventHubConsumerClient, service, hub, **options) as consumer:
        receiving = asyncio.create_task(consumer.receive_batch(receive, starting_position="-1", max_wait_time=1))
        await asyncio.wait_for(done.wait(), DEADLINE_S)
        await consumer.close()
        await receiving
    return bodies
