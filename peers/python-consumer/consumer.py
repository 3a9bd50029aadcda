"""The consumer of the published study of strategies on the official SDKs for Python, in the relay's place: see docs/external-systems.md.

Each event of a batch is sent to a topic and stored as a blob, as many at once as the study's four loops have it, and the batch is checkpointed
when all of them are."""

import asyncio
import os
import signal
import sys

from azure.eventhub.aio import EventHubConsumerClient
from azure.eventhub.extensions.checkpointstoreblobaio import BlobCheckpointStore
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.storage.blob.aio import ContainerClient


def told(name):
    """A variable that has to be there."""
    text = os.environ.get(f"PARSHALL_{name}")
    if not text:
        raise SystemExit(f"PARSHALL_{name} is not set")
    return text


class Writer:
    """Writes batches to topic and archive."""

    def __init__(self, topic, archive):
        self.topic = topic
        self.archive = archive
        self.hub = told("SOURCE_HUB")
        self.events_at_once = int(told("EVENTS_AT_ONCE"))
        self.both_at_once = int(told("DESTINATIONS_AT_ONCE")) > 1

    async def on_batch(self, partition, events):
        """Returns when all of it is in topic and archive and checkpointed."""
        if not events:
            return
        if self.events_at_once == 1:
            for event in events:
                await self.write(partition.partition_id, event)
        else:
            places = asyncio.Semaphore(self.events_at_once)
            await asyncio.gather(*(self.write_in(places, partition.partition_id, event) for event in events))
        await partition.update_checkpoint(events[-1])

    async def write_in(self, places, partition, event):
        async with places:
            await self.write(partition, event)

    async def write(self, partition, event):
        body = b"".join(event.body)
        sent = self.topic.send_messages(ServiceBusMessage(body, application_properties=event.properties or None))
        # The same name if the event comes again, which writes the same over it.
        name = f"{self.hub}/{partition}/{event.sequence_number}"
        stored = self.archive.upload_blob(name, body, overwrite=True)
        if self.both_at_once:
            await asyncio.gather(sent, stored)
        else:
            await sent
            await stored


async def ready(partition):
    print("ready", flush=True)


async def failed(partition, error):
    where = f"partition {partition.partition_id}: " if partition else ""
    print(f"{where}{type(error).__name__}: {error}", file=sys.stderr, flush=True)


async def container(kind):
    client = ContainerClient.from_connection_string(told(f"{kind}_CONNECTION_STRING"), told(f"{kind}_CONTAINER"))
    if not await client.exists():
        await client.create_container()
    return client


async def consume():
    checkpoints = await container("CHECKPOINT")
    await checkpoints.close()
    store = BlobCheckpointStore.from_connection_string(
        told("CHECKPOINT_CONNECTION_STRING"), told("CHECKPOINT_CONTAINER")
    )
    archive = await container("ARCHIVE")
    secure = {}
    if authority := os.environ.get("PARSHALL_TLS_CA_FILE"):
        secure["connection_verify"] = authority
    namespace = ServiceBusClient.from_connection_string(told("DESTINATION_CONNECTION_STRING"), **secure)
    topic = namespace.get_topic_sender(told("DESTINATION_TOPIC"))
    consumer = EventHubConsumerClient.from_connection_string(
        told("SOURCE_CONNECTION_STRING"),
        told("CONSUMER_GROUP"),
        eventhub_name=told("SOURCE_HUB"),
        checkpoint_store=store,
        load_balancing_strategy="greedy",
        **secure,
    )
    async with archive, store, namespace, topic, consumer:
        writer = Writer(topic, archive)
        receiving = asyncio.create_task(
            consumer.receive_batch(
                writer.on_batch,
                max_batch_size=int(told("BATCH")),
                # None of the study's batches waits for more than it has.
                max_wait_time=int(told("MAX_WAIT_MS")) / 1000,
                prefetch=int(told("PREFETCH")),
                starting_position="-1",
                on_partition_initialize=ready,
                on_error=failed,
            )
        )
        end = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, end.set)
        ended = asyncio.create_task(end.wait())
        await asyncio.wait([receiving, ended], return_when=asyncio.FIRST_COMPLETED)
        if receiving.done():
            receiving.result()
            raise SystemExit("the client has stopped receiving")
        # What is still written is not waited for: an event that no checkpoint covers comes again.
        os._exit(0)


if __name__ == "__main__":
    asyncio.run(consume())
