"""Programs that copy trees of files: AzCopy and rclone."""

import os
import shutil
from datetime import datetime, timedelta, timezone

import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas
from conftest import output, same


@pytest.fixture
def azcopy(cloud, tmp_path):
    """AzCopy with a signature, on a machine where it never ran."""
    home = tmp_path / "azcopy"
    environment = cloud | {"AZCOPY_LOG_LOCATION": str(home), "AZCOPY_JOB_PLAN_LOCATION": str(home), "HOME": str(home)}
    home.mkdir()

    def run(*arguments):
        return output([os.environ["AZCOPY"], *arguments, "--output-level=essential"], environment)

    return run


def signed(account, path):
    signature = generate_account_sas(
        account.name,
        account.key,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions.from_string("rwdxltfcaip"),
        datetime.now(timezone.utc) + timedelta(hours=1),
    )
    return f"https://{account.host}/{path}?{signature}"


def test_azcopy_copies_synchronises_and_removes(account, azcopy, container, files, tmp_path):
    azcopy("copy", files, signed(account, container), "--recursive", "--from-to", "LocalBlob")
    back = tmp_path / "back"
    azcopy("copy", signed(account, f"{container}/files"), back, "--recursive", "--from-to", "BlobLocal")
    assert same(files, back / "files")

    other = f"other-{container}"[:60]
    azcopy("make", signed(account, other))
    azcopy("copy", signed(account, f"{container}/files"), signed(account, other), "--recursive", "--from-to", "BlobBlob")
    (files / "large").unlink()
    (files / "new").write_bytes(b"new")
    azcopy("sync", files, signed(account, f"{other}/files"), "--recursive", "--delete-destination=true", "--from-to", "LocalBlob")
    azcopy("copy", signed(account, f"{other}/files"), tmp_path / "synchronised", "--recursive", "--from-to", "BlobLocal")
    assert same(files, tmp_path / "synchronised" / "files")

    azcopy("remove", signed(account, f"{container}/files"), "--recursive", "--from-to", "BlobTrash")
    with account.client() as client:
        assert list(client.get_container_client(container).list_blobs()) == []


def test_rclone_copies_checks_moves_and_purges(account, cloud, container, files, tmp_path):
    config = tmp_path / "rclone.conf"
    config.write_text(f"[blobs]\ntype = azureblob\naccount = {account.name}\nkey = {account.key}\n")

    def rclone(*arguments):
        return output(["rclone", "--config", config, "--retries=1", "--low-level-retries=1", *arguments], cloud)

    remote = f"blobs:{container}"
    rclone("copy", files, f"{remote}/a", "--azureblob-chunk-size=4M")
    rclone("check", files, f"{remote}/a", "--download")
    rclone("copy", f"{remote}/a", f"{remote}/b")
    rclone("move", f"{remote}/b", f"{remote}/c")
    assert rclone("lsf", remote).split() == ["a/", "c/"]
    shutil.rmtree(files / "3")
    rclone("sync", files, f"{remote}/c")
    rclone("check", files, f"{remote}/c")
    rclone("copy", f"{remote}/c", tmp_path / "back")
    assert same(files, tmp_path / "back")
    rclone("settier", "Cool", f"{remote}/c")
    rclone("purge", remote)
    assert container not in rclone("lsd", "blobs:")
