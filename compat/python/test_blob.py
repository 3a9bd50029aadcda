"""Blob storage: the official client uploads, reads, lists and deletes, and is refused as by the real service."""

import base64
import datetime
import hashlib
import os
import uuid

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.storage.blob import (
    AccessPolicy,
    BlobAnalyticsLogging,
    BlobBlock,
    BlobClient,
    BlobServiceClient,
    BlobType,
    ContainerClient,
    ContainerSasPermissions,
    ContentSettings,
    CustomerProvidedEncryptionKey,
    ImmutabilityPolicy,
    RetentionPolicy,
    SequenceNumberAction,
    StandardBlobTier,
    generate_account_sas,
    generate_blob_sas,
    generate_container_sas,
)

from blobs import refused
from service import Service

ACCOUNT = "devstoreaccount1"
MEBIBYTE = 1 << 20


@pytest.fixture
def container(blobs):
    """A new container."""
    client = blobs.get_container_client(f"test-{uuid.uuid4()}")
    client.create_container()
    yield client
    client.delete_container()


def key(blobs):
    return blobs.credential.account_key


def later(minutes):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)


def test_containers_are_created_once_and_found(blobs):
    client = blobs.get_container_client("box-of-this-test")
    assert not client.exists()
    client.create_container(metadata={"made": "by_test"})
    assert client.exists()
    assert client.get_container_properties().metadata == {"made": "by_test"}
    with pytest.raises(ResourceExistsError) as error:
        client.create_container()
    assert error.value.error_code == "ContainerAlreadyExists"
    assert [found.name for found in blobs.list_containers("box-of")] == ["box-of-this-test"]
    client.delete_container()
    assert not client.exists()
    with pytest.raises(ResourceNotFoundError) as error:
        list(client.list_blobs())
    assert error.value.error_code == "ContainerNotFound"


def test_what_is_uploaded_comes_back_with_its_properties(container):
    settings = ContentSettings(content_type="text/plain", cache_control="no-cache", content_language="de")
    blob = container.upload_blob("a b/ü$%25", b"hello", metadata={"Empty": "", "owner": "me"}, content_settings=settings)
    assert blob.exists()
    properties = blob.get_blob_properties()
    assert properties.size == 5
    assert properties.metadata == {"Empty": "", "owner": "me"}
    assert properties.content_settings.content_type == "text/plain"
    assert properties.content_settings.content_language == "de"
    assert bytes(properties.content_settings.content_md5) == hashlib.md5(b"hello").digest()
    assert blob.download_blob(validate_content=True).readall() == b"hello"
    assert [found.name for found in container.list_blobs()] == ["a b/ü$%25"]
    blob.set_http_headers(ContentSettings(content_type="text/html"))
    assert blob.get_blob_properties().content_settings.content_type == "text/html"
    blob.delete_blob()
    assert not blob.exists()
    with pytest.raises(ResourceNotFoundError) as error:
        blob.delete_blob()
    assert error.value.error_code == "BlobNotFound"


@pytest.mark.parametrize("size", [0, 1, 5 * MEBIBYTE + 7])
def test_blobs_of_every_size_are_downloaded_in_ranges(blobs, container, size):
    content = os.urandom(size)
    container.upload_blob("blob", content, validate_content=True)
    small_steps = BlobClient.from_blob_url(
        f"{container.url}/blob", credential=blobs.credential, max_single_get_size=MEBIBYTE, max_chunk_get_size=MEBIBYTE
    )
    assert small_steps.download_blob(max_concurrency=3, validate_content=True).readall() == content
    if size:
        assert small_steps.download_blob(offset=size - 1, length=10).readall() == content[-1:]
        with pytest.raises(HttpResponseError) as error:
            small_steps.download_blob(offset=size, length=1).readall()
        assert error.value.status_code == 416


