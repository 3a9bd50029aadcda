"""The official client of Service Bus: sessions."""

import datetime

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, AutoLockRenewer, ServiceBusMessage
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from queues import SESSIONS, SHORT_LOCK_S, SHORT_SESSIONS, SILENCE_S, receive, send, texts, wait_until


def test_a_session_gives_its_messages_in_order_to_one_receiver(queues):
    queue = queues.unused(SESSIONS)
    with queues.client(retry_total=0) as client:
        send(client, queue, "1", "2", session_id="one")
        send(client, queue, "3", session_id="two")
        send(client, queue, "4", session_id="one")
        with client.get_queue_receiver(queue, session_id="one") as receiver:
            assert receiver.session.session_id == "one"
            now = datetime.datetime.now(datetime.timezone.utc)
            assert receiver.session.locked_until_utc > now
            messages = receive(receiver, 3)
            assert texts(messages) == ["1", "2", "4"]
            assert {message.session_id for message in messages} == {"one"}
            with pytest.raises(SessionCannotBeLockedError):
                with client.get_queue_receiver(queue, session_id="one") as other:
                    other.receive_messages(max_wait_time=SILENCE_S)
            for message in messages:
                receiver.complete_message(message)
        with client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION) as receiver:
            assert receiver.session.session_id == "two"
            receiver.complete_message(receive(receiver)[0])


def test_a_session_has_a_state(queues):
    queue = queues.unused(SESSIONS)
    with queues.client() as client:
        with client.get_queue_receiver(queue, session_id="one") as receiver:
            assert receiver.session.get_state() is None
            receiver.session.set_state(b"half way")
            assert receiver.session.get_state() == b"half way"
            until = receiver.session.locked_until_utc
            assert receiver.session.renew_lock() >= until
        with client.get_queue_receiver(queue, session_id="one") as receiver:
            assert receiver.session.get_state() == b"half way"
            receiver.session.set_state(None)
            assert receiver.session.get_state() is None


def test_waiting_for_a_session_ends_when_its_time_is_over(queues):
    queue = queues.unused(SESSIONS)
    with queues.client(retry_total=0) as client:
        receiver = client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=SILENCE_S)
        with pytest.raises(OperationTimeoutError):
            with receiver:
                receiver.receive_messages(max_wait_time=SILENCE_S)


def test_messages_of_a_session_are_deferred_and_received_again(queues):
    queue = queues.unused(SESSIONS)
    with queues.client() as client:
        send(client, queue, "later", session_id="one")
        with client.get_queue_receiver(queue, session_id="one") as receiver:
            [message] = receive(receiver)
            receiver.defer_message(message)
            [message] = receiver.receive_deferred_messages([message.sequence_number])
            assert str(message) == "later"
            receiver.complete_message(message)


def test_a_session_whose_lock_is_over_goes_to_the_next_receiver(queues):
    queue = queues.unused(SHORT_SESSIONS)
    with queues.client() as client:
        send(client, queue, "slow", session_id="one")
        with client.get_queue_receiver(queue, session_id="one") as first:
            [message] = receive(first)
            with client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION) as second:
                assert second.session.session_id == "one"
                [again] = receive(second)
                assert again.delivery_count == 1
                with pytest.raises(SessionLockLostError):
                    first.complete_message(message)
                second.complete_message(again)


def test_the_lock_of_a_session_is_renewed_by_itself(queues):
    queue = queues.unused(SHORT_SESSIONS)
    with queues.client() as client, AutoLockRenewer() as renewer:
        send(client, queue, "slow", session_id="one")
        with client.get_queue_receiver(queue, session_id="one") as receiver:
            [message] = receive(receiver)
            end = receiver.session.locked_until_utc + datetime.timedelta(seconds=SHORT_LOCK_S)
            renewer.register(receiver, receiver.session, max_lock_renewal_duration=20)
            wait_until(lambda: receiver.session.locked_until_utc > end)
            receiver.complete_message(message)


def test_sessions_with_messages_or_a_state_are_listed_however_many(queues):
    queue = queues.unused(SESSIONS)
    names = [f"{number:03}" for number in range(120)]
    with queues.client() as client:
        assert list(client.list_queue_sessions(queue)) == []
        with client.get_queue_sender(queue) as sender:
            for name in names:
                sender.send_messages(ServiceBusMessage(name, session_id=name))
        with client.get_queue_receiver(queue, session_id="stateful") as receiver:
            receiver.session.set_state(b"half way")
        assert list(client.list_queue_sessions(queue)) == [*names, "stateful"]


def test_sessions_are_listed_by_the_time_of_their_state(queues):
    queue = queues.unused(SESSIONS)
    with queues.client() as client:
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("stateless", session_id="stateless"))
        with client.get_queue_receiver(queue, session_id="stateful") as receiver:
            receiver.session.set_state(b"half way")
        now, hour = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(hours=1)
        assert list(client.list_queue_sessions(queue, state_updated_after=now - hour)) == ["stateful"]
        assert list(client.list_queue_sessions(queue, state_updated_after=now + hour)) == []


def test_messages_and_receivers_without_a_session_are_refused(queues):
    queue = queues.unused(SESSIONS)
    with queues.client(retry_total=0) as client:
        with pytest.raises(ServiceBusError):
            send(client, queue, "stray")
        with pytest.raises(ServiceBusError):
            with client.get_queue_receiver(queue) as receiver:
                receiver.receive_messages(max_wait_time=SILENCE_S)
        with pytest.raises(ServiceBusError):
            with client.get_queue_receiver(queues.unused(), session_id="one") as receiver:
                receiver.receive_messages(max_wait_time=SILENCE_S)
