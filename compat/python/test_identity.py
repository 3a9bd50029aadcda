"""Microsoft Entra ID: the official clients with DefaultAzureCredential, and tokens of an issuer that is none of ours."""

import datetime
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient, TransportType
from azure.eventhub.exceptions import EventHubError
from azure.identity import DefaultAzureCredential
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.storage.blob import BlobServiceClient, ContainerClient, generate_container_sas
from confluent_kafka import Consumer, Producer
from cryptography.hazmat.primitives.asymmetric import rsa

from blobs import refused
from issuer import EVENT_HUBS, STORAGE, Issuer, Static
from service import Service

PATIENCE = 30

ADDRESSES = ("--blob", "127.0.0.1:0", "--blob-tls", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--kafka-tls", "127.0.0.1:0")


@pytest.fixture(scope="module")
def development(tmp_path_factory):
    """A service with an issuer of its own."""
    arguments = (*ADDRESSES, "--dev-identity", "--dev-identity-tls")
    settings = "queues: [{name: jobs}]\nblob: {containers: [box]}\n"
    running = Service(tmp_path_factory.mktemp("development"), 8, settings, arguments=arguments)
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def accepting(tmp_path_factory):
    """A service that accepts the tokens of an issuer, and the issuer."""
    issuer = Issuer()
    settings = issuer.settings() + "blob: {containers: [box]}\n"
    running = Service(tmp_path_factory.mktemp("accepting"), 4, settings, arguments=ADDRESSES)
    yield running, issuer
    assert running.stop() == 0
    issuer.stop()


MANAGED, APPLICATION = "managed identity", "environment"


@pytest.fixture(params=[MANAGED, APPLICATION])
def credential(request, development, monkeypatch):
    """What programs use everywhere, where it finds one of its two kinds in the environment."""
    prefix = {MANAGED: "IDENTITY_", APPLICATION: "AZURE_"}[request.param]
    for name, value in development.identity.items():
        if name.startswith(prefix):
            monkeypatch.setenv(name, value)
    if request.param == APPLICATION:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", development.authority)
    with DefaultAzureCredential() as credential:
        yield credential


def hub_options(service):
    return {
        "fully_qualified_namespace": "localhost",
        "custom_endpoint_address": f"sb://{service.tls_address}",
        "connection_verify": service.authority,
        "transport_type": TransportType.Amqp,
    }


def received(client, count):
    """The bodies of so many events, from the beginning."""
    bodies, enough = [], threading.Event()

    def take(_, events):
        bodies.extend(event.body_as_str() for event in events)
        if len(bodies) >= count:
            enough.set()

    reading = threading.Thread(
        target=client.receive_batch,
        kwargs={"on_event_batch": take, "partition_id": "0", "starting_position": "-1", "max_wait_time": 1},
    )
    reading.start()
    assert enough.wait(PATIENCE)
    client.close()
    reading.join(PATIENCE)
    return bodies


def test_events_with_the_default_credential(development, credential):
    hub, options = development.unused_hub(), hub_options(development)
    with EventHubProducerClient(eventhub_name=hub, credential=credential, **options) as producer:
        assert producer.get_eventhub_properties()["eventhub_name"] == hub
        producer.send_batch([EventData("one"), EventData("two")], partition_id="0")
    consumer = EventHubConsumerClient(eventhub_name=hub, consumer_group="$Default", credential=credential, **options)
    assert received(consumer, 2) == ["one", "two"]


def test_messages_with_the_default_credential(development, credential):
    options = {**hub_options(development)}
    del options["transport_type"]
    with ServiceBusClient(credential=credential, **options) as client:
        with client.get_queue_sender("jobs") as sender:
            sender.send_messages(ServiceBusMessage("job"))
        with client.get_queue_receiver("jobs", max_wait_time=PATIENCE) as receiver:
            message = next(iter(receiver))
            assert str(message) == "job"
            receiver.complete_message(message)


def test_blobs_with_the_default_credential(development, credential):
    url = next(part for part in development.storage_tls_connection_string.split(";") if part.startswith("BlobEndpoint="))
    url = url.removeprefix("BlobEndpoint=")
    with BlobServiceClient(url, credential=credential, connection_verify=development.authority) as client:
        blob = client.get_blob_client("box", "one")
        blob.upload_blob(b"content", overwrite=True)
        assert blob.download_blob().readall() == b"content"


def test_records_with_the_default_credential(development, credential):
    def token(_):
        issued = credential.get_token("https://localhost/.default")
        return issued.token, issued.expires_on

    topic = development.unused_hub()
    settings = {
        "bootstrap.servers": development.kafka_tls_address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": development.authority,
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": token,
    }
    producer = Producer(settings)
    producer.produce(topic, b"record", partition=0)
    assert producer.flush(PATIENCE) == 0
    consumer = Consumer({**settings, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(PATIENCE)
    consumer.close()
    assert message.error() is None and message.value() == b"record"


PROGRAM = """
import os, urllib.request
from azure.identity import DefaultAzureCredential
token = DefaultAzureCredential().get_token("https://eventhubs.azure.net/.default").token
request = urllib.request.Request(
    os.environ["URL"] + "/events/messages", b"event", {"Authorization": "Bearer " + token}, method="POST")
print(urllib.request.urlopen(request).status)
"""


def test_a_command_finds_an_identity_in_its_environment(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import os\n"
        "endpoint = os.environ['PARSHALL_CONNECTION_STRING'].split(';')[0].removeprefix('Endpoint=sb://').rstrip('/')\n"
        "os.environ['URL'] = 'http://' + endpoint\n" + PROGRAM
    )
    command = [os.environ["PARSHALL_BINARY"], "serve", "--hub", "events:1", "--dev-identity", "--", sys.executable, str(script)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "201")


def test_a_client_goes_on_when_its_token_ends(tmp_path, monkeypatch):
    lifetime = 3
    arguments = ("--dev-identity", "--dev-token-lifetime", f"{lifetime} s")
    service = Service(tmp_path, 1, arguments=arguments)
    for name, value in service.identity.items():
        monkeypatch.setenv(name, value)
    with DefaultAzureCredential() as credential:
        with EventHubProducerClient(eventhub_name="hub-0", credential=credential, **hub_options(service)) as producer:
            end, sent = time.monotonic() + 3 * lifetime, 0
            while time.monotonic() < end:
                producer.send_batch([EventData(str(sent))], partition_id="0")
                sent += 1
    _, metrics = service.metrics()
    accepted = next(line for line in metrics.splitlines() if line.startswith("parshall_hub_bearer_tokens_accepted"))
    assert float(accepted.split()[-1]) >= 3
    assert service.stop() == 0


def send(service, token, hub="hub-1"):
    options = {**hub_options(service), "retry_total": 0}
    with EventHubProducerClient(eventhub_name=hub, credential=Static(token), **options) as producer:
        producer.send_batch([EventData("event")], partition_id="0")


def test_tokens_of_another_issuer_are_accepted(accepting):
    service, issuer = accepting
    # The keys may still be on their way, which the client is to wait out.
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            send(service, issuer.token())
            break
        except EventHubError:
            assert time.monotonic() < deadline
    send(service, issuer.token(aud=EVENT_HUBS + "//"))
    with pytest.raises(EventHubError, match="'Send' claim"):
        send(service, issuer.token(oid="reader", roles=[]), "hub-0")
    request = urllib.request.Request(
        f"http://{service.address}/hub-1/messages", b"event", {"Authorization": f"Bearer {issuer.token()}"}, method="POST"
    )
    assert urllib.request.urlopen(request).status == 201


REFUSED = {
    "audience": ({"aud": STORAGE}, "InvalidAudience"),
    "end": ({"nbf": 0, "exp": 1_000_000_000}, "ExpiredToken"),
    "issuer": ({"iss": "https://sts.elsewhere/"}, "InvalidIssuer"),
    "key": ({"key": rsa.generate_private_key(public_exponent=65537, key_size=2048)}, "InvalidSignature"),
    "algorithm": ({"key": "a secret that is long enough for the one", "algorithm": "HS256"}, "InvalidSignature"),
    "role": ({"roles": []}, "Unauthorized access"),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_tokens_that_are_no_good_are_refused_as_the_service_refuses_them(accepting, wrong):
    service, issuer = accepting
    claims, text = REFUSED[wrong]
    token = issuer.token(**claims)
    with pytest.raises((ClientAuthenticationError, EventHubError), match=text):
        send(service, token)
    request = urllib.request.Request(
        f"http://{service.address}/hub-1/messages", b"event", {"Authorization": f"Bearer {token}"}, method="POST"
    )
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request)
    assert refusal.value.code == 401 and text in refusal.value.read().decode()


def test_signatures_of_a_user_delegation_key_grant_what_the_principal_may_do(accepting):
    service, issuer = accepting
    url = next(part for part in service.storage_tls_connection_string.split(";") if part.startswith("BlobEndpoint="))
    url = url.removeprefix("BlobEndpoint=")
    account = url.rsplit("/", 1)[1]
    now = datetime.datetime.now(datetime.timezone.utc)
    expiry = now + datetime.timedelta(hours=1)

    def signing(role, oid, **changes):
        """A client with a signature for all of the container that the principal has made."""
        token = issuer.token(aud=STORAGE, roles=[role], oid=oid)
        with BlobServiceClient(url, credential=Static(token), connection_verify=service.authority) as client:
            key = client.get_user_delegation_key(now - datetime.timedelta(minutes=1), expiry)
        vars(key).update(changes)
        signature = generate_container_sas(account, "box", user_delegation_key=key, permission="rwdl", expiry=expiry)
        return ContainerClient(url, "box", credential=signature, connection_verify=service.authority)

    with signing("Storage Blob Data Contributor", "writer") as box:
        box.upload_blob("delegated", b"content")
        assert [blob.name for blob in box.list_blobs(name_starts_with="delegated")] == ["delegated"]
    with signing("Storage Blob Data Reader", "reader") as box:
        assert box.download_blob("delegated").readall() == b"content"
        refused(lambda: box.upload_blob("other", b"content"), 403, "AuthorizationPermissionMismatch")
    # Neither another principal's name nor a longer time goes with the value.
    with signing("Storage Blob Data Reader", "reader", signed_oid="writer") as box:
        refused(lambda: box.download_blob("delegated"), 403, "AuthenticationFailed")
    with signing("Storage Blob Data Reader", "reader", signed_expiry="2100-01-01T00:00:00Z") as box:
        refused(lambda: box.download_blob("delegated"), 403, "AuthenticationFailed")
    with BlobServiceClient.from_connection_string(service.storage_connection_string) as client:
        refused(lambda: client.get_user_delegation_key(now, expiry), 403, "AuthenticationFailed")


def test_blobs_refuse_a_token_for_hubs_with_their_own_code(accepting):
    service, issuer = accepting
    url = next(part for part in service.storage_tls_connection_string.split(";") if part.startswith("BlobEndpoint="))
    url = url.removeprefix("BlobEndpoint=")

    def read(token):
        with BlobServiceClient(url, credential=Static(token), connection_verify=service.authority) as client:
            return client.get_container_client("box").get_container_properties()

    assert read(issuer.token(aud=STORAGE, roles=["Storage Blob Data Reader"]))["name"] == "box"
    with pytest.raises(ClientAuthenticationError) as refusal:
        read(issuer.token())
    assert refusal.value.error_code == "InvalidAuthenticationInfo"
    with pytest.raises(HttpResponseError) as refusal:
        read(issuer.token(aud=STORAGE))
    assert (refusal.value.status_code, refusal.value.error_code) == (403, "AuthorizationPermissionMismatch")


def test_kafka_clients_are_told_why_a_token_is_refused(accepting):
    service, issuer = accepting
    told = []
    refused = threading.Event()

    def hear(error):
        told.append(error.str())
        if "the token is for 'https://storage.azure.com', not for" in told[-1]:
            refused.set()

    producer = Producer(
        {
            "bootstrap.servers": service.kafka_address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (issuer.token(aud=STORAGE), time.time() + 3600),
            "error_cb": hear,
        }
    )
    deadline = time.monotonic() + PATIENCE
    while not refused.is_set() and time.monotonic() < deadline:
        producer.poll(0.1)
    assert refused.is_set(), told
