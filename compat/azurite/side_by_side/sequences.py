"""Random sequences of lease operations, writes and reads of one blob and its container, which both services are taken through together.

The seed is fixed, so a difference can be found again. A sequence ends at its first difference, since the states differ from there on.
"""

import random

from .account import Request
from .states import BLOB, CONTAINER, LEASE, OTHER_LEASE, CONTAINER_LEASE, append_blob, block_blob, create, lease, put, snapshot

SEQUENCES = 150
STEPS = 14
IDS = (LEASE, OTHER_LEASE, None)


def steps(rng, path, query):
    """One step on a blob or container."""
    own = {} if (own := rng.choice(IDS)) is None else {"lease_id": own}
    proposed = rng.choice((LEASE, OTHER_LEASE))
    kind = rng.randrange(10)
    if kind <= 1:
        return lease(path, "acquire", query, lease_duration=rng.choice((-1, 60)), proposed_lease_id=proposed)
    if kind == 2:
        return lease(path, "renew", query, lease_id=own.get("lease_id", LEASE))
    if kind == 3:
        return lease(path, "change", query, lease_id=own.get("lease_id", LEASE), proposed_lease_id=proposed)
    if kind == 4:
        return lease(path, "release", query, lease_id=own.get("lease_id", LEASE))
    if kind == 5:
        return lease(path, "break", query, **rng.choice(({}, {"lease_break_period": 0}, {"lease_break_period": 60})))
    headers = {f"x-ms-{name.replace('_', '-')}": value for name, value in own.items()}
    if query:
        return rng.choice((
            Request("PUT", path, {**query, "comp": "metadata"}, {**headers, "x-ms-meta-a": str(rng.randrange(9))}),
            Request("GET", path, query, headers),
            Request("DELETE", path, query, headers),
            create,
        ))
    return rng.choice((
        put(path, b"new", **own_headers(own)),
        Request("PUT", path, {"comp": "metadata"}, {**headers, "x-ms-meta-a": str(rng.randrange(9))}),
        Request("PUT", path, {"comp": "block", "blockid": "QUE="}, headers, b"block"),
        Request("PUT", path, {"comp": "appendblock"}, headers, b"more"),
        Request("HEAD", path, {}, headers),
        Request("GET", path, {}, headers),
        Request("DELETE", path, {}, {**headers, "x-ms-delete-snapshots": "include"}),
        Request("PUT", path, {"comp": "snapshot"}, headers),
        append_blob,
    ))


def own_headers(own):
    return {f"x_ms_{name}": value for name, value in own.items()}


def sequences():
    """Yields a name and the requests of each sequence."""
    rng = random.Random(38)
    for number in range(SEQUENCES):
        of_container = number % 3 == 0
        path, query = (CONTAINER, CONTAINER_LEASE) if of_container else (BLOB, {})
        first = [create] if of_container else [create, block_blob, snapshot]
        yield f"sequence/{'container' if of_container else 'blob'}/{number}", first + [steps(rng, path, query) for _ in range(STEPS)]
