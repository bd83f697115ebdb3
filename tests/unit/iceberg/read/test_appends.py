"""Incremental reads of appends: the rows that snapshots in a range added, even if they were removed since."""

import pickle
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import lakebed
from lakebed.errors import NotInHistoryError, UsageError
from lakebed.verbs.read import run
from tests.tables.iceberg.lake import Lake

SCHEMA = Schema(NestedField(1, "id", LongType()))


def added(lake: Lake, start: int, end: int | None = None, where: str | None = None) -> list[int]:
    options = {"start-snapshot-id": str(start), **({"end-snapshot-id": str(end)} if end else {})}
    table = lakebed.open(lake.folder, options)
    return sorted(table.read(["id"], where).read_all()["id"].to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Appends 0-4 and 5-9, deletes 5, appends 10-14, rewrites all files, appends 15-19."""
    made = Lake(tmp_path / "t", SCHEMA)
    made.append([{"id": n} for n in range(5)])
    made.append([{"id": n} for n in range(5, 10)])
    made.delete_equal([{"id": 5}])
    made.append([{"id": n} for n in range(10, 15)])
    made.table.rewrite(options={"rewrite-all": True})
    made.append([{"id": n} for n in range(15, 20)])
    return made


@pytest.mark.slow
def test_only_appends_of_the_range_are_read(lake: Lake) -> None:
    ids = [int(instant.time) for instant in lake.table.history()]
    assert [instant.action for instant in lake.table.history()].count("append") == 4
    assert added(lake, ids[0]) == list(range(5, 20))  # the row that was deleted is there, none is there twice
    assert added(lake, ids[0], ids[1]) == list(range(5, 10))
    assert added(lake, ids[1], ids[3]) == list(range(10, 15))
    assert added(lake, ids[3], ids[4]) == []
    assert added(lake, ids[5]) == []
    assert added(lake, ids[0], where="id > 8 and id < 12") == [9, 10, 11]


@pytest.mark.slow
def test_the_start_may_be_expired(lake: Lake) -> None:
    ids = [int(instant.time) for instant in lake.table.history()]
    lake.table.expire(options={"snapshot-ids": f"{ids[0]},{ids[1]}"})
    assert added(lake, ids[1]) == list(range(10, 20))
    with pytest.raises(NotInHistoryError, match="not an ancestor"):
        added(lake, ids[0])


@pytest.mark.slow
def test_ranges_that_cannot_be(lake: Lake) -> None:
    ids = [int(instant.time) for instant in lake.table.history()]
    with pytest.raises(NotInHistoryError, match="not an ancestor"):
        added(lake, ids[3], ids[1])
    with pytest.raises(UsageError, match="alone"):
        lakebed.open(lake.folder, {"end-snapshot-id": str(ids[1])}).read()
    with pytest.raises(UsageError, match="as of"):
        lakebed.open(lake.folder, {"start-snapshot-id": str(ids[0]), "snapshot-id": str(ids[1])}).read()
    with pytest.raises(UsageError, match="as of"):
        lakebed.open(lake.folder, {"start-snapshot-id": str(ids[0])}).read(as_of=ids[1])


@pytest.mark.slow
def test_a_plan_that_is_pinned_ends_where_it_was_made(lake: Lake) -> None:
    """Spark's source plans as of the newest instant, and may plan again after another commit."""
    ids = [int(instant.time) for instant in lake.table.history()]
    table = lakebed.open(lake.folder, {"start-snapshot-id": str(ids[3])})
    pin = table.newest()
    lake.append([{"id": 100}])
    plan = pickle.loads(pickle.dumps(table.plan_read(["id"], None, pin)))
    assert sorted(n for batch in run(plan, 1) for n in batch["id"].to_pylist()) == list(range(15, 20))