def test_large_blobs_are_put_together_of_blocks(blobs, container):
    content = os.urandom(3 * MEBIBYTE + 1)
    client = BlobClient.from_blob_url(
        f"{container.url}/large", credential=blobs.credential, max_single_put_size=1024, max_block_size=MEBIBYTE
    )
    client.upload_blob(content, max_concurrency=4, metadata={"of": "blocks"})
    assert client.download_blob().readall() == content
    assert client.get_blob_properties().metadata == {"of": "blocks"}
    committed, uncommitted = client.get_block_list("all")
    assert [block.size for block in committed] == [MEBIBYTE, MEBIBYTE, MEBIBYTE, 1]
    assert uncommitted == []
    client.stage_block("A001", b"new")
    assert client.download_blob().readall() == content
    assert [block.id for block in client.get_block_list("uncommitted")[1]] == ["A001"]
    with pytest.raises(HttpResponseError) as error:
        client.commit_block_list([BlobBlock("A001"), BlobBlock("B001")])
    assert error.value.error_code == "InvalidBlockList"
    client.commit_block_list([BlobBlock("A001")])
    assert client.download_blob().readall() == b"new"


def test_append_blobs_grow_at_their_end(container):
    blob = container.get_blob_client("log")
    blob.create_append_blob(metadata={"kind": "log"})
    assert blob.append_block(b"one ")["blob_append_offset"] == "0"
    reply = blob.append_block(b"two", appendpos_condition=4, maxsize_condition=7)
    assert (reply["blob_append_offset"], reply["blob_committed_block_count"]) == ("4", 2)
    for condition, code in [
        ({"appendpos_condition": 4}, "AppendPositionConditionNotMet"),
        ({"maxsize_condition": 7}, "MaxBlobSizeConditionNotMet"),
    ]:
        with pytest.raises(HttpResponseError) as error:
            blob.append_block(b"x", **condition)
        assert (error.value.status_code, error.value.error_code) == (412, code)
    assert blob.download_blob().readall() == b"one two"
    assert blob.get_blob_properties().blob_type == "AppendBlob"
    container.upload_blob("plain", b"")
    with pytest.raises(ResourceExistsError) as error:
        container.get_blob_client("plain").append_block(b"x")
    assert error.value.error_code == "InvalidBlobType"


def test_conditions_decide_who_writes(container):
    blob = container.get_blob_client("contended")
    first = blob.upload_blob(b"1", match_condition=MatchConditions.IfMissing)["etag"]
    with pytest.raises(ResourceExistsError) as error:
        blob.upload_blob(b"2", overwrite=False)
    assert error.value.error_code == "BlobAlreadyExists"
    second = blob.set_blob_metadata({"n": "1"}, etag=first, match_condition=MatchConditions.IfNotModified)["etag"]
    with pytest.raises(ResourceModifiedError) as error:
        blob.set_blob_metadata({"n": "2"}, etag=first, match_condition=MatchConditions.IfNotModified)
    assert (error.value.status_code, error.value.error_code) == (412, "ConditionNotMet")
    with pytest.raises(HttpResponseError) as error:
        blob.download_blob(etag=second, match_condition=MatchConditions.IfModified)
    assert error.value.status_code == 304
    listed = next(iter(container.list_blobs(include=["metadata"])))
    assert listed.metadata == {"n": "1"}
    # Listings tell tags without quotation marks.
    blob.delete_blob(etag=listed.etag, match_condition=MatchConditions.IfNotModified)
    assert not blob.exists()


def test_listings_come_in_pages_with_prefix_and_delimiter(container):
    names = sorted([f"2026/{month:02}/{day}" for month in (1, 2) for day in range(5)] + ["readme"])
    for name in names:
        container.upload_blob(name, b"")
    pages = [[blob.name for blob in page] for page in container.list_blobs(results_per_page=4).by_page()]
    assert [len(page) for page in pages] == [4, 4, 3]
    assert sum(pages, []) == names
    assert len(list(container.list_blobs(name_starts_with="2026/02/"))) == 5
    walked = [item.name for item in container.walk_blobs(delimiter="/")]
    assert walked == ["2026/", "readme"]
    walked = [item.name for item in container.walk_blobs(name_starts_with="2026/", delimiter="/", results_per_page=1)]
    assert walked == ["2026/01/", "2026/02/"]


def test_names_that_no_document_can_have_are_listed(container):
    names = ["a\u0001b", "a&<b>\"'", "ü/€/𝄞", "tab\tend"]
    for name in names:
        container.upload_blob(name, b"")
    assert sorted(blob.name for blob in container.list_blobs()) == sorted(names)


