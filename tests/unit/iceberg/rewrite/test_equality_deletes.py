"""Equality deletes become position deletes or deletion vectors: rows stay, and no read compares keys any more."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

import lakebed
from lakebed.errors import CommitConflictError, OptionError
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.formats.iceberg.data_files import Content
from lakebed.formats.iceberg.manifests import manifests_of
from lakebed.formats.iceberg.read.plan import kept_manifests, live_deletes
from lakebed.formats.iceberg.rewrite import equality_deletes, new_deletes
from tests.golden import expected, opening, unpack
from tests.golden.compare import diff, load
from tests.tables.iceberg import commits
from tests.tables.iceberg.lake import Lake

DELETES: dict[str, Any] = {"lakebed.rewrite.what": "equality-deletes"}
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "part", StringType()), NestedField(3, "x", DoubleType())
)
BY_PART = [("part", "identity")]


def kinds(made: Lake) -> list[str]:
    """The kinds of the delete files, and of the vectors, that apply to some data."""
    found = {(d.path, d.content_offset): d for task in made.tasks for d in task.deletes}.values()
    return sorted("equality" if d.content is Content.EQUALITY_DELETES else d.format.lower() for d in found)


def every(table: Any) -> list[Any]:
    """All live delete files, needed or not."""
    metadata, files = table.table_metadata, table.operations.files
    head = metadata.head()
    if head is None:
        return []
    _, manifests = kept_manifests(metadata, manifests_of(files, metadata, head), None)
    return list(live_deletes(files, metadata, manifests))


def lake(folder: Path, version: int, **how: Any) -> Lake:
    """Two partitions of two data files with a delete of some position and equality deletes of two combinations of
    columns; rows that came after them have the same keys again."""
    made = Lake(folder, SCHEMA, partition_by=BY_PART, version=version, **how)
    for part in "ab":
        rows = [{"id": n if n % 7 else None, "part": part, "x": math.nan if n % 5 == 0 else n / 2} for n in range(40)]
        made.append(rows, (part,), files=2)
    made.delete_positions({made.tasks[0].data.path: [1, 3]})
    made.delete_equal([{"id": 3}, {"id": None}, {"id": 30}], ("a",))
    made.delete_equal([{"x": math.nan}, {"x": 4.5}], ("a",))
    made.delete_equal([{"id": 11, "x": 5.5}, {"id": 12, "x": 5.5}], ("b",))
    made.append([{"id": 3, "part": "a", "x": 4.5}], ("a",))
    return made


@pytest.mark.parametrize("version", [2, 3])
def test_rows_stay_and_keys_are_compared_no_more(version: int, tmp_path: Path) -> None:
    made = lake(tmp_path / "t", version)
    rows = made.rows()
    planned = made.table.rewrite(dry_run=True, options=DELETES)
    assert planned.dry_run and planned.files_before == 3 and kinds(made).count("equality") == 3
    assert {(group.what, group.files, group.reason) for group in planned.plan} == {
        ("part_0=a", 2, "each read compares 40 rows of 2 data files with up to 5 keys"),
        ("part_0=b", 1, "each read compares 20 rows of 1 data file with up to 2 keys"),
    }
    done = made.table.rewrite(options=DELETES)
    assert made.rows() == rows and (done.files_before, done.removed_deletes) == (3, 3)
    assert not any(delete.content is Content.EQUALITY_DELETES for delete in every(made.table))
    assert kinds(made) == (["parquet"] * 3 if version == 2 else ["puffin"] * 3)
    newest = made.table.history()[-1]
    assert newest.action == "replace" and newest.summary["removed-equality-delete-files"] == "3"
    assert newest.summary["total-equality-deletes"] == "0"
    assert len(done.instants) == 1 and made.table.rewrite(options=DELETES).instants == ()
    theirs = StaticTable.from_metadata(Path(made.table.operations.load().location).as_uri()).scan().to_arrow()
    assert sorted(map(str, theirs.to_pylist())) == rows
    assert made.table.changes(after=newest.time).read_all().num_rows == 0


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["eq_deletes", "eq_deletes_part"])
def test_golden_tables_become_readable_for_pyiceberg(name: str, version: int, tmp_path: Path) -> None:
    """pyiceberg refuses tables with equality deletes."""
    folder = unpack("iceberg", name, into=tmp_path)
    uri = f"sqlite:///{folder.parent}/catalog.db"
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": uri, **opening(folder)}
    table: Any = lakebed.open(f"ice:db.{name}", options)
    if version == 3:
        upgrade: Any = {"action": "upgrade-format-version", "format-version": 3}
        change_metadata(table.operations, lambda metadata: ([], [upgrade]))
    assert table.rewrite(options=DELETES).removed_deletes == len([*(folder / "data").rglob("eqdel-*")])
    place = table.operations.load().location
    theirs = StaticTable.from_metadata(Path(place).as_uri() if place.startswith("/") else place).scan().to_arrow()
    for rows in (table.read().read_all(), theirs):
        assert diff("iceberg", rows, load(expected(folder) / "rows.jsonl")) is None


def test_the_oldest_first_and_some_partitions(tmp_path: Path) -> None:
    made = lake(tmp_path / "t", 2)
    rows = made.rows()
    first = made.table.rewrite(options={**DELETES, "max-files-to-rewrite": 1})
    assert first.removed_deletes == 1 and first.skipped[0].reason == "max-files-to-rewrite=1 leaves 2 newer ones"
    assert made.rows() == rows and kinds(made).count("equality") == 2
    assert made.table.rewrite(where="part = 'b'", options=DELETES).removed_deletes == 1
    assert made.rows() == rows and kinds(made).count("equality") == 1
    assert made.table.rewrite(where="part = 'c'", options=DELETES).files_before == 0
    with pytest.raises(OptionError, match="max-files-to-rewrite"):
        made.table.rewrite(options={**DELETES, "max-file-to-rewrite": 1})


def test_bounded_tasks_and_large_sets_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that holds few positions, and keys that are compared a part at a time."""
    monkeypatch.setattr(equality_deletes, "_HELD_POSITIONS", 10)
    monkeypatch.setattr(equality_deletes, "_TASK_FILES", 1)
    made = Lake(tmp_path / "t", SCHEMA, version=3)
    made.append([{"id": n, "part": "a", "x": 0.0} for n in range(200_000)], files=3)
    made.delete_equal([{"id": n} for n in range(0, 200_000, 2)])
    table: Any = lakebed.open(tmp_path / "t", {"lakebed.read.equality-delete-memory": "64 kb"})
    table.rewrite(options=DELETES)
    assert kinds(made) == ["puffin"] * 3
    assert sorted(table.read(["id"]).read_all()["id"].to_pylist()) == [*range(1, 200_000, 2)]


