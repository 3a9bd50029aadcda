"""The official client of Service Bus: sessions."""

import datetime

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION
from azure.servicebus.exceptions import OperationTimeoutError, SessionCannotBeLockedError

from queues import SESSIONS, SILENCE_S, receive, send, texts


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
