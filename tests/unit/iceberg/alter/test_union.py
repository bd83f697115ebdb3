"""Writes that bring columns along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import SchemaError, UnsupportedError
from lakebed.formats.iceberg.alter.union import union_changes
from lakebed.formats.iceberg.definition import new_schema
from lakebed.formats.iceberg.table import IcebergTable
from tests.tables.iceberg.small import QUICK
from tests.unit.iceberg.alter.test_run import between

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int32(), False), pa.field("f", pa.float32()), pa.field("p", pa.decimal128(5, 2)),
        pa.field("n", pa.int64()), pa.field("s", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.int32()))])),
        pa.field("m", pa.map_(pa.string(), pa.struct([("v", pa.int32())]))),
    ]
)  # fmt: skip
MERGE = {"merge-schema": True}


def made(path: Path, version: int = 2) -> IcebergTable:
    table = lakebed.create(path, "iceberg", COLUMNS, ["id"], options={"format-version": version, **QUICK})
    assert isinstance(table, IcebergTable)
    table.write(pa.table({"id": pa.array([1], pa.int32())}))
    return table


def test_changes_by_name() -> None:
    rows = pa.schema([
        ("ID", pa.int64()), ("f", pa.float64()), ("p", pa.decimal128(9, 2)), ("n", pa.int32()),
        ("_row_kind", pa.string()),
        ("s", pa.struct([("x", pa.int64()), ("l", pa.large_list(pa.int64())), ("new", pa.date32())])),
        ("m", pa.map_(pa.string(), pa.struct([("v", pa.int64()), ("w", pa.int8())]))),
        ("d", pa.dictionary(pa.int32(), pa.string())), ("e", pa.list_(pa.struct([("q", pa.int32())]))),
    ])  # fmt: skip
    schema = new_schema(COLUMNS, ["id"], 2, "t")
    assert union_changes(schema, rows, 2) == [
        lakebed.widen(("id",), pa.int64()), lakebed.widen(("f",), pa.float64()),
        lakebed.widen(("p",), pa.decimal128(9, 2)), lakebed.widen(("s", "x"), pa.int64()),
        lakebed.widen(("s", "l", "element"), pa.int64()), lakebed.add_column(("s", "new"), pa.date32()),
        lakebed.widen(("m", "value", "v"), pa.int64()), lakebed.add_column(("m", "value", "w"), pa.int8()),
        lakebed.add_column(("d",), pa.string()), lakebed.add_column(("e",), pa.list_(pa.struct([("q", pa.int32())]))),
    ]  # fmt: skip
    assert union_changes(schema, COLUMNS, 2) == []
    assert union_changes(schema, pa.schema([("f", pa.string()), ("p", pa.decimal128(5, 3))]), 2) == []


def test_a_write_widens_the_table_by_option(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    rows = pa.table({"id": [2**40], "a.b": ["x"], "s": [{"x": 2**40, "l": [1], "y": 1.5}]})
    with pytest.raises(SchemaError, match=r"does not have: a\.b"):
        table.write(rows)
    table.write(rows, options=MERGE)
    assert table.schema.names == [*COLUMNS.names, "a.b"] and not table.schema.field("id").nullable
    assert table.read(columns=["id", "a.b", "s"]).read_all().sort_by("id").to_pylist() == [
        {"id": 1, "a.b": None, "s": None}, {"id": 2**40, "a.b": "x", "s": {"x": 2**40, "l": [1], "y": 1.5}},
    ]  # fmt: skip
    before = len(table.table_metadata.metadata_log)
    table.write(pa.table({"id": pa.array([1], pa.int32()), "a.b": ["y"]}), "upsert", options={"mergeSchema": "true"})
    assert len(table.table_metadata.metadata_log) == before + 1, "a write that brings nothing along alters nothing"
    opened = lakebed.open(table.location, options={"merge-schema": "true"})
    opened.write(pa.table({"id": [5], "late": [True]}).to_reader(), "overwrite")
    opened.write(pa.table({"id": [5]}), "delete")
    assert "late" in table.schema.names and opened.read().read_all().num_rows == 0


def test_rows_that_do_not_fit_leave_the_table_as_it_is(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    wrong: list[dict[str, Any]] = [
        {"id": [2], "new": [1], "p": ["text"]}, {"new": [1]}, {"id": [2], "new": [1], "s": [{"y": 1}]},
        {"id": [2], "_file": ["x"]}, {"id": [2], "new": pa.nulls(1)},
    ]  # fmt: skip
    for columns in wrong:
        with pytest.raises(SchemaError):
            table.write(pa.table(columns), options=MERGE)
    assert table.schema.equals(COLUMNS) and len(table.table_metadata.schemas) == 1
    with pytest.raises(UnsupportedError, match="cannot merge schemas"):
        lakebed.open(table.location, options=MERGE).writer()
    made(tmp_path / "three", 3).write(pa.table({"id": [2], "new": pa.nulls(1)}), options=MERGE)


def test_two_writers_that_bring_the_same_column_both_land(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, other = made(tmp_path / "t"), lakebed.open(tmp_path / "t")
    theirs = pa.table({"id": pa.array([2], pa.int32()), "a": [2], "b": ["x"]})
    between(monkeypatch, lambda: other.write(theirs, options=MERGE))
    table.write(pa.table({"id": pa.array([3], pa.int32()), "a": [3], "c": [True]}), options=MERGE)
    assert table.read(columns=["id", "a", "b", "c"]).read_all().sort_by("id").to_pylist() == [
        {"id": 1, "a": None, "b": None, "c": None}, {"id": 2, "a": 2, "b": "x", "c": None},
        {"id": 3, "a": 3, "b": None, "c": True},
    ]  # fmt: skip
