"""Receiving from every kind of position, by several consumers."""

import asyncio
import datetime

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient

from receiving import DEADLINE_S, batches, bodies, in_the_background, receive, receiving_error
from service import CONSUMER_GROUP, connect

COUNT = 10
EXPECTED = [str(number) for number in range(COUNT)]


def send(service, hub, events, partition="0"):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        for body in events:
            client.send_event(EventData(body), partition_id=partition)


@pytest.fixture(scope="module")
def filled(service):
    """A hub with `EXPECTED` in its first partition, each event at an instant of its own."""
    hub = service.unused_hub()
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        previous = None
        for body in EXPECTED:
            client.send_event(EventData(body), partition_id="0")
            enqueued = client.get_partition_properties("0")["last_enqueued_time_utc"]
            assert previous is None or enqueued > previous
            previous = enqueued
    return hub


@pytest.mark.parametrize(
    ("position", "inclusive", "first"),
    [
        ("-1", False, 0),
        ("-1", True, 0),
        ("3", False, 4),
        ("3", True, 3),
        (-1, False, 0),
        (5, False, 6),
        (5, True, 5),
        (COUNT - 1, True, COUNT - 1),
    ],
)
async def test_receiving_begins_at_the_position(service, filled, position, inclusive, first):
    events = await receive(service.connection_string, filled, "0", COUNT - first, position, inclusive)
    assert bodies(events) == EXPECTED[first:]


async def test_receiving_begins_at_an_enqueued_time(service, filled):
    times = [event.enqueued_time for event in await receive(service.connection_string, filled, "0", COUNT)]
    for position, inclusive, first in [
        (times[4], True, 4),
        (times[4], False, 5),
        (times[4] - datetime.timedelta(milliseconds=1), False, 4),
        (datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc), False, 0),
    ]:
        events = await receive(service.connection_string, filled, "0", COUNT - first, position, inclusive)
        assert bodies(events) == EXPECTED[first:], (position, inclusive)


async def test_latest_is_what_comes_after_the_receiver(service, hub):
    send(service, hub, ["before"])
    received = batches(service.connection_string, hub, "0", "@latest")
    first = asyncio.ensure_future(anext(received))
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        # Nothing tells when the receiver is there, so events go out until one is received.
        while not first.done():
            await asyncio.to_thread(client.send_event, EventData("after"), partition_id="0")
    assert set(bodies(await first)) == {"after"}
    await received.aclose()


async def test_latest_inclusive_begins_at_the_last_event(service, filled):
    events = await receive(service.connection_string, filled, "0", 1, "@latest", True)
    assert bodies(events) == EXPECTED[-1:]


def test_a_position_beyond_the_end_is_refused(service, filled):
    error = receiving_error(service.connection_string, filled, "0", "1000")
    assert "The supplied offset '1000' is invalid. The last offset in the system is '9'" in str(error)


async def test_events_that_come_while_a_receiver_waits_are_delivered(service, hub):
    received = batches(service.connection_string, hub, "0")
    first = asyncio.ensure_future(anext(received))
    await asyncio.to_thread(send, service, hub, ["one"])
    assert bodies(await first) == ["one"]
    second = asyncio.ensure_future(anext(received))
    await asyncio.to_thread(send, service, hub, ["two"])
    assert bodies(await second) == ["two"]
    await received.aclose()


async def test_every_consumer_group_sees_every_event(service, filled):
    for group in [CONSUMER_GROUP, CONSUMER_GROUP.upper(), "$default"]:
        events = await receive(service.connection_string, filled, "0", COUNT, consumer_group=group)
        assert bodies(events) == EXPECTED


async def test_a_backlog_far_beyond_the_prefetch_arrives_whole_and_in_order(service, hub):
    expected = [str(number) for number in range(5_000)]
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        for start in range(0, len(expected), 1000):
            client.send_batch([EventData(body) for body in expected[start : start + 1000]], partition_id="0")
    assert bodies(await receive(service.connection_string, hub, "0", len(expected))) == expected


def test_the_synchronous_client_receives_all_partitions(service, hub):
    for partition in ("0", "1", "2", "3"):
        send(service, hub, [f"of {partition}"], partition)
    received = {}
    with connect(EventHubConsumerClient, service.connection_string, hub) as client:

        def on_batch(context, events):
            # The client calls this with no event, too, where none has come for so long.
            if events:
                received.setdefault(context.partition_id, []).extend(bodies(events))
            if len(received) == 4:
                client.close()

        client.receive_batch(on_batch, starting_position="-1", max_wait_time=0.1)
    assert received == {partition: [f"of {partition}"] for partition in ("0", "1", "2", "3")}


@pytest.mark.parametrize(
    ("position", "inclusive", "first"), [("-1", False, 0), ("3", True, 3), (5, False, 6)]
)
def test_the_synchronous_client_begins_at_the_position(service, filled, position, inclusive, first):
    received = []
    with connect(EventHubConsumerClient, service.connection_string, filled) as client:

        def on_batch(_context, events):
            received.extend(bodies(events))
            if len(received) >= COUNT - first:
                client.close()

        client.receive_batch(
            on_batch, partition_id="0", starting_position=position, starting_position_inclusive=inclusive, max_wait_time=0.2
        )
    assert received == EXPECTED[first:]


def test_the_synchronous_client_receives_what_comes_while_it_waits(service, hub):
    send(service, hub, ["one"])
    with in_the_background(service.connection_string, hub, "0") as received:
        assert received.get(timeout=DEADLINE_S).body_as_str() == "one"
        send(service, hub, ["two"])
        assert received.get(timeout=DEADLINE_S).body_as_str() == "two"
