"""An Iceberg rewrite that fails at any storage call leaves the rows as they were, in old files or in new ones."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import lakebed
from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Fault, FaultyStore, Kind, check_crash_safety, crash_points
from tests.tables.iceberg.lake import Lake

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "part", StringType()))
QUICK = {
    "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2", "commit.status-check.min-wait-ms": "1",
    "commit.status-check.max-wait-ms": "2",
}  # fmt: skip
KINDS = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.ERROR_BEFORE, Kind.UNKNOWN_BEFORE)


@pytest.fixture
def copies(tmp_path: Path) -> Callable[[], Store]:
    """Fresh copies of a table of two partitions with position deletes. Its metadata holds absolute locations, so each
    copy takes the place of the one before."""
    number = itertools.count()
    original, place = tmp_path / "original", tmp_path / "table"
    made = Lake(place, SCHEMA, partition_by=[("part", "identity")], properties=QUICK)
    for part in "ab":
        rows = [{"id": n, "part": part} for n in range(ord(part), ord(part) + 6)]
        made.append(rows, (part,), files=2)
    made.delete_positions({made.tasks[0].data.path: [1]})
    shutil.copytree(place, original)

    def make() -> Store:
        place.rename(tmp_path / f"done-{next(number)}")
        shutil.copytree(original, place)
        return open_store(place)

    return make


def observe(store: Store) -> tuple[list[int], list[str]]:
    table = lakebed.open(store)
    ids = sorted(table.read(["id"]).read_all()["id"].to_pylist())
    return ids, [instant.action for instant in table.history()]


def rewrite(**more: Any) -> Callable[[Store], None]:
    """Rewrite as a job that is started again does: a second rewrite finds nothing to do."""

    def operation(store: Store) -> None:
        options = {"min-input-files": 2, "remove-dangling-deletes": True, **more}
        lakebed.open(store).rewrite(engine=LocalEngine(1), options=options)

    return operation


@pytest.mark.parametrize(
    ("more", "kinds"),
    [
        ({}, KINDS),
        ({"lakebed.rewrite.concat-min-row-group-bytes": 1}, (Kind.CRASH_TORN,)),
        ({"sort-order": "id"}, (Kind.CRASH_AFTER,)),
        ({"lakebed.rewrite.payback-reads": 1000}, (Kind.CRASH_TORN, Kind.CRASH_AFTER, Kind.UNKNOWN_AFTER)),
    ],
    ids=["encoded", "joined", "sorted", "payback"],
)
def test_every_failure_leaves_the_old_or_the_new(
    copies: Callable[[], Store], more: dict[str, Any], kinds: tuple[Kind, ...]
) -> None:
    assert check_crash_safety(copies, rewrite(**more), observe, kinds) >= 8 * len(kinds) // 2


def test_position_deletes_are_the_old_or_the_new(copies: Callable[[], Store]) -> None:
    options = {"lakebed.rewrite.what": "position-deletes", "min-input-files": 2, "min-file-size-bytes": "1 mb"}

    def more_deletes() -> Store:
        store = copies()
        made = Lake.at(store.location)
        made.delete_positions({task.data.path: [2] for task in made.tasks if task.data.partition == ("a",)})
        return store

    def operation(store: Store) -> None:
        lakebed.open(store).rewrite(engine=LocalEngine(1), options=options)

    kinds = (Kind.CRASH_AFTER, Kind.CRASH_TORN, Kind.UNKNOWN_BEFORE)
    assert check_crash_safety(more_deletes, operation, observe, kinds) >= 6 * len(kinds) // 2


def test_equality_deletes_are_the_old_or_positions(copies: Callable[[], Store]) -> None:
    def more_deletes() -> Store:
        store = copies()
        Lake.at(store.location).delete_equal([{"id": ord("a") + 2}], ("a",))
        return store

    def operation(store: Store) -> None:
        lakebed.open(store).rewrite(engine=LocalEngine(1), options={"lakebed.rewrite.what": "equality-deletes"})

    kinds = (Kind.CRASH_AFTER, Kind.CRASH_TORN, Kind.UNKNOWN_BEFORE)
    assert check_crash_safety(more_deletes, operation, observe, kinds) >= 6 * len(kinds) // 2


def test_rows_stay_when_commits_of_partial_progress_fail(copies: Callable[[], Store]) -> None:
    """Some groups may be committed and others not. No row is lost or doubled, and another run does the rest."""
    operation = rewrite(**{"partial-progress.enabled": True})
    before, _ = observe(copies())
    for point in crash_points(operation, copies, (Kind.CRASH_AFTER,)):
        assert observe(point.store)[0] == before, str(point)
        operation(point.store)
        assert observe(point.store)[0] == before, str(point)


def test_a_store_that_refuses_leaves_no_data_file_behind(copies: Callable[[], Store], tmp_path: Path) -> None:
    data = {path.name for path in (tmp_path / "original" / "data").rglob("*.parquet")}
    for point in crash_points(rewrite(), copies, (Kind.ERROR_BEFORE,)):
        if isinstance(point.error, LakebedError) and not isinstance(point.error, CommitUnknownError):
            there = {path.name for path in (tmp_path / "table" / "data").rglob("*.parquet")}
            assert there == data or len(observe(point.store)[1]) > 3, str(point)


RIVALS: dict[str, Callable[[Lake], None]] = {
    "append": lambda made: made.append([{"id": 1, "part": "a"}], ("a",)),
    "same deletes": lambda made: made.delete_positions({made.tasks[0].data.path: [1, 2]}),
    "another file's deletes": lambda made: made.delete_positions({made.tasks[-1].data.path: [0]}),
    "the same rewrite": lambda made: rewrite(**PAYBACK)(open_store(made.folder)),
}
PAYBACK = {"lakebed.rewrite.payback-reads": 1000}


@pytest.mark.parametrize("rival", RIVALS)
def test_a_second_writer_beside_a_rewrite_by_payback(copies: Callable[[], Store], rival: str) -> None:
    """Just before the commit, another writer changes the table: its rows and deletes stay, whoever wins."""
    whole = FaultyStore(copies())
    rewrite(**PAYBACK)(whole)
    (at,) = [n for n, call in enumerate(whole.changes, 1) if call.verb == "put_if_absent"]
    alone = copies()
    RIVALS[rival](Lake.at(alone.location))
    wanted, _ = observe(alone)

    def interfere(store: Store) -> None:
        RIVALS[rival](Lake.at(store.location))

    store = FaultyStore(copies(), Fault(at, Kind.EXISTS, rival=interfere))
    conflict = False
    try:
        rewrite(**PAYBACK)(store)
    except CommitConflictError:
        conflict = True
    assert conflict is (rival in ("same deletes", "the same rewrite"))
    ids, actions = observe(store.real)
    assert ids == wanted and actions.count("replace") == (rival != "same deletes")
    rewrite(**PAYBACK)(store.real)
    assert observe(store.real)[0] == wanted
