"""pyarrow's file system of Azure, which pyiceberg and others use: its calls, and data sets in it."""

import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from pyarrow.fs import AzureFileSystem, FileSelector, FileType


@pytest.fixture
def files(account):
    # The data lake's endpoint is asked for nothing where the account has no hierarchical namespace.
    return AzureFileSystem(
        account.name, account_key=account.key, blob_storage_authority=account.address, blob_storage_scheme="http",
        dfs_storage_authority=account.address, dfs_storage_scheme="http",
    )


def write(files, path, content):
    with files.open_output_stream(path) as stream:
        stream.write(content)


def test_files_are_written_read_in_part_and_appended_to(files, container):
    path = f"{container}/folder/file"
    write(files, path, b"0123456789")
    info = files.get_file_info(path)
    assert (info.type, info.size) == (FileType.File, 10)
    with files.open_input_file(path) as file:
        file.seek(3)
        assert file.read(4) == b"3456"
    with files.open_input_stream(path) as stream:
        assert stream.read() == b"0123456789"
    with files.open_append_stream(path) as stream:
        stream.write(b"x")
    assert files.open_input_stream(path).readall() == b"0123456789x"


def test_metadata_comes_back(files, container):
    with files.open_output_stream(f"{container}/a", metadata={"Content-Type": "text/csv", "kind": "test"}) as stream:
        stream.write(b"1")
    metadata = files.open_input_stream(f"{container}/a").metadata()
    assert (metadata["Content-Type"], metadata["kind"]) == (b"text/csv", b"test")


def test_folders_are_listed_with_and_without_what_is_beneath_them(files, container):
    for name in ("a", "b/c", "b/d/e"):
        write(files, f"{container}/{name}", b"1")
    found = {info.path.split("/", 1)[1]: info.type for info in files.get_file_info(FileSelector(container))}
    assert found == {"a": FileType.File, "b": FileType.Directory}
    found = {info.path.split("/", 1)[1] for info in files.get_file_info(FileSelector(container, recursive=True))}
    assert found == {"a", "b", "b/c", "b/d", "b/d/e"}
    assert files.get_file_info(f"{container}/missing").type == FileType.NotFound


def test_files_are_copied_and_deleted(files, container):
    write(files, f"{container}/a", b"1")
    files.copy_file(f"{container}/a", f"{container}/b")
    files.delete_file(f"{container}/a")
    assert files.get_file_info(f"{container}/a").type == FileType.NotFound
    assert files.open_input_stream(f"{container}/b").readall() == b"1"


def test_folders_are_made_and_deleted_with_all_that_is_in_them(files, container):
    files.create_dir(f"{container}/empty")
    assert files.get_file_info(f"{container}/empty").type == FileType.Directory
    for number in range(300):
        write(files, f"{container}/many/{number}", b"")
    files.delete_dir_contents(f"{container}/many", missing_dir_ok=True)
    assert files.get_file_info(FileSelector(f"{container}/many", allow_not_found=True)) == []
    files.delete_dir(f"{container}/empty")
    assert files.get_file_info(f"{container}/empty").type == FileType.NotFound


def test_containers_are_folders(files):
    files.create_dir("new-container")
    assert files.get_file_info("new-container").type == FileType.Directory
    files.delete_dir("new-container")
    assert files.get_file_info("new-container").type == FileType.NotFound


def test_a_data_set_of_parquet_is_written_and_read(files, container):
    table = pyarrow.table({"year": [2025, 2026, 2026], "value": [1.5, 2.5, 3.5]})
    pyarrow.parquet.write_to_dataset(table, f"{container}/set", partition_cols=["year"], filesystem=files)
    read = pyarrow.dataset.dataset(f"{container}/set", filesystem=files, partitioning="hive").to_table(filter=pyarrow.dataset.field("year") == 2026)
    assert sorted(read["value"].to_pylist()) == [2.5, 3.5]
