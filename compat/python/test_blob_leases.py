"""Leases on blobs and containers, which Azure Functions and WebJobs hosts elect and guard themselves with."""

import uuid

import pytest
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError
from azure.storage.blob import BlobLeaseClient, BlobServiceClient, ContentSettings

from blobs import refused
from service import Service


@pytest.fixture
def container(blobs):
    return blobs.create_container(f"test-{uuid.uuid4()}")


def test_one_host_is_elected_and_hands_over(container):
    blob = container.upload_blob("host", b"")
    first, second = BlobLeaseClient(blob), BlobLeaseClient(blob)
    first.acquire(lease_duration=15)
    refused(lambda: second.acquire(lease_duration=15), 409, "LeaseAlreadyPresent")
    refused(second.renew, 409, "LeaseIdMismatchWithLeaseOperation")
    first.renew()
    # As a host tells the others who it is: under its lease.
    blob.set_blob_metadata({"FunctionInstanceId": "1"}, lease=first)
    refused(lambda: blob.set_blob_metadata({}), 412, "LeaseIdMissing")
    refused(lambda: blob.set_blob_metadata({}, lease=second), 412, "LeaseIdMismatchWithBlobOperation")
    refused(lambda: container.upload_blob("host", b""), 412, "LeaseIdMissing")
    late = BlobLeaseClient(blob, lease_id=first.id)
    first.release()
    second.acquire(lease_duration=15)
    refused(late.release, 409, "LeaseIdMismatchWithLeaseOperation")
    second.release()


def test_the_state_of_a_lease_is_told_by_properties_and_listings(container):
    blob = container.upload_blob("blob", b"")

    def told():
        listed = next(iter(container.list_blobs()))
        lease = blob.get_blob_properties().lease
        assert (listed.lease.status, listed.lease.state, listed.lease.duration) == (lease.status, lease.state, lease.duration)
        return lease.status, lease.state, lease.duration

    assert told() == ("unlocked", "available", None)
    lease = blob.acquire_lease(lease_duration=60)
    assert told() == ("locked", "leased", "fixed")
    lease.break_lease(lease_break_period=60)
    assert told() == ("locked", "breaking", None)
    assert lease.break_lease(lease_break_period=0) == 0
    assert told() == ("unlocked", "broken", None)
    refused(lease.renew, 409, "LeaseIsBrokenAndCannotBeRenewed")
    blob.acquire_lease()
    assert told() == ("locked", "leased", "infinite")


def test_a_lease_has_the_id_that_was_proposed_and_changes_it(container):
    blob = container.upload_blob("blob", b"content")
    one, other = str(uuid.uuid4()), str(uuid.uuid4())
    lease = blob.acquire_lease(lease_id=one)
    assert lease.id == one
    lease.change(proposed_lease_id=other)
    assert lease.id == other
    refused(lambda: blob.download_blob(lease=one), 412, "LeaseIdMismatchWithBlobOperation")
    assert blob.download_blob(lease=lease).readall() == b"content"
    blob.upload_blob(b"new", overwrite=True, lease=lease)
    refused(blob.delete_blob, 412, "LeaseIdMissing")
    blob.delete_blob(lease=lease)


def test_a_leased_container_is_not_deleted_and_its_metadata_is_set(container):
    lease = container.acquire_lease()
    properties = container.get_container_properties()
    assert (properties.lease.state, properties.lease.duration) == ("leased", "infinite")
    refused(container.delete_container, 412, "LeaseIdMissing")
    container.set_container_metadata({"made": "anew", "empty": ""}, lease=lease)
    assert container.get_container_properties(lease=lease).metadata == {"made": "anew", "empty": ""}
    container.upload_blob("blob", b"")
    container.delete_container(lease=lease)
    assert not container.exists()


def test_metadata_of_containers_is_listed(blobs, container):
    container.set_container_metadata({"made": "by_test"})
    with pytest.raises(ResourceModifiedError):
        container.set_container_metadata({}, if_modified_since=container.get_container_properties().last_modified)
    listed = [found.metadata for found in blobs.list_containers(container.container_name, include_metadata=True)]
    assert listed == [{"made": "by_test"}]


def test_a_content_type_can_be_taken_away(container):
    blob = container.upload_blob("blob", b"", content_settings=ContentSettings(content_type="text/plain"))
    blob.set_http_headers(ContentSettings())
    assert not blob.get_blob_properties().content_settings.content_type


def test_leases_outlive_a_service_that_is_killed(tmp_path):
    arguments = ("--blob", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    service = Service(tmp_path, 1, arguments=arguments)
    with BlobServiceClient.from_connection_string(service.storage_connection_string) as client:
        container = client.create_container("kept")
        held = container.upload_blob("held", b"").acquire_lease(lease_duration=60).id
        of_container = container.acquire_lease().id
        container.set_container_metadata({"made": "anew"})
    service.kill()
    service.start()
    with BlobServiceClient.from_connection_string(service.storage_connection_string) as client:
        container = client.get_container_client("kept")
        blob = container.get_blob_client("held")
        with pytest.raises(ResourceExistsError) as error:
            blob.acquire_lease()
        assert error.value.error_code == "LeaseAlreadyPresent"
        BlobLeaseClient(blob, lease_id=held).renew()
        assert container.get_container_properties().metadata == {"made": "anew"}
        refused(container.delete_container, 412, "LeaseIdMissing")
        BlobLeaseClient(container, lease_id=of_container).release()
        container.delete_container()
    assert service.stop() == 0
