"""Tables without a record key: each row gets one of its own, and only rows that bring it are found again."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import UnsupportedError
from lakebed.formats import native_source
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel.engine import LocalEngine
from lakebed.model.commit import BATCH_IDENTIFIER
from lakebed.verbs.native_source import SinkRequest
from lakebed.verbs.table import Table

SCHEMA = pa.schema([("n", pa.int64()), ("part", pa.string()), ("x", pa.string())])
KEY, OPERATION = "_hoodie_record_key", "hoodie.datasource.write.operation"


def rows(count: int, x: str) -> pa.Table:
    return pa.table({"n": range(count), "part": ["ab"[n % 2] for n in range(count)], "x": [x] * count}, SCHEMA)


def keyless(folder: Path, kind: str = "COPY_ON_WRITE", version: int = 9) -> Table:
    described = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    return lakebed.create(folder / "t", "hudi", SCHEMA, partition_by=["part"], options=described)


def texts(table: Table) -> list[str]:
    return sorted(table.read(["x"]).read_all()["x"].to_pylist())


@pytest.mark.parametrize(("kind", "version"), [("COPY_ON_WRITE", 9), ("MERGE_ON_READ", 6), ("MERGE_ON_READ", 8)])
def test_each_row_has_its_own_key(tmp_path: Path, kind: str, version: int) -> None:
    table = keyless(tmp_path, kind, version)
    properties = (Path(table.location) / ".hoodie/hoodie.properties").read_text()
    assert "recordkey" not in properties
    table.write(rows(3, "a"))
    table.write(rows(3, "b"), options={"hoodie.merge.allow.duplicate.on.inserts": "false"})
    sorts = {OPERATION: "bulk_insert", "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
    table.write(rows(3, "c"), options=sorts)
    held = table.read([KEY, "_hoodie_commit_time", "x"]).read_all().to_pylist()
    assert sorted(row["x"] for row in held) == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    assert len({row[KEY] for row in held}) == 9
    assert all(re.fullmatch(rf"{row['_hoodie_commit_time']}_\d+_\d+", row[KEY]) for row in held)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_that_were_read_are_changed_and_deleted(tmp_path: Path, kind: str) -> None:
    table = keyless(tmp_path, kind)
    table.write(rows(4, "a"))
    read = table.read(where="n < 2").read_all()
    place = read.schema.get_field_index("x")
    table.write(read.set_column(place, SCHEMA.field("x"), pa.array(["b", "c"])), mode="upsert")
    assert texts(table) == ["a", "a", "b", "c"]
    table.write(table.read(where="x = 'a'").read_all(), mode="delete")
    assert texts(table) == ["b", "c"]
    assert set(table.read([KEY]).read_all()[KEY].to_pylist()) == set(read[KEY].to_pylist())


def test_what_needs_keys_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    table = keyless(tmp_path)
    table.write(rows(2, "a"))
    changes = rows(2, "b").append_column("_row_kind", pa.array(["+I", "-D"]))
    moved = table.read(where="n = 0").read_all()
    moved = moved.set_column(moved.schema.get_field_index("part"), SCHEMA.field("part"), pa.array(["c"]))
    refused = [
        ("upsert", moved, {}, "it was read from 'a', and its columns name 'c'"),
        ("upsert", rows(1, "b"), {}, "no column _hoodie_record_key"),
        ("delete", rows(1, "b"), {}, "no column _hoodie_record_key"),
        ("append", changes, {}, "has changes, and the table has no record key"),
        ("append", rows(1, "b"), {"hoodie.combine.before.insert": "true"}, "hoodie.combine.before.insert is true"),
        ("append", rows(1, "b"), {"hoodie.datasource.insert.dup.policy": "drop"}, "dup.policy is drop"),
        ("append", rows(1, "b"), {"hoodie.index.type": "BUCKET"}, "the index is BUCKET"),
    ]
    for mode, data, options, why in refused:
        with pytest.raises(UnsupportedError, match=re.escape(why)):
            table.write(data, mode, options)
    assert len(table.history()) == 1 and texts(table) == ["a", "a"]


@pytest.mark.parametrize(("operation", "recorded"), [("", "BULK_INSERT"), ("upsert", "INSERT"), ("insert", "INSERT")])
def test_hudis_own_sink_needs_no_record_key(tmp_path: Path, operation: str, recorded: str) -> None:
    options = {"hoodie.datasource.write.partitionpath.field": "part", **({OPERATION: operation} if operation else {})}
    made = native_source("hudi").sink
    assert made is not None
    for _ in range(2):
        table = lakebed.open(tmp_path / "t") if (tmp_path / "t").exists() else None
        sink = made(SinkRequest(table, str(tmp_path / "t"), SCHEMA, options, False))
        plan = sink.plan()
        writer = plan.task_writer()
        writer.write(rows(2, "a"))
        sink.commit(BATCH_IDENTIFIER, sink.finalize(plan, writer.finish(), LocalEngine(1)).messages)
    table = lakebed.open(tmp_path / "t")
    assert len(set(table.read([KEY]).read_all()[KEY].to_pylist())) == 4
    assert isinstance(table, HudiTable)
    state = table.state()
    assert {commit.operation for commit in state.files.commits(state.timeline.commits).values()} == {recorded}
