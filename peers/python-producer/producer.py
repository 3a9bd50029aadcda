"""The official producer of Event Hubs as the producer of a load, as a role of the lab starts it: see docs/external-clients.md."""

import os
import queue
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python-shared"))

from azure.eventhub import EventData, EventHubProducerClient  # noqa: E402
from azure.eventhub.exceptions import EventHubError  # noqa: E402
from lab import HEAD, TOPIC, Call, lines, run, say  # noqa: E402

#: Threads that call the client, each for one call at a time, as in the published study.
THREADS = 100


def connect(**options):
    authority = os.environ.get("PARSHALL_TLS_CA_FILE")
    if authority is not None:
        options["connection_verify"] = authority
    connection_string = os.environ["PARSHALL_CONNECTION_STRING"]
    return EventHubProducerClient.from_connection_string(connection_string, eventhub_name=TOPIC, **options)


def in_one_line(error):
    return f"{type(error).__name__}: {error}".replace("\n", " ")


class Way:
    """A way of sending: `call` returns when the events of a call are stored."""

    def send(self, call):
        """On a thread: makes a call, and says what became of it."""
        try:
            self.call(call)
        # Whatever it is: the call has no other answer.
        except Exception as error:
            say(f"failed {call.number} {in_one_line(error)}")
        else:
            say(f"sent {call.number}")

    @staticmethod
    def send_by(client, call):
        payloads = call.payloads()
        if len(payloads) == 1:
            client.send_event(EventData(payloads[0]))
            return
        batch = client.create_batch()
        for payload in payloads:
            batch.add(EventData(payload))
        client.send_batch(batch)

    def close(self):
        pass


class Isolated(Way):
    """A client for each call, closed after it."""

    def call(self, call):
        with connect() as client:
            self.send_by(client, call)


class Kept(Way):
    """Clients that stay connected, each with a connection of its own, which calls use in turn."""

    def __init__(self, count):
        self.clients = [connect() for _ in range(count)]
        self.free = queue.SimpleQueue()
        with ThreadPoolExecutor(THREADS) as threads:
            for client, batch in zip(self.clients, [threads.submit(client.create_batch) for client in self.clients]):
                # The link is attached, since it says how large a batch may be.
                batch.result()
                self.free.put(client)

    def call(self, call):
        client = self.free.get()
        try:
            self.send_by(client, call)
        finally:
            self.free.put(client)

    def close(self):
        for client in self.clients:
            client.close()


class Buffered(Way):
    """The SDK's buffered mode, which lets events gather per partition. A call is answered when its event has been stored."""

    def __init__(self, delay):
        self.calls = {}
        self.client = connect(
            buffered_mode=True, max_wait_time=delay, on_success=self.stored, on_error=self.refused
        )
        self.client.get_partition_ids()

    def send(self, call):
        try:
            for key, payload in zip(call.keys, call.payloads()):
                self.calls[key] = call.number
                self.client.send_event(EventData(payload))
        except Exception as error:
            if self.calls.pop(key, None) is not None:
                say(f"failed {call.number} {in_one_line(error)}")

    def answered(self, events):
        keys = (b"".join(event.body)[:HEAD] for event in events)
        return (number for number in (self.calls.pop(key, None) for key in keys) if number is not None)

    def stored(self, events, _):
        text = "\n".join(f"sent {number}" for number in self.answered(events))
        if text:
            say(text)

    def refused(self, events, _, error):
        for number in self.answered(events):
            say(f"failed {number} {in_one_line(error)}")

    def close(self):
        self.client.close()


def way():
    connections, buffering = os.environ["PARSHALL_CONNECTIONS"], os.environ["PARSHALL_BUFFERING"]
    if buffering == "safe":
        # It can't do without a timer.
        return Buffered(int(os.environ.get("PARSHALL_DELAY_MS", "1")) / 1000)
    if connections == "per-event":
        return Isolated()
    return Kept(int(os.environ.get("PARSHALL_POOL", "1")))


def produce():
    if os.environ["PARSHALL_PROTOCOL"] != "amqp" or "PARSHALL_CONNECTIONS" not in os.environ:
        raise SystemExit("azure-eventhub is a producer over AMQP: write `producer: {…}`, and no protocol")
    try:
        sender = way()
    except (EventHubError, ValueError, OSError) as error:
        raise SystemExit(in_one_line(error)) from error
    say("ready")
    with ThreadPoolExecutor(THREADS) as threads:
        for words in lines():
            if words[:1] == [b"call"]:
                threads.submit(sender.send, Call(words))
    sender.close()


if __name__ == "__main__":
    run(produce)
