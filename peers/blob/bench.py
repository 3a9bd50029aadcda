#!/usr/bin/env python3
"""`make bench-blob`: blobs on a disk, in Parshall and in Azurite, as ratios.

    peers/blob/bench.py --parshall target/release/parshall [--trials 3] [--seconds 5] [--out DIRECTORY]

`oha` sends the same request again and again: Put Blob and Get Blob of one of so many names, over connections that stay open. Both services
keep blobs in a new directory on the same disk, as they do by themselves: neither syncs each blob. CPU is user and system time of the
service. Trials alternate between the two. Needs node and npm for Azurite, and `oha` of `peers/send/build`.
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import urllib.parse
from datetime import datetime, timedelta, timezone
from pathlib import Path

PEERS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PEERS.parent / "compat" / "azurite"))

from side_by_side.account import KEY, NAME, Account, Request  # noqa: E402

#: Title, bytes, connections, and digits of the number of names.
SIZES = [("1 KiB", 1 << 10, 16, 3), ("64 KiB", 1 << 16, 16, 3), ("8 MiB", 8 << 20, 4, 1)]
CONTAINER = "bench"
VERSION = "2019-12-12"


class Service:
    """One of the two, with a directory of its own."""

    def __init__(self, name, arguments, work):
        self.name = name
        folder = work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if name == "parshall":
            command = [arguments.parshall, "serve", "--blob", "127.0.0.1:0", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir", folder / "data"]
        else:
            command = [azurite(), "--blobHost", "127.0.0.1", "--blobPort", "0", "--location", folder, "--silent"]
            command += ["--skipApiVersionCheck", "--disableTelemetry"]
        command = [str(word) for word in command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            if found := re.search(r"(?:BlobEndpoint=|listens on )(http://127\.0\.0\.1:[1-9]\d*)", line):
                self.account = Account(found[1])
                break
        else:
            raise SystemExit(f"{name} did not start: {' '.join(command)}")
        created = self.account.send(Request("PUT", CONTAINER, {"restype": "container"}))
        if created.status != 201:
            raise SystemExit(f"{name} did not create a container: {created}")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024 / 1e6

    def url(self, size, digits):
        """A pattern of URLs, with the right to read and write in each."""
        pattern = re.escape(self.account.url(f"{CONTAINER}/{size}-")) + f"[0-9]{{{digits}}}" + re.escape(f"?{signature()}")
        # A dot of the pattern stands for itself in `oha`, which escapes it.
        return pattern.replace(r"\.", ".")


def azurite():
    """The path of Azurite's blob service, which is installed if it is not there."""
    done = subprocess.run([PEERS.parent / "compat/azurite/install"], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def signature():
    """An account signature to read and write blobs."""
    expiry = (datetime.now(timezone.utc) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields = {"sv": VERSION, "ss": "b", "srt": "o", "sp": "rwc", "se": expiry}
    lines = [NAME, fields["sp"], fields["ss"], fields["srt"], "", fields["se"], "", "", fields["sv"], ""]
    digest = hmac.new(KEY, "\n".join(lines).encode(), hashlib.sha256).digest()
    return urllib.parse.urlencode({**fields, "sig": base64.b64encode(digest).decode()})


def fill(service, title, content, digits):
    # Azurite closes what has been idle for five seconds.
    service.account.connection.close()
    for number in range(10**digits):
        path = f"{CONTAINER}/{title}-{number:0{digits}}"
        put = service.account.send(Request("PUT", path, headers={"x-ms-blob-type": "BlockBlob"}, body=content))
        if put.status != 201:
            raise SystemExit(f"{service.name} did not take a blob: {put.status} {put.body}")


def trial(service, method, size, content, connections, digits, seconds):
    """What one run of `oha` came to."""
    command = [PEERS / "send/target/bin/oha", "--no-tui", "--output-format", "json", "-z", f"{seconds}s", "-c", connections]
    command += ["-m", method, "--rand-regex-url", service.url(size, digits)]
    if method == "PUT":
        command += ["-H", "x-ms-blob-type: BlockBlob", "-D", content]
    before = service.cpu_seconds()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    answers = told["statusCodeDistribution"]
    if set(answers) - {"200", "201"} or not answers:
        raise SystemExit(f"{service.name} refused: {answers} {told.get('errorDistribution')}")
    count = sum(answers.values())
    return {
        "per_s": count / seconds,
        "p50_ms": told["latencyPercentiles"]["p50"] * 1e3,
        "p99_ms": told["latencyPercentiles"]["p99"] * 1e3,
        "cpu_us": (service.cpu_seconds() - before) / count * 1e6,
    }


def cell(values, digits):
    middle, least, most = (f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} [{least}–{most}]"


def table(found):
    rows = ["| | Parshall | Azurite | ratio |", "|---|---:|---:|---:|"]
    for title, _, _, _ in SIZES:
        for method in ("PUT", "GET"):
            for figure, unit, digits in (("per_s", "requests/s", 0), ("p50_ms", "p50, ms", 2), ("p99_ms", "p99, ms", 2), ("cpu_us", "CPU, µs", 0)):
                ours, theirs = ([trial[figure] for trial in found[name, method, title]] for name in ("parshall", "azurite"))
                ratio = statistics.median(ours) / statistics.median(theirs)
                rows.append(f"| {method} {title}, {unit} | {cell(ours, digits)} | {cell(theirs, digits)} | {ratio:.2f} |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parshall", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("target/bench-blob"))
    arguments = parser.parse_args()
    found, memory = {}, {}
    for number in range(arguments.trials):
        for name in ("parshall", "azurite"):
            service = Service(name, arguments, arguments.out)
            for title, length, connections, digits in SIZES:
                content = arguments.out / f"content-{length}"
                content.write_bytes(os.urandom(length))
                size = title.replace(" ", "")
                fill(service, size, content.read_bytes(), digits)
                for method in ("PUT", "GET"):
                    figures = trial(service, method, size, content, connections, digits, arguments.seconds)
                    found.setdefault((name, method, title), []).append(figures)
                    told = ", ".join(f"{figure} {value:.4g}" for figure, value in figures.items())
                    print(f"{number + 1} {name} {method} {title}: {told}", file=sys.stderr)
            memory.setdefault(name, []).append(service.memory_mb())
            service.stop()
    print(table(found))
    print(f"\nMemory, the most: {cell(memory['parshall'], 0)} MB and {cell(memory['azurite'], 0)} MB.")


if __name__ == "__main__":
    main()
