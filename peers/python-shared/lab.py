"""What programs in Python share that are clients of a role of the lab: lines, instants, payloads. See docs/external-clients.md."""

import base64
import os
import random
import struct
import sys
import threading
import time

import google_crc32c

TOPIC = os.environ["PARSHALL_TOPIC"]
EPOCH_NS = int(os.environ["PARSHALL_EPOCH_NS"])

#: The bytes of a payload that say who an event is.
HEAD = 12
#: Where it stands when the event was sent, behind a checksum.
SENT = 16

output = sys.stdout.buffer
output_lock = threading.Lock()


def say(text):
    """Says whole lines, in one write."""
    with output_lock:
        output.write(text.encode() + b"\n")
        output.flush()


def now():
    """Microseconds of the run."""
    return (time.monotonic_ns() - EPOCH_NS) // 1000


def stamped(payload):
    """The payload with the instant at which it is sent, if it has room for that."""
    if len(payload) < SENT + 8:
        return payload
    return sealed(payload[:HEAD], struct.pack(">Q", now()) + payload[SENT + 8 :])


def sealed(head, rest):
    return head + struct.pack(">I", google_crc32c.value(head + rest)) + rest


class Call:
    """A call that is to be made: `call 17 200 AAAB…`."""

    def __init__(self, words):
        self.number = words[1].decode()
        self.bytes = int(words[2])
        self.heads = base64.b64decode(words[3])

    @property
    def keys(self):
        """The heads of its events, which no other event has."""
        return [self.heads[at : at + HEAD] for at in range(0, len(self.heads), HEAD)]

    def payloads(self):
        """The payloads of its events, sent now."""
        instant = struct.pack(">Q", now())
        return [payload(head, self.bytes, instant) for head in self.keys]


def payload(head, length, instant):
    if length < SENT:
        return head + FILLER[: length - HEAD]
    rest = instant + filler(length - SENT - 8) if length >= SENT + 8 else filler(length - SENT)
    return sealed(head, rest)


def filler(length):
    return FILLER[:length] if length <= len(FILLER) else (FILLER * (length // len(FILLER) + 1))[:length]


FILLER = random.Random(1).randbytes(4096)


def lines():
    """The lines of the role, as words."""
    return (line.split() for line in sys.stdin.buffer)


def run(program):
    """Runs a program, and says in its last line why it can't go on, if it can't."""
    try:
        program()
    except SystemExit as reason:
        say(f"error {reason}")
        os._exit(1)
    except BrokenPipeError:
        os._exit(1)
