"""The official client of Service Bus: sending to queues, and receiving in both modes."""

import datetime

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageHeader
from azure.servicebus.exceptions import (
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusQuotaExceededError,
)

from queues import SILENCE_S, receive, send, texts
from service import LISTEN_ONLY


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
            # The number that it was sent with is another one for forwarded messages, and for those that were scheduled.
            assert message.sequence_number > 0 and message.enqueued_sequence_number == message.sequence_number
            assert message.lock_token == message.raw_amqp_message.delivery_annotations[b"x-opt-lock-token"]
            now = datetime.datetime.now(datetime.timezone.utc)
            assert abs(now - message.enqueued_time_utc) < datetime.timedelta(minutes=1)
            assert message.locked_until_utc > message.enqueued_time_utc
            receiver.complete_message(message)


def unusual(body: dict) -> AmqpAnnotatedMessage:
    """This client encodes delivery annotations behind everything else."""
    return AmqpAnnotatedMessage(
        **body,
        header=AmqpMessageHeader(durable=True, priority=9, first_acquirer=True),
        annotations={"annotation": "kept"},
        delivery_annotations={"delivery": "kept"},
        application_properties={"number": 7},
        footer={"footer": "kept"},
    )


def test_every_section_of_a_message_arrives(queues):
    queue = queues.unused()
    bodies = [{"data_body": [b"one", b"two"]}, {"value_body": {b"key": 1}}, {"sequence_body": [1, b"two"]}]
    with queues.client() as client:
        with client.get_queue_sender(queue) as sender:
            for body in bodies:
                sender.send_messages(unusual(body))
            sender.send_messages([unusual(body) for body in bodies])
            sender.schedule_messages(unusual(bodies[0]), datetime.datetime.now(datetime.timezone.utc))
        with client.get_queue_receiver(queue) as receiver:
            for message in receive(receiver, 7):
                raw = message.raw_amqp_message
                header = raw.header
                assert (header.durable, header.priority, header.first_acquirer) == (True, 9, True)
                assert header.delivery_count == 0
                assert raw.annotations[b"annotation"] == b"kept"
                assert raw.delivery_annotations[b"delivery"] == b"kept"
                assert raw.delivery_annotations[b"x-opt-lock-token"] == message.lock_token
                assert raw.application_properties == {b"number": 7}
                assert raw.footer == {b"footer": b"kept"}
                receiver.complete_message(message)


def test_a_message_may_be_without_a_body(queues):
    queue = queues.unused()
    with queues.client() as client:
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage(None))
            sender.send_messages(ServiceBusMessage(None, subject="label"))
            sender.send_messages([ServiceBusMessage(None), ServiceBusMessage("body")])
        with client.get_queue_receiver(queue) as receiver:
            messages = receive(receiver, 4)
            assert [message.body for message in messages[:3]] == [None, None, None]
            assert messages[1].subject == "label"
            assert str(messages[3]) == "body"
            for message in messages:
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
    with queues.client(retry_total=0) as client:
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
        later = soon + datetime.timedelta(hours=1)
        with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
            [kept] = sender.schedule_messages(ServiceBusMessage("kept"), soon)
            cancelled = sender.schedule_messages([ServiceBusMessage("one"), ServiceBusMessage("two")], later)
            peeked = receiver.peek_messages(max_message_count=5, sequence_number=cancelled[0])
            assert texts(peeked) == ["one", "two"]
            assert {message.state.name for message in peeked} == {"SCHEDULED"}
            assert abs(peeked[0].scheduled_enqueue_time_utc - later) < datetime.timedelta(seconds=1)
            sender.cancel_scheduled_messages(cancelled)
            with pytest.raises(MessageNotFoundError):
                sender.cancel_scheduled_messages(cancelled)
            [message] = receive(receiver)
            assert (str(message), message.enqueued_sequence_number) == ("kept", kept)
            assert datetime.datetime.now(datetime.timezone.utc) >= soon
            receiver.complete_message(message)
            assert receiver.peek_messages(sequence_number=1) == []


