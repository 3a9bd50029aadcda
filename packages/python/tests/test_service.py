"""The package as users have it: installed from its wheel, with the program inside."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import parshall
import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.storage.blob import ContainerClient
from parshall import _program

PATIENCE_SECONDS = 20


def port(connection_string: str) -> int:
    return int(connection_string.split("//")[1].split("/")[0].split(";")[0].split(":")[1])


def is_listening(number: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", number)) == 0


def wait_until_closed(number: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while is_listening(number):
        assert time.monotonic() < deadline, f"port {number} is still listened on"
        time.sleep(0.01)


def message_of(client: ServiceBusClient, *entity: str) -> str:
    kind = client.get_queue_receiver if len(entity) == 1 else client.get_subscription_receiver
    with kind(*entity) as receiver:
        (message,) = receiver.receive_messages(max_wait_time=PATIENCE_SECONDS)
        receiver.complete_message(message)
        return str(message)


def test_an_event_and_messages_pass_through_the_official_clients():
    with parshall.serve(hubs={"orders": 1}, queues=["jobs"], topics={"news": ["all"]}, containers=["kept"]) as service:
        hub = {"conn_str": service.event_hubs_connection_string, "eventhub_name": "orders"}
        with EventHubProducerClient.from_connection_string(**hub) as producer:
            producer.send_batch([EventData("an event")])
        received = []
        with EventHubConsumerClient.from_connection_string(**hub, consumer_group="$Default") as consumer:
            consumer.receive(lambda _, event: (received.append(event.body_as_str()), consumer.close()), starting_position="-1")
        assert received == ["an event"]
        with ServiceBusClient.from_connection_string(service.service_bus_connection_string) as client:
            for entity, sender in (("jobs",), client.get_queue_sender("jobs")), (("news", "all"), client.get_topic_sender("news")):
                with sender:
                    sender.send_messages(ServiceBusMessage("a message"))
                assert message_of(client, *entity) == "a message"
        with ContainerClient.from_connection_string(service.storage_connection_string, "kept") as container:
            container.upload_blob("a blob", b"content")
            assert container.download_blob("a blob").readall() == b"content"


def test_kafka_and_tls_are_served_where_they_are_asked_for():
    from confluent_kafka.admin import AdminClient

    with parshall.serve(hubs=["orders"], containers=[], kafka=True, tls=True) as service:
        assert "orders" in AdminClient(service.kafka_properties).list_topics(timeout=PATIENCE_SECONDS).topics
        assert os.path.exists(service.certificate_authority)
        assert service.tls_connection_string and service.kafka_tls_bootstrap_servers and service.storage_tls_connection_string
        # With TLS, the client takes port 5671 whatever the connection string says.
        address = f"sb://localhost:{port(service.tls_connection_string)}"
        tls = {"connection_verify": service.certificate_authority, "eventhub_name": "orders", "custom_endpoint_address": address}
        with EventHubProducerClient.from_connection_string(service.tls_connection_string, **tls) as producer:
            assert producer.get_partition_ids() == ["0", "1", "2", "3"]
    assert not os.path.exists(service.certificate_authority)
    with parshall.serve() as service:
        assert [entity["name"] for entity in service.announcement["entities"]] == ["events"]
        assert service.kafka_bootstrap_servers is None and service.storage_connection_string is None


def test_entities_take_all_options_and_data_survives_restarts(tmp_path):
    options = {"queues": [{"name": "jobs", "requires_session": True}], "data_directory": tmp_path / "data"}
    with parshall.serve(**options) as service:
        with ServiceBusClient.from_connection_string(service.connection_string) as client, client.get_queue_sender("jobs") as sender:
            sender.send_messages(ServiceBusMessage("kept", session_id="a"))
    with parshall.serve(**options) as service:
        with ServiceBusClient.from_connection_string(service.connection_string) as client:
            with client.get_queue_receiver("jobs", session_id="a") as receiver:
                assert [str(message) for message in receiver.receive_messages(max_wait_time=PATIENCE_SECONDS)] == ["kept"]


def test_arguments_come_before_what_is_usual():
    with parshall.serve(arguments=["--amqp=127.0.0.1:0", "--hub", "audit:2", "--websocket", "127.0.0.1:0"]) as service:
        assert service.announcement["entities"][0]["name"] == "audit"
        assert "websocket" in {listener["protocol"] for listener in service.announcement["listeners"]}


def test_a_service_ends_with_its_block_and_leaves_nothing():
    with parshall.serve() as service:
        assert is_listening(port(service.connection_string))
        # A terminal sends Ctrl-C to the group of the tests.
        assert os.getpgid(service.process_id) != os.getpgrp()
    assert not is_listening(port(service.connection_string))
    service.stop()


def test_a_service_ends_when_its_process_is_killed():
    script = "import os, parshall, signal; s = parshall.serve(); print(s.connection_string, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    child = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.returncode == -signal.SIGKILL
    wait_until_closed(port(child.stdout.strip()))


def test_what_cannot_be_served_is_said_with_the_reason():
    with pytest.raises(parshall.StartError, match="(?s)status 2 before it was ready.*lock_duratoin"):
        parshall.serve(queues=[{"name": "jobs", "lock_duratoin": "5 s"}])
    with pytest.raises(TypeError, match="a list of names"):
        parshall.serve(queues="jobs")


def test_the_program_is_the_one_that_is_named_then_the_carried_one_then_that_on_the_path(monkeypatch, tmp_path):
    monkeypatch.delenv("PARSHALL", raising=False)
    assert _program.find() == str(_program.CARRIED)
    command = [os.path.join(os.path.dirname(sys.executable), "parshall"), "--version"]
    assert subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.startswith("parshall ")
    other = tmp_path / "parshall"
    shutil.copy("/bin/true", other)
    monkeypatch.setenv("PARSHALL", str(other))
    assert _program.find() == str(other)
    monkeypatch.setenv("PARSHALL", str(tmp_path / "nothing"))
    with pytest.raises(parshall.NoProgram, match="can't|is not a program"):
        parshall.serve()
    monkeypatch.delenv("PARSHALL")
    monkeypatch.setattr(_program, "CARRIED", tmp_path / "nothing")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _program.find() == str(other)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(parshall.NoProgram, match="set PARSHALL"):
        parshall.serve()
