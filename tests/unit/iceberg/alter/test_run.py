"""Tables that change: what they read and write afterwards, by path and in catalogs, and two writers."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, SchemaError, UnsupportedError
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.catalog.operations import Loaded, LostRaceError
from lakebed.formats.iceberg.table import IcebergTable
from tests.tables.iceberg.small import QUICK, create

DAY = datetime.date(2020, 1, 2)
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int32(), False), pa.field("dt", pa.date32()), pa.field("f", pa.float32()),
        pa.field("p", pa.decimal128(5, 2)), pa.field("s", pa.struct([("x", pa.int32())])),
    ]
)  # fmt: skip
ROW = {"id": 1, "dt": DAY, "f": 1.5, "p": Decimal("2.50"), "s": {"x": 1}}


def made(path: Path, version: int, name: str = "") -> IcebergTable:
    """A table by path, or with a `name` of a catalog."""
    options = {"format-version": str(version), **QUICK}
    where: Any = path
    if name:
        settings = {"type": "sql", "uri": f"sqlite:///{path}.db", "warehouse": f"file://{path}"}
        where, options = name, {**options, **{f"lakebed.catalog.{key}": text for key, text in settings.items()}}
    table = lakebed.create(where, "iceberg", COLUMNS, ["id"], ["month(dt)"], options)
    assert isinstance(table, IcebergTable)
    return table


def rows(table: IcebergTable, **how: Any) -> list[dict[str, Any]]:
    return sorted(table.read(**how).read_all().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize(("version", "name"), [(1, ""), (2, ""), (2, "shop:db.t")])
def test_all_verbs_go_on_over_older_files_specs_and_schemas(tmp_path: Path, version: int, name: str) -> None:
    table = made(tmp_path / "t", version, name)
    table.write(pa.Table.from_pylist([ROW], schema=table.schema))
    first = table.history()[-1].time
    changes = [
        lakebed.widen("id", "long"), lakebed.widen("f", "double"), lakebed.widen("p", "decimal(9, 2)"),
        lakebed.widen("s.x", "long"), lakebed.add_column("s.y", "string", first=True),
        lakebed.rename_column("p", "price"), lakebed.add_column("n", "int", after="id"),
        lakebed.drop_partition_field("dt_month"), lakebed.add_partition_field("bucket(2, id)"),
        lakebed.drop_column("dt"), lakebed.set_sort_order("price desc"),
    ]  # fmt: skip
    planned = table.alter(changes, dry_run=True)
    assert "dt" in table.schema.names and planned.dry_run
    done = table.alter(changes)
    assert (done.changes, done.schema, done.version) == (planned.changes, table.schema, "1")
    old = {"id": 1, "n": None, "f": 1.5, "price": Decimal("2.50"), "s": {"y": None, "x": 1}}
    assert rows(table) == [old]
    assert rows(table, as_of=first) == [ROW], "as of a snapshot it has the columns of that time"
    new = {"id": 2**40, "n": 7, "f": 0.1, "price": Decimal("1234567.50"), "s": {"y": "a", "x": 2**40}}
    table.write(pa.Table.from_pylist([new], schema=table.schema))
    assert rows(table) == [old, new]
    for where in ("price = 2.50", "s.x = 1", "f = 1.5", "id < 5", "n is null"):
        assert rows(table, where=where) == [old], where
    if version > 1:
        table.write(pa.table({"id": [1], "n": [5]}).cast(pa.schema([("id", pa.int64()), ("n", pa.int32())])), "upsert")
        old = {**dict.fromkeys(old), "id": 1, "n": 5}
        assert rows(table) == [old, new]
    assert {row["_row_kind"] for row in table.changes(after=first).read_all().to_pylist()} <= {"+I", "-D", "-U", "+U"}
    table.rewrite(options={"rewrite-all": True, "remove-dangling-deletes": True})
    assert rows(table) == [old, new]
    table.alter([lakebed.set_option("format-version", min(3, version + 1)), lakebed.set_option("write.x", "y")])
    assert table.table_metadata.format_version == version + 1 and table.table_metadata.properties["write.x"] == "y"
    table.write(pa.Table.from_pylist([{**new, "id": 3}], schema=table.schema))
    table.expire(options={"older-than": "2100-01-01"})
    table.rewrite(options={"rewrite-all": True})
    assert rows(table) == [old, {**new, "id": 3}, new]
    table.write(pa.table({"id": pa.array([3], pa.int64())}), "delete") if version > 1 else None
    assert [row["id"] for row in rows(table)] == ([1, 2**40] if version > 1 else [1, 3, 2**40])
    assert table.inspect().format == "iceberg"


def test_defaults_are_read_in_older_files_and_written_where_a_column_is_left_out(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 3)
    table.write(pa.Table.from_pylist([ROW], schema=table.schema))
    table.alter([
        lakebed.add_column("a", "int", nullable=False, default=5), lakebed.add_column("s.b", "string", default="in"),
        lakebed.add_column("d", "date", default="2020-01-02"),
    ])  # fmt: skip
    assert [row["a"] for row in rows(table)] == [5] and rows(table)[0]["s"] == {"x": 1, "b": "in"}
    table.alter([lakebed.set_default("a", 6), lakebed.widen("d", "timestamp"), lakebed.widen("a", "long")])
    table.write(pa.table({"id": pa.array([2], pa.int32())}))
    noon = datetime.datetime(2020, 1, 2)
    assert [(row["a"], row["d"]) for row in rows(table)] == [(5, noon), (6, noon)]
    assert [row["id"] for row in rows(table, where="a = 5")] == [1]
    assert [row["id"] for row in rows(table, where="d = timestamp '2020-01-02 00:00:00'")] == [1, 2]
    table.rewrite(options={"rewrite-all": True})
    assert [row["a"] for row in rows(table)] == [5, 6]


def test_a_column_of_a_dropped_name_does_not_get_its_values(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 2)
    table.write(pa.Table.from_pylist([ROW], schema=table.schema))
    table.alter([lakebed.drop_column("f"), lakebed.drop_column("s"), lakebed.add_column("f", "float")])
    assert rows(table)[0]["f"] is None and "s" not in rows(table)[0]


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Another writer commits right before the first commit of this process."""
    commit = HadoopTable.commit
    acts = [act]

    def slow(self: HadoopTable, *arguments: Any, **named: Any) -> Loaded:
        while acts:
            acts.pop()()
        return commit(self, *arguments, **named)

    monkeypatch.setattr(HadoopTable, "commit", slow)


