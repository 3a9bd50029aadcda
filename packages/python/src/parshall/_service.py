"""A service as a child process.

Its standard input is a pipe that is never written to. The system closes it when this process ends, however it does, and the
service stops when it is closed (`--stop-on-stdin-close`), so no process is left behind.
"""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from . import _program

Entities = Union[Iterable[Union[str, Mapping[str, Any]]], Mapping[str, Any]]

ANY_PORT = "127.0.0.1:0"
DEFAULT_HUBS = {"events": 4}
DEFAULT_PARTITIONS = 4
STOP_SECONDS = 10


class StartError(RuntimeError):
    """The service did not start. The message ends with its log, which says why."""


def serve(
    *,
    hubs: Optional[Entities] = None,
    queues: Optional[Entities] = None,
    topics: Optional[Entities] = None,
    containers: Optional[Iterable[str]] = None,
    kafka: bool = False,
    tls: bool = False,
    data_directory: Union[str, "os.PathLike[str]", None] = None,
    arguments: Iterable[str] = (),
    timeout: float = 30,
) -> "Service":
    """Starts a service, waits until clients can connect to it, and gives it back. Use it in a `with` statement.

    Entities are names, or mappings with the keys of a namespace file, such as `{"name": "jobs", "requires_session": True}`.
    A mapping of hubs is from names to numbers of partitions (4 where none is given), one of topics from names to lists of
    subscriptions. Without hubs, queues and topics there is a hub `events` with 4 partitions.

    containers: names of blob containers, which may be none: `[]`. Without it, blobs are not served.
    kafka: serve hubs to clients of Kafka, too.
    tls: serve everything over TLS besides; `certificate_authority` of the service is the file to trust.
    data_directory: keep everything there, over restarts; otherwise in memory.
    arguments: more arguments of `parshall serve`, which come before what is said here.
    timeout: the seconds until it must be ready.

    Raises StartError if it does not start, and NoProgram if there is none.
    """
    namespace = _namespace(hubs, queues, topics, containers)
    directory = tempfile.mkdtemp(prefix="parshall-") if namespace or tls else None
    try:
        arguments = [str(argument) for argument in arguments]
        if namespace:
            config = os.path.join(directory, "namespace.json")
            with open(config, "w", encoding="utf-8") as file:
                json.dump(namespace, file)
            arguments += ["--config", config]
        options = {"--amqp": ANY_PORT, "--http": ANY_PORT}
        if containers is not None:
            options["--blob"] = ANY_PORT
        if kafka:
            options["--kafka"] = ANY_PORT
        if tls:
            options["--amqps"] = ANY_PORT
            options["--tls-directory"] = os.path.join(directory, "tls")
            options.update({f"{option}-tls": ANY_PORT for option in ("--blob", "--kafka") if option in options})
        if data_directory is not None:
            options["--data-dir"] = os.fspath(data_directory)
        given = {argument.split("=")[0] for argument in arguments}
        command = [_program.find(), "serve", "--stop-on-stdin-close", "--format", "json", *arguments]
        command += [word for option in options.items() if option[0] not in given for word in option]
        return Service(command, timeout, directory)
    except BaseException:
        _remove(directory)
        raise


