"""Tables of deltalake and frames of polars, over `object_store`."""

import deltalake
import polars
import pyarrow
import pytest


@pytest.fixture
def options(account):
    return {
        "azure_storage_account_name": account.name, "azure_storage_account_key": account.key,
        "azure_storage_endpoint": account.endpoint, "azure_allow_http": "true",
    }


def test_tables_are_written_merged_compacted_and_cleaned(options, container):
    url = f"az://{container}/table"
    for number in range(5):
        deltalake.write_deltalake(url, pyarrow.table({"id": [number], "value": [number * 2]}), mode="append", storage_options=options)
    table = deltalake.DeltaTable(url, storage_options=options)
    table.delete("id = 3")
    assert table.optimize.compact()["numFilesRemoved"] == 4
    removed = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert len(removed) >= 4
    rows = deltalake.DeltaTable(url, storage_options=options).to_pyarrow_table().sort_by("id")
    assert rows["id"].to_pylist() == [0, 1, 2, 4]


def test_two_writers_do_not_both_win_a_version(options, container):
    url = f"az://{container}/table"
    deltalake.write_deltalake(url, pyarrow.table({"id": [0]}), storage_options=options)
    one, other = (deltalake.DeltaTable(url, storage_options=options) for _ in range(2))
    for table in (one, other):
        deltalake.write_deltalake(table, pyarrow.table({"id": [1]}), mode="append")
    assert deltalake.DeltaTable(url, storage_options=options).version() == 2


def test_frames_are_scanned(options, container):
    frame = polars.DataFrame({"a": range(1000), "b": ["x"] * 1000})
    for number in range(3):
        frame.write_parquet(f"az://{container}/frames/{number}.parquet", storage_options=options)
    scanned = polars.scan_parquet(f"az://{container}/frames/*.parquet", storage_options=options)
    assert scanned.filter(polars.col("a") >= 990).select(polars.len()).collect().item() == 30
