"""Messages are sent, received and settled in every way, by the synchronous clients and the asynchronous ones."""

import datetime

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue, TransportType
from azure.servicebus.aio import ServiceBusClient as AsynchronousClient

from connecting import arguments

WAIT_S = 20


def connect(client, service):
    connection_string, more = arguments(service, TransportType)
    return client.from_connection_string(connection_string, **more)


def received(receiver, count):
    messages = []
    while len(messages) < count:
        more = receiver.receive_messages(max_message_count=count - len(messages), max_wait_time=WAIT_S)
        assert more, f"only {len(messages)} of {count} messages came"
        messages += more
    return messages


def test_messages_are_settled_in_every_way(service):
    with connect(ServiceBusClient, service) as client:
        with client.get_queue_sender("jobs") as sender:
            batch = sender.create_message_batch()
            for body in ["complete", "abandon", "defer", "bury"]:
                batch.add_message(ServiceBusMessage(body, application_properties={"body": body}, subject="subject"))
            sender.send_messages(batch)
        with client.get_queue_receiver("jobs") as receiver:
            messages = {str(message): message for message in received(receiver, 4)}
            assert all(message.subject == "subject" for message in messages.values())
            receiver.renew_message_lock(messages["complete"])
            receiver.complete_message(messages["complete"])
            receiver.abandon_message(messages["abandon"])
            receiver.defer_message(messages["defer"])
            receiver.dead_letter_message(messages["bury"], reason="reason", error_description="description")
            [again] = received(receiver, 1)
            assert (str(again), again.delivery_count) == ("abandon", 1)
            receiver.complete_message(again)
            [deferred] = receiver.receive_deferred_messages(messages["defer"].sequence_number)
            receiver.complete_message(deferred)
            assert receiver.peek_messages() == []
        with client.get_queue_receiver("jobs", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
            [dead] = received(receiver, 1)
            assert (str(dead), dead.dead_letter_reason) == ("bury", "reason")
            receiver.complete_message(dead)


def test_messages_are_scheduled_and_cancelled(service):
    with connect(ServiceBusClient, service) as client, client.get_queue_sender("jobs") as sender:
        due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        numbers = sender.schedule_messages([ServiceBusMessage("one"), ServiceBusMessage("two")], due)
        assert len(numbers) == 2
        sender.cancel_scheduled_messages(numbers)
        with client.get_queue_receiver("jobs") as receiver:
            assert receiver.peek_messages() == []


async def test_a_session_is_received_in_order_and_has_a_state(service):
    async with connect(AsynchronousClient, service) as client:
        async with client.get_queue_sender("sessions") as sender:
            await sender.send_messages([ServiceBusMessage(str(number), session_id="one") for number in range(3)])
        async with client.get_queue_receiver("sessions", session_id=NEXT_AVAILABLE_SESSION) as receiver:
            assert receiver.session.session_id == "one"
            await receiver.session.set_state("state")
            await receiver.session.renew_lock()
            bodies = []
            async for message in receiver:
                bodies.append(str(message))
                await receiver.complete_message(message)
                if len(bodies) == 3:
                    break
            assert bodies == ["0", "1", "2"]
            assert await receiver.session.get_state() == b"state"
