#!/usr/bin/env python3
"""`make bench-send`: what others send with beside what Parshall has for it, to the same service, as ratios.

    peers/send/bench.py --parshall target/release/parshall [--trials 3] [--quick] [--only GROUP,...] [--out DIRECTORY]

file      `kcat -P` and `parshall send`: a file of JSON in lines of 1,000 bytes, 1 GB, from standard input
records   librdkafka in C (`kafka-load`) and `parshall send`: lines of 200 bytes, both as fast as they go, over Kafka
requests  `oha` and `wrk`, and the producer of `parshall run ingestion`: one event of 200 bytes per request of HTTP, 100 connections
batches   the official producers and the clients of Kafka beside ours: the batches of 50 of `parshall run ingestion`

Each measurement of the first three has a service of its own, whose hub has 32 partitions of 4 MiB. What is not installed is left out,
and named. CPU is user and system time, memory the most that the process had. Whatever a sender reports, the hub's own offsets are
the count.

`oha` and `wrk` send the same body again and again, so that nobody can tell whether each event arrived once: they are counted in the hub.
Our producer is measured by the lab, whose sink receives and verifies every event on the same two cores meanwhile.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent
sys.path.insert(0, str(PEERS / "kafka-load"))

from compare import DISTURBED, LOAD, Broker, Measured, cell, provenance  # noqa: E402
from mirror import PARTITIONS, Ends  # noqa: E402

HUB = "events"
CONNECTIONS = 100
#: An event of a request, in bytes: the published study's.
EVENT = 200
#: How long a sender may take.
PATIENCE = 600


class Service:
    """A service of its own, with one hub."""

    def __init__(self, parshall, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        config, strings = folder / "namespace.yaml", folder / "strings"
        hub = f"{{name: {HUB}, partitions: {PARTITIONS}, log: {{bytes: 4 MiB, when_full: retention}}}}"
        config.write_text(f"hubs:\n  - {hub}\n")
        command = [parshall, "serve", "--config", config, "--kafka", "127.0.0.1:0", "--amqp", "127.0.0.1:0"]
        command += ["--http", "127.0.0.1:0", "--ready-file", strings]
        self.broker = Broker("service", [str(word) for word in command])
        # It appears a moment after the line that says so, and complete.
        while not strings.exists() and self.broker.process.poll() is None:
            time.sleep(0.001)
        self.connection_string = re.search(r"Endpoint=sb://[^\s\"']+", strings.read_text())[0]
        fields = dict(field.split("=", 1) for field in self.connection_string.split(";") if "=" in field)
        self.host = fields["Endpoint"].removeprefix("sb://").strip("/")
        self.key = fields["SharedAccessKeyName"], fields["SharedAccessKey"]
        self.ends = Ends(self.broker.address, HUB)

    def token(self):
        """A shared access signature for the hub."""
        name, key = self.key
        resource = urllib.parse.quote_plus(f"http://{self.host}/{HUB}")
        expiry = int(time.time()) + 3600
        digest = hmac.new(key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
        signature = urllib.parse.quote_plus(base64.b64encode(digest))
        return f"SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={name}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.broker.stop()


def measured(service, command, standard_input=None):
    """Runs a sender to its end: what it printed, and what it and the service have used for how many events."""
    before = service.ends.sum()
    with Measured(service.broker) as used, tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        begun = time.monotonic()
        process = subprocess.Popen([str(word) for word in command], stdin=standard_input, stdout=printed, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0), said.seek(0)
        text, complaint = printed.read(), said.read()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {complaint.strip()[-500:]}")
    events = service.ends.sum() - before
    if not events:
        raise RuntimeError(f"{command[0]} sent nothing: {(text + complaint).strip()[-500:]}")
    return text, {
        "events": events,
        "per_s": events / seconds,
        "cpu_us": (usage.ru_utime + usage.ru_stime) / events * 1e6,
        "memory_mb": usage.ru_maxrss * 1024 / 1e6,
        "service_cpu_us": used.cpu / events * 1e6,
        "others_cores": used.others,
    }


def lines(path, length, size):
    """A file of lines of JSON, of which no two neighbours are alike."""
    words = random.Random(1)
    text = "".join(words.choices("abcdefghijklmnopqrstuvwxyz     ", k=2 * length))
    with path.open("w") as file:
        for number in range(size // length):
            head = f'{{"number":{number},"customer":"c-{number % 1000}","total":{number % 97}.5,"text":"'
            rest = length - len(head) - 3
            at = number * 37 % (len(text) - rest)
            file.write(f'{head}{text[at : at + rest]}"}}\n')
    return size // length


def sender(parshall, *more):
    return [parshall, "send", HUB, "--json", *more]


def not_installed(program):
    return "not installed: " + ("peers/send/build builds it" if program == "oha" else f"apt-get install {program}")


def over_kafka(service):
    return ["--protocol", "kafka", "--bootstrap", service.broker.address]


class File:
    """A file of lines of 1,000 bytes."""

    figures = ["per_s", "cpu_us", "memory_mb", "service_cpu_us"]
    #: What others are divided by: the first of these that was measured.
    references = ["kcat -P"]
    titles = ["send, Kafka", "send, AMQP", "send, HTTP", "kcat -P"]
    length, size = 1000, 1_000_000_000

    def __init__(self, arguments, folder):
        self.parshall = arguments.parshall
        self.file = folder / f"lines-{self.length}"
        self.count = lines(self.file, self.length, self.size // (10 if arguments.quick else 1))

    def missing(self, title):
        return not_installed("kcat") if title in self.references and shutil.which("kcat") is None else None

    def command(self, title, service):
        connected = ["--connection-string", service.connection_string]
        if title in self.references:
            return ["kcat", "-q", "-P", "-b", service.broker.address, "-t", HUB]
        if title == "send, Kafka":
            return sender(self.parshall, *over_kafka(service))
        protocol = title.rsplit(" ", 1)[1].lower()
        return sender(self.parshall, "--protocol", protocol, *connected)

    def run(self, title, folder):
        with Service(self.parshall, folder) as service, self.file.open() as file:
            # From the page cache, for everybody.
            while file.buffer.read(1 << 20):
                pass
            file.seek(0)
            _, figures = measured(service, self.command(title, service), file)
        if figures["events"] != self.count:
            raise RuntimeError(f"{title}: {figures['events']} of {self.count} lines are in the hub")
        return figures


class Records(File):
    """As many records of 200 bytes as go, over Kafka."""

    references = ["librdkafka in C"]
    titles = ["send, Kafka", "librdkafka in C"]
    length, size = EVENT, 1_000_000_000

    def missing(self, title):
        return None

    def run(self, title, folder):
        if title not in self.references:
            return super().run(title, folder)
        with Service(self.parshall, folder) as service:
            words = [f"bytes={self.length - 1}", f"records={self.count}"]
            text, figures = measured(service, [LOAD, "produce", service.broker.address, HUB, *words])
        # Its start and its connection are not in its time.
        figures["per_s"] = figures["events"] / json.loads(text.splitlines()[-1])["seconds"]
        return figures


class Requests:
    """An event for each request."""

    figures = ["per_s", "p50_us", "p99_us", "cpu_us", "memory_mb", "service_cpu_us"]
    references = ["oha", "wrk"]
    titles = ["producer", "oha", "wrk"]

    def __init__(self, arguments, _):
        self.parshall, self.seconds = arguments.parshall, 4 if arguments.quick else 15

    @staticmethod
    def program(title):
        own = PEERS / "send/target/bin" / title
        return own if own.exists() else shutil.which(title)

    def missing(self, title):
        return not_installed(title) if title != "producer" and self.program(title) is None else None

    def run(self, title, folder):
        if title == "producer":
            return lab(self.parshall, folder, "throughput", "way=pooled,protocol=http", self.seconds)[0]
        with Service(self.parshall, folder) as service:
            address, token = f"http://{service.host}/{HUB}/messages", service.token()
            body = "x" * EVENT
            if title == "oha":
                command = [self.program(title), "--no-tui", "--output-format", "json", "-z", f"{self.seconds}s", "-c", CONNECTIONS]
                command += ["-m", "POST", "-d", body, "-H", f"Authorization: {token}", address]
            else:
                script = folder / "post.lua"
                script.write_text(f'wrk.method = "POST"\nwrk.body = "{body}"\nwrk.headers["Authorization"] = "{token}"\n')
                command = [self.program(title), "--latency", "-t", 2, "-c", CONNECTIONS, "-d", f"{self.seconds}s", "-s", script, address]
            text, figures = measured(service, command)
        figures |= {"oha": told_by_oha, "wrk": told_by_wrk}[title](text)
        return figures


def told_by_oha(text):
    told = json.loads(text)
    refused = {status: count for status, count in told["statusCodeDistribution"].items() if status != "201"}
    if refused:
        raise RuntimeError(f"oha: refused: {refused}")
    percentiles = told["latencyPercentiles"]
    return {"p50_us": percentiles["p50"] * 1e6, "p99_us": percentiles["p99"] * 1e6, "told_per_s": told["summary"]["requestsPerSec"]}


def told_by_wrk(text):
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    if refused:
        raise RuntimeError(f"wrk: {refused[1]} refused")
    units = {"us": 1, "ms": 1e3, "s": 1e6}

    def percentile(which):
        found = re.search(rf"^ +{which}%\s+([\d.]+)(us|ms|s)$", text, re.MULTILINE)
        return float(found[1]) * units[found[2]]

    told = float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])
    return {"p50_us": percentile(50), "p99_us": percentile(99), "told_per_s": told}


def lab(parshall, folder, sweep, only, seconds):
    """Runs cases of the ingestion study once, and gives the figures of each that ran, by its order."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [parshall, "run", "ingestion", "--sweep", sweep, "--only", only, "--trials", 1, "--out", folder, "-q"]
    command += ["--set", f"phases.measure={seconds} s"]
    environment = {**os.environ, "PARSHALL_PEERS": str(PEERS)}
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    results = folder / "results.json"
    if not results.exists():
        raise RuntimeError(f"parshall run: {done.stderr.strip()[-500:]}")
    return [figures_of(case) for case in json.loads(results.read_text())["cases"]]


