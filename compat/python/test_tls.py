"""TLS with the authority that `parshall serve` makes for development."""

import pytest
from azure.eventhub import EventData, EventHubProducerClient, TransportType
from azure.eventhub.exceptions import EventHubError

from receiving import bodies, receive
from service import connect


def options(service, **more):
    # The port has to be said once more: with TLS the client takes 5671 whatever the connection string says.
    return {
        "custom_endpoint_address": f"sb://{service.tls_address}",
        "transport_type": TransportType.Amqp,
        **more,
    }


async def test_events_travel_over_tls(service, hub):
    trusting = options(service, connection_verify=service.authority)
    with connect(EventHubProducerClient, service.tls_connection_string, hub, **trusting) as client:
        client.send_event(EventData("sealed"), partition_id="0")
    assert bodies(await receive(service.tls_connection_string, hub, "0", 1, **trusting)) == ["sealed"]


def test_a_client_that_does_not_trust_the_authority_sends_nothing(service, hub):
    doubting = options(service, retry_total=0)
    with connect(EventHubProducerClient, service.tls_connection_string, hub, **doubting) as client:
        with pytest.raises(EventHubError, match="(?i)certificate"):
            client.send_event(EventData("lost"), partition_id="0")
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        assert client.get_partition_properties("0")["is_empty"] is True
