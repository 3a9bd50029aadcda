"""An account whose endpoints are those of the cloud, for programs that know no others.

`parshall serve` has a certificate for `*.blob.core.windows.net`. An HTTP proxy connects programs with it, whatever host they ask for: all
of them follow `HTTPS_PROXY`.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

# Not the emulator's, which some programs look for at a place of its own.
NAME = "acme"
KEY = base64.b64encode(b"of the account that programs use").decode()
HOST = f"{NAME}.blob.core.windows.net"


class Account:
    """What programs need to know of the account."""

    name, key, host = NAME, KEY, HOST

    def __init__(self, folder):
        self.authority = folder / "authority.pem"
        key = folder / "key.pem"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=parshall"]
        command += ["-keyout", key, "-out", self.authority, "-addext", f"subjectAltName=DNS:{HOST},DNS:localhost,IP:127.0.0.1"]
        subprocess.run(command, check=True, capture_output=True)
        config = folder / "namespace.yaml"
        config.write_text(f"hubs: []\nblob: {{account: {{name: {NAME}, key: {KEY}}}}}\n")
        command = [os.environ["PARSHALL_BINARY"], "serve", "--config", config, "--blob", "127.0.0.1:0", "--blob-tls", "127.0.0.1:0", "--amqp", "127.0.0.1:0"]
        command += ["--http", "127.0.0.1:0", "--certificate", self.authority, "--key", key, "--format", "json"]
        command += ["--data-dir", folder / "data"]
        with open(folder / "service.log", "w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        told = self.process.stdout.readline()
        if not told:
            raise RuntimeError((folder / "service.log").read_text())
        addresses = {(listener["protocol"], listener["tls"]): listener["address"] for listener in json.loads(told)["listeners"]}
        self.endpoint = f"http://{addresses['blob', False]}/{NAME}"
        self.port = int(addresses["blob", True].rsplit(":", 1)[1])
        self.connection_string = f"DefaultEndpointsProtocol=http;AccountName={NAME};AccountKey={KEY};BlobEndpoint={self.endpoint};"
        self.of_the_cloud = f"DefaultEndpointsProtocol=https;AccountName={NAME};AccountKey={KEY};EndpointSuffix=core.windows.net"

    def client(self):
        return BlobServiceClient.from_connection_string(self.connection_string)

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Proxy:
    """Accepts `CONNECT` for any host, and connects to a port of this machine."""

    def __init__(self, port):
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            asked = b""
            while b"\r\n\r\n" not in asked:
                more = connection.recv(4096)
                if not more:
                    return
                asked += more
            with socket.create_connection(("127.0.0.1", self.port)) as service:
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=pipe, args=(service, connection), daemon=True)
                back.start()
                pipe(connection, service)
                back.join()


def pipe(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.fixture(scope="session")
def account(tmp_path_factory):
    account = Account(tmp_path_factory.mktemp("service"))
    yield account
    account.stop()


@pytest.fixture(scope="session")
def cloud(account):
    """The environment of a program that finds the cloud's endpoints here."""
    proxy = Proxy(account.port)
    authority = str(account.authority)
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    yield os.environ | {"HTTPS_PROXY": proxy.address, "https_proxy": proxy.address} | dict.fromkeys(names, authority)
    proxy.listener.close()


@pytest.fixture
def container(account):
    """The name of a new container."""
    name = f"box-{uuid.uuid4()}"
    with account.client() as client:
        client.create_container(name)
    return name


@pytest.fixture
def files(tmp_path):
    """A folder of files of many sizes."""
    folder = tmp_path / "files"
    for number in range(60):
        file = folder / f"{number % 7}" / f"file {number} ä+%.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(number * number * 40))
    (folder / "large").write_bytes(os.urandom(20_000_000))
    return folder


@pytest.fixture
def cluster(tmp_path_factory):
    """A PostgreSQL cluster that may archive its log, whose programs do not see that they run as root."""
    cluster = Cluster(tmp_path_factory.mktemp("postgresql"))
    yield cluster
    cluster.stop()


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.data = folder / "data"
        self.sockets = folder / "sockets"
        self.sockets.mkdir()
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        self.programs = found[-1].parent if found else Path(shutil.which("postgres")).parent
        self.run([self.programs / "initdb", "-D", self.data, "-A", "trust", "-U", "postgres"])

    def command(self, command):
        """A command that does not see that it runs as root, if it does: PostgreSQL refuses to."""
        return ["unshare", "--user", "--map-user=1000", "--map-group=1000", *command] if os.geteuid() == 0 else command

    def run(self, command, environment=None):
        return output(self.command(command), environment or os.environ, self.folder)

    def start(self, settings, environment=None):
        with open(self.data / "postgresql.auto.conf", "a") as file:
            file.write(f"unix_socket_directories = '{self.sockets}'\nlisten_addresses = ''\nport = 5432\n{settings}\n")
        self.run([self.programs / "pg_ctl", "-D", self.data, "-l", self.folder / "log", "-w", "start"], environment)
        # It answers before it has read all of its log again.
        self.until("SELECT NOT pg_is_in_recovery()")

    def query(self, text):
        return self.run([self.programs / "psql", "-h", self.sockets, "-U", "postgres", "-XAtc", text]).strip()

    def until(self, condition):
        for _ in range(600):
            if self.query(condition) == "t":
                return
            time.sleep(0.1)
        raise AssertionError(f"not within a minute: {condition}\n{(self.folder / 'log').read_text()}")

    def archive(self):
        """Ends the present file of the log, and waits until it is archived."""
        name = self.query("SELECT pg_walfile_name(pg_switch_wal())")
        self.until(f"SELECT last_archived_wal >= '{name}' FROM pg_stat_archiver")

    def stop(self, mode="fast"):
        subprocess.run(self.command([self.programs / "pg_ctl", "-D", self.data, "-m", mode, "-w", "stop"]), capture_output=True)


def output(command, environment, folder=None):
    """What a program prints, which must succeed."""
    command = [str(word) for word in command]
    done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def same(first, second):
    """Whether two folders have the same files."""
    contents = [
        {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()} for folder in (first, second)
    ]
    return contents[0] == contents[1]


@pytest.fixture
def python():
    """The interpreter that has Barman."""
    return sys.executable
