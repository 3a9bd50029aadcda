"""A service, three relays and a run of the lab on free ports, under load, for as long as they are looked at."""

import json
import os
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

PROGRAM = os.environ.get("PARSHALL_BINARY", "parshall")

NAMESPACE = """\
hubs:
  - {name: source, partitions: 4}
  - {name: destination, partitions: 4}
queues:
  - {name: jobs}
  - {name: done}
topics:
  - {name: news, subscriptions: [{name: all}]}
profile: {throughput_units: 20}
blob: {containers: [checkpoints]}
"""

HUBS = """\
source:
  event_hubs: {{connection_string: '{amqp}', hub: source}}
sink:
  event_hubs: {{connection_string: '{amqp}', hub: destination}}
checkpoint:
  store: {{blob: {{connection_string: '{blob}', container: checkpoints}}}}
ownership: {{mode: balanced, renew: 500 ms, expire: 20 s}}
metrics: 127.0.0.1:0
"""

QUEUES = """\
source:
  service_bus: {{connection_string: '{amqp}', queue: jobs}}
sink:
  service_bus: {{connection_string: '{amqp}', queue: done}}
metrics: 127.0.0.1:0
"""

TOPICS = """\
source:
  kafka: {{connection_string: '{kafka}', topic: source, group: mirror}}
sink:
  event_hubs: {{connection_string: '{amqp}', hub: destination}}
checkpoint: {{store: group}}
ownership: {{mode: group}}
metrics: 127.0.0.1:0
"""

# The lab's own run: a few seconds on an embedded service of its own.
RUN = ["run", "fan-out", "--only", "fan_out=1", "--trials", "1", "--metrics", "127.0.0.1:0"]
PHASES = ["phases.warm_up=1 s", "phases.measure=40 s", "load.mode=open", "load.rate=500/s", "limits={}"]


class Served:
    """What is running. Its addresses are known once it was made."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.processes = []
        self.stopping = False
        self.service = self._service()
        strings = {
            "amqp": self.service["connection_string"],
            "kafka": self.service["connection_string"],
            "blob": self.service["storage_connection_string"],
        }
        kafka = [it for it in self.service["listeners"] if it["protocol"] == "kafka"][0]["address"]
        strings["kafka"] = strings["amqp"].replace(self._authority(strings["amqp"]), "localhost:" + kafka.split(":")[-1])
        self.relays = [self._relay(name, text.format(**strings)) for name, text in
                       (("hubs", HUBS), ("queues", QUEUES), ("topics", TOPICS))]
        self._load("source", "amqp")
        self._load("jobs", "amqp")
        self._load("source", "http")
        self.lab = self._lab()

    def addresses(self):
        """Where metrics are, by the job that scrapes them."""
        service = self.service["metrics"].split("/")[2]
        return {"parshall-service": [service], "parshall-relay": self.relays, "parshall-lab": [self.lab]}

    def stop(self):
        self.stopping = True
        for process in reversed(self.processes):
            process.terminate()
        statuses = []
        for process in self.processes:
            try:
                statuses.append((process.args[1], process.wait(timeout=20)))
            except subprocess.TimeoutExpired:
                process.kill()
                statuses.append((process.args[1], None))
        return statuses

    def _start(self, name, arguments, **options):
        log = open(self.folder / f"{name}.log", "w")
        process = subprocess.Popen([PROGRAM, *arguments], stderr=log, text=True, cwd=self.folder, **options)
        self.processes.append(process)
        return process

    def _service(self):
        (self.folder / "namespace.yaml").write_text(NAMESPACE)
        ready = self.folder / "ready.json"
        any_port = "127.0.0.1:0"
        arguments = ["serve", "--config", "namespace.yaml", "--data-dir", "data", "--format", "json"]
        for option in ("--amqp", "--amqps", "--http", "--kafka", "--blob", "--dev-identity"):
            arguments += [option, any_port]
        self._start("service", [*arguments, "--ready-file", str(ready)], stdout=subprocess.DEVNULL)
        wait_for(ready.exists, "the service is not ready")
        return json.loads(ready.read_text())

    def _relay(self, name, text):
        (self.folder / f"{name}.yaml").write_text(text)
        process = self._start(name, ["relay", f"{name}.yaml"], stdout=subprocess.PIPE)
        for line in process.stdout:
            if line.startswith("metrics "):
                return line.split()[1].split("/")[2]
        raise RuntimeError(f"the relay of {name} did not start: {(self.folder / f'{name}.log').read_text()}")

    def _load(self, entity, protocol):
        arguments = ["send", entity, "--protocol", protocol, "--connection-string", self.service["connection_string"]]
        arguments += ["--format", "lines", "--batch", "10", "--quiet"]
        process = self._start(f"load-{entity}-{protocol}", arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

        def write():
            number = 0
            try:
                while not self.stopping:
                    number += 1
                    process.stdin.write(f"event {number} of {entity} over {protocol}\n" * 10)
                    process.stdin.flush()
                    time.sleep(0.05)
            except OSError:
                pass

        threading.Thread(target=write, daemon=True).start()

    def _lab(self):
        arguments = [*RUN, *[part for setting in PHASES for part in ("--set", setting)]]
        self._start("lab", arguments, stdout=subprocess.DEVNULL)
        log = self.folder / "lab.log"
        marker = "metrics at http://"
        wait_for(lambda: marker in log.read_text(), "the lab serves no metrics")
        return log.read_text().split(marker)[1].split("/")[0]

    @staticmethod
    def _authority(connection_string):
        return connection_string.split("sb://")[1].split("/")[0].split(";")[0]


def wait_for(condition, otherwise, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        time.sleep(0.05)


def fetch(url, accept=None):
    """The media type and the text of a page."""
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=20) as response:
        return response.headers["Content-Type"], response.read().decode()
