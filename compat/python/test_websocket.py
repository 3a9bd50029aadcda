"""AMQP over WebSocket, plain and over TLS, by the synchronous client and the asynchronous one."""

import asyncio

import pytest
from azure.eventhub import EventData, EventHubProducerClient, TransportType
from azure.eventhub.aio import EventHubProducerClient as AsynchronousProducer

from receiving import bodies, receive
from service import connect

LARGE = "x" * 200_000


def plain(service):
    options = {
        "custom_endpoint_address": f"sb://{service.websocket_address}",
        "transport_type": TransportType.AmqpOverWebsocket,
    }
    return service.connection_string, options


def over_tls(service):
    options = {
        "custom_endpoint_address": f"sb://{service.websocket_tls_address}",
        "transport_type": TransportType.AmqpOverWebsocket,
        "connection_verify": service.authority,
    }
    return service.tls_connection_string, options


@pytest.mark.parametrize("way", [plain, over_tls])
async def test_events_travel_over_web_socket(service, hub, way):
    connection_string, options = way(service)

    def send():
        with connect(EventHubProducerClient, connection_string, hub, **options) as client:
            batch = client.create_batch(partition_id="0")
            for number in range(100):
                batch.add(EventData(str(number)))
            client.send_batch(batch)
            client.send_event(EventData(LARGE), partition_id="0")
            assert client.get_partition_properties("0")["last_enqueued_sequence_number"] == 100

    await asyncio.to_thread(send)
    expected = [str(number) for number in range(100)] + [LARGE]
    assert bodies(await receive(connection_string, hub, "0", 101, **options)) == expected


@pytest.mark.parametrize("way", [plain, over_tls])
async def test_the_asynchronous_producer_sends_over_web_socket(service, hub, way):
    connection_string, options = way(service)
    async with connect(AsynchronousProducer, connection_string, hub, **options) as client:
        await client.send_event(EventData("sent"), partition_id="1")
    assert bodies(await receive(service.connection_string, hub, "1", 1)) == ["sent"]