def test_a_body_that_was_altered_is_refused(container):
    blob = container.get_blob_client("summed")
    blob.upload_blob(b"good", validate_content=True)
    wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    with pytest.raises(HttpResponseError) as error:
        blob.stage_block("A001", b"bad", headers={"Content-MD5": wrong})
    assert (error.value.status_code, error.value.error_code) == (400, "Md5Mismatch")


def test_a_wrong_key_is_refused(blobs, container):
    wrong = base64.b64encode(b"wrong").decode()
    for credential in ({"account_name": ACCOUNT, "account_key": wrong}, {"account_name": "other", "account_key": key(blobs)}):
        client = BlobClient.from_blob_url(f"{container.url}/blob", credential=credential)
        with pytest.raises(ClientAuthenticationError) as error:
            client.upload_blob(b"")
        assert (error.value.status_code, error.value.error_code) == (403, "AuthenticationFailed")
    with pytest.raises(HttpResponseError) as error:
        BlobClient.from_blob_url(f"{container.url}/blob").upload_blob(b"")
    assert (error.value.status_code, error.value.error_code) == (401, "NoAuthenticationInformation")


def test_account_signatures_grant_what_they_say(blobs, container):
    container.upload_blob("blob", b"content")

    def client(permission, expiry=later(5), types="sco", **options):
        signature = generate_account_sas(ACCOUNT, key(blobs), types, permission, expiry, **options)
        return ContainerClient.from_container_url(f"{container.url}?{signature}")

    reader = client("rl")
    assert reader.download_blob("blob").readall() == b"content"
    assert [blob.name for blob in reader.list_blobs()] == ["blob"]
    refused(lambda: reader.upload_blob("other", b""), 403, "AuthorizationPermissionMismatch")
    refused(lambda: client("r", types="o").exists(), 403, "AuthorizationResourceTypeMismatch")
    refused(lambda: client("r", later(-5)).download_blob("blob"), 403, "AuthenticationFailed")
    refused(lambda: client("r", start=later(5), expiry=later(9)).download_blob("blob"), 403, "AuthenticationFailed")
    refused(lambda: client("r", ip="192.0.2.1").download_blob("blob"), 403, "AuthorizationSourceIPMismatch")
    refused(lambda: client("r", protocol="https").download_blob("blob"), 403, "AuthorizationProtocolMismatch")
    creator = client("c")
    creator.upload_blob("created", b"1")
    refused(lambda: creator.upload_blob("created", b"2", overwrite=True), 403, "AuthorizationPermissionMismatch")
    client("rwdlac").delete_blob("created")


def test_signatures_of_a_container_or_blob_are_for_it_alone(blobs, container):
    container.upload_blob("a b/c", b"content")
    container.upload_blob("other", b"content")
    signature = generate_blob_sas(
        ACCOUNT, container.container_name, "a b/c", account_key=key(blobs), permission="r", expiry=later(5), content_type="x/y"
    )
    blob = BlobClient.from_blob_url(f"{container.get_blob_client('a b/c').url}?{signature}")
    download = blob.download_blob()
    assert download.readall() == b"content"
    assert download.properties.content_settings.content_type == "x/y"
    refused(blob.delete_blob, 403, "AuthorizationPermissionMismatch")
    other = BlobClient.from_blob_url(f"{container.url}/other?{signature}")
    refused(other.download_blob, 403, "AuthenticationFailed")
    signature = generate_container_sas(
        ACCOUNT, container.container_name, account_key=key(blobs), permission="rlw", expiry=later(5)
    )
    client = ContainerClient.from_container_url(f"{container.url}?{signature}")
    assert len(list(client.list_blobs())) == 2
    client.upload_blob("third", b"3")
    assert client.download_blob("third").readall() == b"3"
    refused(lambda: client.delete_blob("third"), 403, "AuthorizationPermissionMismatch")
    # What is done to the container itself takes a signature of the account.
    refused(client.get_container_properties, 403, "AuthorizationFailure")
    refused(client.delete_container, 403, "AuthorizationFailure")


