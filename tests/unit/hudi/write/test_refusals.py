"""A write that is refused leaves the table's folder as it was: no instant, no marker, no rollback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import LakebedError

OPERATION = "hoodie.datasource.write.operation"
TYPE = "hoodie.datasource.write.table.type"
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
RING = {**BUCKET, "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
MOR = {TYPE: "MERGE_ON_READ"}
DELETED = "hoodie.datasource.write.partitions.to.delete"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "dt": ["a", "b"], "v": ["x", "y"]})


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _scheduled(table: Table) -> None:
    table.write(ROWS, "upsert")
    table.rewrite(options={"lakebed.rewrite.step": "schedule"})


def _rule_folder(table: Table) -> None:
    rules = Path(table.location) / ".hoodie" / ".bucket_index" / "partition_bucket_index_meta" / "configs"
    rules.mkdir(parents=True)
    (rules / "00000000000000.hashing_config").write_text("{}")


Before = Callable[[Table], object]


@pytest.mark.parametrize(
    ("made", "before", "mode", "options", "error"),
    [
        (BUCKET, None, "upsert", {"hoodie.index.type": "BLOOM"}, "buckets of a bucket index"),
        (BUCKET, None, "append", {"hoodie.index.type": "SIMPLE"}, "buckets of a bucket index"),
        (BUCKET, None, "upsert", {"hoodie.bucket.index.num.buckets": "3"}, "was not written with this bucket index"),
        (BUCKET, None, "append", {"hoodie.datasource.insert.dup.policy": "drop"}, "known keys in an insert"),
        (BUCKET, None, "upsert", {"hoodie.bucket.index.partition.expressions": ".*,3"}, "not written with"),
        (BUCKET, None, "upsert", {"hoodie.bucket.index.partition.expressions": r"\p{L},8"}, "Java"),
        (BUCKET, _rule_folder, "upsert", {}, "numbers of buckets by partition"),
        ({}, None, "upsert", BUCKET, "is none of 4 buckets"),
        (MOR, None, "upsert", RING, "none of its buckets"),
        ({**MOR, **RING}, None, "upsert", {"hoodie.index.type": "BLOOM"}, "consistent hashing index"),
        (MOR, _scheduled, "overwrite", {}, "cannot be replaced"),
        (MOR, _scheduled, "append", {OPERATION: "insert_overwrite_table"}, "cannot be replaced"),
        (MOR, _scheduled, "delete", {OPERATION: "delete_partition", DELETED: "*"}, "cannot be replaced"),
        ({}, None, "upsert", {OPERATION: "bulk_insert"}, "cannot run the operation"),
        ({}, None, "append", {"hoodie.datasource.write.recordkey.field": "v"}, "does not agree with the table"),
        ({}, None, "append", {"hoodie.logfile.data.block.format": "hfile"}, "hfile"),
        ({}, None, "append", {"hoodie.index.type": "HBASE"}, "HBASE"),
        ({}, None, "append", {"hoodie.write.lock.provider": "ZookeeperBasedLockProvider"}, "cannot take the lock"),
    ],
)
def test_nothing_is_written(
    tmp_path: Path,
    made: Mapping[str, str],
    before: Before | None,
    mode: str,
    options: Mapping[str, str],
    error: str,
) -> None:
    table = lakebed.create(tmp_path / "t", "hudi", {"id": "int64", "dt": "string", "v": "string"}, ["id"], ["dt"], made)
    table.write(ROWS, options={OPERATION: "bulk_insert"})
    if before is not None:
        before(table)
    content = _content(tmp_path)
    with pytest.raises(LakebedError, match=error):
        lakebed.open(table.location).write(ROWS.slice(0, 1), mode, options)
    assert _content(tmp_path) == content


def test_a_plan_that_cannot_run_is_not_begun(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "hudi", {"id": "int64", "v": "string"}, ["id"], [])
    for _ in range(2):
        table.write(ROWS.select(["id", "v"]), options={OPERATION: "bulk_insert"})
    sorts = {"lakebed.rewrite.what": "clustering", "hoodie.clustering.plan.strategy.sort.columns": "v"}
    table.rewrite(options={**sorts, "lakebed.rewrite.step": "schedule"})
    (plan,) = (tmp_path / "t" / ".hoodie" / "timeline").glob("*.clustering.requested")
    plan.write_bytes(plan.read_bytes().replace(b"sort.columns\x02v", b"sort.columns\x02w"))
    content = _content(tmp_path)
    with pytest.raises(LakebedError, match="columns to sort by"):
        lakebed.open(table.location).rewrite(
            options={"lakebed.rewrite.what": "clustering", "lakebed.rewrite.step": "run"}
        )
    assert _content(tmp_path) == content