def test_a_table_without_equality_deletes_and_an_empty_one(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        made = Lake(tmp_path / f"v{version}", SCHEMA, version=version)
        assert made.table.rewrite(options=DELETES).files_before == 0
        made.append([{"id": 1, "part": "a", "x": 1.0}])
        assert made.table.rewrite(options=DELETES).files_before == 0 and len(made.table.history()) == 1


def test_deletes_that_apply_to_nothing_go(tmp_path: Path) -> None:
    made = lake(tmp_path / "t", 3)
    made.delete_equal([{"id": 1}], ("c",))
    planned = made.table.rewrite(where="part = 'c'", dry_run=True, options=DELETES)
    assert planned.plan[0].reason == "no data file is as old as they are" and planned.files_after == 0
    rows = made.rows()
    assert made.table.rewrite(where="part = 'c'", options=DELETES).removed_deletes == 1
    assert made.rows() == rows


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Another writer, between plan and commit."""
    run = new_deletes.Replacement.run

    def later(self: Any, *arguments: Any) -> Any:
        monkeypatch.undo()
        act()
        return run(self, *arguments)

    monkeypatch.setattr(new_deletes.Replacement, "run", later)


def left(made: Lake) -> set[str]:
    return {str(path) for path in (made.folder / "data").rglob("*-deletes.*")}


def test_a_rewrite_that_is_older_than_the_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files have rows that the equality deletes remove, and no positions could be known."""
    made = Lake(tmp_path / "t", SCHEMA, version=2)
    made.append([{"id": n, "part": "a", "x": 0.0} for n in range(4)], files=2)
    planned_at, old = int(made.table.history()[-1].time), [task.data for task in made.tasks]
    made.delete_equal([{"id": 2}])
    rows, before = made.rows(), left(made)
    new = made.write([{"id": n, "part": "a", "x": 0.0} for n in range(4)])
    meanwhile(monkeypatch, lambda: commits.replace(made.table.operations, planned_at, old, new))
    with pytest.raises(CommitConflictError, match="equality deletes still apply"):
        made.table.rewrite(options=DELETES)
    assert made.rows() == rows and left(made) == before and kinds(made) == ["equality"]
    made.table.rewrite(options=DELETES)
    assert made.rows() == rows and kinds(made) == ["parquet"]


@pytest.mark.parametrize("version", [2, 3])
def test_other_writers_meanwhile(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends, new equality deletes and rewrites of today's files are no conflict; a new vector of a file is."""
    made = lake(tmp_path / "t", version)
    meanwhile(monkeypatch, lambda: (
        made.append([{"id": 3, "part": "a", "x": 4.5}], ("a",)), made.delete_equal([{"id": 5}], ("a",)),
    ))  # fmt: skip
    made.table.rewrite(options=DELETES)
    assert kinds(made).count("equality") == 1
    rows = made.rows()
    meanwhile(monkeypatch, lambda: made.table.rewrite(where="part = 'b'", options={"rewrite-all": True}))
    made.table.rewrite(options=DELETES)
    assert made.rows() == rows and kinds(made).count("equality") == 0
    made.delete_equal([{"id": 6}], ("a",))
    before = left(made)
    (file,) = [t.data for t in made.tasks if any(d.content is Content.EQUALITY_DELETES for d in t.deletes)]
    meanwhile(monkeypatch, lambda: made.delete_positions({file.path: [9]}))
    if version == 2:
        made.table.rewrite(options=DELETES)
        assert kinds(made).count("equality") == 0
    else:
        with pytest.raises(CommitConflictError, match="deleted rows of the same data file"):
            made.table.rewrite(options=DELETES)
        assert len(left(made) - before) == 1
    one, two = lakebed.open(made.folder), lakebed.open(made.folder)
    made.delete_equal([{"id": 8}], ("a",))
    meanwhile(monkeypatch, lambda: one.rewrite(options=DELETES))
    with pytest.raises(CommitConflictError):
        two.rewrite(options=DELETES)


def test_a_failed_task_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lake(tmp_path / "t", 2)
    rows, before = made.rows(), left(made)
    broken = next(task.data.path for task in made.tasks if task.data.partition == ("b",) and task.deletes)
    Path(broken).write_bytes(Path(broken).read_bytes()[:-1])
    with pytest.raises(lakebed.errors.LakebedError, match=Path(broken).name):
        made.table.rewrite(options=DELETES)
    assert left(made) == before and len(rows) > 40


KEYS = st.sampled_from([{"id": 1}, {"id": None}, {"x": 0.5}, {"x": math.nan}, {"id": 2, "x": None}, {"part": "a"}])
STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 5)), st.tuples(st.just("equal"), KEYS),
    st.tuples(st.just("position"), st.integers(0, 3)), st.just(("turn", 0)), st.just(("turn one", 0)),
)  # fmt: skip


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=3, max_size=9), version=st.sampled_from([2, 3]))
def test_any_order_of_steps(steps: list[Any], version: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Rows are those of a model that applies each delete when it comes."""
    made = Lake(tmp_path_factory.mktemp("t") / "t", SCHEMA, version=version)
    model: list[dict[str, Any]] = []
    for kind, what in steps:
        if kind == "append":
            rows = [{"id": what or None, "part": "ab"[n % 2], "x": [0.5, None, math.nan][n % 3]} for n in range(4)]
            made.append(rows)
            model += rows
        elif kind == "equal":
            made.delete_equal([what])
            model = [row for row in model if any(repr(row[key]) != repr(value) for key, value in what.items())]
        elif kind == "position" and (tasks := made.tasks):
            live = made.table.read(["id", "part", "x", "_file", "_pos"]).read_all().to_pylist()
            gone = next((row for row in live if row["_file"] == tasks[0].data.path), None)
            if gone is not None:
                made.delete_positions({tasks[0].data.path: [gone["_pos"]]})
                model.remove(next(row for row in model if all(repr(row[key]) == repr(gone[key]) for key in row)))
        else:
            made.table.rewrite(options=DELETES if kind == "turn" else {**DELETES, "max-files-to-rewrite": 1})
        assert made.rows() == sorted(map(str, model))
    made.table.rewrite(options=DELETES)
    assert made.rows() == sorted(map(str, model))
    assert not any(delete.content is Content.EQUALITY_DELETES for delete in every(made.table))