def test_rows_that_others_commit_meanwhile_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t", 2)
    other = lakebed.open(table.location)
    between(monkeypatch, lambda: other.write(pa.Table.from_pylist([ROW], schema=COLUMNS)))
    table.alter([lakebed.rename_column("f", "g"), lakebed.replace_partition_field("dt_month", "day(dt)")])
    assert [row["g"] for row in rows(table)] == [1.5]
    between(monkeypatch, lambda: other.alter([lakebed.add_column("h", "int"), lakebed.add_partition_field("g")]))
    table.write(pa.Table.from_pylist([{**ROW, "id": 2, "g": 2.5}], schema=table.schema))
    assert [(row["g"], row["h"]) for row in rows(table)] == [(1.5, None), (2.5, None)]


def test_two_alterations_conflict_except_of_properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t", 2)
    other = lakebed.open(table.location)
    between(monkeypatch, lambda: other.alter(lakebed.add_column("theirs", "int")))
    with pytest.raises(CommitConflictError, match="another writer altered"):
        table.alter(lakebed.add_column("ours", "int"))
    assert "ours" not in table.schema.names
    between(monkeypatch, lambda: other.alter(lakebed.set_option("a", "1")))
    table.alter([lakebed.add_column("ours", "int"), lakebed.set_option("b", "2")])
    between(monkeypatch, lambda: other.alter(lakebed.add_column("more", "int")))
    table.alter(lakebed.set_option("c", "3"))
    assert {"a": "1", "b": "2", "c": "3"}.items() <= table.table_metadata.properties.items()
    assert table.schema.names[-3:] == ["theirs", "ours", "more"]


def test_a_lost_race_with_itself_is_no_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that repeats a request whose answer was lost is refused, since the first one took effect."""
    table = made(tmp_path / "t", 2)
    commit = HadoopTable.commit
    lost: list[bool] = []

    def repeated(self: HadoopTable, *arguments: Any, **named: Any) -> Loaded:
        done = commit(self, *arguments, **named)
        if not lost:
            lost.append(True)
            raise LostRaceError("409")
        return done

    monkeypatch.setattr(HadoopTable, "commit", repeated)
    assert table.alter([lakebed.add_column("a", "int"), lakebed.set_sort_order("a")]).version == "1"
    assert len(table.table_metadata.schemas) == 2 and lost


def test_a_required_column_loses_against_the_first_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t", 2)
    other = lakebed.open(table.location)
    between(monkeypatch, lambda: other.write(pa.Table.from_pylist([ROW], schema=COLUMNS)))
    with pytest.raises(SchemaError, match="default value"):
        table.alter(lakebed.add_column("must", "int", nullable=False))
    assert len(rows(table)) == 1


def test_a_table_that_only_its_catalog_may_change(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 2, "shop:db.t")
    by_path = lakebed.open(table.location)
    with pytest.raises(UnsupportedError, match="belongs to a catalog"):
        by_path.alter(lakebed.add_column("a", "int"), dry_run=True)
    assert create(tmp_path / "other").alter(lakebed.set_option("a", "b")).version == "0"
