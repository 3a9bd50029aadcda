"""What a case begins with: an own container and mostly one blob in it, each in a state that a name stands for.

A text in braces stands for something that the account has said before: `{tag}` and `{modified}` for what the last set-up request was
answered with, `{snapshot}` for the snapshot that was made, `{here}` for the URL of the container.
"""

from .account import Request

LEASE = "11111111-1111-4111-8111-111111111111"
OTHER_LEASE = "22222222-2222-4222-8222-222222222222"
BLOCK = "YmxvY2stMQ=="
OTHER_BLOCK = "YmxvY2stMg=="
CONTENT = b"The quick brown fox jumps over the lazy dog"
PAGE = bytes(range(256)) * 2

CONTAINER = "{container}"
BLOB = "{container}/blob"
OTHER = "{container}/other"


def put(path, content=CONTENT, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request("PUT", path, headers={"x-ms-blob-type": "BlockBlob", **headers}, body=content)


def lease(path, action, query=None, **headers):
    headers = {f"x-ms-{name.replace('_', '-')}": value for name, value in headers.items()}
    return Request("PUT", path, {**(query or {}), "comp": "lease"}, {"x-ms-lease-action": action, **headers})


create = Request("PUT", CONTAINER, {"restype": "container"}, {"x-ms-meta-kind": "test"})
block_blob = put(BLOB, x_ms_meta_color="red", x_ms_blob_content_type="text/plain", x_ms_blob_cache_control="no-cache")
append_blob = Request("PUT", BLOB, headers={"x-ms-blob-type": "AppendBlob", "x-ms-meta-color": "red"})
append = Request("PUT", BLOB, {"comp": "appendblock"}, body=CONTENT)
page_blob = Request("PUT", BLOB, headers={
    "x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "2048", "x-ms-blob-sequence-number": "7",
})
page = Request("PUT", BLOB, {"comp": "page"}, {"x-ms-page-write": "update", "x-ms-range": "bytes=512-1023"}, PAGE)
block = Request("PUT", BLOB, {"comp": "block", "blockid": BLOCK}, body=CONTENT)
other_block = Request("PUT", BLOB, {"comp": "block", "blockid": OTHER_BLOCK}, body=CONTENT[:9])


def block_list(*blocks, path=BLOB, **headers):
    listed = "".join(f"<{kind}>{block}</{kind}>" for kind, block in blocks)
    body = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{listed}</BlockList>'.encode()
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request("PUT", path, {"comp": "blocklist"}, headers, body)


def tags(path=BLOB, **values):
    listed = "".join(f"<Tag><Key>{key}</Key><Value>{value}</Value></Tag>" for key, value in values.items())
    body = f'<?xml version="1.0" encoding="utf-8"?><Tags><TagSet>{listed}</TagSet></Tags>'.encode()
    return Request("PUT", path, {"comp": "tags"}, body=body)


snapshot = Request("PUT", BLOB, {"comp": "snapshot"})


def tier(value, path=BLOB):
    return Request("PUT", path, {"comp": "tier"}, {"x-ms-access-tier": value})


BLOB_STATES = {
    "no-container": [],
    "no-blob": [create],
    "block": [create, block_blob],
    "blocks": [create, block, other_block, block_list(("Latest", BLOCK), ("Latest", OTHER_BLOCK))],
    "uncommitted": [create, block],
    "append": [create, append_blob, append],
    "page": [create, page_blob, page],
    "snapshot": [create, block_blob, snapshot],
    "tagged": [create, block_blob, tags(color="red", size="7")],
    "archived": [create, block_blob, tier("Archive")],
    "cool": [create, block_blob, tier("Cool")],
    "leased": [create, block_blob, lease(BLOB, "acquire", lease_duration=-1, proposed_lease_id=LEASE)],
    "leased-page": [create, page_blob, lease(BLOB, "acquire", lease_duration=-1, proposed_lease_id=LEASE)],
    "leased-append": [create, append_blob, lease(BLOB, "acquire", lease_duration=-1, proposed_lease_id=LEASE)],
    "breaking": [
        create, block_blob, lease(BLOB, "acquire", lease_duration=60, proposed_lease_id=LEASE),
        lease(BLOB, "break", lease_break_period=60),
    ],
    "broken": [
        create, block_blob, lease(BLOB, "acquire", lease_duration=60, proposed_lease_id=LEASE),
        lease(BLOB, "break", lease_break_period=0),
    ],
    "released": [
        create, block_blob, lease(BLOB, "acquire", lease_duration=60, proposed_lease_id=LEASE),
        lease(BLOB, "release", lease_id=LEASE),
    ],
    "copied": [
        create, put(OTHER, x_ms_meta_kind="source"),
        Request("PUT", BLOB, headers={"x-ms-copy-source": "{here}/other"}),
    ],
    "with-other": [create, block_blob, put(OTHER, b"another content", x_ms_meta_kind="source")],
    "with-leased-other": [
        create, block_blob, put(OTHER, b"another content"),
        lease(OTHER, "acquire", lease_duration=-1, proposed_lease_id=LEASE),
    ],
}

CONTAINER_LEASE = {"restype": "container"}

CONTAINER_STATES = {
    "no-container": [],
    "container": [create],
    "public": [
        Request("PUT", CONTAINER, {"restype": "container"}, {"x-ms-blob-public-access": "blob"}),
    ],
    "full": [
        create, *(put(f"{{container}}/{name}") for name in ("a", "a/b", "a/c", "b/d/e", "b/f", "z")),
        Request("PUT", "{container}/u", {"comp": "block", "blockid": BLOCK}, body=b"x"),
        Request("PUT", "{container}/a/b", {"comp": "snapshot"}),
        Request("PUT", "{container}/a/c", headers={"x-ms-blob-type": "AppendBlob", "x-ms-meta-Color": "red"}),
        tags("{container}/z", color="red"),
    ],
    "leased-container": [
        create, lease(CONTAINER, "acquire", CONTAINER_LEASE, lease_duration=-1, proposed_lease_id=LEASE),
    ],
    "breaking-container": [
        create, lease(CONTAINER, "acquire", CONTAINER_LEASE, lease_duration=60, proposed_lease_id=LEASE),
        lease(CONTAINER, "break", CONTAINER_LEASE, lease_break_period=60),
    ],
    "broken-container": [
        create, lease(CONTAINER, "acquire", CONTAINER_LEASE, lease_duration=60, proposed_lease_id=LEASE),
        lease(CONTAINER, "break", CONTAINER_LEASE, lease_break_period=0),
    ],
}

STATES = {**BLOB_STATES, **CONTAINER_STATES}
