"""Programs of `peers` as clients in runs of the lab: confluent-kafka in load and sink, and both producers in Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).parents[2] / "peers"
CLIENT = PEERS / "confluent-kafka" / "client.py"
PRODUCER = PEERS / "python-producer" / "producer.py"

SCENARIO = f"""\
scenario: clients
clients: {{confluent-kafka: {{command: ["{sys.executable}", "{CLIENT}"]}}}}
topology:
  entities: {{in: {{hub: events, partitions: 2}}}}
  load: {{to: in, protocol: kafka, client: confluent-kafka, properties: {{linger.ms: 0, acks: 1}}}}
  sink: {{from: in, protocol: kafka, client: confluent-kafka, properties: {{fetch.wait.max.ms: 100}}}}
  measure: service
embedded: {{log_per_hub: 64 MiB}}
load: {{mode: open, rate: 300/s, payload: 64 B, batch: 1, in_flight: 500}}
phases: {{warm_up: 500 ms, measure: 2 s, drain: 20 s}}
trials: 1
"""

PRODUCERS = f"""\
scenario: producers
clients:
  python: {{command: ["{sys.executable}", "{PRODUCER}"]}}
  confluent-kafka: {{command: ["{sys.executable}", "{CLIENT}"]}}
topology:
  entities: {{in: {{hub: events, partitions: 2}}}}
  load: {{to: in, client: python, producer: {{}}}}
  sink: in
  measure: load
embedded: {{log_per_hub: 64 MiB}}
load: {{mode: closed, callers: 10, payload: 64 B, batch: 1}}
phases: {{warm_up: 200 ms, measure: 500 ms, drain: 20 s}}
trials: 1
sweeps:
  ways:
    load.seed:
      name: way
      values:
        - {{value: 1, name: isolated, topology.load.producer.connections: per-event}}
        - {{value: 2, name: batches, load.batch: 20, topology.load.producer.connections: pooled}}
        - {{value: 3, name: buffered, topology.load.producer.buffering: safe, topology.load.producer.delay: 50 ms}}
        - {{value: 4, name: kafka, load.batch: 20, topology.load.protocol: kafka, topology.load.client: confluent-kafka}}
"""


def run(scenario, folder):
    (folder / "clients.yaml").write_text(scenario)
    command = [os.environ["PARSHALL_BINARY"], "run", "./clients.yaml", "--out", "results"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    # A machine that has other work to do makes a generator late, which shows in the status.
    assert done.returncode in (0, 1), done.stderr
    return json.loads((folder / "results" / "results.json").read_text())["cases"]


def check(case, least):
    """Everything arrived as it was sent, and nobody failed."""
    delivery = case["delivery"]
    assert delivery["sent"] == delivery["acknowledged"] == delivery["received"] > least, case["findings"]
    for kind in ("lost", "duplicated", "corrupted", "unexpected", "unknown"):
        assert delivery[kind] == 0, (kind, delivery)
    kinds = [finding["kind"] for finding in case["findings"]]
    assert "role-failed" not in kinds and "counters-disagree" not in kinds, case["findings"]


def test_what_it_sends_and_receives_is_what_the_load_sent(tmp_path):
    (case,) = run(SCENARIO, tmp_path)
    check(case, 600)
    assert case["delivery"]["reordered"] == 0
    # It says when it sent and when it had each record.
    assert case["uncorrected_latency_us"]["count"] > 500, case


def test_producers_make_the_calls_of_a_load_in_every_way(tmp_path):
    cases = run(PRODUCERS, tmp_path)
    assert [case["name"] for case in cases] == ["way=isolated", "way=batches", "way=buffered", "way=kafka"]
    for case in cases:
        check(case, 5)
        assert case["shape"]["producer"]["client"] in ("python", "confluent-kafka")
