"""A service with queues and topics, and the ways to use them."""

import time
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsynchronousClient

from service import Service

PLAIN, SHORT, SESSIONS, SHORT_SESSIONS = "plain", "short", "sessions", "short-sessions"
KINDS = (PLAIN, SHORT, SESSIONS, SHORT_SESSIONS)
EACH = 24
SHORT_LOCK_S = 2
MAXIMUM_DELIVERY_COUNT = 3

# What a receiver waits for at most where something must come.
PATIENCE_S = 20
# And where nothing must.
SILENCE_S = 1


class Queues:
    """A running service. Every test takes a queue of its own."""

    def __init__(self, directory: Path, *arguments: str):
        self.service = Service(directory, 1, _configuration(), arguments=arguments)
        self._unused = {kind: iter([f"{kind}-{number}" for number in range(EACH)]) for kind in KINDS}

    def unused(self, kind: str = PLAIN) -> str:
        return next(self._unused[kind])

    def client(self, **options) -> ServiceBusClient:
        return ServiceBusClient.from_connection_string(self.service.connection_string, **options)

    def asynchronous_client(self, **options) -> AsynchronousClient:
        return AsynchronousClient.from_connection_string(self.service.connection_string, **options)


def texts(messages) -> list[str]:
    return [str(message) for message in messages]


def send(client: ServiceBusClient, queue: str, *bodies: str, **properties):
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(body, **properties) for body in bodies])


def receive(receiver, count: int = 1):
    """So many messages, each of which must come."""
    messages = []
    while len(messages) < count:
        more = receiver.receive_messages(max_message_count=count - len(messages), max_wait_time=PATIENCE_S)
        assert more, f"only {len(messages)} of {count} messages came"
        messages += more
    return messages


def wait_until(is_reached):
    """For what can only be asked for."""
    end = time.monotonic() + PATIENCE_S
    while not is_reached():
        assert time.monotonic() < end, "it was not reached in time"
        time.sleep(0.05)


def _configuration() -> str:
    lines = ["queues:"]
    for number in range(EACH):
        lines.append(f"  - {{name: {PLAIN}-{number}, maximum_delivery_count: {MAXIMUM_DELIVERY_COUNT}}}")
        lines.append(f"  - {{name: {SHORT}-{number}, lock_duration: {SHORT_LOCK_S} s}}")
        lines.append(f"  - {{name: {SESSIONS}-{number}, requires_session: true}}")
        lines.append(f"  - {{name: {SHORT_SESSIONS}-{number}, requires_session: true, lock_duration: {SHORT_LOCK_S} s}}")
    lines += [
        "  - {name: once, duplicate_detection: 1 min}",
        "  - {name: full, size_limit: 100 KiB}",
        "  - {name: mortal, default_time_to_live: 200 ms, dead_lettering_on_expiration: true}",
        "  - {name: closed, status: disabled}",
        "  - {name: front, forward_to: back, maximum_delivery_count: 1}",
        "  - {name: back, forward_dead_lettered_messages_to: graveyard}",
        "  - {name: graveyard}",
        "topics:",
        "  - name: news",
        "    subscriptions:",
        "      - {name: all}",
        "      - {name: red, rules: [{name: red, filter: {sql: \"color = 'red' AND size > 3\"}}]}",
        "      - {name: urgent, rules: [{name: urgent, filter: {correlation: {label: urgent}}}]}",
        "      - {name: none, rules: []}",
    ]
    return "\n".join(lines)
