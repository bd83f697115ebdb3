"""Clusterings of golden and new tables: every row stays, with its meta columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, OptionError, UnsupportedError
from tests.golden import unpack

CLUSTER: dict[str, object] = {"lakebed.rewrite.what": "clustering"}
SORT = "hoodie.clustering.plan.strategy.sort.columns"


def rows(table: Any) -> pa.Table:
    return table.read().read_all().drop_columns(["_hoodie_file_name"]).sort_by("_hoodie_record_key")


def small_files(folder: Path, version: int = 8, kind: str = "COPY_ON_WRITE") -> Any:
    options = {"hoodie.write.table.version": version, "hoodie.table.type": kind}
    schema = pa.schema([("id", pa.string()), ("x", pa.int64()), ("y", pa.int64())])
    table = lakebed.create(str(folder), "hudi", schema, primary_key=["id"], options=options)
    for part in range(3):
        ids = [f"{part}-{number}" for number in range(4)]
        data = pa.table({"id": ids, "x": [part, 9 - part, 5, 7], "y": [1, 2, part, 4]}, schema)
        table.write(data, options={"hoodie.parquet.small.file.limit": 0})
    return lakebed.open(str(folder))


@pytest.mark.parametrize("name", ["cow_v6", "cow_h015", "cow_v8", "cow_v9"])
def test_rows_of_golden_tables_stay_as_they_are(name: str, tmp_path: Path) -> None:
    table = lakebed.open(str(unpack("hudi", name, into=tmp_path)))
    before, plan = rows(table), table.rewrite(dry_run=True)
    result = table.rewrite()
    assert rows(table).equals(before)
    assert result.groups == plan.groups
    assert not table.rewrite(dry_run=True).groups


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("layout", ["linear", "z-order", "hilbert"])
def test_small_files_are_joined_and_sorted(kind: str, version: int, layout: str, tmp_path: Path) -> None:
    table = small_files(tmp_path, version, kind)
    before = rows(table)
    result = table.rewrite(options={**CLUSTER, SORT: "x,y", "hoodie.layout.optimize.strategy": layout})
    assert (result.files_before, result.files_after) == (3, 1)
    assert rows(table).equals(before)
    newest = table.history()[-1]
    assert (newest.action, newest.time) == ("replacecommit", result.instants[0])
    if layout == "linear":
        assert table.read(columns=["x"]).read_all()["x"].to_pylist() == sorted(before["x"].to_pylist())


def test_updates_of_file_groups_under_clustering_are_refused(tmp_path: Path) -> None:
    table = small_files(tmp_path)
    table.rewrite(options={"lakebed.rewrite.step": "schedule"})
    before = rows(table)
    row = pa.table({"id": ["0-0"], "x": pa.array([1]), "y": pa.array([1])})
    with pytest.raises(CommitConflictError, match="clustering"):
        table.write(row, mode="upsert")
    plan = table.rewrite(dry_run=True)
    result = table.rewrite(options={"lakebed.rewrite.step": "run"})
    assert (plan.files_before, plan.bytes_before) == (result.files_before, result.bytes_before)
    assert rows(table).equals(before)
    table.write(row, mode="upsert")


def test_a_write_to_a_clustered_file_group_stops_the_clustering(tmp_path: Path) -> None:
    table = small_files(tmp_path)
    table.rewrite(options={"lakebed.rewrite.step": "schedule"})
    allow = {"hoodie.clustering.updates.strategy": "a.b.SparkAllowUpdateStrategy"}
    table.write(pa.table({"id": ["0-0"], "x": pa.array([1]), "y": pa.array([1])}), mode="upsert", options=allow)
    before = rows(table)
    with pytest.raises(CommitConflictError, match="while it was rewritten"):
        table.rewrite(options={"lakebed.rewrite.step": "run"})
    instant = next(i.time for i in table.history() if i.state == "inflight")
    withdraw = {"lakebed.rewrite.step": "withdraw", "lakebed.rewrite.instant": instant}
    beat = Path(table.location, ".hoodie", ".heartbeat", instant)
    beat.write_bytes(b"")  # as a run on another machine has it
    (kept,) = table.rewrite(options=withdraw).skipped
    assert kept.reason == "its run is under way"
    beat.unlink()
    table.rewrite(options=withdraw)
    assert rows(table).equals(before)
    assert all(i.state == "completed" for i in table.history())
    assert not list(Path(table.location).rglob(f"*_{instant}.parquet"))


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="zz"):
        small_files(tmp_path / "a").rewrite(options={SORT: "zz"})
    bucket = lakebed.open(str(unpack("hudi", "mor_bucket_v8", into=tmp_path)))
    with pytest.raises(UnsupportedError, match="a fixed number of buckets cannot be clustered") as caught:
        bucket.rewrite(options=CLUSTER)
    assert str(caught.value.table) in str(caught.value) and "every write looks" in str(caught.value.why)
    assert "lakebed.rewrite = compaction" in str(caught.value.todo) and "CONSISTENT_HASHING" in str(caught.value.todo)
    assert "SIMPLE" not in str(caught.value)
