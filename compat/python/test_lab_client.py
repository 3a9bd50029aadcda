"""confluent-kafka as the client of load and sink in a run of the lab: `peers/confluent-kafka`."""

import json
import os
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[2] / "peers" / "confluent-kafka" / "client.py"

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


def test_what_it_sends_and_receives_is_what_the_load_sent(tmp_path):
    (tmp_path / "clients.yaml").write_text(SCENARIO)
    command = [os.environ["PARSHALL_BINARY"], "run", "./clients.yaml", "--out", "results"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    # A machine that has other work to do makes a generator late, which shows in the status.
    assert run.returncode in (0, 1), run.stderr
    (case,) = json.loads((tmp_path / "results" / "results.json").read_text())["cases"]
    delivery = case["delivery"]
    assert delivery["sent"] == delivery["acknowledged"] == delivery["received"] > 600, case["findings"]
    for kind in ("lost", "duplicated", "reordered", "corrupted", "unexpected", "unknown"):
        assert delivery[kind] == 0, (kind, delivery)
    # It says when it sent and when it had each record.
    assert case["uncorrected_latency_us"]["count"] > 500, case
    kinds = [finding["kind"] for finding in case["findings"]]
    assert "role-failed" not in kinds and "counters-disagree" not in kinds, case["findings"]