class Service:
    """A running service. Leaving its `with` statement, or `stop`, ends it."""

    #: For hubs, queues and topics, over plain TCP.
    connection_string: str
    #: The same over TLS, with `tls`.
    tls_connection_string: Optional[str]
    #: For blobs, with `containers`.
    storage_connection_string: Optional[str]
    #: The same over TLS.
    storage_tls_connection_string: Optional[str]
    #: `HOST:PORT` for clients of Kafka, with `kafka`.
    kafka_bootstrap_servers: Optional[str]
    #: The same for TLS.
    kafka_tls_bootstrap_servers: Optional[str]
    #: The file (PEM) that clients have to trust, with `tls`.
    certificate_authority: Optional[str]
    #: Everything that the service announces, as `parshall serve --format json` has it.
    announcement: dict

    def __init__(self, command: "list[str]", timeout: float, directory: Optional[str] = None):
        self._directory = directory
        # Without a name, so that nothing is left of it whatever happens.
        self._log = tempfile.TemporaryFile()
        # In a session of its own: Ctrl-C is for the tests, which may need the service while they end.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0, start_new_session=True
        )
        try:
            self.announcement = json.loads(self._first_line(time.monotonic() + timeout, timeout))
        except BaseException:
            self._process.kill()
            self.stop()
            raise
        self._process.stdout.close()
        self.connection_string = self.announcement["connection_string"]
        for name in (
            "tls_connection_string",
            "storage_connection_string",
            "storage_tls_connection_string",
            "certificate_authority",
        ):
            setattr(self, name, self.announcement.get(name))
        self.kafka_bootstrap_servers = self._address("kafka", False)
        self.kafka_tls_bootstrap_servers = self._address("kafka", True)

    @property
    def event_hubs_connection_string(self) -> str:
        """For the clients of Event Hubs."""
        return self.connection_string

    @property
    def service_bus_connection_string(self) -> str:
        """For the clients of Service Bus."""
        return self.connection_string

    @property
    def kafka_properties(self) -> "dict[str, str]":
        """What a client of Kafka needs to connect, by the names that confluent-kafka and the Java client have for it."""
        return {
            "bootstrap.servers": self.kafka_bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "$ConnectionString",
            "sasl.password": self.connection_string,
        }

    @property
    def process_id(self) -> int:
        """The number of the service's process."""
        return self._process.pid

    def log(self) -> str:
        """What the service has logged until now."""
        length = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), length, 0).decode(errors="replace")

    def stop(self) -> None:
        """Stops the service and waits for its end. A second call does nothing."""
        if self._process.stdin.closed:
            return
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        _remove(self._directory)

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _first_line(self, deadline: float, timeout: float) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise StartError(f"parshall serve was not ready within {timeout} s. Its log:\n{self.log()}")
            part = self._process.stdout.read(65536)
            if not part:
                status = self._process.wait()
                raise StartError(f"parshall serve ended with status {status} before it was ready:\n{self.log()}")
            line += part
        return line

    def _address(self, protocol: str, tls: bool) -> Optional[str]:
        for listener in self.announcement["listeners"]:
            if (listener["protocol"], listener["tls"]) == (protocol, tls):
                return listener["address"]
        return None


def _namespace(hubs, queues, topics, containers) -> "dict[str, Any]":
    """The content of the namespace file; nothing, if nothing is named."""
    if hubs is None and queues is None and topics is None:
        if not containers:
            return {}
        hubs = DEFAULT_HUBS
    namespace = {
        "hubs": _entities(hubs, "partitions", lambda partitions: partitions or DEFAULT_PARTITIONS),
        "queues": _entities(queues),
        "topics": _entities(
            topics, "subscriptions", lambda names: [_entity(subscription) for subscription in names or []]
        ),
    }
    for hub in namespace["hubs"]:
        hub.setdefault("partitions", DEFAULT_PARTITIONS)
    for topic in namespace["topics"]:
        topic.setdefault("subscriptions", [])
    if containers:
        namespace["blob"] = {"containers": list(containers)}
    return namespace


def _entities(entities: Optional[Entities], key: str = "", value_of=None) -> "list[dict[str, Any]]":
    if isinstance(entities, str):
        raise TypeError(f"a list of names is expected, not the text {entities!r}")
    if isinstance(entities, Mapping):
        if value_of is None:
            raise TypeError("queues are a list of names or of mappings")
        return [{"name": name, key: value_of(value)} for name, value in entities.items()]
    return [_entity(entity) for entity in entities or []]


def _entity(entity: Union[str, Mapping[str, Any]]) -> "dict[str, Any]":
    return {"name": entity} if isinstance(entity, str) else dict(entity)


def _remove(directory: Optional[str]) -> None:
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