def figures_of(case):
    said = [finding["message"] for finding in case.get("findings", [])]
    if case["status"] == "skipped":
        return {"name": case["name"], "skipped": said[0] if said else "skipped"}
    if not case["passed"]:
        raise RuntimeError(f"{case['name']} failed: {said}")
    (trial,) = case["trials"]
    load, hub = trial["roles"]["load"], trial["roles"]["hub"]
    call = case["stages"]["acknowledge"]
    return {
        "name": case["name"],
        "events": case["delivery"]["acknowledged"],
        "per_s": case["produced_per_s"]["median"],
        "p50_us": call["p50"],
        "p99_us": call.get("p99"),
        "cpu_us": load["per_million_events"]["cpu_seconds"],
        "memory_mb": load["memory_peak_bytes"] / 1e6,
        "service_cpu_us": hub["per_million_events"]["cpu_seconds"],
    }


class Batches:
    """Batches of 50, by the lab."""

    figures = ["per_s", "p50_us", "p99_us", "cpu_us", "memory_mb", "service_cpu_us"]
    sweeps = {"client": ["java", "python"], "kafka-client": ["kafka-clients", "confluent-kafka"]}
    references = ["java"]
    titles = ["AMQP", "java", "python", "Kafka", "kafka-clients", "confluent-kafka"]

    def __init__(self, arguments, _):
        self.parshall, self.seconds = arguments.parshall, 4 if arguments.quick else 15
        self.skipped = {}

    def missing(self, title):
        return self.skipped.get(title)

    def run(self, title, folder):
        ours = {"AMQP": "client", "Kafka": "kafka-client"}
        sweep = ours.get(title) or next(sweep for sweep, clients in self.sweeps.items() if title in clients)
        client = "native" if title in ours else title
        axis = "way" if sweep == "client" else "kafka"
        (figures,) = lab(self.parshall, folder, sweep, f"{axis}=batch-of-50,client={client}", self.seconds)
        if "skipped" in figures:
            self.skipped[title] = figures["skipped"]
            raise RuntimeError(figures["skipped"])
        return figures


