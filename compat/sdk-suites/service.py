"""`parshall serve` for one test: at a loopback address of its own, on the ports at which the SDKs look for the cloud.

The SDKs' tests name a host and no port. A service that has an address such as 127.91.4.2 to itself can listen on 5671 and
443 there, whatever else runs on the machine.
"""

import os
import random
import shutil
import socket
import subprocess
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "sdk-suites"
KEY_NAME = "RootManageSharedAccessKey"
KEY = "SAS_KEY_VALUE"
ACCOUNT = "devstoreaccount1"
# The key that everyone knows.
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
USES = (
    "parshall_amqp_connections_accepted_total",
    "parshall_rest_connections_accepted_total",
    "parshall_blob_requests_total",
)
START_SECONDS = 30
STOP_SECONDS = 10


class Service:
    """A service that can be started again with another namespace. Each has a directory and an address to itself."""

    def __init__(self, directory: Path, address: str):
        self.directory = directory
        self.address = address
        self.authority = directory / "tls" / "ca.pem"
        # What `--dev-identity` gives to programs that look for a managed identity, if it is among the arguments.
        self.identity: dict[str, str] = {}
        self._process = None
        self._metrics = ""
        self._used = False
        directory.mkdir(parents=True, exist_ok=True)

    def connection_string(self, name: str = KEY_NAME, key: str = KEY, path: str = "") -> str:
        entity = f";EntityPath={path}" if path else ""
        return f"Endpoint=sb://{self.address}/;SharedAccessKeyName={name};SharedAccessKey={key}{entity}"

    def start(self, namespace: str, arguments: tuple[str, ...] = ()):
        """Serves the hubs, queues and topics of `namespace`, which is the file of `--config` without host and keys."""
        self.stop()
        config = self.directory / "namespace.yaml"
        config.write_text(f"host: {self.address}\n{RULES}{namespace}")
        command = [binary(), "serve", "--config", config, "--tls-directory", self.directory / "tls"]
        command += ["--amqp", f"{self.address}:0", "--http", f"{self.address}:0", "--blob", f"{self.address}:10000"]
        command += ["--blob-tls", f"{self.address}:10443"]
        command += ["--amqps", f"{self.address}:5671", "--http-ingress-tls", f"{self.address}:443", *arguments]
        with open(self.directory / "service.log", "w") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        for line in self._process.stdout:
            if line.startswith("Metrics "):
                self._metrics = line.split()[-1]
            if line.startswith("  IDENTITY_"):
                name, value = line.strip().split("=", 1)
                self.identity[name] = value
            if line == "Ready.\n":
                return
        status = self._process.wait(timeout=START_SECONDS)
        reason = (self.directory / "service.log").read_text()
        raise RuntimeError(f"the service did not start (status {status}): {reason}")

    def was_used(self) -> bool:
        """Whether anyone has connected to it since this was last asked, in a run that has been stopped."""
        used, self._used = self._used, False
        return used

    def _note_use(self):
        with urllib.request.urlopen(self._metrics, timeout=STOP_SECONDS) as response:
            lines = [line for line in response.read().decode().splitlines() if not line.startswith("#")]
        counted = dict(line.rsplit(" ", 1) for line in lines)
        self._used |= any(float(counted.get(name, 0)) > 0 for name in USES)

    def stop(self):
        if self._process is None:
            return
        if (status := self._process.poll()) is not None:
            self._process = None
            raise RuntimeError(f"the service ended by itself (status {status}): see {self.directory / 'service.log'}")
        self._note_use()
        self._process.terminate()
        try:
            self._process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None


def binary() -> str:
    """The program to test: `PARSHALL_BINARY`, or what `run` has built."""
    return os.environ["PARSHALL_BINARY"]


def build():
    """Builds the program unless `PARSHALL_BINARY` names one."""
    if "PARSHALL_BINARY" not in os.environ:
        built = subprocess.run([ROOT / "compat" / "program"], stdout=subprocess.PIPE, text=True, check=True)
        os.environ["PARSHALL_BINARY"] = built.stdout.strip()


def addresses(count: int) -> list[str]:
    """Loopback addresses on which nothing listens yet."""
    while True:
        network = f"127.{random.randint(64, 254)}.{random.randint(1, 254)}"
        found = [f"{network}.{number + 1}" for number in range(count)]
        if all(_is_free(address, port) for address in found for port in (443, 5671, 10000)):
            return found


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except PermissionError:
            raise SystemExit(
                f"the suites need port {port} of a loopback address: run them as root, or allow it once with\n"
                f"  sysctl net.ipv4.ip_unprivileged_port_start={port}"
            ) from None
        except OSError:
            return False
    return True


def fresh(directory: Path) -> Path:
    """An empty directory."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


RULES = f"""\
authorization_rules:
  - {{name: {KEY_NAME}, key: {KEY}, rights: [manage]}}
  - {{name: sender, key: SEND_KEY_VALUE, rights: [send]}}
  - {{name: listener, key: LISTEN_KEY_VALUE, rights: [listen]}}
"""
