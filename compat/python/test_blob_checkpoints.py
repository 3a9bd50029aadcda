"""The official checkpoint store on our blobs, and consumers that share a hub through it."""

import asyncio
import time
import uuid

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub.aio import EventHubConsumerClient as AsyncConsumerClient
from azure.eventhub.exceptions import OwnershipLostError
from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore
from azure.eventhub.extensions.checkpointstoreblobaio import BlobCheckpointStore as AsyncCheckpointStore
from azure.storage.blob import BlobServiceClient

from service import PARTITIONS, Service, connect

DEADLINE_S = 60
HUBS = 8
EVENTS = 120


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("checkpoints"), HUBS, arguments=("--blob", "127.0.0.1:0"))
    yield running
    assert running.stop() == 0


@pytest.fixture
def hub(service):
    return service.unused_hub()


@pytest.fixture
def container(service):
    name = f"checkpoints-{uuid.uuid4()}"
    with BlobServiceClient.from_connection_string(service.storage_connection_string) as client:
        client.create_container(name)
    return name


@pytest.fixture
def store(service, container):
    with BlobCheckpointStore.from_connection_string(service.storage_connection_string, container) as store:
        yield store


def ownership(owner, partition="0", etag=None):
    return {
        "fully_qualified_namespace": "localhost",
        "eventhub_name": "hub",
        "consumer_group": "$Default",
        "partition_id": partition,
        "owner_id": owner,
        "etag": etag,
    }


def test_a_partition_is_claimed_stolen_and_released(store):
    [claimed] = store.claim_ownership([ownership("one")])
    assert claimed["etag"] and claimed["last_modified_time"] <= time.time() + 1
    # Without having seen the claim nobody gets it.
    assert store.claim_ownership([ownership("two")]) == []
    [listed] = store.list_ownership("localhost", "hub", "$Default")
    assert (listed["owner_id"], listed["partition_id"]) == ("one", "0")
    [stolen] = store.claim_ownership([ownership("two", etag=listed["etag"])])
    assert store.claim_ownership([ownership("one", etag=claimed["etag"])]) == []
    [released] = store.claim_ownership([ownership("", etag=stolen["etag"])])
    [listed] = store.list_ownership("localhost", "hub", "$Default")
    # The client makes nothing of an empty element.
    assert not listed["owner_id"] and listed["etag"].strip('"') == released["etag"].strip('"')
    [again] = store.claim_ownership([ownership("three", etag=listed["etag"])])
    assert again["owner_id"] == "three"


def test_checkpoints_are_kept_per_partition(store):
    checkpoint = {**ownership("one"), "offset": "17", "sequence_number": 17}
    for partition, number in [("0", 1), ("1", 2), ("0", 3)]:
        store.update_checkpoint({**checkpoint, "partition_id": partition, "offset": str(number), "sequence_number": number})
    found = {one["partition_id"]: one["sequence_number"] for one in store.list_checkpoints("localhost", "hub", "$Default")}
    assert found == {"0": 3, "1": 2}
    assert list(store.list_checkpoints("localhost", "hub", "other")) == []


async def test_the_asynchronous_store_does_the_same(service, container):
    async with AsyncCheckpointStore.from_connection_string(service.storage_connection_string, container) as store:
        [claimed] = await store.claim_ownership([ownership("one")])
        assert await store.claim_ownership([ownership("two")]) == []
        [_] = await store.claim_ownership([ownership("two", etag=claimed["etag"])])
        await store.update_checkpoint({**ownership("two"), "offset": "5", "sequence_number": 5})
        [checkpoint] = await store.list_checkpoints("localhost", "hub", "$Default")
        assert (checkpoint["offset"], checkpoint["sequence_number"]) == ("5", 5)


def send(service, hub, first, count):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        for number in range(first, first + count):
            client.send_event(EventData(str(number)), partition_id=str(number % PARTITIONS))


class Together:
    """What consumers have received, each for itself, and whether that is enough."""

    def __init__(self, is_enough, consumers=1):
        self.received = [[] for _ in range(consumers)]
        self._is_enough = is_enough
        self._enough = asyncio.Event()

    def note(self, consumer, partition, body):
        self.received[consumer].append((partition, body))
        if self._is_enough(self.received):
            self._enough.set()

    async def enough(self):
        try:
            await asyncio.wait_for(self._enough.wait(), DEADLINE_S)
        except asyncio.TimeoutError:
            pytest.fail(f"not enough: {self.received}")


async def consume(service, hub, container, together, consumer=0):
    """Receives with a checkpoint after each event, until all consumers together have enough."""
    store = AsyncCheckpointStore.from_connection_string(service.storage_connection_string, container)
    client = connect(
        AsyncConsumerClient,
        service.connection_string,
        hub,
        checkpoint_store=store,
        load_balancing_interval=0.3,
        partition_ownership_expiration_interval=3,
        load_balancing_strategy="greedy",
    )

    async def on_event(context, event):
        try:
            await context.update_checkpoint(event)
        except OwnershipLostError:
            pass
        # What is noted last may end the consumer: its checkpoint is there by then.
        together.note(consumer, context.partition_id, event.body_as_str())

    async with client:
        task = asyncio.create_task(client.receive(on_event, starting_position="-1"))
        await together.enough()
        await client.close()
        await asyncio.gather(task, return_exceptions=True)
    await store.close()


async def consume_alone(service, hub, container, count):
    """The numbers of the first `count` events that there are for one consumer."""
    together = Together(lambda received: len(received[0]) >= count)
    await consume(service, hub, container, together)
    return sorted(int(body) for _, body in together.received[0])


async def test_a_consumer_goes_on_where_the_last_one_left_its_checkpoints(service, hub, container):
    send(service, hub, 0, 20)
    assert await consume_alone(service, hub, container, 20) == list(range(20))
    send(service, hub, 20, 12)
    assert await consume_alone(service, hub, container, 12) == list(range(20, 32))


async def test_two_consumers_share_the_partitions_and_miss_nothing(service, hub, container):
    def is_enough(received):
        bodies = {body for of_one in received for _, body in of_one}
        return len(bodies) == EVENTS and all(received)

    async def feed():
        for first in range(0, EVENTS, 12):
            await asyncio.to_thread(send, service, hub, first, 12)

    together = Together(is_enough, consumers=2)
    await asyncio.gather(
        feed(),
        consume(service, hub, container, together, 0),
        consume(service, hub, container, together, 1),
    )
    assert {int(body) for of_one in together.received for _, body in of_one} == set(range(EVENTS))


def test_the_synchronous_consumer_checkpoints_too(service, hub, store):
    send(service, hub, 0, 8)
    received = []
    client = connect(
        EventHubConsumerClient, service.connection_string, hub, checkpoint_store=store, load_balancing_interval=0.3
    )

    def on_event(context, event):
        received.append(event.body_as_str())
        context.update_checkpoint(event)
        if len(received) == 8:
            client.close()

    with client:
        client.receive(on_event, starting_position="-1")
    namespace = service.address if list(store.list_checkpoints(service.address, hub, "$Default")) else "localhost"
    checkpoints = list(store.list_checkpoints(namespace, hub, "$Default"))
    assert {one["partition_id"]: one["sequence_number"] for one in checkpoints} == {str(n): 1 for n in range(PARTITIONS)}
