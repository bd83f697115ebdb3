"""Commits of writes: once per user and identifier, on a branch, beside other writers, and readable by others."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

import lakebed
from lakebed.errors import OptionError, SchemaError, UnsupportedError, UsageError
from lakebed.formats.iceberg.codec.metadata import metadata_to_json
from lakebed.formats.iceberg.data_files import Content
from lakebed.formats.iceberg.read.plan import scan_tasks
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.formats.iceberg.write import row_deletes
from lakebed.model.commit import Outcome
from tests.tables.iceberg.create import make_table

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "part", StringType()),
    NestedField(3, "number", IntegerType()),
    identifier_field_ids=[1],
)


def rows(*found: tuple[int, str | None, int | None]) -> pa.Table:
    columns: list[Any] = [list(column) for column in zip(*found, strict=True)] or [[], [], []]
    return pa.table(
        {"id": pa.array(columns[0], pa.int64()), "part": pa.array(columns[1], pa.string()),
         "number": pa.array(columns[2], pa.int32())}
    )  # fmt: skip


def held(table: IcebergTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.read().read_all().to_pylist())


def tasks_of(table: IcebergTable) -> list[Any]:
    metadata = table.table_metadata
    return list(scan_tasks(table.operations.files, metadata, metadata.head()))


def pyiceberg_rows(table: IcebergTable) -> list[tuple[Any, ...]]:
    found = StaticTable.from_metadata(table.operations.load().location).scan().to_arrow()
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.fixture(params=[2, 3])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> IcebergTable:
    return make_table(tmp_path / "t", SCHEMA, [("part", "identity")], request.param)


@pytest.mark.slow
def test_pyiceberg_reads_what_was_replaced_and_removed(table: IcebergTable) -> None:
    table.write(rows((1, "a", 1), (2, "a", 2), (3, "b", 3), (4, None, 4)))
    table.write(rows((2, "a", 20), (3, "c", 30), (5, "b", 5)), "upsert")
    table.write(rows((1, None, None)).drop_columns(["part", "number"]), "delete")
    table.write(rows((2, "a", 200)), "upsert")
    assert held(table) == [(2, "a", 200), (3, "c", 30), (4, None, 4), (5, "b", 5)] == pyiceberg_rows(table)


@pytest.mark.slow
def test_a_data_file_has_one_vector_that_holds_all_its_deletes(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", SCHEMA, [], 3)
    table.write(rows(*((n, "a", n) for n in range(10))))
    for id in (3, 5, 7):
        table.write(rows((id, "a", -id)), "upsert")
    vectors = [delete for task in tasks_of(table) for delete in task.deletes]
    assert [(v.is_vector, v.record_count) for v in vectors] == [(True, 3)]
    summary = table.history()[-1].summary
    assert (summary["added-dvs"], summary["removed-dvs"]) == ("1", "1")
    assert summary["total-position-deletes"] == "3"


@pytest.mark.parametrize(("granularity", "files"), [("file", 2), ("partition", 1)])
def test_position_deletes_are_of_a_file_or_of_a_partition(tmp_path: Path, granularity: str, files: int) -> None:
    table = make_table(tmp_path / "t", SCHEMA, [("part", "identity")], 2)
    for id in (1, 2):
        table.write(rows((id, "a", id), (id + 10, "a", id)))
    table.write(rows((1, None, None), (2, None, None)), "delete", {"delete-granularity": granularity})
    found = {delete.path: delete for task in tasks_of(table) for delete in task.deletes}
    assert len(found) == files and {d.content for d in found.values()} == {Content.POSITION_DELETES}
    assert all((d.referenced_data_file is None) == (granularity == "partition") for d in found.values())
    assert held(table) == [(11, "a", 1), (12, "a", 2)]


def test_only_files_that_may_hold_a_key_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path / "t", SCHEMA, [], 2)
    for first in (0, 100, 200):
        table.write(rows(*((first + n, "a", n) for n in range(10))))
    looked: list[str] = []
    read = row_deletes.read_task
    monkeypatch.setattr(row_deletes, "read_task", lambda *a, **k: looked.append(a[2].data.path) or read(*a, **k))
    table.write(rows((103, "a", -1), (107, "a", -1)), "upsert")
    assert len(looked) == 1
    assert len(held(table)) == 30


def test_one_key_is_left_when_another_writer_was_faster(table: IcebergTable) -> None:
    table.write(rows((1, "a", 1)))
    slow, fast = table.writer("slow"), table.writer("fast")
    for writer, number in ((slow, 10), (fast, 20)):
        writer.write(rows((1, "a", number), (2, "a", number)).append_column("_row_kind", pa.array(["+U", "+I"])))
    late = slow.prepare_commit()
    fast.commit(1, fast.prepare_commit())
    slow.commit(1, late)
    assert held(table) == [(1, "a", 10), (2, "a", 10)]
    live = {delete.path for task in tasks_of(table) for delete in task.deletes}
    there = {str(p) for p in Path(table.location, "data").rglob("*-deletes.*")}
    assert live <= there


@pytest.mark.slow
def test_later_messages_of_one_commit_win_over_earlier_ones(table: IcebergTable) -> None:
    table.write(rows((1, "a", 1), (9, "b", 9)))
    writer = table.writer("job")
    messages: list[Any] = []
    for turn in range(3):
        kinds = pa.array(["+U", "+I", "-D"][turn:] + ["+I"] * turn)
        writer.write(rows((1, "a", turn), (2, "a", turn), (3, "b", turn)).append_column("_row_kind", kinds))
        messages += writer.prepare_commit()
    writer.commit(4, pickle.loads(pickle.dumps(messages)))
    assert held(table) == [(2, "a", 2), (3, "b", 2), (9, "b", 9)]
    assert len(table.history()) == 2


def test_a_batch_of_a_stream_is_committed_once(table: IcebergTable) -> None:
    for _ in range(2):
        writer = table.writer("job")
        writer.write(rows((1, "a", 1)))
        result = writer.commit(0, writer.prepare_commit())
    assert result.outcome is Outcome.SKIPPED
    assert held(table) == [(1, "a", 1)]
    summary = table.history()[-1].summary
    assert (summary["lakebed.commit-user"], summary["lakebed.commit-identifier"]) == ("job", "0")
    assert len(list(Path(table.location, "data").rglob("*.parquet"))) == 1


def test_a_write_to_a_branch_leaves_main_alone(table: IcebergTable) -> None:
    table.write(rows((1, "a", 1)))
    table.branch("audit")
    audit = lakebed.open(table.location, {"branch": "audit"})
    audit.write(rows((1, "a", 2)), "upsert")
    assert held(table) == [(1, "a", 1)]
    assert sorted(r["number"] for r in audit.read().read_all().to_pylist()) == [2]


def test_an_overwrite_replaces_partitions_of_floats_that_are_equal_to_python(tmp_path: Path) -> None:
    parts: list[float | None] = [None, -0.0, 0.0, None]
    found = pa.table({"id": [0, 1, 2, 3], "part": parts})
    table = lakebed.create(tmp_path / "t", "iceberg", found.schema, partition_by=["part"])
    for turn in range(3):
        parts[0] = -math.nan if turn % 2 else math.nan  # a NaN of other bits, as the processor makes them
        table.write(pa.table({"id": [4 * turn + number for number in range(4)], "part": parts}), "overwrite")
    assert sorted(table.read(["id"]).read_all()["id"].to_pylist()) == [8, 9, 10, 11]
    assert table.metadata("partitions").read_all().num_rows == 4


@pytest.mark.slow
def test_overwrites(table: IcebergTable) -> None:
    table.write(rows((1, "a", 1), (2, "b", 2), (3, "b", 3), (4, None, 4)))
    table.write(rows((5, "b", 5), (6, None, 6)), "overwrite")
    assert held(table) == [(1, "a", 1), (5, "b", 5), (6, None, 6)]
    assert table.history()[-1].summary["replace-partitions"] == "true"
    table.write(rows((7, "c", 7)), "overwrite", {"overwrite-filter": "part = 'a' or id = 6"})
    assert held(table) == [(5, "b", 5), (7, "c", 7)]
    assert not [d for task in tasks_of(table) for d in task.deletes]  # whole files went
    table.write(rows((8, "b", 8), (9, "b", 9)))
    table.write(rows(), "overwrite", {"overwrite-filter": "id = 8"})
    assert held(table) == [(5, "b", 5), (7, "c", 7), (9, "b", 9)]
    table.write(rows((1, "z", 1)), "overwrite", {"overwrite-mode": "static", "snapshot-property.why": "anew"})
    assert held(table) == [(1, "z", 1)]
    assert table.history()[-1].summary["why"] == "anew"
    assert table.write(rows(), "overwrite").outcome is Outcome.SKIPPED


def test_version_1_takes_appends_and_whole_overwrites_only(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", SCHEMA, [("part", "identity")], 1)
    table.write(rows((1, "a", 1), (2, "b", 2)))
    table.write(rows((3, "b", 3)), "overwrite")
    table.write(rows((4, "b", 4)), "upsert")  # a key that is new removes nothing
    before = sorted(Path(table.location).rglob("*"))
    with pytest.raises(UnsupportedError, match="format version 1"):
        table.write(rows((1, "a", 9)), "upsert")
    assert sorted(Path(table.location).rglob("*")) == before
    assert held(table) == [(1, "a", 1), (3, "b", 3), (4, "b", 4)] == pyiceberg_rows(table)


def test_keys_may_be_named_by_an_option(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", Schema(*SCHEMA.fields), [], 2)
    table.write(rows((1, "a", 1), (1, "b", 2)))
    with pytest.raises(UsageError, match=r"upsert\.keys"):
        table.write(rows((1, "a", 1)), "upsert")
    with pytest.raises(UsageError, match="unknown column 'ids'"):
        table.write(rows((1, "a", 1)), "upsert", {"upsert.keys": "ids"})
    table.write(rows((1, "b", 3)), "upsert", {"upsert.keys": "ID, part"})
    assert held(table) == [(1, "a", 1), (1, "b", 3)]
    with pytest.raises(SchemaError, match="part"):
        table.write(rows((1, None, 3)), "upsert", {"upsert.keys": "id,part"})
    with pytest.raises(UsageError, match="-D"):
        table.write(rows((1, "a", 3)).append_column("_row_kind", pa.array(["-D"])))
    with pytest.raises(OptionError, match=r"upsert\.keys"):
        table.write(rows((1, "a", 3)), options={"upsert.key": "id"})


def test_a_removed_row_needs_only_its_key(tmp_path: Path) -> None:
    schema = Schema(
        *SCHEMA.fields[:2], NestedField(3, "number", IntegerType(), required=True), identifier_field_ids=[1]
    )
    table = make_table(tmp_path / "t", schema, [], 2)
    table.write(rows((1, "a", 1), (2, "a", 2)))
    changes = rows((1, None, None), (2, "a", 20)).append_column("_row_kind", pa.array(["-D", "+U"]))
    table.write(changes)
    assert held(table) == [(2, "a", 20)]
    with pytest.raises(SchemaError, match="number"):
        table.write(rows((3, "a", None)).append_column("_row_kind", pa.array(["+I"])))
    assert held(table) == [(2, "a", 20)]


def test_tasks_of_a_catalog_table_travel_without_its_secrets(tmp_path: Path) -> None:
    options = {
        "lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
        "lakebed.catalog.warehouse": str(tmp_path), "lakebed.catalog.token": "hush",
    }  # fmt: skip
    schema = pa.schema([pa.field("id", pa.int64(), False), ("part", pa.string()), ("number", pa.int32())])
    table = lakebed.create("ice:db.t", "iceberg", schema, ["id"], ["part"], options)
    assert isinstance(table, IcebergTable)
    table.write(rows((1, "a", 1), (2, "b", 2)))
    packed = pickle.dumps(table.sink(commit_user="job"))
    assert b"hush" not in packed
    sink = pickle.loads(packed)
    writer = sink.plan().task_writer()
    writer.write(rows((2, "a", 20)).append_column("_row_kind", pa.array(["+U"])))
    sink.commit(1, pickle.loads(pickle.dumps(writer.finish())))
    assert held(table) == [(1, "a", 1), (2, "a", 20)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_every_format_of_data_files(tmp_path: Path, kind: str) -> None:
    table = make_table(tmp_path / "t", SCHEMA, [("id", "bucket[2]")], 2, {"write.format.default": kind})
    table.write(rows(*((n, f"p{n % 3}", n) for n in range(50))))
    table.write(rows((3, None, -3), (60, "new", 60)), "upsert")
    assert {task.data.format for task in tasks_of(table)} == {kind.upper()}
    assert [row[2] for row in held(table)] == [n if n != 3 else -3 for n in range(50)] + [60]


class Told:
    """A callback that notes what it is called with, and fails at will."""

    def __init__(self) -> None:
        self.commits: list[Any] = []

    def call(self, commit: Any) -> None:
        self.commits.append(commit)
        if commit.identifier == 2:
            raise RuntimeError("no")


def test_callbacks_are_called_after_each_commit(tmp_path: Path) -> None:
    table, told = make_table(tmp_path / "t", SCHEMA, [], 2), Told()
    writer = table.writer("job", callbacks=[told])
    notes = []
    for identifier in (1, 2):
        writer.write(rows((identifier, "a", 1)))
        notes.append(writer.commit(identifier, writer.prepare_commit()).notes)
    assert [(c.commit_user, c.identifier, len(c.added_files)) for c in told.commits] == [("job", 1, 1), ("job", 2, 1)]
    assert [str(c.snapshot_id) for c in told.commits] == [instant.time for instant in table.history()]
    assert notes[0] == () and "RuntimeError: no" in notes[1][0]


def test_an_overwrite_of_a_table_without_partitions_takes_files_of_older_specs_too(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", SCHEMA, [("part", "identity")], 2)
    table.write(rows((1, "a", 1), (2, "b", 2)))
    base = table.operations.load()
    document = dict(base.metadata.document)
    specs = [*document["partition-specs"], {"spec-id": 1, "fields": []}]
    document |= {"partition-specs": specs, "default-spec-id": 1}
    Path(table.location, "metadata", "v3.metadata.json").write_bytes(metadata_to_json(document))
    table.write(rows((3, "c", 3)), "overwrite")
    assert held(table) == [(3, "c", 3)]
