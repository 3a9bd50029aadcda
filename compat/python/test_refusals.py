"""What does not exist is not found, and what is not allowed is not done."""

import asyncio
import base64
import hashlib
import hmac
import time
import urllib.parse

import pytest
from azure.core.credentials import AzureSasCredential
from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.aio import EventHubProducerClient as AsyncProducerClient
from azure.eventhub.exceptions import AuthenticationError, ConnectError, EventHubError

from receiving import bodies, receive, receiving_error
from service import LISTEN_ONLY, PARTITIONS, connect


def token(service, hub, value="SAS_KEY_VALUE", expires_in_s=600):
    resource = urllib.parse.quote_plus(f"sb://{service.address}/{hub}")
    expiry = int(time.time()) + expires_in_s
    digest = hmac.new(value.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    signature = urllib.parse.quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn=RootManageSharedAccessKey"


def producer_with_token(service, hub, text):
    return EventHubProducerClient(
        service.address, hub, AzureSasCredential(text), use_tls=False, retry_total=0, auth_timeout=20
    )


def last_sequence_number(service, hub):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        return client.get_partition_properties("0")["last_enqueued_sequence_number"]


async def test_an_unknown_hub_is_not_found(service):
    with connect(EventHubProducerClient, service.connection_string, "nowhere", retry_total=0) as client:
        with pytest.raises(EventHubError, match="could not be found"):
            client.send_event(EventData("lost"))
    with pytest.raises(EventHubError, match="could not be found"):
        await receive(service.connection_string, "nowhere", "0", 1, retry_total=0)


def test_an_unknown_partition_is_refused(service, hub):
    unknown = str(PARTITIONS)
    with connect(EventHubProducerClient, service.connection_string, hub, retry_total=0) as client:
        # Both clients ask for the partitions first and do not even try.
        with pytest.raises(EventHubError, match="Invalid partition"):
            client.send_event(EventData("lost"), partition_id=unknown)
    assert "Wrong partition id" in str(receiving_error(service.connection_string, hub, unknown))


def test_an_unknown_consumer_group_is_not_found(service, hub):
    error = receiving_error(service.connection_string, hub, "0", consumer_group="nobody")
    assert "could not be found" in str(error)


@pytest.mark.parametrize(("name", "value"), [("RootManageSharedAccessKey", "guess"), ("nobody", "SAS_KEY_VALUE")])
async def test_a_wrong_key_sends_nothing_reads_nothing_and_learns_nothing(service, hub, name, value):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        client.send_event(EventData("secret"), partition_id="0")
    wrong = service.connection_string_with(name, value)
    with connect(EventHubProducerClient, wrong, hub, retry_total=0) as client:
        with pytest.raises(AuthenticationError):
            client.send_event(EventData("forged"), partition_id="0")
        with pytest.raises(AuthenticationError):
            client.get_eventhub_properties()
    with pytest.raises(AuthenticationError):
        await receive(wrong, hub, "0", 1, retry_total=0)
    assert last_sequence_number(service, hub) == 0


async def test_the_asynchronous_producer_is_refused_the_same(service, hub):
    wrong = service.connection_string_with("RootManageSharedAccessKey", "guess")
    async with connect(AsyncProducerClient, wrong, hub, retry_total=0) as client:
        with pytest.raises(AuthenticationError):
            await client.send_event(EventData("forged"), partition_id="0")
        with pytest.raises(AuthenticationError):
            await client.get_eventhub_properties()
    listener = service.connection_string_with(*LISTEN_ONLY)
    async with connect(AsyncProducerClient, listener, hub, retry_total=0) as client:
        with pytest.raises(EventHubError, match="unauthorized-access"):
            await client.send_event(EventData("forged"), partition_id="0")
    async with connect(AsyncProducerClient, service.connection_string, "nowhere", retry_total=0) as client:
        with pytest.raises(EventHubError, match="could not be found"):
            await client.send_event(EventData("lost"))
    assert await asyncio.to_thread(last_sequence_number, service, hub) == -1


def test_the_synchronous_consumer_is_refused_the_same(service, hub):
    wrong = service.connection_string_with("RootManageSharedAccessKey", "guess")
    assert isinstance(receiving_error(wrong, hub, "0"), AuthenticationError)
    assert "could not be found" in str(receiving_error(service.connection_string, "nowhere", "0"))


async def test_a_key_that_may_only_listen_listens_only(service, hub):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        client.send_event(EventData("heard"), partition_id="0")
    listener = service.connection_string_with(*LISTEN_ONLY)
    assert bodies(await receive(listener, hub, "0", 1)) == ["heard"]
    with connect(EventHubProducerClient, listener, hub, retry_total=0) as client:
        with pytest.raises(EventHubError, match="unauthorized-access"):
            client.send_event(EventData("forged"), partition_id="0")
    assert last_sequence_number(service, hub) == 0


def test_a_token_of_ones_own_is_as_good_as_a_key(service, hub):
    with producer_with_token(service, hub, token(service, hub)) as client:
        client.send_event(EventData("signed"), partition_id="0")
    assert last_sequence_number(service, hub) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda service, hub: token(service, hub, value="guess"),
        lambda service, hub: token(service, hub, expires_in_s=-60),
        lambda service, hub: token(service, "hub-63"),
        lambda service, hub: "SharedAccessSignature sr=nothing&sig=nothing&se=9999999999&skn=nobody",
    ],
    ids=["forged", "expired", "for another hub", "malformed"],
)
def test_a_token_that_is_not_good_opens_nothing(service, hub, make):
    with producer_with_token(service, hub, make(service, hub)) as client:
        with pytest.raises((AuthenticationError, ConnectError)):
            client.send_event(EventData("forged"), partition_id="0")
    assert last_sequence_number(service, hub) == -1
