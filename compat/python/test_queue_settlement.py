"""The official client of Service Bus: what receivers decide about messages, and locks that end."""

import datetime
import time

import pytest
from azure.servicebus import AutoLockRenewer, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageAlreadySettled, MessageLockLostError, MessageNotFoundError

from queues import MAXIMUM_DELIVERY_COUNT, SHORT, SHORT_LOCK_S, SILENCE_S, receive, send, texts, wait_until


def test_what_is_abandoned_comes_again_until_it_is_a_dead_letter(queues):
    queue = queues.unused()
    with queues.client() as client:
        send(client, queue, "failing")
        with client.get_queue_receiver(queue) as receiver:
            for count in range(MAXIMUM_DELIVERY_COUNT):
                [message] = receive(receiver)
                assert message.delivery_count == count
                receiver.abandon_message(message)
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []
        with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
            [message] = receive(receiver)
            assert str(message) == "failing"
            assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
            receiver.complete_message(message)


def test_a_dead_letter_says_why(queues):
    queue = queues.unused()
    with queues.client() as client:
        send(client, queue, "hopeless")
        with client.get_queue_receiver(queue) as receiver:
            [message] = receive(receiver)
            receiver.dead_letter_message(message, reason="reason", error_description="description")
        with client.get_queue_receiver(queue, sub_queue="deadletter") as receiver:
            [message] = receive(receiver)
            assert message.dead_letter_reason == "reason"
            assert message.dead_letter_error_description == "description"
            assert message.dead_letter_source == queue
            receiver.complete_message(message)
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []


def test_what_is_deferred_is_received_by_its_number(queues):
    queue = queues.unused()
    with queues.client(retry_total=0) as client:
        send(client, queue, "one", "two", "three")
        with client.get_queue_receiver(queue) as receiver:
            messages = receive(receiver, 3)
            for message in messages:
                receiver.defer_message(message)
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []
            numbers = [message.sequence_number for message in messages]
            first, second, third = receiver.receive_deferred_messages(numbers)
            assert texts([first, second, third]) == ["one", "two", "three"]
            receiver.complete_message(first)
            receiver.abandon_message(second)
            receiver.dead_letter_message(third, reason="reason")
            with pytest.raises(MessageNotFoundError):
                receiver.receive_deferred_messages([numbers[0]])
            [again] = receiver.receive_deferred_messages([numbers[1]])
            assert again.delivery_count == 1
            receiver.complete_message(again)


def test_a_lock_that_is_renewed_outlives_its_time(queues):
    queue = queues.unused(SHORT)
    with queues.client() as client:
        send(client, queue, "slow")
        with client.get_queue_receiver(queue) as receiver:
            [message] = receive(receiver)
            end = message.locked_until_utc + datetime.timedelta(seconds=SHORT_LOCK_S)
            while datetime.datetime.now(datetime.timezone.utc) < end:
                until = message.locked_until_utc
                assert receiver.renew_message_lock(message) >= until
                time.sleep(SHORT_LOCK_S / 10)
            receiver.complete_message(message)
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []


def test_a_message_whose_lock_is_over_comes_again_and_the_old_lock_is_worth_nothing(queues):
    queue = queues.unused(SHORT)
    with queues.client() as client:
        send(client, queue, "slow")
        with client.get_queue_receiver(queue) as receiver:
            [message] = receive(receiver)
            [again] = receive(receiver)
            assert again.sequence_number == message.sequence_number
            assert again.lock_token != message.lock_token
            assert again.delivery_count == 1
            with pytest.raises(MessageLockLostError):
                receiver.complete_message(message)
            with pytest.raises(MessageLockLostError):
                receiver.renew_message_lock(message)
            receiver.complete_message(again)


def test_a_lock_is_renewed_by_itself_over_several_of_its_durations(queues):
    queue = queues.unused(SHORT)
    with queues.client() as client, AutoLockRenewer() as renewer:
        send(client, queue, "slow")
        with client.get_queue_receiver(queue) as receiver:
            [message] = receive(receiver)
            end = message.locked_until_utc + datetime.timedelta(seconds=SHORT_LOCK_S)
            renewer.register(receiver, message, max_lock_renewal_duration=20)
            wait_until(lambda: message.locked_until_utc > end)
            receiver.complete_message(message)
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []


def test_a_message_is_settled_once(queues):
    queue = queues.unused()
    with queues.client() as client:
        send(client, queue, "once")
        with client.get_queue_receiver(queue) as receiver:
            [message] = receive(receiver)
            receiver.complete_message(message)
            for again in (receiver.complete_message, receiver.abandon_message, receiver.renew_message_lock):
                with pytest.raises(MessageAlreadySettled):
                    again(message)


def test_what_came_too_late_for_one_receiver_comes_to_the_next_one_as_new(queues):
    queue = queues.unused()
    with queues.client() as client:
        with client.get_queue_receiver(queue) as receiver:
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []
            # It still has the credit that it granted.
            send(client, queue, "late")
        with client.get_queue_receiver(queue) as receiver:
            [message] = receive(receiver)
            assert (str(message), message.delivery_count) == ("late", 0)
            receiver.complete_message(message)


def test_what_a_receiver_had_prefetched_comes_to_the_next_one_as_new(queues):
    queue = queues.unused()
    with queues.client() as client:
        send(client, queue, *[str(number) for number in range(20)])
        with client.get_queue_receiver(queue, prefetch_count=10) as receiver:
            [message] = receive(receiver)
            receiver.complete_message(message)
        with client.get_queue_receiver(queue) as receiver:
            messages = receive(receiver, 19)
            assert sorted(int(str(message)) for message in messages) == list(range(1, 20))
            assert all(message.delivery_count == 0 for message in messages)
            for message in messages:
                receiver.complete_message(message)
