"""All cases: each operation in each state, under each condition, with each lease, and with each of its own parameters."""

import base64
import dataclasses
import hashlib

from .account import Request
from .states import (
    BLOB, BLOB_STATES, BLOCK, CONTAINER, CONTAINER_STATES, CONTENT, LEASE, OTHER_BLOCK, OTHER_LEASE, PAGE, block_list, lease, put,
    tags,
)

PAST = "Sat, 01 Jan 2000 00:00:00 GMT"
FUTURE = "Fri, 01 Jan 2100 00:00:00 GMT"
MD5 = base64.b64encode(hashlib.md5(CONTENT).digest()).decode()
WRONG_MD5 = base64.b64encode(hashlib.md5(b"other").digest()).decode()

CONDITIONS = {
    "if-match": {"If-Match": "{tag}"},
    "if-match-other": {"If-Match": '"0x8D4BCC2E4835CD0"'},
    "if-match-any": {"If-Match": "*"},
    "if-match-bare": {"If-Match": "{bare}"},
    "if-none-match": {"If-None-Match": "{tag}"},
    "if-none-match-other": {"If-None-Match": '"0x8D4BCC2E4835CD0"'},
    "if-none-match-any": {"If-None-Match": "*"},
    "if-modified-since-past": {"If-Modified-Since": PAST},
    "if-modified-since-last": {"If-Modified-Since": "{modified}"},
    "if-modified-since-future": {"If-Modified-Since": FUTURE},
    "if-unmodified-since-past": {"If-Unmodified-Since": PAST},
    "if-unmodified-since-last": {"If-Unmodified-Since": "{modified}"},
    "if-unmodified-since-future": {"If-Unmodified-Since": FUTURE},
    "if-match-but-modified": {"If-Match": "{tag}", "If-Unmodified-Since": PAST},
    "if-none-match-but-modified": {"If-None-Match": "{tag}", "If-Modified-Since": PAST},
    "invalid-date": {"If-Modified-Since": "yesterday"},
}

