"""Time under control: what the official clients see once the service's clock was advanced. No test waits for time to pass."""

import datetime
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError, SessionLockLostError
from azure.storage.blob import BlobLeaseClient, BlobServiceClient, generate_blob_sas

from blobs import refused
from queues import PATIENCE_S, SILENCE_S, receive, send, texts, wait_until
from service import Service, connect
from test_kafka import settings
from test_refusals import token

ARGUMENTS = ("--time-control", "--blob", "127.0.0.1:0", "--kafka", "127.0.0.1:0")
SETTINGS = """\
  - {name: kept-for-a-day, partitions: 1, log: {retention: 24 h}}
queues:
  - {name: orders, lock_duration: 1 min}
  - {name: later}
  - {name: mortal, dead_lettering_on_expiration: true}
  - {name: talks, requires_session: true, lock_duration: 1 min}
  - {name: once, duplicate_detection: 10 min}
  - {name: guarded}
  - {name: worked-on, lock_duration: 5 s}
  - {name: conversations, lock_duration: 5 s, requires_session: true}
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("time"), 2, SETTINGS, arguments=ARGUMENTS)
    yield running
    assert running.stop() == 0


def now() -> datetime.datetime:
    """By the clock of clients."""
    return datetime.datetime.now(datetime.timezone.utc)


@pytest.fixture
def client(service):
    with ServiceBusClient.from_connection_string(service.connection_string, retry_total=0) as client:
        yield client


def test_a_lock_ends(service, client):
    send(client, "orders", "hello")
    with client.get_queue_receiver("orders") as receiver:
        [message] = receive(receiver)
        assert message.delivery_count == 0
        assert service.advance("1 min")["message_locks_ended"] == 1
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)
        [again] = receive(receiver)
        assert (str(again), again.delivery_count) == ("hello", 1)
        receiver.complete_message(again)


@pytest.mark.parametrize("queue", ["worked-on", "conversations"])
def test_a_client_goes_on_and_keeps_its_lock_by_its_own_clock(service, client, queue):
    session = "one" if queue == "conversations" else None
    due = service.now() + datetime.timedelta(hours=7)
    with client.get_queue_sender(queue) as sender:
        sender.schedule_messages(ServiceBusMessage("hello", session_id=session), due)
    options = {"session_id": NEXT_AVAILABLE_SESSION, "max_wait_time": PATIENCE_S} if session else {}
    with ThreadPoolExecutor() as pool, AutoLockRenewer() as renewer:
        receiver = client.get_queue_receiver(queue, prefetch_count=10, **options)
        # Of a session this waits until there is one, otherwise it opens the link, which has credit from then on.
        opened = pool.submit(lambda: receiver.receive_messages(max_wait_time=PATIENCE_S if session else SILENCE_S))
        if not session:
            assert opened.result() == []
        happened = service.advance("8 h")
        assert (happened["scheduled_messages_enqueued"], happened["message_locks_ended"], happened["links_ended"]) == (1, 0, 0)
        [message] = opened.result() if session else receive(receiver)
        assert message.delivery_count == 0
        held = receiver.session if session else message
        lock = held.locked_until_utc
        assert datetime.timedelta() < lock - now() < datetime.timedelta(seconds=5)
        renewer.register(receiver, held, max_lock_renewal_duration=60)
        # Longer than the lock lasts by itself.
        wait_until(lambda: now() > lock)
        receiver.complete_message(message)
        receiver.close()
    # The client has what it has signed before the advance.
    send(client, queue, "another", session_id=session)


def test_a_claim_on_a_partition_is_as_old_as_the_clock_of_its_reader_says(service):
    with BlobServiceClient.from_connection_string(service.storage_connection_string) as account:
        container = account.create_container(f"claims-{uuid.uuid4()}")
    string = service.storage_connection_string
    with BlobCheckpointStore.from_connection_string(string, container.container_name) as store:
        service.advance("8 h")
        claim = {"fully_qualified_namespace": "localhost", "eventhub_name": "hub", "consumer_group": "$Default"}
        store.claim_ownership([{**claim, "partition_id": "0", "owner_id": "dead", "etag": None}])
        [claimed] = store.list_ownership(*claim.values())
        age = now().timestamp() - claimed["last_modified_time"]
        # In whole seconds.
        assert -1 < age < PATIENCE_S


def test_a_scheduled_message_appears(service, client):
    due = service.now() + datetime.timedelta(hours=10)
    with client.get_queue_sender("later") as sender:
        sender.schedule_messages(ServiceBusMessage("hello"), due)
    with client.get_queue_receiver("later", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        service.advance("9 h")
        assert receiver.receive_messages(max_wait_time=SILENCE_S) == []
        assert service.advance("1 h")["scheduled_messages_enqueued"] == 1
        [message] = receive(receiver)
    # To the millisecond, as AMQP has times.
    assert abs(message.enqueued_time_utc - due) < datetime.timedelta(milliseconds=2)


def test_a_message_expires_and_is_a_dead_letter(service, client):
    send(client, "mortal", "hello", time_to_live=datetime.timedelta(days=2))
    assert service.advance("47 h")["messages_expired"] == 0
    happened = service.advance("1 h")
    assert (happened["messages_expired"], happened["messages_dead_lettered"]) == (1, 1)
    with client.get_queue_receiver("mortal", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        [message] = receive(receiver)
        assert (str(message), message.dead_letter_reason) == ("hello", "TTLExpiredException")
        receiver.complete_message(message)
    assert service.advance("48 h")["messages_dead_lettered"] == 0


def test_the_lock_of_a_session_ends(service, client):
    send(client, "talks", "hello", session_id="one")
    with client.get_queue_receiver("talks", session_id="one") as receiver:
        [message] = receive(receiver)
        assert service.advance("1 min")["session_locks_ended"] == 1
        with pytest.raises(SessionLockLostError):
            receiver.complete_message(message)
    with client.get_queue_receiver("talks", session_id="one") as receiver:
        [again] = receive(receiver)
        assert again.delivery_count == 1
        receiver.complete_message(again)


def test_an_identifier_is_a_duplicate_within_the_window(service, client):
    for wait, body in (("0 s", "first"), ("9 min", "duplicate"), ("2 min", "second")):
        service.advance(wait)
        send(client, "once", body, message_id="one")
    with client.get_queue_receiver("once", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert texts(receive(receiver, 2)) == ["first", "second"]
        assert receiver.receive_messages(max_wait_time=SILENCE_S) == []


def test_a_link_ends_with_its_token(service):
    signed = token(service, "guarded", expires_in_s=240)
    string = f"Endpoint=sb://{service.address}/;SharedAccessSignature={signed};UseDevelopmentEmulator=true"
    with ServiceBusClient.from_connection_string(string, retry_total=0) as client:
        with client.get_queue_sender("guarded") as sender:
            sender.send_messages(ServiceBusMessage("in time"))
            assert service.advance("3 min", end_tokens=True)["links_ended"] == 0
            sender.send_messages(ServiceBusMessage("in time"))
            assert service.advance("2 min", end_tokens=True)["links_ended"] == 1
            with pytest.raises(ServiceBusError):
                sender.send_messages(ServiceBusMessage("too late"))
    # A client with the key signs another one, by its own clock.
    with ServiceBusClient.from_connection_string(service.connection_string, retry_total=0) as client:
        with client.get_queue_receiver("guarded", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
            assert texts(receive(receiver, 2)) == ["in time", "in time"]


def test_retention_removes_events(service):
    hub = "kept-for-a-day"
    with connect(EventHubProducerClient, service.connection_string, hub) as producer:
        producer.send_batch([EventData("hello"), EventData("hello")])
    with connect(EventHubConsumerClient, service.connection_string, hub) as consumer:
        service.advance("23 h")
        assert not consumer.get_partition_properties("0")["is_empty"]
        assert service.advance("1 d")["events_removed"] == 2
        properties = consumer.get_partition_properties("0")
        assert (properties["is_empty"], properties["last_enqueued_sequence_number"]) == (True, 1)


def test_a_lease_ends_and_so_does_a_signature(service):
    with BlobServiceClient.from_connection_string(service.storage_connection_string) as account:
        container = account.create_container(f"test-{uuid.uuid4()}")
        blob = container.upload_blob("host", b"content")
        first, second = BlobLeaseClient(blob), BlobLeaseClient(blob)
        first.acquire(lease_duration=60)
        refused(lambda: second.acquire(lease_duration=60), 409, "LeaseAlreadyPresent")
        service.advance("1 min")
        second.acquire(lease_duration=60)
        refused(first.renew, 409, "LeaseIdMismatchWithLeaseOperation")
        signature = generate_blob_sas(
            account.account_name,
            container.container_name,
            "host",
            account_key=account.credential.account_key,
            permission="r",
            expiry=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1),
        )
        signed = type(blob).from_blob_url(blob.url, credential=signature)
        assert signed.download_blob().readall() == b"content"
        service.advance("61 min", end_tokens=True)
        refused(lambda: signed.download_blob().readall(), 403, "AuthenticationFailed")


def test_an_open_transaction_is_aborted(service):
    confluent_kafka = pytest.importorskip("confluent_kafka")
    more = {"transactional.id": "forgotten", "transaction.timeout.ms": 60_000}
    producer = confluent_kafka.Producer(settings(service, **more))
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(service.unused_hub(), b"hello", partition=0)
    producer.flush(20)
    assert service.advance("59 s")["transactions_aborted"] == 0
    assert service.advance("2 s")["transactions_aborted"] == 1
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(20)


def test_the_command_line_shows_and_advances_the_time(service):
    before = service.now()
    printed = service.time("advance", "90min", "--format", "text")
    assert " ahead of the machine\n" in printed
    assert service.now() - before >= datetime.timedelta(minutes=90)
    assert "offset_ms" in service.time("show", "--format", "json")
