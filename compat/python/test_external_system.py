"""A forwarder on the official client as the system under test: what it must copy, and what a run says if it does not."""

import json
import os
import subprocess
import sys

import pytest

FORWARDER = """\
import os

from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient

environment = os.environ.get
source = EventHubConsumerClient.from_connection_string(
    environment("PARSHALL_SOURCE_CONNECTION_STRING"),
    environment("PARSHALL_CONSUMER_GROUP"),
    eventhub_name=environment("PARSHALL_SOURCE_HUB"),
)
destination = EventHubProducerClient.from_connection_string(
    environment("PARSHALL_DESTINATION_CONNECTION_STRING"), eventhub_name=environment("PARSHALL_DESTINATION_HUB")
)


def forward(_, events):
    if not events:
        return
    copies = []
    for event in events:
        copy = EventData(b"".join(event.body))
        if environment("COPIES_PROPERTIES"):
            copy.properties = event.properties
        copies.append(copy)
    destination.send_batch(copies, partition_id="0")


source.receive_batch(forward, max_batch_size=50, max_wait_time=1, starting_position="-1")
"""

SCENARIO = """\
scenario: forwarded
hubs: {{source: {{partitions: 1}}, destination: {{partitions: 1}}}}
embedded: {{log_per_hub: 64 MiB}}
load: {{max_lag: 500, batch: 10, payload: {{replay: events.ndjson}}}}
phases: {{warm_up: 200 ms, measure: 1 s, drain: 8 s}}
relay: {{fan_out: 1}}
sut: forwarder
suts: {{forwarder: {{command: ["{python}", forwarder.py], env: {{COPIES_PROPERTIES: "{copies}"}}, stop_within: 200 ms}}}}
"""


@pytest.mark.parametrize("copies", ["1", ""])
def test_a_forwarder_that_drops_the_properties_is_told_so(tmp_path, copies):
    (tmp_path / "forwarder.py").write_text(FORWARDER)
    (tmp_path / "events.ndjson").write_text("\n".join(json.dumps({"order": order}) for order in range(7)))
    (tmp_path / "forwarded.yaml").write_text(SCENARIO.format(python=sys.executable, copies=copies))
    command = [os.environ["PARSHALL_BINARY"], "run", "./forwarded.yaml", "--out", "results"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    (case,) = json.loads((tmp_path / "results" / "results.json").read_text())["cases"]
    missing = [finding for finding in case["findings"] if finding["kind"] == "events-unidentified"]
    if copies:
        assert run.returncode == 0, case["findings"]
        assert case["delivery"]["received"] > 0 and not missing
    else:
        assert run.returncode == 1
        (finding,) = missing
        assert f"{case['delivery']['unidentified']:,} events arrived without the identity" in finding["message"]
        assert "application property `parshall` is missing" in finding["message"]
        assert "docs/external-systems.md" in finding["hint"]
