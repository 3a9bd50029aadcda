"""The official client of Service Bus: a durable service that ends, in good order or not, and comes back."""

import gc

import pytest
from azure.servicebus import ServiceBusMessage

from queues import SESSIONS, SILENCE_S, receive, send, texts

# The client forgets the sockets of connections that ended, and leaves closing them to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PERSISTENT = {"retry_total": 10, "retry_mode": "fixed", "retry_backoff_factor": 0.2}


@pytest.fixture(params=["stopped", "killed"])
def restart(request, durable_queues):
    service = durable_queues.service

    def restart():
        if request.param == "stopped":
            assert service.stop() == 0
        else:
            service.kill()
        service.start()

    yield restart
    gc.collect()


def test_clients_go_on_where_they_were(durable_queues, restart):
    queue = durable_queues.unused()
    with durable_queues.client(**PERSISTENT) as client:
        with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
            sender.send_messages([ServiceBusMessage(body) for body in ("done", "held", "waiting")])
            done, _held = receive(receiver, 2)
            receiver.complete_message(done)
            restart()
            sender.send_messages(ServiceBusMessage("after"))
            messages = receive(receiver, 3)
            assert texts(messages) == ["held", "waiting", "after"]
            for message in messages:
                receiver.complete_message(message)
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []


def test_what_was_put_aside_and_the_states_of_sessions_are_there_again(durable_queues, restart):
    queue, sessions = durable_queues.unused(), durable_queues.unused(SESSIONS)
    with durable_queues.client(**PERSISTENT) as client:
        send(client, queue, "deferred", "dead")
        with client.get_queue_receiver(queue) as receiver:
            deferred, dead = receive(receiver, 2)
            receiver.defer_message(deferred)
            receiver.dead_letter_message(dead, reason="reason")
        with client.get_queue_receiver(sessions, session_id="one") as receiver:
            receiver.session.set_state(b"half way")
    restart()
    with durable_queues.client(**PERSISTENT) as client:
        with client.get_queue_receiver(queue) as receiver:
            [again] = receiver.receive_deferred_messages([deferred.sequence_number])
            assert str(again) == "deferred"
            receiver.complete_message(again)
        with client.get_queue_receiver(queue, sub_queue="deadletter") as receiver:
            [again] = receive(receiver)
            assert (str(again), again.dead_letter_reason) == ("dead", "reason")
            receiver.complete_message(again)
        with client.get_queue_receiver(sessions, session_id="one") as receiver:
            assert receiver.session.get_state() == b"half way"