def test_what_is_not_served_is_refused_and_never_carried_out_without(container):
    blob = container.get_blob_client("plain")

    def unserved(request, named):
        with pytest.raises(HttpResponseError) as error:
            request()
        assert error.value.status_code == 400
        assert error.value.error_code in ("UnsupportedHeader", "UnsupportedQueryParameter")
        assert named in error.value.message
        assert list(container.list_blobs()) == []

    content = b"content"
    key = CustomerProvidedEncryptionKey(base64.b64encode(b"k" * 32).decode(), "hash")
    policy = ImmutabilityPolicy(expiry_time=later(5), policy_mode="Unlocked")
    unserved(lambda: blob.upload_blob(content, encryption_scope="mine"), "x-ms-encryption-scope")
    unserved(lambda: blob.upload_blob(content, legal_hold=True), "x-ms-legal-hold")
    unserved(lambda: blob.upload_blob(content, immutability_policy=policy), "x-ms-immutability-policy-mode")
    # The client sends such keys over TLS alone.
    with pytest.raises(ValueError):
        blob.upload_blob(content, cpk=key)
    blob.upload_blob(content, standard_blob_tier=StandardBlobTier.HOT)
    assert blob.get_blob_properties().blob_tier == "Hot"
    assert next(iter(container.list_blobs())).blob_tier == "Hot"


def test_blobs_are_found_by_their_tags(blobs, container):
    tags = {"project": "parshall", "a b": ""}
    blob = container.upload_blob("tagged", b"", tags=tags)
    assert (blob.get_blob_tags(), blob.get_blob_properties().tag_count) == (tags, 2)
    blob.set_blob_tags({"project": "parshall", "year": "2026"})
    container.upload_blob("other", b"", tags={"project": "other"})
    wanted = "\"project\" = 'parshall' AND \"year\" >= '2026'"
    assert [(found.name, found.container_name) for found in blobs.find_blobs_by_tags(wanted)] == [("tagged", container.container_name)]
    assert [found.name for found in container.find_blobs_by_tags("\"project\" > 'a'")] == ["other", "tagged"]
    listed = {found.name: found.tags for found in container.list_blobs(include=["tags"])}
    assert listed == {"other": {"project": "other"}, "tagged": {"project": "parshall", "year": "2026"}}
    refused(lambda: blob.delete_blob(if_tags_match_condition="\"year\" < '2026'"), 412, "ConditionNotMet")
    blob.delete_blob(if_tags_match_condition="\"year\" = '2026'")


def test_containers_are_read_by_anyone_and_signatures_name_policies(blobs, container):
    container.upload_blob("a", b"content")
    policy = AccessPolicy(permission=ContainerSasPermissions(read=True), expiry=later(5))
    container.set_container_access_policy({"readers": policy}, public_access="blob")
    access = container.get_container_access_policy()
    assert access["public_access"] == "blob"
    assert [(it.id, it.access_policy.permission) for it in access["signed_identifiers"]] == [("readers", "r")]
    assert BlobClient.from_blob_url(f"{container.url}/a").download_blob().readall() == b"content"
    container.set_container_access_policy({"readers": policy})
    refused(BlobClient.from_blob_url(f"{container.url}/a").download_blob, 401, "NoAuthenticationInformation")
    signature = generate_container_sas(ACCOUNT, container.container_name, account_key=key(blobs), policy_id="readers")
    named = BlobClient.from_blob_url(f"{container.url}/a?{signature}")
    assert named.download_blob().readall() == b"content"
    refused(named.delete_blob, 403, "AuthorizationPermissionMismatch")
    container.set_container_access_policy({})
    refused(named.download_blob, 403, "AuthenticationFailed")


def test_snapshots_are_blobs_as_they_were(container):
    blob = container.upload_blob("a", b"first", metadata={"Of": "blob"})
    time = blob.create_snapshot()["snapshot"]
    blob.upload_blob(b"second", overwrite=True)
    snapshot = container.get_blob_client("a", snapshot=time)
    assert (snapshot.download_blob().readall(), snapshot.get_blob_properties().metadata) == (b"first", {"Of": "blob"})
    assert [found.snapshot for found in container.list_blobs(include=["snapshots"])] == [time, None]
    refused(blob.delete_blob, 409, "SnapshotsPresent")
    blob.start_copy_from_url(snapshot.url)
    assert blob.download_blob().readall() == b"first"
    blob.delete_blob(delete_snapshots="include")
    assert list(container.list_blobs(include=["snapshots"])) == []


