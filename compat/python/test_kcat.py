"""`kcat`, as it is typed in a shell: an older librdkafka (2.0 in Debian 12), with Nagle's algorithm on.

Skipped where it is not installed: `apt-get install kcat`.
"""

import json
import shutil
import subprocess

import pytest
from azure.eventhub import EventData, EventHubProducerClient

from service import PARTITIONS, Service, connect

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="there is no kcat: apt-get install kcat")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("kcat"), 8, arguments=("--kafka", "127.0.0.1:0"))
    yield running
    assert running.stop() == 0


def kcat(service, *arguments, text=None):
    """Runs it, and gives what it prints."""
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "$ConnectionString"}
    settings["sasl.password"] = service.connection_string
    command = ["kcat", "-q", "-b", service.kafka_address]
    command += [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    done = subprocess.run([*command, *arguments], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_topics_are_listed(kafka):
    topic = kafka.unused_hub()
    listed = json.loads(kcat(kafka, "-L", "-J", "-t", topic))
    assert [it["topic"] for it in listed["topics"]] == [topic]
    assert len(listed["topics"][0]["partitions"]) == PARTITIONS
    assert len(listed["brokers"]) == 1


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_become_records_and_are_printed_again(kafka, compression):
    topic = kafka.unused_hub()
    lines = [f"key{number}:value {number} ä" for number in range(200)]
    kcat(kafka, "-P", "-t", topic, "-p", "1", "-K", ":", "-z", compression, "-H", "name=text", text="\n".join(lines) + "\n")
    printed = kcat(kafka, "-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-f", "%o %k:%s %h\\n").splitlines()
    assert printed == [f"{number} {line} name=text" for number, line in enumerate(lines)]
    last = kcat(kafka, "-C", "-t", topic, "-p", "1", "-o", "-1", "-e", "-f", "%s\\n")
    assert last == "value 199 ä\n"


def test_a_group_reads_what_came_over_both_protocols(kafka):
    topic = kafka.unused_hub()
    kcat(kafka, "-P", "-t", topic, "-p", "0", text="kafka\n")
    with connect(EventHubProducerClient, kafka.connection_string, topic) as client:
        client.send_event(EventData(b"amqp"), partition_id="3")
    read = kcat(kafka, "-G", "readers", "-X", "auto.offset.reset=earliest", "-c", "2", "-f", "%p %s\\n", topic)
    assert sorted(read.splitlines()) == ["0 kafka", "3 amqp"]


def test_a_point_in_time_is_found(kafka):
    topic = kafka.unused_hub()
    kcat(kafka, "-P", "-t", topic, "-p", "0", text="a\nb\n")
    assert "[0] offset 2" in kcat(kafka, "-Q", "-t", f"{topic}:0:-1")
    assert "[0] offset 0" in kcat(kafka, "-Q", "-t", f"{topic}:0:-2")
    assert "[0] offset 0" in kcat(kafka, "-Q", "-t", f"{topic}:0:1500000000000")
