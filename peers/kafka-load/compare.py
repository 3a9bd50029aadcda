#!/usr/bin/env python3
"""`make bench-kafka`: the same clients drive Parshall and Apache Kafka in turn, and what each costs is printed as ratios.

    peers/kafka-load/compare.py --parshall target/release/parshall [--trials 3] [--quick] [--only NAME,...] [--out DIRECTORY]

Each trial starts every broker anew, one after the other, in an order that turns: Parshall in memory, Parshall with a data directory
and `--sync os` (Kafka's own flush policy), Apache Kafka, and a broker that only answers. While one is driven no other runs. Before
anything is measured a broker is warmed up by both kinds of load. What is printed is the median of the trials, with the least and the
most. CPU is user and system time of the broker's process; memory is its resident set.

Other processes' CPU during each measurement is measured as well, and named: above a tenth of a core a figure is of no use.
"""

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOAD = HERE.parent.parent / "target/release/kafka-load"
KAFKA = HERE.parent / "apache-kafka"
TICKS = os.sysconf("SC_CLK_TCK")
PARTITIONS = 32
#: A core that others use by more than this spoils a figure.
DISTURBED = 0.1


class Broker:
    """A running broker, and what it has used."""

    def __init__(self, name, command, ready_from=None):
        self.name = name
        begun = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            if line.startswith("Kafka  "):
                self.address = line.split()[1]
            # Apache Kafka's folders are made first, once in its life.
            if line.strip() == ready_from:
                begun = time.monotonic()
            if line == "Ready.\n":
                break
        else:
            raise SystemExit(f"{name} did not start: {command}")
        self.start_seconds = time.monotonic() - begun

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self, which):
        """`VmRSS`, what it has now, or `VmHWM`, the most that it had; in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{which}:\s+(\d+)", status)[1]) * 1024 / 1e6

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()


def busy_seconds():
    """What all processes of the machine have used."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _, _, irq, softirq, _ = fields
    return (user + nice + system + irq + softirq) / TICKS


def children_seconds():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Measured:
    """What a broker and all others use while something runs."""

    def __init__(self, broker):
        self.broker = broker

    def __enter__(self):
        self.before = (time.monotonic(), self.broker.cpu_seconds(), busy_seconds(), children_seconds())
        return self

    def __exit__(self, *_):
        begun, broker, busy, children = self.before
        self.seconds = time.monotonic() - begun
        self.cpu = self.broker.cpu_seconds() - broker
        own = self.cpu + children_seconds() - children
        # Interrupts are no one's, so a little is left over however quiet the machine.
        self.others = max(0.0, (busy_seconds() - busy - own) / self.seconds)


def run(*command, environment=None):
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command[:4]))}: {done.stderr.strip()[-500:]}")
    return done.stdout


def load(broker, what, topic, **numbers):
    """Runs a load; names of librdkafka's settings have `_` for `.`."""
    words = [f"{name.replace('_', '.') if '_' in name and name not in PLAIN else name}={value}" for name, value in numbers.items()]
    words = [word.replace("per_second", "per-second").replace("warm_up", "warm-up") for word in words]
    return json.loads(run(LOAD, what, broker.address, topic, *words).splitlines()[-1])


PLAIN = {"per_second", "warm_up"}


def tool(name, *arguments):
    """Runs a tool of Apache Kafka, as its script would."""
    environment = {**os.environ, "CLASSPATH": f"{KAFKA}/target/tools/*"}
    options = ["-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"]
    return run("java", *options, f"org.apache.kafka.tools.{name}", *arguments, environment=environment)


