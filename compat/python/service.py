"""`parshall serve` as a child process on free ports, and the ways to connect to it."""

import datetime
import json
import os
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

PARTITIONS = 4
CONSUMER_GROUP = "billing"
LISTEN_ONLY = ("listener", "listen-only-value")


class Service:
    """A running service. Every test takes hubs of its own, so that none sees another's events."""

    def __init__(self, directory: Path, hubs: int, *settings: str, arguments: tuple[str, ...] = ()):
        self._unused = iter([f"hub-{number}" for number in range(hubs)])
        config = directory / "namespace.yaml"
        config.write_text("\n".join([_namespace(hubs), *settings]))
        self._command = [os.environ["PARSHALL_BINARY"], "serve", "--config", str(config), "--http", "127.0.0.1:0"]
        self._command += ["--amqps", "127.0.0.1:0", "--websocket", "127.0.0.1:0", "--websocket-tls", "127.0.0.1:0"]
        self._command += ["--tls-directory", str(directory / "tls"), *arguments]
        self._log_file = directory / "service.log"
        self.address = "127.0.0.1:0"
        self.kafka_address = None
        self.start()

    def start(self):
        """Starts it; once it was started before, at the addresses of AMQP and Kafka that it had then."""
        command = [*self._command, "--amqp", self.address.replace("localhost", "127.0.0.1")]
        if self.kafka_address:
            command[command.index("--kafka") + 1] = self.kafka_address
        self._log = open(self._log_file, "a")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        told = {}
        strings = []
        identity = {}
        for line in self._process.stdout:
            if line == "Ready.\n":
                break
            if line.startswith(("  IDENTITY_", "  AZURE_")):
                name, value = line.strip().split("=", 1)
                identity[name] = value
            elif "Endpoint=" in line:
                strings.append(line.split()[-1])
            elif line[:19].strip() and len(line) > 19:
                told[line[:19].strip()] = line[19:].strip()
        else:
            raise RuntimeError(f"it did not start, see {self._log.name}")
        self.address = "localhost:" + told["AMQP"].split(":")[-1]
        self.tls_address = "localhost:" + told["AMQP over TLS"].split(":")[-1]
        self.websocket_address = _authority_of(told["AMQP over WS"])
        self.websocket_tls_address = _authority_of(told["AMQP over WSS"])
        # With `--kafka` and `--kafka-tls` among the arguments. A certificate is for the name.
        self.kafka_address = told.get("Kafka")
        self.kafka_tls_address = told.get("Kafka over TLS", "").replace("127.0.0.1", "localhost")
        self._metrics = told["Metrics"]
        # With `--time-control` among the arguments.
        self._time = told.get("Time")
        self.authority = told["Trusted authority"]
        plain = [string for string in strings if string.endswith("UseDevelopmentEmulator=true")]
        self.connection_string = next(string for string in plain if "EntityPath" not in string)
        self.tls_connection_string = next(
            string for string in strings if string not in plain and "EntityPath" not in string
        )
        # With `--dev-identity` and `--dev-identity-tls` among the arguments: what a command of `serve` has in its environment.
        self.identity = identity
        # With `--blob` and `--blob-tls` among the arguments.
        self.storage_connection_string = next((string for string in strings if "BlobEndpoint=http:" in string), None)
        self.storage_tls_connection_string = next((string for string in strings if "BlobEndpoint=https:" in string), None)

    def unused_hub(self) -> str:
        return next(self._unused)

    def connection_string_with(self, name: str, value: str) -> str:
        return (
            f"Endpoint=sb://{self.address}/;SharedAccessKeyName={name};SharedAccessKey={value};"
            "UseDevelopmentEmulator=true"
        )

    def stop(self) -> int:
        """Asks it to end and gives its exit status."""
        self._process.terminate()
        status = self._process.wait(timeout=10)
        self._process.stdout.close()
        self._log.close()
        return status

    def kill(self):
        """Ends it as a crash does."""
        self._process.kill()
        self.stop()

    def open_connections(self) -> int:
        _, text = self.metrics()
        for line in text.splitlines():
            if line.startswith("parshall_amqp_connections "):
                return int(line.split()[-1])
        raise RuntimeError("the service does not say how many connections are open")

    def metrics(self, accept: str = "*/*") -> tuple[str, str]:
        """The media type of the metrics, and the metrics."""
        request = urllib.request.Request(self._metrics, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.headers["Content-Type"], response.read().decode()

    def now(self) -> datetime.datetime:
        """The time of a service whose time is under control."""
        with urllib.request.urlopen(self._time, timeout=20) as response:
            now = json.load(response)["now_ms"]
        return datetime.datetime.fromtimestamp(now / 1000, datetime.timezone.utc)

    def advance(self, by: str, end_tokens: bool = False) -> dict[str, int]:
        """Advances that time, and gives what happened."""
        body = json.dumps({"by": by, "end_tokens": end_tokens}).encode()
        with urllib.request.urlopen(self._time + "/advance", body, timeout=60) as response:
            return json.load(response)["happened"]

    def time(self, *arguments: str) -> str:
        """Runs `parshall time` for it, and gives what it prints."""
        command = [os.environ["PARSHALL_BINARY"], "time", *arguments, "--service", self._time]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=20).stdout

    def run(self, *arguments: str) -> str:
        """Runs the program with the service's connection string, and gives what it prints."""
        command = [os.environ["PARSHALL_BINARY"], *arguments, "--connection-string", self.connection_string]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=20).stdout


def connect(client, connection_string: str, hub: str, **options):
    """A client of `hub`, which for consumers reads as `$Default` unless told otherwise."""
    if "Consumer" in client.__name__:
        options.setdefault("consumer_group", "$Default")
    return client.from_connection_string(connection_string, eventhub_name=hub, **options)


def _authority_of(url: str) -> str:
    return "localhost:" + urllib.parse.urlsplit(url).netloc.split(":")[-1]


def _namespace(hubs: int) -> str:
    name, value = LISTEN_ONLY
    lines = ["authorization_rules:"]
    lines += ["  - {name: RootManageSharedAccessKey, key: SAS_KEY_VALUE, rights: [manage]}"]
    lines += [f"  - {{name: {name}, key: {value}, rights: [listen]}}", "hubs:"]
    lines += [
        f"  - {{name: hub-{number}, partitions: {PARTITIONS}, consumer_groups: [{CONSUMER_GROUP}]}}"
        for number in range(hubs)
    ]
    return "\n".join(lines) + "\n"
