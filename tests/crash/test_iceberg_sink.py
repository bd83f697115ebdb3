"""A write into an Iceberg table that fails at any storage call leaves the old rows or the new ones, and lands once when
it is repeated."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Fault, FaultyStore, Kind, check_crash_safety

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("part", pa.string(), False), ("v", pa.string())])
FIRST = [{"id": n, "part": "ab"[n % 2], "v": "first"} for n in range(6)]
SECOND = [
    {"id": 1, "part": "b", "v": "second", "_row_kind": "+U"},
    {"id": 2, "part": "c", "v": "moved", "_row_kind": "+U"},
    {"id": 3, "part": "b", "v": None, "_row_kind": "-D"},
    {"id": 9, "part": "c", "v": "new", "_row_kind": "+I"},
]
KINDS = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.UNKNOWN_AFTER)
QUICK = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2", "commit.status-check.min-wait-ms": "1"}


def commit(rows: list[dict[str, Any]], identifier: int, user: str = "job") -> Callable[[Store], None]:
    """A job that, when restarted, commits the same rows with the same commit user and identifier."""

    def operation(store: Store) -> None:
        writer = lakebed.open(store, QUICK).writer(commit_user=user)
        writer.write(pa.Table.from_pylist(rows))
        writer.filter_and_commit({identifier: writer.prepare_commit()})

    return operation


def observe(store: Store) -> tuple[list[tuple[Any, ...]], list[tuple[Any, Any]]]:
    """The rows, and each snapshot's user and identifier."""
    table = lakebed.open(store)
    rows = sorted(tuple(row.values()) for row in table.read().read_all().to_pylist())
    keys = ("lakebed.commit-user", "lakebed.commit-identifier")
    return rows, [(i.summary.get(keys[0]), i.summary.get(keys[1])) for i in table.history()]


@pytest.fixture(params=["2", "3"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Fresh copies of a table with a snapshot. Its metadata has locations, so each copy takes the place of the one
    before."""
    number = itertools.count()
    original, place = tmp_path / "original", tmp_path / "t"
    lakebed.create(place, "iceberg", SCHEMA, ["id"], ["part"], {"format-version": request.param})
    commit(FIRST, 1)(open_store(place))
    shutil.copytree(place, original)

    def copy() -> Store:
        place.rename(tmp_path / f"done-{next(number)}")
        shutil.copytree(original, place)
        return open_store(place)

    yield copy


def test_changes_by_key_land_once_or_not_at_all(make: Callable[[], Store]) -> None:
    assert check_crash_safety(make, commit(SECOND, 2), observe, KINDS) > 15
    reached = make()
    commit(SECOND, 2)(reached)
    rows, commits = observe(reached)
    assert [row[0] for row in rows] == [0, 1, 2, 4, 5, 9] and commits == [("job", "1"), ("job", "2")]


def test_a_rival_in_between_is_seen(make: Callable[[], Store]) -> None:
    rival = commit([{"id": 9, "part": "a", "v": "rival", "_row_kind": "+I"}], 1, "rival")
    real = make()
    commit(SECOND, 2)(FaultyStore(real, Fault(1, Kind.EXISTS, frozenset({"put_if_absent"}), rival)))
    rows, commits = observe(real)
    assert [row for row in rows if row[0] == 9] == [(9, "c", "new")]
    assert commits == [("job", "1"), ("rival", "1"), ("job", "2")]