class Trial:
    """One broker from its start to its stop, and what is measured of it."""

    def __init__(self, broker, sizes, wanted):
        self.broker, self.sizes, self.wanted = broker, sizes, wanted
        self.figures = {}
        self.disturbed = []

    def case(self, name, action, is_needed=False):
        """Measures one load, and keeps what it says and what the broker used. One that is needed for another is always run."""
        if self.wanted and name not in self.wanted:
            if is_needed:
                action()
            return
        try:
            with Measured(self.broker) as used:
                told = action()
        except RuntimeError as error:
            print(f"  {self.broker.name}: {name} failed: {error}", file=sys.stderr)
            return
        for figure, value in told.items():
            self.figures[f"{name}/{figure}"] = value
        if "records" in told:
            self.figures[f"{name}/cpu_us"] = used.cpu / told["records"] * 1e6
            self.figures.setdefault(f"{name}/per_s", told["records"] / told["seconds"] if told.get("seconds") else None)
        self.figures[f"{name}/cpu_cores"] = used.cpu / used.seconds
        self.figures[f"{name}/others_cores"] = used.others
        if used.others > DISTURBED:
            self.disturbed.append((name, used.others))
        print(f"  {self.broker.name}: {name} {told} cpu {used.cpu:.2f} s, others {used.others:.2f} cores", file=sys.stderr)

    def produce(self):
        """As much as goes, of two sizes, to a topic that keeps little."""
        broker, sizes = self.broker, self.sizes
        self.case("produce 16 B", lambda: load(broker, "produce", "load", bytes=16, records=sizes["small"], batch_size=262144))
        self.case("produce 1 KiB", lambda: load(broker, "produce", "load", bytes=1024, records=sizes["large"], batch_size=262144))

    def consume(self):
        """The same back, from topics that keep all."""
        broker, sizes = self.broker, self.sizes
        for name, topic, size, count in [("16 B", "kept-small", 16, sizes["small"]), ("1 KiB", "kept-large", 1024, sizes["kept"])]:
            if self.wanted and not self.wanted & {f"produce {name} kept", f"consume {name}"}:
                continue
            # Into memory, or a page cache, that has to be had first: all of it is kept.
            filling = lambda: load(broker, "produce", topic, bytes=size, records=count, batch_size=262144)
            self.case(f"produce {name} kept", filling, is_needed=True)
            self.case(f"consume {name}", lambda: load(broker, "consume", topic, partitions=PARTITIONS, records=count))

    def latency(self):
        broker, sizes = self.broker, self.sizes
        for name, size in [("16 B", 16), ("1 KiB", 1024)]:
            self.case(
                f"round trip {name}",
                lambda: load(broker, "round-trip", "trips" + name[0], bytes=size, records=sizes["trips"], warm_up=sizes["trips"] // 2),
            )

    def rates(self):
        broker, seconds = self.broker, self.sizes["seconds"]
        for name, size, rate in [("16 B", 16, 100_000), ("1 KiB", 1024, 20_000)]:
            self.case(
                f"rate {name}",
                lambda: load(broker, "rate", "load", bytes=size, per_second=rate, seconds=seconds, linger_ms=5),
            )

    def waiting(self):
        """A thousand consumers for whom nothing comes."""
        if self.wanted and "waiters" not in self.wanted:
            return
        count, seconds = 1000, 5
        load(self.broker, "produce", "idle", bytes=16, records=1)
        before = self.broker.memory("VmRSS")
        command = [LOAD, "waiters", self.broker.address, "idle", f"connections={count}", f"seconds={seconds}"]
        # Behind the one record that there is.
        command.append("offset=1")
        waiters = subprocess.Popen([str(it) for it in command], stdout=subprocess.PIPE, text=True)
        if waiters.stdout.readline() == "waiting\n":
            cpu, begun = self.broker.cpu_seconds(), time.monotonic()
            time.sleep(seconds - 1)
            self.figures["waiters/cpu_cores"] = (self.broker.cpu_seconds() - cpu) / (time.monotonic() - begun)
            self.figures["waiters/kib_each"] = (self.broker.memory("VmRSS") - before) * 1e6 / 1024 / count
        print(f"  {self.broker.name}: waiters {waiters.communicate()[0].strip()}", file=sys.stderr)

    def java(self):
        """The tools that come with Kafka."""
        broker, sizes = self.broker, self.sizes

        def produce(topic, size, count, *more):
            told = tool(
                "ProducerPerformance", "--bootstrap-server", broker.address, "--topic", topic, "--record-size", size,
                "--num-records", count, "--throughput", -1, "--command-property", "acks=1", "batch.size=262144", *more,
            ).strip().splitlines()[-1]
            rate = re.search(r"([\d.]+) records/sec", told)[1]
            return {"records": count, "per_s": float(rate), "ack_p99_ms": float(re.search(r"([\d.]+) ms 99th", told)[1])}

        def consume(topic, count):
            told = tool(
                "ConsumerPerformance", "--bootstrap-server", broker.address, "--topic", topic, "--num-records", count,
                "--timeout", 60000, "--hide-header",
            ).strip().splitlines()[-1].split(", ")
            # Start, end, MB, MB/s, records, records/s, ms of the join, ms of fetching, MB/s and records/s of fetching.
            return {"records": int(told[4]), "per_s": float(told[9]), "with_join_per_s": float(told[5])}

        def end_to_end(topic):
            told = tool("EndToEndLatency", broker.address, topic, sizes["java_trips"], 1, 1024)
            quantiles = re.search(r"50th = (\d+), 99th = (\d+)", told)
            average = re.search(r"Avg latency: ([\d.]+) ms", told)[1]
            return {"avg_us": float(average) * 1000, "p50_ms": int(quantiles[1]), "p99_ms": int(quantiles[2])}

        small, large = sizes["java_small"], sizes["java_large"]
        self.case("Java produce 16 B", lambda: produce("java-small", 16, small))
        self.case("Java produce 1 KiB", lambda: produce("java-large", 1024, large))
        self.case("Java consume 16 B", lambda: consume("java-small", small))
        self.case("Java consume 1 KiB", lambda: consume("java-large", large))
        self.case("Java end to end 1 KiB", lambda: end_to_end("java-trips"))

    def start(self):
        self.figures["start/seconds"] = self.broker.start_seconds
        time.sleep(2)
        self.figures["idle/MB"] = self.broker.memory("VmRSS")
        warm = {"small": self.sizes["small"] // 4, "large": self.sizes["large"] // 4}
        load(self.broker, "produce", "load", bytes=16, records=warm["small"], batch_size=262144)
        load(self.broker, "produce", "load", bytes=1024, records=warm["large"], batch_size=262144)


def measure(name, parshall, sizes, wanted, folder):
    """One trial of one broker."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"{name}:", file=sys.stderr)
    if name == "floor":
        broker = Broker(name, [LOAD, "floor", str(PARTITIONS)])
    elif name == "kafka":
        command = [KAFKA / "run", str(folder / "kafka"), f"num.partitions={PARTITIONS}"]
        broker = Broker(name, command, ready_from="Starting.")
    else:
        config = folder / "namespace.yaml"
        # Kafka leaves its log to the page cache, which is not its memory; here what is loaded keeps little, what is read back all.
        hubs = [("load", "4 MiB")]
        # Keyless records go to a few partitions at a time, so that some get several times their share.
        hubs += [(hub, "256 MiB") for hub in ["kept-small", "kept-large", "java-small", "java-large", "java-trips"]]
        hubs += [(hub, "4 MiB") for hub in ["trips1", "idle"]]
        lines = [
            f"  - {{name: {hub}, partitions: {PARTITIONS}, log: {{bytes: {kept}, when_full: retention}}}}" for hub, kept in hubs
        ]
        config.write_text("\n".join(["hubs:", *lines, ""]))
        command = [parshall, "serve", "--config", config, "--kafka", "127.0.0.1:0", "--amqp", "127.0.0.1:0"]
        command += ["--http", "127.0.0.1:0"]
        if name == "durable":
            command += ["--data-dir", folder / "data", "--sync", "os"]
        broker = Broker(name, [str(word) for word in command])
    trial = Trial(broker, sizes, wanted)
    try:
        if name == "floor":
            trial.latency()
            return trial
        trial.start()
        trial.produce()
        if name != "durable":
            trial.rates()
            trial.latency()
            trial.figures["load/MB"] = broker.memory("VmHWM")
            trial.waiting()
        else:
            trial.figures["load/MB"] = broker.memory("VmHWM")
        trial.consume()
        if name != "durable" and not (wanted and not any(it.startswith("Java") for it in wanted)):
            trial.java()
        return trial
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


#: What is printed: a name, the figure, its unit, how many digits, and which way is better.
ROWS = [
    ("start to ready", "start/seconds", "s", 3),
    ("memory, idle", "idle/MB", "MB", 0),
    ("memory, the most under load", "load/MB", "MB", 0),
    ("produce 16 B, batch 256 KiB: broker CPU", "produce 16 B/cpu_us", "µs", 3),
    ("produce 16 B: records", "produce 16 B/per_s", "/s", 0),
    ("produce 1 KiB: broker CPU", "produce 1 KiB/cpu_us", "µs", 2),
    ("produce 1 KiB: records", "produce 1 KiB/per_s", "/s", 0),
    ("produce 1 KiB, all of it kept: broker CPU", "produce 1 KiB kept/cpu_us", "µs", 2),
    ("produce 1 KiB, all of it kept: records", "produce 1 KiB kept/per_s", "/s", 0),
    ("consume 16 B: broker CPU", "consume 16 B/cpu_us", "µs", 3),
    ("consume 16 B: records", "consume 16 B/per_s", "/s", 0),
    ("consume 1 KiB: broker CPU", "consume 1 KiB/cpu_us", "µs", 3),
    ("consume 1 KiB: records", "consume 1 KiB/per_s", "/s", 0),
    ("linger 0, 16 B, end to end: p50", "round trip 16 B/p50_us", "µs", 0),
    ("linger 0, 16 B, end to end: p99", "round trip 16 B/p99_us", "µs", 0),
    ("linger 0, 1 KiB, end to end: p50", "round trip 1 KiB/p50_us", "µs", 0),
    ("linger 0, 1 KiB, end to end: p99", "round trip 1 KiB/p99_us", "µs", 0),
    ("100,000 × 16 B/s, acks=1, first seconds: p99", "rate 16 B/first_p99_us", "µs", 0),
    ("100,000 × 16 B/s, acks=1: p50", "rate 16 B/p50_us", "µs", 0),
    ("100,000 × 16 B/s, acks=1: p99", "rate 16 B/p99_us", "µs", 0),
    ("20,000 × 1 KiB/s, acks=1, first seconds: p99", "rate 1 KiB/first_p99_us", "µs", 0),
    ("20,000 × 1 KiB/s, acks=1: p50", "rate 1 KiB/p50_us", "µs", 0),
    ("20,000 × 1 KiB/s, acks=1: p99", "rate 1 KiB/p99_us", "µs", 0),
    ("1,000 consumers that wait: CPU", "waiters/cpu_cores", "cores", 3),
    ("1,000 consumers that wait: memory of each", "waiters/kib_each", "KiB", 1),
    ("Java, produce 16 B: broker CPU", "Java produce 16 B/cpu_us", "µs", 3),
    ("Java, produce 16 B: records", "Java produce 16 B/per_s", "/s", 0),
    ("Java, produce 1 KiB: broker CPU", "Java produce 1 KiB/cpu_us", "µs", 2),
    ("Java, produce 1 KiB: records", "Java produce 1 KiB/per_s", "/s", 0),
    ("Java, consume 16 B: records, without the join", "Java consume 16 B/per_s", "/s", 0),
    ("Java, consume 1 KiB: broker CPU", "Java consume 1 KiB/cpu_us", "µs", 3),
    ("Java, consume 1 KiB: records, without the join", "Java consume 1 KiB/per_s", "/s", 0),
    ("Java, end to end 1 KiB: average", "Java end to end 1 KiB/avg_us", "µs", 0),
    ("Java, end to end 1 KiB: p99", "Java end to end 1 KiB/p99_ms", "ms", 0),
]


def values(trials, name, figure):
    found = [trial.figures.get(figure) for trial in trials.get(name, [])]
    return [value for value in found if value is not None]


def cell(found, digits):
    if not found:
        return "–"
    middle, least, most = (f"{value:,.{digits}f}" for value in (statistics.median(found), min(found), max(found)))
    return middle if len(found) == 1 else f"{middle} [{least}–{most}]"


def table(trials):
    """As Markdown: all brokers, and each of Parshall's as a part of Kafka's."""
    titles = ["", "Parshall", "÷ Kafka", "Parshall, `--sync os`", "÷ Kafka", "Apache Kafka", "only answers"]
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for title, figure, unit, digits in ROWS:
        of = {name: values(trials, name, figure) for name in ["memory", "durable", "kafka", "floor"]}
        if not any(of.values()):
            continue
        ratio = {
            name: f"{statistics.median(of[name]) / statistics.median(of['kafka']):.2f}"
            if of[name] and of["kafka"] and statistics.median(of["kafka"])
            else ""
            for name in ["memory", "durable"]
        }
        cells = [f"{title}, {unit}", cell(of["memory"], digits), ratio["memory"], cell(of["durable"], digits)]
        cells += [ratio["durable"], cell(of["kafka"], digits), cell(of["floor"], digits)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def provenance(arguments):
    def told(*command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""

    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    broker = re.search(r"<broker.version>(.*)<", (KAFKA / "pom.xml").read_text())[1]
    tools = re.search(r"<tools.version>(.*)<", (KAFKA / "pom.xml").read_text())[1]
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} cores, {cpu[1] if cpu else platform.machine()}, {platform.system()} {platform.release()}",
        "parshall": told(str(arguments.parshall), "--version"),
        "kafka": f"{broker}, tools {tools}",
        "java": told("java", "-version"),
        "librdkafka": told(str(LOAD), "version"),
        "trials": arguments.trials,
        "command": " ".join(["peers/kafka-load/compare.py", *sys.argv[1:]]),
    }


SIZES = {
    "small": 5_000_000, "large": 1_000_000, "kept": 1_000_000, "trips": 10_000, "seconds": 15,
    "java_small": 5_000_000, "java_large": 1_000_000, "java_trips": 10_000,
}  # fmt: skip
QUICK = {
    "small": 1_000_000, "large": 200_000, "kept": 200_000, "trips": 2_000, "seconds": 6,
    "java_small": 1_000_000, "java_large": 200_000, "java_trips": 2_000,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parshall", type=Path, required=True, help="the program, as it is released")
    parser.add_argument("--trials", type=int, default=3, help="how often each is started and measured [3]")
    parser.add_argument("--quick", action="store_true", help="a fifth of the records, to see that all of it works")
    parser.add_argument("--brokers", default="memory,durable,kafka,floor", help="which of memory, durable, kafka, floor")
    parser.add_argument("--only", help="cases to measure, such as 'produce 1 KiB,round trip 16 B,Java produce 16 B' [all]")
    parser.add_argument("--out", type=Path, help="where results.json goes")
    arguments = parser.parse_args()
    wanted = set(arguments.only.split(",")) if arguments.only else None
    names = arguments.brokers.split(",")
    sizes = QUICK if arguments.quick else SIZES
    trials = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as folder:
        for number in range(arguments.trials):
            turned = names[number % len(names):] + names[: number % len(names)]
            for name in turned:
                trials[name].append(measure(name, arguments.parshall, sizes, wanted, Path(folder) / name))
    facts = provenance(arguments)
    print(table(trials))
    print("\n" + "\n".join(f"{name}: {value}" for name, value in facts.items()))
    disturbed = [(name, *it) for name, all_of in trials.items() for trial in all_of for it in trial.disturbed]
    if disturbed:
        print(f"\nThe machine was shared: others used more than {DISTURBED} of a core in {len(disturbed)} measurements, such as")
        for name, case, cores in sorted(disturbed, key=lambda it: -it[2])[:5]:
            print(f"  {name}, {case}: {cores:.2f} cores")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        figures = {name: [trial.figures for trial in all_of] for name, all_of in trials.items()}
        results = {**facts, "trials_of": figures, "disturbed": disturbed}
        (arguments.out / "results.json").write_text(json.dumps(results, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