def test_what_does_not_exist_is_told(queues):
    with queues.client(retry_total=0) as client:
        # The answer to its token says so. This client calls all that a token is answered a failure to authenticate.
        with pytest.raises(ServiceBusAuthenticationError) as refused:
            with client.get_queue_sender("no-such-queue") as sender:
                sender.send_messages(ServiceBusMessage("lost"))
        assert refused.value.inner_exception.status_code == 404
        with pytest.raises(ServiceBusAuthenticationError) as refused:
            with client.get_queue_receiver("no-such-queue") as receiver:
                receiver.receive_messages(max_wait_time=SILENCE_S)
        assert refused.value.inner_exception.status_code == 404
        with pytest.raises(MessagingEntityNotFoundError):
            with client.get_subscription_receiver("news", "no-such-subscription") as receiver:
                receiver.receive_messages(max_wait_time=SILENCE_S)


def test_what_is_too_large_is_told(queues):
    queue = queues.unused()
    with queues.client(retry_total=0) as client:
        with client.get_queue_sender(queue) as sender:
            with pytest.raises(MessageSizeExceededError):
                sender.send_messages(ServiceBusMessage("x" * (300 * 1024)))
            batch = sender.create_message_batch()
            assert batch.max_size_in_bytes == 256 * 1024
            with pytest.raises(MessageSizeExceededError):
                batch.add_message(ServiceBusMessage("x" * (300 * 1024)))
            sender.send_messages(ServiceBusMessage("small"))
        with client.get_queue_receiver(queue) as receiver:
            assert texts(receive(receiver)) == ["small"]


def test_a_full_queue_takes_no_more_and_keeps_what_it_has(queues):
    accepted = 0
    with queues.client(retry_total=0) as client:
        with client.get_queue_sender("full") as sender:
            with pytest.raises(ServiceBusQuotaExceededError):
                while accepted < 10:
                    sender.send_messages(ServiceBusMessage(str(accepted).ljust(30 * 1024)))
                    accepted += 1
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_queue_receiver("full", receive_mode=mode) as receiver:
            assert [text.strip() for text in texts(receive(receiver, accepted))] == [str(number) for number in range(accepted)]
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []


def test_what_was_sent_before_is_dropped_where_duplicates_are_detected(queues):
    with queues.client() as client:
        send(client, "once", "first", message_id="same")
        send(client, "once", "again", message_id="same")
        send(client, "once", "other", message_id="other")
        with client.get_queue_receiver("once") as receiver:
            assert texts(receive(receiver, 2)) == ["first", "other"]
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []


def test_what_nobody_receives_in_time_is_a_dead_letter(queues):
    with queues.client() as client:
        send(client, "mortal", "late")
        with client.get_queue_receiver("mortal", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
            [message] = receive(receiver)
            assert str(message) == "late"
            assert message.dead_letter_reason == "TTLExpiredException"
            receiver.complete_message(message)


def test_messages_go_on_to_the_queue_that_theirs_forwards_to(queues):
    with queues.client() as client:
        send(client, "front", "on its way")
        with client.get_queue_receiver("back") as receiver:
            [message] = receive(receiver)
            assert str(message) == "on its way"
            receiver.dead_letter_message(message, reason="hopeless")
        with client.get_queue_receiver("graveyard") as receiver:
            [message] = receive(receiver)
            assert (str(message), message.dead_letter_reason) == ("on its way", "hopeless")
            receiver.complete_message(message)


def test_a_disabled_queue_is_told(queues):
    with queues.client(retry_total=0) as client:
        with pytest.raises(MessagingEntityDisabledError):
            send(client, "closed", "refused")
        with pytest.raises(MessagingEntityDisabledError):
            with client.get_queue_receiver("closed") as receiver:
                receiver.receive_messages(max_wait_time=SILENCE_S)


def test_a_key_does_what_it_may_and_a_wrong_one_nothing(queues):
    queue = queues.unused()
    service = queues.service
    listener = service.connection_string_with(*LISTEN_ONLY)
    with ServiceBusClient.from_connection_string(listener, retry_total=0) as client:
        with client.get_queue_receiver(queue) as receiver:
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []
        with pytest.raises(ServiceBusAuthorizationError):
            send(client, queue, "forbidden")
    stranger = service.connection_string_with(LISTEN_ONLY[0], "wrong")
    with ServiceBusClient.from_connection_string(stranger, retry_total=0) as client:
        with pytest.raises((ServiceBusAuthenticationError, ServiceBusAuthorizationError)):
            send(client, queue, "forged")
