"""Receiving with a deadline: the events of one partition, or the error that there is instead."""

import asyncio
import contextlib
import queue
import threading

from azure.eventhub import EventHubConsumerClient as SynchronousClient
from azure.eventhub.aio import EventHubConsumerClient

from service import connect

DEADLINE_S = 20


async def receive(connection_string, hub, partition, count, position="-1", inclusive=False, **options):
    """The first `count` events of a partition from `position` on.

    An error of the client is raised here; what did not come within the deadline, too.
    """
    received = []
    async for events in batches(connection_string, hub, partition, position, inclusive, **options):
        received.extend(events)
        if len(received) >= count:
            break
    assert len(received) == count, [event.body_as_str() for event in received]
    return received


async def batches(
    connection_string, hub, partition, position="-1", inclusive=False, owner_level=None, **options
):
    """The batches of events of a partition, from `position` on, until the caller has had enough."""
    queue = asyncio.Queue()

    async def on_batch(_context, events):
        if events:
            await queue.put(events)

    async def on_error(_context, error):
        await queue.put(error)

    async with connect(EventHubConsumerClient, connection_string, hub, **options) as client:
        task = asyncio.create_task(
            client.receive_batch(
                on_batch,
                on_error=on_error,
                partition_id=partition,
                starting_position=position,
                starting_position_inclusive=inclusive,
                max_batch_size=300,
                owner_level=owner_level,
            )
        )
        try:
            while True:
                got = await asyncio.wait_for(queue.get(), DEADLINE_S)
                if isinstance(got, Exception):
                    raise got
                yield got
        finally:
            await client.close()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def receiving_error(connection_string, hub, partition, position="-1", owner_level=None, **options):
    """The error that a receiver gets at once.

    It is the synchronous client that is asked: the asynchronous one says nothing about links that are refused, and
    tries again for ever.
    """
    errors = []
    with connect(SynchronousClient, connection_string, hub, retry_total=0, **options) as client:

        def on_error(_context, error):
            errors.append(error)
            client.close()

        def on_batch(_context, events):
            on_error(None, AssertionError(f"received {events}"))

        client.receive_batch(
            on_batch,
            on_error=on_error,
            partition_id=partition,
            starting_position=position,
            max_wait_time=DEADLINE_S,
            owner_level=owner_level,
        )
    return errors[0]


@contextlib.contextmanager
def in_the_background(connection_string, hub, partition, position="-1", **options):
    """A synchronous receiver in a thread of its own: a queue of its events, and of its error."""
    received = queue.Queue()
    receiver_options = {key: options.pop(key) for key in ("owner_level",) if key in options}
    client = connect(SynchronousClient, connection_string, hub, **options)

    def run():
        client.receive_batch(
            lambda _context, events: [received.put(event) for event in events],
            on_error=lambda _context, error: received.put(error),
            partition_id=partition,
            starting_position=position,
            **receiver_options,
        )

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield received
    finally:
        client.close()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def bodies(events):
    return [event.body_as_str() for event in events]
