"""The official client of Service Bus: sending to queues, and receiving in both modes."""

import datetime

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusError,
)

from queues import SILENCE_S, receive, send, texts


def test_a_message_arrives_with_everything_that_was_said_about_it(queues):
    queue = queues.unused()
    with queues.client() as client:
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(
                ServiceBusMessage(
                    "body",
                    message_id="mine",
                    subject="label",
                    correlation_id="correlation",
                    content_type="text/plain",
                    to="there",
                    reply_to="here",
                    partition_key="key",
                    time_to_live=datetime.timedelta(minutes=5),
                    application_properties={"number": 7, "text": "words", "truth": True},
                )
            )
        with client.get_queue_receiver(queue) as receiver:
            [message] = receive(receiver)
            assert str(message) == "body"
            assert message.message_id == "mine"
            assert message.subject == "label"
            assert message.correlation_id == "correlation"
            assert message.content_type == "text/plain"
            assert (message.to, message.reply_to, message.partition_key) == ("there", "here", "key")
            assert message.time_to_live == datetime.timedelta(minutes=5)
            assert message.application_properties == {b"number": 7, b"text": b"words", b"truth": True}
            assert message.delivery_count == 0
            assert message.sequence_number == message.enqueued_sequence_number
            now = datetime.datetime.now(datetime.timezone.utc)
            assert abs(now - message.enqueued_time_utc) < datetime.timedelta(minutes=1)
            assert message.locked_until_utc > message.enqueued_time_utc
            receiver.complete_message(message)


def test_batches_arrive_in_their_order(queues):
    queue = queues.unused()
    with queues.client() as client:
        with client.get_queue_sender(queue) as sender:
            batch = sender.create_message_batch()
            for number in range(500):
                batch.add_message(ServiceBusMessage(str(number)))
            sender.send_messages(batch)
            sender.send_messages([ServiceBusMessage(str(number)) for number in range(500, 600)])
        with client.get_queue_receiver(queue, prefetch_count=50) as receiver:
            messages = receive(receiver, 600)
            assert texts(messages) == [str(number) for number in range(600)]
            for message in messages:
                receiver.complete_message(message)
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []


def test_every_message_has_an_identifier(queues):
    queue = queues.unused()
    with queues.client() as client:
        send(client, queue, "one", "two")
        with client.get_queue_receiver(queue) as receiver:
            first, second = receive(receiver, 2)
            assert first.message_id and second.message_id and first.message_id != second.message_id


def test_what_is_received_and_deleted_does_not_come_again(queues):
    queue = queues.unused()
    with queues.client() as client:
        send(client, queue, "one", "two")
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_queue_receiver(queue, receive_mode=mode) as receiver:
            assert texts(receive(receiver, 2)) == ["one", "two"]
        with client.get_queue_receiver(queue) as receiver:
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []


def test_peeking_shows_messages_in_every_state_and_takes_none(queues):
    queue = queues.unused()
    with queues.client() as client:
        with client.get_queue_receiver(queue) as receiver:
            assert receiver.peek_messages() == []
            send(client, queue, *[str(number) for number in range(5)])
            [locked] = receive(receiver)
            # By itself the client goes on behind the last message that it has seen.
            peeked = receiver.peek_messages(max_message_count=10, sequence_number=locked.sequence_number)
            assert texts(peeked) == [str(number) for number in range(5)]
            assert texts(receiver.peek_messages(max_message_count=2, sequence_number=peeked[2].sequence_number)) == ["2", "3"]
            receiver.complete_message(locked)


def test_scheduled_messages_come_at_their_time_unless_they_are_cancelled(queues):
    queue = queues.unused()
    with queues.client() as client:
        now = datetime.datetime.now(datetime.timezone.utc)
        with client.get_queue_sender(queue) as sender:
            soon = now + datetime.timedelta(seconds=3)
            [kept] = sender.schedule_messages(ServiceBusMessage("kept"), soon)
            cancelled = sender.schedule_messages([ServiceBusMessage("one"), ServiceBusMessage("two")], soon)
            sender.cancel_scheduled_messages(cancelled)
        with client.get_queue_receiver(queue) as receiver:
            peeked = receiver.peek_messages(max_message_count=5)
            assert texts(peeked) == ["kept"]
            assert peeked[0].sequence_number == kept
            assert peeked[0].state.name == "SCHEDULED"
            [message] = receive(receiver)
            assert str(message) == "kept"
            assert datetime.datetime.now(datetime.timezone.utc) >= soon
            receiver.complete_message(message)
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []


def test_what_does_not_exist_is_told(queues):
    with queues.client(retry_total=0) as client:
        with pytest.raises(MessagingEntityNotFoundError):
            with client.get_queue_sender("no-such-queue") as sender:
                sender.send_messages(ServiceBusMessage("lost"))
        with pytest.raises(MessagingEntityNotFoundError):
            with client.get_queue_receiver("no-such-queue") as receiver:
                receiver.receive_messages(max_wait_time=SILENCE_S)


def test_what_is_too_large_is_told(queues):
    queue = queues.unused()
    with queues.client(retry_total=0) as client:
        with client.get_queue_sender(queue) as sender:
            with pytest.raises((MessageSizeExceededError, ServiceBusError, ValueError)):
                sender.send_messages(ServiceBusMessage("x" * (300 * 1024)))
            sender.send_messages(ServiceBusMessage("small"))


# The client leaves the socket of the connection that broke to be collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_clients_go_on_where_they_were_when_the_service_comes_back(queues_that_restart):
    queues = queues_that_restart
    queue = queues.unused()
    with queues.client() as client:
        with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
            sender.send_messages(ServiceBusMessage("before"))
            receiver.complete_message(receive(receiver)[0])
            queues.service.kill()
            queues.service.start()
            sender.send_messages(ServiceBusMessage("after"))
            [message] = receive(receiver)
            assert str(message) == "after"
            receiver.complete_message(message)
