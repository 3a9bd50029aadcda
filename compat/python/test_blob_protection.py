"""Contents with checksums: CRC-64 and structured messages, as the official client sends and verifies them, and TLS."""

import datetime
import gc
import io
import os

import pytest
from azure.core.exceptions import AzureError, HttpResponseError
from azure.storage.blob import BlobBlock, BlobServiceClient, ContainerClient, generate_account_sas

from service import Service

MEBIBYTE = 1 << 20

# The client reads a structured message up to its last byte and not to the end of the stream, so it leaves the connection open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module", params=["memory", "disk"])
def service(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("protection")
    arguments = ("--blob", "127.0.0.1:0", "--blob-tls", "127.0.0.1:0")
    if request.param == "disk":
        arguments += ("--data-dir", str(directory / "data"))
    running = Service(directory, 1, arguments=arguments)
    yield running
    assert running.stop() == 0


@pytest.fixture
def container(service):
    with BlobServiceClient.from_connection_string(service.storage_connection_string) as client:
        container = client.get_container_client("protected")
        if not container.exists():
            container.create_container()
        yield container
    # Here, so that no test of another file is told of the connections that the client leaves open.
    gc.collect()


class Seen:
    """What the client sent and got."""

    def __init__(self):
        self.sent, self.got = [], []

    def options(self):
        return {
            "raw_request_hook": lambda request: self.sent.append(request.http_request.headers),
            "raw_response_hook": lambda response: self.got.append(response.http_response.headers),
        }


@pytest.mark.parametrize("size", [0, 1, 5 * MEBIBYTE + 7])
def test_streams_are_uploaded_as_structured_messages_and_come_back_as_they_were(container, size):
    content, seen = os.urandom(size), Seen()
    blob = container.get_blob_client(f"stream-{size}")
    blob.stage_block("A001", io.BytesIO(content), length=size, validate_content="crc64", **seen.options())
    assert all("x-ms-structured-body" in headers for headers in seen.sent + seen.got)
    blob.commit_block_list([BlobBlock("A001")])
    assert blob.download_blob().readall() == content


@pytest.mark.parametrize("kind", ["BlockBlob", "AppendBlob"])
def test_bytes_are_uploaded_with_a_checksum(container, kind):
    content, seen = os.urandom(3 * MEBIBYTE), Seen()
    blob = container.get_blob_client(f"bytes-{kind}")
    blob.upload_blob(content, blob_type=kind, overwrite=True, validate_content="crc64", **seen.options())
    assert any("x-ms-content-crc64" in headers for headers in seen.sent)
    assert blob.download_blob().readall() == content


def test_appended_streams_are_structured_messages(container):
    blob = container.get_blob_client("log")
    blob.create_append_blob()
    blob.append_block(io.BytesIO(b"one "), length=4, validate_content="crc64")
    blob.append_block(b"two", validate_content="crc64")
    assert blob.download_blob().readall() == b"one two"


@pytest.mark.parametrize("size", [0, 1, 9 * MEBIBYTE + 7])
def test_downloads_are_structured_messages_that_the_client_verifies(container, size):
    content, seen = os.urandom(size), Seen()
    blob = container.get_blob_client(f"download-{size}")
    blob.upload_blob(content, overwrite=True)
    assert blob.download_blob(validate_content="crc64", **seen.options()).readall() == content
    assert "x-ms-structured-body" in seen.got[-1]
    if size > 1:
        part = blob.download_blob(offset=MEBIBYTE, length=6 * MEBIBYTE, validate_content="crc64")
        assert part.readall() == content[MEBIBYTE : 7 * MEBIBYTE]


def test_a_message_that_was_altered_is_refused(container):
    blob = container.get_blob_client("altered")

    def alter(request):
        stream = request.http_request.data.read()
        request.http_request.data = stream[:30] + bytes([stream[30] ^ 1]) + stream[31:]

    with pytest.raises(HttpResponseError) as error:
        blob.stage_block("A001", io.BytesIO(b"x" * 100), length=100, validate_content="crc64", raw_request_hook=alter)
    assert (error.value.status_code, error.value.error_code) == (400, "Crc64Mismatch")


def test_blobs_travel_over_tls(service, container):
    text = service.storage_tls_connection_string
    with BlobServiceClient.from_connection_string(text, connection_verify=service.authority) as client:
        sealed = client.get_container_client("protected")
        sealed.upload_blob("sealed", b"content", overwrite=True)
        assert container.download_blob("sealed").readall() == b"content"
        expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=5)
        key = client.credential.account_key
        signature = generate_account_sas("devstoreaccount1", key, "sco", "r", expiry, protocol="https")
        sealed_url = f"{sealed.url}?{signature}"
        with ContainerClient.from_container_url(sealed_url, connection_verify=service.authority) as reader:
            assert reader.download_blob("sealed").readall() == b"content"
        with ContainerClient.from_container_url(f"{container.url}?{signature}") as reader:
            with pytest.raises(HttpResponseError) as error:
                reader.download_blob("sealed")
        assert error.value.error_code == "AuthorizationProtocolMismatch"
    with BlobServiceClient.from_connection_string(text, retry_total=0) as doubting:
        with pytest.raises(AzureError, match="(?i)certificate"):
            doubting.get_container_client("protected").exists()
