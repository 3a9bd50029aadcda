"""The official client of Service Bus over TLS and WebSocket, synchronous and asynchronous."""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient as AsynchronousClient

from queues import PATIENCE_S, receive, send, texts


def tls(service):
    # The port has to be said once more: with TLS the client takes 5671 whatever the connection string says.
    options = {
        "custom_endpoint_address": f"sb://{service.tls_address}",
        "transport_type": TransportType.Amqp,
        "connection_verify": service.authority,
    }
    return service.tls_connection_string, options


def web_socket(service):
    options = {
        "custom_endpoint_address": f"sb://{service.websocket_address}",
        "transport_type": TransportType.AmqpOverWebsocket,
    }
    return service.connection_string, options


def web_socket_over_tls(service):
    options = {
        "custom_endpoint_address": f"sb://{service.websocket_tls_address}",
        "transport_type": TransportType.AmqpOverWebsocket,
        "connection_verify": service.authority,
    }
    return service.tls_connection_string, options


WAYS = [tls, web_socket, web_socket_over_tls]


@pytest.mark.parametrize("way", WAYS)
def test_messages_travel(queues, way):
    queue = queues.unused()
    connection_string, options = way(queues.service)
    with ServiceBusClient.from_connection_string(connection_string, **options) as client:
        large = "x" * 200_000
        send(client, queue, "small", large)
        with client.get_queue_receiver(queue) as receiver:
            messages = receive(receiver, 2)
            assert texts(messages) == ["small", large]
            receiver.renew_message_lock(messages[0])
            for message in messages:
                receiver.complete_message(message)


@pytest.mark.parametrize("way", WAYS)
async def test_messages_travel_asynchronously(queues, way):
    queue = queues.unused()
    connection_string, options = way(queues.service)
    async with AsynchronousClient.from_connection_string(connection_string, **options) as client:
        async with client.get_queue_sender(queue) as sender:
            await sender.send_messages(ServiceBusMessage("sealed"))
        async with client.get_queue_receiver(queue) as receiver:
            [message] = await receiver.receive_messages(max_wait_time=PATIENCE_S)
            assert str(message) == "sealed"
            await receiver.complete_message(message)
