"""Owner levels: who takes a partition over from whom. And how many may read one without."""

import asyncio

import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.exceptions import ConnectionLostError, EventHubError

from receiving import DEADLINE_S, batches, bodies, in_the_background, receiving_error
from service import connect


def send(service, hub, body):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        client.send_event(EventData(body), partition_id="0")


async def attached(consumer):
    """A consumer that has received the event that is there, so that its link is known to be."""
    assert bodies(await anext(consumer)) == ["first"]
    return consumer


@pytest.mark.parametrize(("earlier", "later"), [(0, 0), (1, 5), (None, 0)])
async def test_a_consumer_of_no_lower_level_takes_the_partition_over(service, hub, earlier, later):
    send(service, hub, "first")
    options = {} if earlier is None else {"owner_level": earlier}
    displaced = await attached(batches(service.connection_string, hub, "0", **options))
    waiting = asyncio.ensure_future(anext(displaced))
    successor = await attached(batches(service.connection_string, hub, "0", owner_level=later))
    with pytest.raises(ConnectionLostError, match="New receiver .* with higher epoch of .* is getting disconnected"):
        await waiting
    send(service, hub, "second")
    assert bodies(await anext(successor)) == ["second"]
    await successor.aclose()
    await displaced.aclose()


@pytest.mark.parametrize(("earlier", "later"), [(0, 0), (None, 2)])
async def test_a_synchronous_consumer_is_told_who_took_its_partition_over(service, hub, earlier, later):
    send(service, hub, "first")
    options = {} if earlier is None else {"owner_level": earlier}
    with in_the_background(service.connection_string, hub, "0", retry_total=0, **options) as received:
        assert (await asyncio.to_thread(received.get, timeout=DEADLINE_S)).body_as_str() == "first"
        successor = await attached(batches(service.connection_string, hub, "0", owner_level=later))
        error = await asyncio.to_thread(received.get, timeout=DEADLINE_S)
        assert isinstance(error, ConnectionLostError), repr(error)
        assert "with higher epoch of" in str(error)
    await successor.aclose()


@pytest.mark.parametrize("level", [None, 3])
async def test_a_consumer_of_a_lower_level_or_none_is_refused(service, hub, level):
    send(service, hub, "first")
    holder = await attached(batches(service.connection_string, hub, "0", owner_level=4))
    options = {} if level is None else {"owner_level": level}
    error = await asyncio.to_thread(receiving_error, service.connection_string, hub, "0", **options)
    assert isinstance(error, ConnectionLostError), repr(error)
    assert ("higher epoch '4' already exists" if level else "non-epoch receiver is not allowed") in str(error)
    send(service, hub, "second")
    assert bodies(await anext(holder)) == ["second"]
    await holder.aclose()


async def test_the_sixth_consumer_without_a_level_is_refused(service, hub):
    send(service, hub, "first")
    five = [await attached(batches(service.connection_string, hub, "0")) for _ in range(5)]
    error = await asyncio.to_thread(receiving_error, service.connection_string, hub, "0")
    assert isinstance(error, EventHubError)
    assert "Exceeded the maximum number of allowed receivers per partition in a consumer group which is 5" in str(error)
    for consumer in five:
        await consumer.aclose()
