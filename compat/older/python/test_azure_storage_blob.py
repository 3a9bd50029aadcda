"""Blobs are written, read, listed and leased."""

import datetime
import os
import uuid

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobBlock, BlobClient, BlobSasPermissions, BlobServiceClient, ContentSettings, generate_blob_sas


@pytest.fixture
def container(service):
    string = service.storage_connection_string
    options = {"max_single_put_size": 1 << 20, "max_block_size": 1 << 20, "max_single_get_size": 1 << 20, "max_chunk_get_size": 1 << 20}
    with BlobServiceClient.from_connection_string(string, **options) as account:
        yield account.create_container(f"box-{uuid.uuid4()}")


def test_a_blob_is_written_read_and_deleted(container):
    blob = container.get_blob_client("folder/name ü")
    settings = ContentSettings(content_type="text/plain", cache_control="no-store")
    written = blob.upload_blob(b"content", metadata={"one": "1"}, content_settings=settings)
    with pytest.raises(ResourceExistsError):
        blob.upload_blob(b"again")
    assert blob.download_blob().readall() == b"content"
    properties = blob.get_blob_properties()
    assert (properties.etag, properties.metadata) == (written["etag"], {"one": "1"})
    assert (properties.content_settings.content_type, properties.content_settings.cache_control) == ("text/plain", "no-store")
    assert [found.name for found in container.list_blobs(name_starts_with="folder/")] == ["folder/name ü"]
    assert [found.name for found in container.walk_blobs()] == ["folder/"]
    blob.delete_blob()
    with pytest.raises(ResourceNotFoundError):
        blob.download_blob()


def test_a_large_blob_is_written_in_blocks_and_read_in_ranges(container):
    content = os.urandom(5_000_000)
    blob = container.get_blob_client("large")
    blob.upload_blob(content, max_concurrency=4)
    assert blob.download_blob(max_concurrency=4).readall() == content
    assert blob.download_blob(offset=3_000_000, length=10).readall() == content[3_000_000:3_000_010]
    blob.stage_block("a", b"one")
    blob.stage_block("b", b"two")
    blob.commit_block_list([BlobBlock("b"), BlobBlock("a")])
    assert blob.download_blob().readall() == b"twoone"


def test_an_append_blob_grows(container):
    blob = container.get_blob_client("log")
    blob.create_append_blob()
    for text in [b"one", b"two"]:
        blob.append_block(text)
    assert blob.download_blob().readall() == b"onetwo"


def test_a_lease_excludes_others(container):
    blob = container.get_blob_client("leased")
    blob.upload_blob(b"1")
    lease = blob.acquire_lease(15)
    with pytest.raises(HttpResponseError) as refused:
        blob.upload_blob(b"2", overwrite=True)
    assert refused.value.error_code == "LeaseIdMissing"
    blob.upload_blob(b"2", overwrite=True, lease=lease)
    lease.renew()
    lease.release()
    blob.delete_blob()


def test_conditions_are_kept(container):
    blob = container.get_blob_client("conditions")
    first = blob.upload_blob(b"1")
    blob.upload_blob(b"2", overwrite=True)
    with pytest.raises(HttpResponseError) as refused:
        blob.set_blob_metadata({"a": "b"}, etag=first["etag"], match_condition=MatchConditions.IfNotModified)
    assert refused.value.status_code == 412


def test_a_signature_opens_a_blob(service, container):
    blob = container.get_blob_client("signed")
    blob.upload_blob(b"content")
    account = dict(part.split("=", 1) for part in service.storage_connection_string.split(";") if part)
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    token = generate_blob_sas(
        account["AccountName"], container.container_name, "signed", account_key=account["AccountKey"],
        permission=BlobSasPermissions(read=True), expiry=end,
    )
    with BlobClient.from_blob_url(f"{blob.url}?{token}") as reader:
        assert reader.download_blob().readall() == b"content"
