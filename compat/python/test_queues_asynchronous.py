"""The asynchronous client of Service Bus."""

import asyncio
import datetime

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageLockLostError,
    ServiceBusAuthenticationError,
    SessionCannotBeLockedError,
)

from queues import MAXIMUM_DELIVERY_COUNT, PATIENCE_S, SESSIONS, SHORT, SILENCE_S, texts


async def send(client, queue, *bodies, **properties):
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages([ServiceBusMessage(body, **properties) for body in bodies])


async def receive(receiver, count=1):
    messages = []
    while len(messages) < count:
        more = await receiver.receive_messages(max_message_count=count - len(messages), max_wait_time=PATIENCE_S)
        assert more, f"only {len(messages)} of {count} messages came"
        messages += more
    return messages


async def test_messages_are_sent_received_and_settled_in_every_way(queues):
    queue = queues.unused()
    async with queues.asynchronous_client() as client:
        await send(client, queue, "completed", "abandoned", "deferred", "dead")
        async with client.get_queue_receiver(queue) as receiver:
            completed, abandoned, deferred, dead = await receive(receiver, 4)
            assert [peeked.sequence_number for peeked in await receiver.peek_messages(10, sequence_number=1)] == [
                message.sequence_number for message in (completed, abandoned, deferred, dead)
            ]
            await receiver.complete_message(completed)
            await receiver.defer_message(deferred)
            await receiver.dead_letter_message(dead, reason="reason", error_description="description")
            await receiver.abandon_message(abandoned)
            for count in range(1, MAXIMUM_DELIVERY_COUNT):
                [abandoned] = await receive(receiver)
                assert (str(abandoned), abandoned.delivery_count) == ("abandoned", count)
                await receiver.abandon_message(abandoned)
            [again] = await receiver.receive_deferred_messages(deferred.sequence_number)
            await receiver.complete_message(again)
            assert await receiver.peek_messages(sequence_number=1) == []
        async with client.get_queue_receiver(queue, sub_queue="deadletter") as receiver:
            reasons = {str(message): message.dead_letter_reason for message in await receive(receiver, 2)}
            assert reasons == {"dead": "reason", "abandoned": "MaxDeliveryCountExceeded"}


async def test_messages_are_received_by_several_at_once_and_each_by_one(queues):
    queue = queues.unused()
    bodies = [str(number) for number in range(200)]
    seen = []

    async def work(client):
        async with client.get_queue_receiver(queue, prefetch_count=10) as receiver:
            while len(seen) < len(bodies):
                for message in await receiver.receive_messages(max_message_count=5, max_wait_time=SILENCE_S):
                    seen.append(str(message))
                    await receiver.complete_message(message)

    async with queues.asynchronous_client() as client:
        await send(client, queue, *bodies)
        await asyncio.gather(*(work(client) for _ in range(8)))
        async with client.get_queue_receiver(queue) as receiver:
            assert await receiver.peek_messages() == []
    assert sorted(seen, key=int) == bodies


async def test_scheduled_messages_come_at_their_time_unless_they_are_cancelled(queues):
    queue = queues.unused()
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
    async with queues.asynchronous_client() as client:
        async with client.get_queue_sender(queue) as sender:
            cancelled = await sender.schedule_messages(ServiceBusMessage("cancelled"), soon)
            await sender.schedule_messages(ServiceBusMessage("kept"), soon)
            await sender.cancel_scheduled_messages(cancelled)
        async with client.get_queue_receiver(queue) as receiver:
            assert texts(await receive(receiver)) == ["kept"]
            assert datetime.datetime.now(datetime.timezone.utc) >= soon


async def test_locks_are_renewed_and_otherwise_end(queues):
    queue = queues.unused(SHORT)
    async with queues.asynchronous_client() as client:
        await send(client, queue, "slow")
        async with client.get_queue_receiver(queue) as receiver:
            [message] = await receive(receiver)
            until = message.locked_until_utc
            assert await receiver.renew_message_lock(message) >= until
            [again] = await receive(receiver)
            assert again.delivery_count == 1
            with pytest.raises(MessageLockLostError):
                await receiver.complete_message(message)
            await receiver.complete_message(again)


async def test_sessions_have_one_receiver_and_a_state(queues):
    queue = queues.unused(SESSIONS)
    async with queues.asynchronous_client(retry_total=0) as client:
        await send(client, queue, "1", "2", session_id="one")
        async with client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION) as receiver:
            assert receiver.session.session_id == "one"
            assert texts(await receive(receiver, 2)) == ["1", "2"]
            await receiver.session.set_state(b"half way")
            assert await receiver.session.renew_lock() > datetime.datetime.now(datetime.timezone.utc)
            with pytest.raises(SessionCannotBeLockedError):
                async with client.get_queue_receiver(queue, session_id="one") as other:
                    await other.receive_messages(max_wait_time=SILENCE_S)
        async with client.get_queue_receiver(queue, session_id="one") as receiver:
            assert await receiver.session.get_state() == b"half way"


async def test_what_does_not_exist_is_told(queues):
    async with queues.asynchronous_client(retry_total=0) as client:
        with pytest.raises(ServiceBusAuthenticationError) as refused:
            await send(client, "no-such-queue", "lost")
        assert refused.value.inner_exception.status_code == 404
        with pytest.raises(ServiceBusAuthenticationError) as refused:
            async with client.get_queue_receiver("no-such-queue") as receiver:
                await receiver.receive_messages(max_wait_time=SILENCE_S)
        assert refused.value.inner_exception.status_code == 404