GROUPS = {"file": File, "records": Records, "requests": Requests, "batches": Batches}

#: What is printed of each figure: a name, and how many digits.
FIGURES = {
    "per_s": ("events/s", 0),
    "p50_us": ("p50, µs", 0),
    "p99_us": ("p99, µs", 0),
    "cpu_us": ("CPU per event, µs", 3),
    "memory_mb": ("memory, the most, MB", 0),
    "service_cpu_us": ("CPU of the service per event, µs", 3),
}


def table(group, found):
    """As Markdown: a row for each sender, and its rate as a part of the reference's."""
    titles = [title for title in group.titles if found.get(title)]
    reference = next((title for title in group.references if found.get(title)), group.references[0])
    lines = ["| | " + " | ".join(FIGURES[it][0] for it in group.figures) + f" | ÷ {reference} |"]
    lines.append("|---|" + "---:|" * (len(group.figures) + 1))

    def values(title, figure):
        return [it[figure] for it in found.get(title, []) if it.get(figure) is not None]

    for title in titles:
        cells = [cell(values(title, figure), FIGURES[figure][1]) for figure in group.figures]
        base = values(reference, "per_s")
        ratio = f"{statistics.median(values(title, 'per_s')) / statistics.median(base):.2f}" if base else "–"
        lines.append(f"| {title} | " + " | ".join(cells) + f" | {ratio} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parshall", type=Path, required=True, help="the program, as it is released")
    parser.add_argument("--trials", type=int, default=3, help="how often each is measured [3]")
    parser.add_argument("--quick", action="store_true", help="a tenth of the lines, to see that all of it works")
    parser.add_argument("--only", help="which of: " + ", ".join(GROUPS))
    parser.add_argument("--out", type=Path, help="where send.json goes")
    arguments = parser.parse_args()
    arguments.parshall = arguments.parshall.resolve()
    results, disturbed, absent = {}, [], {}
    with tempfile.TemporaryDirectory(prefix="bench-send-") as folder:
        for name in arguments.only.split(",") if arguments.only else GROUPS:
            group, found = GROUPS[name](arguments, Path(folder)), results.setdefault(name, {})
            for number in range(arguments.trials):
                turn = number % len(group.titles)
                for title in group.titles[turn:] + group.titles[:turn]:
                    if group.missing(title):
                        absent[title] = group.missing(title)
                        continue
                    try:
                        figures = group.run(title, Path(folder) / "trial")
                    except RuntimeError as error:
                        print(f"  {name}: {title}: {error}", file=sys.stderr)
                        absent[title] = str(error)
                        continue
                    print(f"  {name}: {title}: {figures}", file=sys.stderr)
                    found.setdefault(title, []).append(figures)
                    if figures.get("others_cores", 0) > DISTURBED:
                        disturbed.append((name, title, figures["others_cores"]))
            print(f"{name}: {group.__doc__}\n\n{table(group, found)}\n", flush=True)
    facts = provenance(arguments) | {"command": " ".join(["peers/send/bench.py", *sys.argv[1:]])}
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    for title, reason in absent.items():
        print(f"left out: {title}: {reason}")
    for name, title, cores in disturbed:
        print(f"others used {cores:.2f} cores meanwhile: {name}, {title}")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "send.json").write_text(json.dumps({**facts, "trials_of": results}, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
