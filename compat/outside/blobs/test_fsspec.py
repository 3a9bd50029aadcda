"""adlfs by fsspec, as pandas, dask and others use it."""

import fsspec
import pytest


@pytest.fixture
def files(account):
    return fsspec.filesystem("abfs", connection_string=account.connection_string, skip_instance_cache=True)


def test_files_are_piped_listed_copied_and_removed(files, container):
    files.pipe({f"{container}/a/{number}": bytes([number]) for number in range(20)})
    assert len(files.ls(f"{container}/a", detail=False)) == 20
    assert files.cat_file(f"{container}/a/7") == b"\x07"
    assert files.cat_ranges([f"{container}/a/7"], [0], [1]) == [b"\x07"]
    files.cp_file(f"{container}/a/7", f"{container}/b/7")
    files.mv(f"{container}/b/7", f"{container}/c/7")
    assert files.find(container, prefix="c") == [f"{container}/c/7"]
    assert not files.exists(f"{container}/b/7")
    assert (files.info(f"{container}/c/7")["size"], files.isdir(f"{container}/a"), files.isfile(f"{container}/c/7")) == (1, True, True)
    files.rm(f"{container}/a", recursive=True)
    assert files.glob(f"{container}/**/7") == [f"{container}/c/7"]


def test_large_files_are_written_in_blocks_and_read_with_seeks(files, container):
    content = bytes(range(256)) * 50_000
    with files.open(f"{container}/large", "wb", block_size=1 << 20) as file:
        for start in range(0, len(content), 700_000):
            file.write(content[start : start + 700_000])
    with files.open(f"{container}/large", "rb", block_size=1 << 16) as file:
        file.seek(9_999_999)
        assert file.read(500) == content[9_999_999:10_000_499]
    assert files.cat_file(f"{container}/large") == content


def test_metadata_and_times_are_known(files, container):
    with files.open(f"{container}/a", "wb", metadata={"kind": "test"}) as file:
        file.write(b"1")
    assert files.info(f"{container}/a")["metadata"]["kind"] == "test"
    assert files.modified(f"{container}/a").year >= 2026
    assert files.sign(f"{container}/a").split("?")[0].endswith("/a")


def test_containers_come_and_go(files):
    files.mkdir("by-fsspec")
    assert "by-fsspec" in [found["name"].rstrip("/") for found in files.ls("", detail=True)]
    files.rmdir("by-fsspec")
    files.invalidate_cache()
    assert not files.exists("by-fsspec")
