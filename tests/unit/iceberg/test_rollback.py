"""A rollback sets the head of a branch to an ancestor and deletes nothing."""

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import UnsupportedError, UsageError


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = lakebed.create(tmp_path / "table", "iceberg", pa.schema([("id", pa.int64())]))
    for number in range(3):
        table.write(pa.table({"id": [number]}))
    return table


def ids(table: Table, **how: object) -> list[int]:
    return sorted(table.read(**how).read_all()["id"].to_pylist())  # type: ignore[arg-type]


def test_nothing_is_deleted_until_it_expires(table: Table) -> None:
    first, second, third = (instant.time for instant in table.history())
    table.tag("late")
    done = table.rollback(int(first))
    assert (done.removed, done.kept, done.deleted_files) == ((third, second), (first,), ())
    assert any(note.startswith("late ") for note in done.notes)
    assert ids(table) == [0] and ids(table, as_of="tag:late") == [0, 1, 2]
    assert table.expire(options={"older-than": "2100-01-01T00:00:00Z"}).expired == (second,)  # the tag holds the third
    assert ids(table, as_of="tag:late") == [0, 1, 2]
    table.delete_tag("late")
    assert table.expire(options={"older-than": "2100-01-01T00:00:00Z"}).expired == (third,)


def test_what_is_no_ancestor_is_refused(table: Table) -> None:
    _first, second, third = (instant.time for instant in table.history())
    table.rollback(second)
    with pytest.raises(UsageError, match="is not an ancestor of the head of branch 'main'"):
        table.rollback(third)
    assert ids(table) == [0, 1]


def test_a_branch_rolls_back_alone(table: Table) -> None:
    first, *_ = (instant.time for instant in table.history())
    table.branch("audit")  # type: ignore[attr-defined]
    branch = lakebed.open(table.location, {"branch": "audit"})
    branch.rollback(first)
    assert ids(branch) == [0] and ids(table) == [0, 1, 2]


def test_a_time_is_looked_up_among_the_ancestors(table: Table) -> None:
    first, second, _third = table.history()
    table.rollback(first)
    table.write(pa.table({"id": [7]}))
    assert table.rollback(second.completed).to == first.time
    assert ids(table) == [0]


def test_a_copy_elsewhere_is_refused(table: Table, tmp_path: Path) -> None:
    (tmp_path / "table").rename(tmp_path / "moved")
    moved = lakebed.open(tmp_path / "moved")
    with pytest.raises(UnsupportedError):
        moved.rollback(moved.history()[0], dry_run=True)
