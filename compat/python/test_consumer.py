"""Consumers on the official clients that write to a database and forward nothing, as the system under test."""

import json
import os
import subprocess
import sys

import pytest

CONSUMER = """\
import json
import os
import sqlite3
import threading

from azure.eventhub import EventHubConsumerClient
from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore

environment = os.environ.get
database = sqlite3.connect(os.path.join(environment("PARSHALL_FOLDER"), "events.db"), check_same_thread=False)
database.execute("create table events (body blob)")
lock = threading.Lock()
checkpoints = BlobCheckpointStore.from_connection_string(
    environment("PARSHALL_CHECKPOINT_CONNECTION_STRING"), environment("PARSHALL_CHECKPOINT_CONTAINER")
)
client = EventHubConsumerClient.from_connection_string(
    environment("PARSHALL_SOURCE_CONNECTION_STRING"),
    environment("PARSHALL_CONSUMER_GROUP"),
    eventhub_name=environment("PARSHALL_SOURCE_HUB"),
    checkpoint_store=checkpoints,
    load_balancing_interval=0.5,
)


def write(context, events):
    if not events or context.partition_id == environment("LEAVES_OUT"):
        return
    with lock, database:
        database.executemany("insert into events values (?)", [(b"".join(event.body),) for event in events])
    if environment("SAYS"):
        done = {"partition": context.partition_id, "sequence_number": events[-1].sequence_number}
        print("parshall-done", json.dumps(done), flush=True)
    else:
        context.update_checkpoint(events[-1])


client.receive_batch(write, max_batch_size=50, max_wait_time=1, starting_position="-1")
"""

COMPLETING = """\
import os
import sqlite3

from azure.servicebus import ServiceBusClient

environment = os.environ.get
database = sqlite3.connect(os.path.join(environment("PARSHALL_FOLDER"), "messages.db"))
database.execute("create table messages (body blob)")
client = ServiceBusClient.from_connection_string(environment("PARSHALL_SOURCE_CONNECTION_STRING"))
receiver = client.get_queue_receiver(environment("PARSHALL_SOURCE_QUEUE"))
for message in receiver:
    with database:
        database.execute("insert into messages values (?)", (b"".join(message.body),))
    receiver.complete_message(message)
"""

SCENARIO = """\
scenario: to-database
topology:
  entities: {{in: {entity}}}
  load: in
  pipeline: {{from: in}}
embedded: {{log_per_hub: 64 MiB}}
load: {{max_lag: 200, batch: 10, payload: 100 B}}
relay: {{prefetch: 10}}
phases: {{warm_up: 200 ms, measure: 1 s, drain: {drain}}}
sut: writer
suts: {{writer: {{command: ["{python}", consumer.py], done: {done}, env: {env}, stop_within: 200 ms}}}}
"""


def run(tmp_path, program, done, entity="{hub: events, partitions: 2}", env="{}", drain="10 s"):
    (tmp_path / "consumer.py").write_text(program)
    scenario = SCENARIO.format(python=sys.executable, done=done, entity=entity, env=env, drain=drain)
    (tmp_path / "to-database.yaml").write_text(scenario)
    command = [os.environ["PARSHALL_BINARY"], "run", "./to-database.yaml", "--out", "results"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    (case,) = json.loads((tmp_path / "results" / "results.json").read_text())["cases"]
    return finished.returncode, case


@pytest.mark.parametrize("done, env", [("checkpoint", "{}"), ("line", '{SAYS: "1"}')])
def test_what_a_processor_checkpoints_or_says_is_done(tmp_path, done, env):
    status, case = run(tmp_path, CONSUMER, done, env=env)
    assert status == 0, case["findings"]
    assert case["delivery"]["done"] == case["delivery"]["sent"] > 0
    assert case["delivery"]["lost"] == 0
    assert case["latency_us"]["p50"] > 0


def test_what_a_processor_leaves_out_is_lost(tmp_path):
    status, case = run(tmp_path, CONSUMER, "checkpoint", env='{LEAVES_OUT: "1"}', drain="1 s")
    assert status == 1
    assert case["delivery"]["lost"] > 0 and case["delivery"]["done"] > 0
    assert [finding["kind"] for finding in case["findings"] if finding["severity"] == "failure"] == ["events-lost"]


def test_a_message_that_a_receiver_completes_is_done(tmp_path):
    status, case = run(tmp_path, COMPLETING, "settlement", entity="{queue: orders}")
    assert status == 0, case["findings"]
    assert case["delivery"]["done"] == case["delivery"]["sent"] > 0
    assert "latency_us" not in case