def test_page_blobs_are_written_and_compared_in_ranges(blobs, container):
    blob = container.get_blob_client("disk")
    blob.create_page_blob(4096, sequence_number=7)
    written = blob.upload_page(b"1" * 1024, offset=512, length=1024)
    assert (written["blob_sequence_number"], blob.get_blob_properties().page_blob_sequence_number) == (7, 7)
    snapshot = blob.create_snapshot()["snapshot"]
    blob.upload_page(b"2" * 512, offset=1024, length=512, if_sequence_number_lte=7)
    blob.clear_page(offset=512, length=512)
    assert blob.download_blob().readall() == b"\0" * 1024 + b"2" * 512 + b"\0" * 2560
    assert [(found.start, found.end, found.cleared) for found in blob.list_page_ranges()] == [(1024, 1535, False)]
    changed = sorted((found.start, found.end, found.cleared) for found in blob.list_page_ranges(previous_snapshot=snapshot))
    assert changed == [(512, 1023, True), (1024, 1535, False)]
    of_snapshot = container.get_blob_client("disk", snapshot=snapshot)
    assert of_snapshot.download_blob(offset=512, length=1024).readall() == b"1" * 1024
    other = container.get_blob_client("other")
    other.create_page_blob(1024)
    signature = generate_blob_sas(
        ACCOUNT, container.container_name, "disk", snapshot=snapshot, account_key=key(blobs), permission="r", expiry=later(5)
    )
    other.upload_pages_from_url(f"{blob.url}?snapshot={snapshot}&{signature}", offset=0, length=512, source_offset=512)
    assert other.download_blob().readall() == b"1" * 512 + b"\0" * 512
    blob.set_sequence_number(SequenceNumberAction.Increment)
    blob.resize_blob(1536)
    properties = blob.get_blob_properties()
    assert (properties.size, properties.page_blob_sequence_number, properties.blob_type) == (1536, 8, BlobType.PAGEBLOB)
    page = b"3" * 512
    refused(lambda: blob.upload_page(page, 0, 512, if_sequence_number_lt=8), 412, "SequenceNumberConditionNotMet")
    refused(lambda: blob.upload_page(page, 1536, 512), 416, "InvalidPageRange")
    blob.delete_blob(delete_snapshots="include")


def test_a_write_has_conditions_of_one_kind_and_a_read_any(container):
    blob = container.get_blob_client("a")
    etag = blob.upload_blob(b"1")["etag"]
    past = later(-60)
    # Of a tag and a date, the tag counts for a write; a read is answered if either of them says that it is new.
    blob.set_blob_metadata({}, etag=etag, match_condition=MatchConditions.IfNotModified, if_unmodified_since=past)
    etag = blob.get_blob_properties().etag
    blob.download_blob(etag=etag, match_condition=MatchConditions.IfModified, if_modified_since=past)
    known = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
    both = "MultipleConditionHeadersNotSupported"
    refused(lambda: blob.set_blob_metadata({}, if_modified_since=past, **known), 400, both)
    missing = container.get_blob_client("b")
    refused(lambda: missing.set_blob_metadata({}, **known), 412, "ConditionNotMet")


def test_blobs_of_uncommitted_blocks_are_listed_where_they_are_asked_for(container):
    container.get_blob_client("waiting").stage_block("QUE=", b"content")
    assert list(container.list_blobs()) == []
    assert [blob.name for blob in container.list_blobs(include=["uncommittedblobs"])] == ["waiting"]


def test_blobs_are_copied_within_the_account(blobs, container):
    source = container.upload_blob("source", b"0123456789", metadata={"a": "1"})
    copy = container.get_blob_client("copy")
    started = copy.start_copy_from_url(source.url)
    assert started["copy_status"] == "success"
    properties = copy.get_blob_properties()
    assert (properties.metadata, properties.copy.status, properties.copy.id) == ({"a": "1"}, "success", started["copy_id"])
    assert copy.download_blob().readall() == b"0123456789"
    copy.start_copy_from_url(source.url, requires_sync=True)
    refused(lambda: copy.abort_copy(started["copy_id"]), 409, "NoPendingCopyOperation")
    # The key of the account signs copies alone.
    whole = container.get_blob_client("whole")
    refused(lambda: whole.upload_blob_from_url(source.url), 403, "CannotVerifyCopySource")
    signature = generate_blob_sas(
        ACCOUNT, container.container_name, "source", account_key=key(blobs), permission="r", expiry=later(5)
    )
    url = f"{source.url}?{signature}"
    whole.upload_blob_from_url(url)
    pieces = container.get_blob_client("pieces")
    pieces.stage_block_from_url("QUE=", url, source_offset=8, source_length=2)
    pieces.stage_block_from_url("QUI=", url, source_offset=0, source_length=2)
    pieces.commit_block_list(["QUE=", "QUI="])
    log = container.get_blob_client("log")
    log.create_append_blob()
    log.append_block_from_url(url, source_offset=3, source_length=3)
    assert [blob.download_blob().readall() for blob in (whole, pieces, log)] == [b"0123456789", b"8901", b"345"]
    refused(lambda: copy.start_copy_from_url(f"{container.url}/missing"), 404, "BlobNotFound")


