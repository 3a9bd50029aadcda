#!/usr/bin/env python3
"""`make bench-mirror`: the relay and MirrorMaker 2 copy the same topic, on one core each, and what that costs is printed as ratios.

    peers/kafka-load/mirror.py --parshall target/release/parshall [--trials 3] [--quick] [--only NAME,...] [--out DIRECTORY]

Each trial starts the embedded service anew, fills a topic of 32 partitions, starts one copier on a core of its own, and asks for the
ends of the copy until all of it is there. The rate is that between a tenth and nine tenths of the records, so that no start is in it.
CPU is that of the copier's process over the same time; memory is the most that it had. Service and load have the other core.
"""

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare import HERE, LOAD, TICKS, Broker, provenance, run

MIRROR_MAKER = HERE.parent / "mirror-maker"
PARTITIONS = 32
#: How long a copier may take for a trial, its start included.
PATIENCE = 300


class Ends:
    """Asks for the ends of a topic's partitions (ListOffsets 1)."""

    def __init__(self, address, topic):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        name = topic.encode()
        body = struct.pack(">hhihi", 2, 1, 1, -1, -1) + struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", PARTITIONS)
        body += b"".join(struct.pack(">iq", partition, -1) for partition in range(PARTITIONS))
        self.request = struct.pack(">i", len(body)) + body

    def sum(self):
        self.socket.sendall(self.request)
        (size,) = struct.unpack(">i", self.exactly(4))
        answer = self.exactly(size)
        # Correlation id, topics, name, partitions; then partition, error, timestamp and offset of each.
        (name,) = struct.unpack_from(">h", answer, 8)
        at = 10 + name + 4
        found = [struct.unpack_from(">ihqq", answer, at + 22 * index) for index in range(PARTITIONS)]
        return sum(offset for _, error, _, offset in found if error == 0)

    def exactly(self, count):
        read = b""
        while len(read) < count:
            more = self.socket.recv(count - len(read))
            if not more:
                raise SystemExit("the service has closed the connection")
            read += more
        return read


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def most_memory(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024 / 1e6


def relay(parshall, address, folder, connection_string, to_hub):
    """Our relay from the topic to another one, or to the same over AMQP."""
    sink = f"kafka: {{bootstrap: '{address}', topic: copy}}"
    if to_hub:
        sink = f"event_hubs: {{connection_string: '{connection_string}', hub: copy}}"
    pipeline = folder / "mirror.yaml"
    pipeline.write_text(
        f"source:\n  kafka: {{bootstrap: '{address}', topic: source}}\nsink:\n  {sink}\n"
        "checkpoint: {store: group, write: {every: 1 s}}\nroute: same-partition\nbatch: {events: 2000, wait: 5 ms}\n"
    )
    return [parshall, "relay", pipeline]


def mirror_maker(address, folder):
    # One topic can't be copied to another name within a cluster but with a prefix.
    settings = [
        "replication.policy.class=org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
        "replication.policy.separator=-",
        "tasks.max=4",
        "sync.topic.configs.enabled=false",
        "refresh.topics.interval.seconds=600",
        "source.consumer.auto.offset.reset=earliest",
        "source->target.consumer.auto.offset.reset=earliest",
        "target.producer.batch.size=262144",
        "target.producer.linger.ms=5",
    ]
    return [MIRROR_MAKER / "run", address, address, "source", folder / "mirror-maker", *settings]


def trial(parshall, copier, size, records, folder):
    """Copies records of a size, and tells what it took."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = folder / "namespace.yaml"
    copy = "source-source" if copier == "mirror-maker" else "copy"
    # Records are spread at random, yet none may be gone before it is read: more than twice what a partition gets on average.
    kept = max(4, 3 * records * (size + 16) // PARTITIONS // (1 << 20) + 1)
    hubs = [("source", f"{kept} MiB"), (copy, "4 MiB")]
    lines = [f"  - {{name: {hub}, partitions: {PARTITIONS}, log: {{bytes: {limit}, when_full: retention}}}}" for hub, limit in hubs]
    config.write_text("\n".join(["hubs:", *lines, ""]))
    command = [parshall, "serve", "--config", config, "--kafka", "127.0.0.1:0", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command += ["--kafka-auto-create", "on"]
    strings = folder / "strings"
    service = Broker("service", [str(word) for word in [*command, "--ready-file", strings]])
    try:
        words = [f"bytes={size}", f"records={records}", "batch.size=262144", "sticky.partitioning.linger.ms=0"]
        run(LOAD, "produce", service.address, "source", *words)
        connection_string = re.search(r"Endpoint=\S+?(?=[\"'\s]|$)", strings.read_text())
        connection_string = connection_string[0] if connection_string else ""
        if copier == "mirror-maker":
            words = mirror_maker(service.address, folder)
        else:
            words = relay(parshall, service.address, folder, connection_string, copier == "relay to a hub")
        log = (folder / "copier.log").open("w")
        process = subprocess.Popen(["taskset", "-c", "1", *map(str, words)], stdout=log, stderr=log)
        ends, begun, marks = Ends(service.address, copy), time.monotonic(), {}
        try:
            while len(marks) < 3:
                there = ends.sum()
                for mark in (0.1, 0.9, 1.0):
                    if there >= mark * records and mark not in marks:
                        marks[mark] = (time.monotonic(), there, cpu_seconds(process))
                if process.poll() is not None or time.monotonic() - begun > PATIENCE:
                    tail = (folder / "copier.log").read_text()[-1500:]
                    raise RuntimeError(f"{copier}: {there} of {records} records came: {tail}")
                time.sleep(0.01)
            memory = most_memory(process)
        finally:
            process.terminate()
            process.wait(60)
        (from_time, from_count, from_cpu), (to_time, to_count, to_cpu) = marks[0.1], marks[0.9]
        copied = to_count - from_count
        if not copied:
            raise RuntimeError(f"{copier}: too few records to measure")
        return {
            "per_s": copied / (to_time - from_time),
            "cpu_us": (to_cpu - from_cpu) / copied * 1e6,
            "memory_mb": memory,
            "first_s": marks[0.1][0] - begun,
        }
    finally:
        service.stop()
        shutil.rmtree(folder, ignore_errors=True)


#: Records of each size for a copier of ours and for MirrorMaker.
SIZES = {16: (20_000_000, 3_000_000), 1024: (2_000_000, 400_000)}
COPIERS = ["relay", "relay to a hub", "mirror-maker"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parshall", type=Path, required=True, help="the program, as it is released")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a fifth of the records")
    parser.add_argument("--only", help="which of: " + ", ".join(COPIERS))
    parser.add_argument("--out", type=Path, help="where mirror.json goes")
    arguments = parser.parse_args()
    copiers = arguments.only.split(",") if arguments.only else COPIERS
    found = {}
    with tempfile.TemporaryDirectory(prefix="bench-mirror-") as folder:
        for number in range(arguments.trials):
            for size, (ours, theirs) in SIZES.items():
                for copier in copiers:
                    records = theirs if copier == "mirror-maker" else ours
                    records //= 5 if arguments.quick else 1
                    figures = trial(arguments.parshall, copier, size, records, Path(folder) / "trial")
                    print(f"  {number}: {copier}, {size} B: {figures}", file=sys.stderr)
                    found.setdefault((copier, size), []).append(figures)
    units = [("per_s", "records/s", 0), ("cpu_us", "CPU per record, µs", 3), ("memory_mb", "memory, the most, MB", 0)]
    print("| | " + " | ".join(copiers) + " |\n|" + "---|" * (len(copiers) + 1))
    for size in SIZES:
        for figure, unit, digits in units:
            cells = []
            for copier in copiers:
                values = [it[figure] for it in found.get((copier, size), [])]
                middle, least, most = (f"{it:,.{digits}f}" for it in (statistics.median(values), min(values), max(values)))
                theirs = [it[figure] for it in found.get(("mirror-maker", size), [])]
                ratio = f" ({statistics.median(values) / statistics.median(theirs):.3g} ×)" if theirs and copier != "mirror-maker" else ""
                cells.append(f"{middle} [{least}–{most}]{ratio}")
            print(f"| {size} B: {unit} | " + " | ".join(cells) + " |")
    facts = provenance(arguments) | {"command": " ".join(["peers/kafka-load/mirror.py", *sys.argv[1:]])}
    facts["mirror_maker"] = re.search(r"<mirror.version>(.*)<", (MIRROR_MAKER / "pom.xml").read_text())[1]
    print("\n" + "\n".join(f"{name}: {value}" for name, value in facts.items()))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        figures = {f"{copier}, {size} B": values for (copier, size), values in found.items()}
        (arguments.out / "mirror.json").write_text(json.dumps({**facts, "trials_of": figures}, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
