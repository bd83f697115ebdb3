"""Tables that change: what they read and write afterwards, by path and in catalogs, and two writers."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

import lakebed
from lakebed.errors import CommitConflictError, SchemaError, UnsupportedError
from lakebed.formats.iceberg.catalog.hadoop import HadoopTable
from lakebed.formats.iceberg.catalog.operations import Loaded, LostRaceError
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits
from tests.tables.iceberg.commits import scan
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


@pytest.mark.parametrize("rows_meanwhile", [False, True])
def test_a_writer_that_waits_while_the_table_is_upgraded_writes_no_position_deletes(
    tmp_path: Path, rows_meanwhile: bool
) -> None:
    table = create(tmp_path / "t", partition_by=())
    table.alter([lakebed.set_option("write.x", "y")])
    table.write(pa.table({"id": [1, 2, 3], "p": ["a", "b", "c"]}))
    options = {"upsert.keys": "id"}
    writer = lakebed.open(table.location, options=options).writer()
    writer.write(pa.table({"id": [1], "p": ["z"], "_row_kind": ["+U"]}))
    messages = writer.prepare_commit()
    stale = lakebed.open(table.location, options=options).writer()
    stale.write(pa.table({"id": [2], "p": ["y"], "_row_kind": ["+U"]}))
    late = stale.prepare_commit()
    other = lakebed.open(table.location)
    other.alter(lakebed.set_option("format-version", 3))
    if rows_meanwhile:
        other.write(pa.table({"id": [9], "p": ["n"]}))
    writer.commit(1, messages)
    nine = [(9, "n")] if rows_meanwhile else []
    found = table.read().read_all().sort_by("id").to_pylist()
    assert [(row["id"], row["p"]) for row in found] == [(1, "z"), (2, "b"), (3, "c"), *nine]
    metadata = table.table_metadata
    deletes = scan(table.operations.files, metadata, metadata.head()).deletes
    assert {format for entries in deletes.values() for format in entries["file_format"].to_pylist()} == {"PUFFIN"}
    other.alter([lakebed.rename_column("id", "old"), lakebed.add_column("id", "long")])
    with pytest.raises(CommitConflictError, match="altered the key column 'id'"):
        stale.commit(1, late)
    assert table.read().read_all().num_rows == len(found)


def test_what_pyiceberg_changes_and_what_it_reads(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 2, "shop:db.t")
    table.write(pa.Table.from_pylist([ROW], schema=table.schema))
    theirs = SqlCatalog("shop", uri=f"sqlite:///{tmp_path}/t.db", warehouse=f"file://{tmp_path}/t").load_table("db.t")
    with theirs.update_schema() as update:
        update.add_column("more", StringType()).rename_column("f", "g").move_first("p")
    with theirs.update_spec() as spec:
        spec.add_field("id", "bucket[4]", "by_id").remove_field("dt_month")
    with theirs.update_sort_order() as order:
        order.desc("id", IdentityTransform())
    table.alter([lakebed.drop_column("dt"), lakebed.add_column("last", "int"), lakebed.set_sort_order("more")])
    table.write(pa.table({"id": pa.array([2], pa.int32()), "more": ["x"], "last": pa.array([3], pa.int32())}))
    table.rewrite(options={"rewrite-all": True})
    names = ["p", "id", "g", "s", "more", "last"]
    assert table.schema.names == names
    found = theirs.refresh().scan().to_arrow().sort_by("id").to_pylist()
    assert found == rows(table) and [row["more"] for row in found] == [None, "x"]
    with theirs.update_schema() as update:
        update.add_column("after", StringType())
    assert table.schema.names == [*names, "after"]


def test_a_stream_keeps_the_columns_that_it_began_with(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 2)
    table.write(pa.Table.from_pylist([ROW], schema=table.schema))
    stream, start = table.stream(), table.stream().initial()
    before = stream.schema
    table.alter([lakebed.add_column("late", "int", first=True), lakebed.move_column("p", first=True)])
    table.write(pa.table({"late": pa.array([1], pa.int32()), "id": pa.array([2], pa.int32())}))
    plan = stream.plan(start, stream.latest(start, Limits()))
    found = run(plan, 1).read_all()
    assert found.schema.equals(before) and sorted(found["id"].to_pylist()) == [1, 2]
    assert "late" in table.stream().schema.names
    table.alter(lakebed.drop_column("p"))
    with pytest.raises(SchemaError, match="'p'"):
        stream.plan(start, stream.latest(start, Limits()))