def test_blobs_are_deleted_and_moved_to_other_tiers_in_batches(container):
    names = [f"blob-{number}" for number in range(30)]
    for name in names:
        container.upload_blob(name, b"")
    container.set_standard_blob_tier_blobs(StandardBlobTier.COOL, *names[:2])
    assert [container.get_blob_client(name).get_blob_properties().blob_tier for name in names[:3]] == ["Cool", "Cool", "Hot"]
    assert [reply.status_code for reply in container.delete_blobs(*names)] == [202] * 30
    assert list(container.list_blobs()) == []
    again = container.delete_blobs("missing", raise_on_any_failure=False)
    assert [reply.status_code for reply in again] == [404]


def test_a_blob_in_the_archive_is_read_after_it_was_moved(container):
    blob = container.upload_blob("cold", b"content", standard_blob_tier=StandardBlobTier.ARCHIVE)
    refused(blob.download_blob, 409, "BlobArchived")
    blob.set_standard_blob_tier(StandardBlobTier.HOT)
    assert blob.download_blob().readall() == b"content"


def test_what_is_set_for_the_account_comes_back(blobs):
    logging = BlobAnalyticsLogging(write=True, retention_policy=RetentionPolicy(enabled=True, days=3))
    blobs.set_service_properties(analytics_logging=logging)
    properties = blobs.get_service_properties()
    assert (properties["analytics_logging"].write, properties["analytics_logging"].retention_policy.days) == (True, 3)
    assert list(blobs.get_container_client("$logs").list_blobs()) == []
    deleted = RetentionPolicy(enabled=True, days=3)
    refused(lambda: blobs.set_service_properties(delete_retention_policy=deleted), 400, "UnsupportedXmlNode")


def test_the_account_says_of_which_kind_it_is(blobs, container):
    for client in (blobs, container, container.get_blob_client("blob")):
        assert client.get_account_information()["sku_name"] == "Standard_RAGRS"


def test_listings_begin_where_they_are_told_to(container):
    for name in ["a", "b", "c"]:
        container.upload_blob(name, b"")
    assert [blob.name for blob in container.list_blobs(start_from="b")] == ["b", "c"]
    assert [blob.name for blob in container.list_blobs(start_from="b", results_per_page=1)] == ["b", "c"]


def test_contents_are_answered_with_their_checksums(container):
    blob = container.get_blob_client("log")
    blob.create_append_blob()
    answered = blob.append_block(b"content", validate_content="md5")
    assert bytes(answered["content_md5"]) == hashlib.md5(b"content").digest()
    assert blob.append_block(b"content")["content_crc64"] == answered["content_crc64"]
    assert answered["content_crc64"]


def test_blobs_outlive_a_service_that_is_killed(tmp_path):
    arguments = ("--blob", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    service = Service(tmp_path, 1, arguments=arguments)
    client = BlobServiceClient.from_connection_string(service.storage_connection_string)
    container = client.create_container("kept")
    etag = container.upload_blob("blob", b"content", metadata={"owner": ""}).get_blob_properties().etag
    container.get_blob_client("waiting").stage_block("A001", b"waits")
    service.kill()
    service.start()
    client = BlobServiceClient.from_connection_string(service.storage_connection_string)
    container = client.get_container_client("kept")
    blob = container.get_blob_client("blob")
    assert blob.download_blob().readall() == b"content"
    properties = blob.get_blob_properties()
    assert (properties.etag, properties.metadata) == (etag, {"owner": ""})
    waiting = container.get_blob_client("waiting")
    waiting.commit_block_list([BlobBlock("A001")])
    assert waiting.download_blob().readall() == b"waits"
    assert service.stop() == 0