LEASES = {
    "own-lease": {"x-ms-lease-id": LEASE},
    "other-lease": {"x-ms-lease-id": OTHER_LEASE},
    "invalid-lease": {"x-ms-lease-id": "mine"},
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A request in a state, and what is looked at afterwards, if anything."""

    name: str
    state: str
    request: Request
    after: tuple = ()


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation, the state where it succeeds, and its own parameters: each changes query, headers or body."""

    name: str
    request: Request
    state: str = "block"
    parameters: dict = dataclasses.field(default_factory=dict)
    is_write: bool = True
    of_container: bool = False


def vary(query=None, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return query or {}, headers, body


def query(**values):
    return vary(query={name.rstrip("_"): value for name, value in values.items()})


READ = {
    "range": vary(x_ms_range="bytes=4-8"),
    "range-header": vary(Range="bytes=4-8"),
    "both-ranges": vary(Range="bytes=0-1", x_ms_range="bytes=4-8"),
    "range-open": vary(x_ms_range="bytes=40-"),
    "range-beyond": vary(x_ms_range="bytes=40-400"),
    "range-outside": vary(x_ms_range="bytes=43-50"),
    "range-suffix": vary(x_ms_range="bytes=-5"),
    "range-backwards": vary(x_ms_range="bytes=8-4"),
    "range-invalid": vary(x_ms_range="lines=1-2"),
    "range-md5": vary(x_ms_range="bytes=0-4", x_ms_range_get_content_md5="true"),
    "md5-of-all": vary(x_ms_range_get_content_md5="true"),
    "crc64": vary(x_ms_range="bytes=0-4", x_ms_range_get_content_crc64="true"),
    "response-headers": query(rscc="no-store", rsct="text/html"),
    "snapshot-missing": query(snapshot="2020-01-01T00:00:00.0000000Z"),
    "snapshot-invalid": query(snapshot="yesterday"),
    "client-request-id": vary(x_ms_client_request_id="mine"),
    "timeout": query(timeout="30"),
    "version-2019": vary(x_ms_version="2019-12-12"),
    "version-2015": vary(x_ms_version="2015-04-05"),
    "version-2012": vary(x_ms_version="2012-02-12"),
}

WRITTEN = {
    "metadata": vary(x_ms_meta_Shape="Round", x_ms_meta_n="1"),
    "metadata-empty": vary(x_ms_meta_empty=""),
    "metadata-invalid": vary(x_ms_meta_1st="a"),
    "metadata-dash": {},
    "tier": vary(x_ms_access_tier="Cool"),
    "tier-cold": vary(x_ms_access_tier="Cold"),
    "tier-archive": vary(x_ms_access_tier="Archive"),
    "tier-invalid": vary(x_ms_access_tier="Warm"),
    "tags": vary(x_ms_tags="a=1&b=two%20words"),
    "tags-invalid": vary(x_ms_tags="a&b"),
    "properties": vary(
        x_ms_blob_content_type="text/csv", x_ms_blob_content_encoding="gzip", x_ms_blob_content_language="da",
        x_ms_blob_content_disposition="attachment", x_ms_blob_cache_control="max-age=5",
    ),
    "content-type": vary(Content_Type="text/html"),
    "content-encoding": vary(Content_Encoding="gzip", Content_Language="da"),
}
WRITTEN["metadata-dash"] = ({}, {"x-ms-meta-a-b": "c"}, None)

UPLOADED = {
    "md5": vary(Content_MD5=MD5),
    "md5-wrong": vary(Content_MD5=WRONG_MD5),
    "md5-invalid": vary(Content_MD5="md5"),
    "md5-short": vary(Content_MD5="YWJj"),
    "empty": vary(body=b""),
}

SEQUENCE = {
    f"sequence-{kind}-{value}": ({}, {f"x-ms-if-sequence-number-{kind}": value}, None)
    for kind in ("le", "lt", "eq") for value in ("6", "7", "8", "x")
}

PUT_PAGE = Request("PUT", BLOB, {"comp": "page"}, {"x-ms-page-write": "update", "x-ms-range": "bytes=0-511"}, PAGE)
CLEAR_PAGE = Request("PUT", BLOB, {"comp": "page"}, {"x-ms-page-write": "clear", "x-ms-range": "bytes=512-1023"})

PAGES = {
    "range-misaligned": vary(x_ms_range="bytes=0-510"),
    "range-misaligned-start": vary(x_ms_range="bytes=1-512"),
    "range-beyond": vary(x_ms_range="bytes=2048-2559"),
    "range-half-beyond": vary(x_ms_range="bytes=1536-2559"),
    "range-header": vary(Range="bytes=512-1023"),
    "range-invalid": vary(x_ms_range="pages=1"),
    "write-unknown": vary(x_ms_page_write="append"),
    **SEQUENCE,
}

BLOB_OPERATIONS = [
    Operation("get", Request("GET", BLOB), parameters=READ, is_write=False),
    Operation("head", Request("HEAD", BLOB), parameters={k: READ[k] for k in (
        "range", "snapshot-missing", "snapshot-invalid", "client-request-id", "version-2015", "version-2012",
    )}, is_write=False),
    Operation("get-metadata", Request("GET", BLOB, {"comp": "metadata"}), is_write=False),
    Operation("set-metadata", Request("PUT", BLOB, {"comp": "metadata"}, {"x-ms-meta-shape": "Round"}), parameters={
        k: WRITTEN[k] for k in ("metadata", "metadata-empty", "metadata-invalid", "metadata-dash")
    }),
    Operation("set-properties", Request("PUT", BLOB, {"comp": "properties"}, {"x-ms-blob-content-type": "a/b"}), parameters={
        "properties": WRITTEN["properties"], "md5": vary(x_ms_blob_content_md5=MD5),
        "md5-invalid": vary(x_ms_blob_content_md5="md5"), "length": vary(x_ms_blob_content_length="512"),
        "sequence": vary(x_ms_sequence_number_action="increment"),
    }),
    Operation("set-properties-page", Request("PUT", BLOB, {"comp": "properties"}), "page", {
        "grow": vary(x_ms_blob_content_length="4096"), "shrink": vary(x_ms_blob_content_length="512"),
        "misaligned": vary(x_ms_blob_content_length="511"), "increment": vary(x_ms_sequence_number_action="increment"),
        "update": vary(x_ms_sequence_number_action="update", x_ms_blob_sequence_number="3"),
        "max-higher": vary(x_ms_sequence_number_action="max", x_ms_blob_sequence_number="9"),
        "max-lower": vary(x_ms_sequence_number_action="max", x_ms_blob_sequence_number="3"),
        "update-without": vary(x_ms_sequence_number_action="update"),
        "increment-with": vary(x_ms_sequence_number_action="increment", x_ms_blob_sequence_number="3"),
        "unknown": vary(x_ms_sequence_number_action="double"),
    }),
    Operation("put", put(BLOB), parameters={
        **WRITTEN, **UPLOADED, "blob-md5": vary(x_ms_blob_content_md5=MD5), "blob-md5-wrong": vary(x_ms_blob_content_md5=WRONG_MD5),
        "type-unknown": vary(x_ms_blob_type="TreeBlob"), "type-lower": vary(x_ms_blob_type="blockblob"),
    }),
    Operation("put-append", Request("PUT", BLOB, headers={"x-ms-blob-type": "AppendBlob"}), "append", {
        **{k: WRITTEN[k] for k in ("metadata", "tags", "properties", "tier")}, "with-body": vary(body=b"x"),
    }),
    Operation("put-page", Request("PUT", BLOB, headers={
        "x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "1024",
    }), "page", {
        **{k: WRITTEN[k] for k in ("metadata", "tags", "properties", "tier")}, "with-body": vary(body=b"x"),
        "misaligned": vary(x_ms_blob_content_length="1000"), "length-invalid": vary(x_ms_blob_content_length="many"),
        "length-negative": vary(x_ms_blob_content_length="-512"), "length-zero": vary(x_ms_blob_content_length="0"),
        "length-large": vary(x_ms_blob_content_length=str(9 << 40)),
        "sequence": vary(x_ms_blob_sequence_number="9"), "sequence-invalid": vary(x_ms_blob_sequence_number="-1"),
        "premium-tier": vary(x_ms_access_tier="P10"),
    }),
    Operation("put-pages", PUT_PAGE, "page", {**PAGES, "md5-wrong": vary(Content_MD5=WRONG_MD5), "short": vary(body=b"x" * 100)}),
    Operation("clear-pages", CLEAR_PAGE, "page", {**PAGES, "with-body": vary(body=PAGE)}),
    Operation("page-ranges", Request("GET", BLOB, {"comp": "pagelist"}), "page", {
        "range": vary(x_ms_range="bytes=0-600"), "range-header": vary(Range="bytes=512-"),
        "range-outside": vary(x_ms_range="bytes=4096-5000"), "range-clean": vary(x_ms_range="bytes=1024-2047"),
        "previous-missing": query(prevsnapshot="2020-01-01T00:00:00.0000000Z"),
    }, is_write=False),
    Operation("put-block", Request("PUT", BLOB, {"comp": "block", "blockid": BLOCK}, body=CONTENT), parameters={
        **UPLOADED, "id-invalid": query(blockid="!"), "id-other-length": query(blockid="YQ=="), "id-empty": query(blockid=""),
        "id-long": query(blockid=base64.b64encode(b"x" * 65).decode()),
    }),
    Operation("put-block-list", block_list(("Latest", BLOCK)), "uncommitted", {
        **WRITTEN, "committed": vary(body=block_list(("Committed", BLOCK)).body),
        "uncommitted": vary(body=block_list(("Uncommitted", BLOCK)).body),
        "missing": vary(body=block_list(("Latest", OTHER_BLOCK)).body), "twice": vary(body=block_list(("Latest", BLOCK), ("Latest", BLOCK)).body),
        "empty": vary(body=block_list().body), "not-xml": vary(body=b"blocks"), "no-body": vary(body=b""),
        "other-element": vary(body=b"<BlockList><Newest>YmxvY2stMQ==</Newest></BlockList>"),
        "id-invalid": vary(body=block_list(("Latest", "!")).body),
    }),
    Operation("block-list", Request("GET", BLOB, {"comp": "blocklist"}), "blocks", {
        "all": query(blocklisttype="all"), "committed": query(blocklisttype="committed"),
        "uncommitted": query(blocklisttype="uncommitted"), "unknown": query(blocklisttype="some"),
        "snapshot-missing": READ["snapshot-missing"],
    }, is_write=False),
    Operation("append", Request("PUT", BLOB, {"comp": "appendblock"}, body=CONTENT), "append", {
        **UPLOADED, "position": vary(x_ms_blob_condition_appendpos=len(CONTENT)), "position-other": vary(x_ms_blob_condition_appendpos="1"),
        "position-invalid": vary(x_ms_blob_condition_appendpos="x"), "size": vary(x_ms_blob_condition_maxsize="1000"),
        "size-exceeded": vary(x_ms_blob_condition_maxsize="50"),
    }),
    Operation("snapshot", Request("PUT", BLOB, {"comp": "snapshot"}), parameters={
        k: WRITTEN[k] for k in ("metadata", "metadata-invalid")
    }),
    Operation("delete", Request("DELETE", BLOB), parameters={
        "snapshots": vary(x_ms_delete_snapshots="include"), "only-snapshots": vary(x_ms_delete_snapshots="only"),
        "snapshots-unknown": vary(x_ms_delete_snapshots="none"), "snapshot-missing": READ["snapshot-missing"],
    }),
    Operation("delete-snapshotted", Request("DELETE", BLOB), "snapshot", {
        "snapshots": vary(x_ms_delete_snapshots="include"), "only-snapshots": vary(x_ms_delete_snapshots="only"),
        "one": query(snapshot="{snapshot}"),
        "one-and-include": ({"snapshot": "{snapshot}"}, {"x-ms-delete-snapshots": "include"}, None),
    }),
    Operation("get-snapshot", Request("GET", BLOB, {"snapshot": "{snapshot}"}), "snapshot", is_write=False),
    Operation("head-snapshot", Request("HEAD", BLOB, {"snapshot": "{snapshot}"}), "snapshot", is_write=False),
    Operation("write-snapshot", Request("PUT", BLOB, {"comp": "metadata", "snapshot": "{snapshot}"}, {"x-ms-meta-a": "b"}), "snapshot"),
    Operation("set-tier", Request("PUT", BLOB, {"comp": "tier"}, {"x-ms-access-tier": "Cool"}), parameters={
        "hot": vary(x_ms_access_tier="Hot"), "archive": vary(x_ms_access_tier="Archive"), "lower": vary(x_ms_access_tier="cool"),
        "unknown": vary(x_ms_access_tier="Warm"), "premium": vary(x_ms_access_tier="P4"),
    }),
    Operation("get-tags", Request("GET", BLOB, {"comp": "tags"}), "tagged", is_write=False),
    Operation("set-tags", tags(a="1"), "tagged", {
        "none": vary(body=tags().body), "not-xml": vary(body=b"tags"),
        "many": vary(body=tags(**{f"k{n}": str(n) for n in range(11)}).body),
        "long": vary(body=tags(k="x" * 257).body), "twice": vary(
            body=b"<Tags><TagSet><Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>a</Key><Value>2</Value></Tag></TagSet></Tags>"),
    }),
    Operation("copy", Request("PUT", BLOB, headers={"x-ms-copy-source": "{here}/other"}), "with-other", {
        **{k: WRITTEN[k] for k in ("metadata", "tier", "tier-invalid", "tags")},
        "source-missing": vary(x_ms_copy_source="{here}/missing"), "source-invalid": vary(x_ms_copy_source="other"),
        "source-elsewhere": vary(x_ms_copy_source="{here}-missing/other"), "onto-itself": vary(x_ms_copy_source="{here}/blob"),
        "source-if-match-other": vary(x_ms_source_if_match='"0x1"'), "source-if-none-match-any": vary(x_ms_source_if_none_match="*"),
        "source-modified-since": vary(x_ms_source_if_modified_since=FUTURE),
        "source-unmodified-since": vary(x_ms_source_if_unmodified_since=PAST), "source-lease": vary(x_ms_source_lease_id=LEASE),
        "synchronous": vary(x_ms_requires_sync="true"),
    }),
    Operation("copy-of-leased", Request("PUT", BLOB, headers={"x-ms-copy-source": "{here}/other"}), "with-leased-other", {
        "source-lease": vary(x_ms_source_lease_id=LEASE), "source-other-lease": vary(x_ms_source_lease_id=OTHER_LEASE),
    }),
    Operation("abort-copy", Request("PUT", BLOB, {"comp": "copy", "copyid": LEASE}, {"x-ms-copy-action": "abort"}), "copied", {
        "action-unknown": vary(x_ms_copy_action="stop"),
    }),
    Operation("acquire", lease(BLOB, "acquire", lease_duration=30, proposed_lease_id=OTHER_LEASE), parameters={
        "infinite": vary(x_ms_lease_duration="-1"), "short": vary(x_ms_lease_duration="14"), "long": vary(x_ms_lease_duration="61"),
        "zero": vary(x_ms_lease_duration="0"), "text": vary(x_ms_lease_duration="x"),
        "same-id": vary(x_ms_proposed_lease_id=LEASE), "id-invalid": vary(x_ms_proposed_lease_id="mine"),
    }),
    Operation("acquire-without-duration", lease(BLOB, "acquire")),
    Operation("renew", lease(BLOB, "renew", lease_id=LEASE), "leased"),
    Operation("change", lease(BLOB, "change", lease_id=LEASE, proposed_lease_id=OTHER_LEASE), "leased"),
    Operation("change-without-proposal", lease(BLOB, "change", lease_id=LEASE), "leased"),
    Operation("release", lease(BLOB, "release", lease_id=LEASE), "leased"),
    Operation("break", lease(BLOB, "break"), "leased", {
        "zero": vary(x_ms_lease_break_period="0"), "sixty": vary(x_ms_lease_break_period="60"),
        "long": vary(x_ms_lease_break_period="61"), "negative": vary(x_ms_lease_break_period="-1"),
    }),
    Operation("lease-unknown", lease(BLOB, "steal"), "leased"),
]

ACL = b'<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers>%s</SignedIdentifiers>'
POLICY = (
    b"<SignedIdentifier><Id>%d</Id><AccessPolicy><Start>2020-01-01T00:00:00.0000000Z</Start>"
    b"<Expiry>2030-01-01T00:00:00.0000000Z</Expiry><Permission>rw</Permission></AccessPolicy></SignedIdentifier>"
)

LISTED = {
    "prefix": query(prefix="a"), "prefix-none": query(prefix="q"), "delimiter": query(delimiter="/"),
    "delimiter-prefix": query(delimiter="/", prefix="b/"), "delimiter-long": query(delimiter="/c"),
    "one": query(maxresults="1"), "two-delimited": query(maxresults="2", delimiter="/"), "zero": query(maxresults="0"),
    "negative": query(maxresults="-1"), "too-many": query(maxresults="5001"), "text": query(maxresults="x"),
    "metadata": query(include="metadata"), "snapshots": query(include="snapshots"), "uncommitted": query(include="uncommittedblobs"),
    "tags": query(include="tags"), "copy": query(include="copy"), "deleted": query(include="deleted"),
    "all": query(include="snapshots,metadata,uncommittedblobs,copy,tags"), "snapshots-delimited": query(include="snapshots", delimiter="/"),
    "unknown": query(include="everything"), "version-2015": READ["version-2015"],
}

OF = {"restype": "container"}

CONTAINER_OPERATIONS = [
    Operation("create-container", Request("PUT", CONTAINER, OF), "no-container", {
        **{k: WRITTEN[k] for k in ("metadata", "metadata-invalid")}, "public-blob": vary(x_ms_blob_public_access="blob"),
        "public-container": vary(x_ms_blob_public_access="container"), "public-true": vary(x_ms_blob_public_access="true"),
        "public-unknown": vary(x_ms_blob_public_access="all"),
    }),
    Operation("get-container", Request("GET", CONTAINER, OF), "container", is_write=False),
    Operation("head-container", Request("HEAD", CONTAINER, OF), "container", is_write=False),
    Operation("get-container-metadata", Request("GET", CONTAINER, {**OF, "comp": "metadata"}), "container", is_write=False),
    Operation("set-container-metadata", Request("PUT", CONTAINER, {**OF, "comp": "metadata"}), "container", {
        k: WRITTEN[k] for k in ("metadata", "metadata-invalid", "metadata-empty")
    }),
    Operation("get-acl", Request("GET", CONTAINER, {**OF, "comp": "acl"}), "public", is_write=False),
    Operation("set-acl", Request("PUT", CONTAINER, {**OF, "comp": "acl"}, {}, ACL % (POLICY % 1)), "container", {
        "none": vary(body=ACL % b""), "no-body": vary(body=b""), "not-xml": vary(body=b"acl"), "public": vary(x_ms_blob_public_access="blob"),
        "public-unknown": vary(x_ms_blob_public_access="all"),
        "five": vary(body=ACL % b"".join(POLICY % n for n in range(5))), "six": vary(body=ACL % b"".join(POLICY % n for n in range(6))),
    }),
    Operation("list", Request("GET", CONTAINER, {**OF, "comp": "list"}), "full", LISTED, is_write=False),
    Operation("acquire-container", lease(CONTAINER, "acquire", OF, lease_duration=30, proposed_lease_id=OTHER_LEASE), "container", {
        "infinite": vary(x_ms_lease_duration="-1"), "short": vary(x_ms_lease_duration="14"), "same-id": vary(x_ms_proposed_lease_id=LEASE),
    }),
    Operation("renew-container", lease(CONTAINER, "renew", OF, lease_id=LEASE), "leased-container"),
    Operation("change-container", lease(CONTAINER, "change", OF, lease_id=LEASE, proposed_lease_id=OTHER_LEASE), "leased-container"),
    Operation("release-container", lease(CONTAINER, "release", OF, lease_id=LEASE), "leased-container"),
    Operation("break-container", lease(CONTAINER, "break", OF), "leased-container", {"zero": vary(x_ms_lease_break_period="0")}),
    Operation("delete-container", Request("DELETE", CONTAINER, OF), "container"),
]

LOOK_BLOB = (Request("HEAD", BLOB), Request("GET", BLOB))
LOOK_CONTAINER = (Request("GET", CONTAINER, OF), Request("GET", CONTAINER, {**OF, "comp": "acl"}))


def changed(request, change):
    query, headers, body = change
    return dataclasses.replace(
        request, query={**request.query, **query}, headers={**request.headers, **headers},
        body=request.body if body is None else body,
    )


def of_operation(operation, states, look):
    after = look if operation.is_write else ()
    request = operation.request
    for state in states:
        yield Case(f"{operation.name}/{state}/", state, request, after)
    for name, headers in CONDITIONS.items():
        for state in {operation.state, "no-container" if operation.state == "container" else "no-blob"}:
            if state in states:
                yield Case(f"{operation.name}/{state}/{name}", state, changed(request, ({}, headers, None)), after)
    for name, headers in LEASES.items():
        for state in states:
            if state == operation.state or "leased" in state or state.startswith(("break", "broke", "released")):
                yield Case(f"{operation.name}/{state}/{name}", state, changed(request, ({}, headers, None)), after)
    for name, change in operation.parameters.items():
        yield Case(f"{operation.name}/{operation.state}/{name}", operation.state, changed(request, change), after)


def all_cases():
    for operation in BLOB_OPERATIONS:
        yield from of_operation(operation, BLOB_STATES, LOOK_BLOB)
    for operation in CONTAINER_OPERATIONS:
        yield from of_operation(operation, CONTAINER_STATES, LOOK_CONTAINER)
