"""What commits to an Iceberg table dies at changes of its store and dies again while it is done anew; and another
writer or an expiry comes between its plan and its commit. The table has its old rows or the new ones at each moment,
the last run ends as the first would have, and each snapshot that the table has then can be read."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Fault, FaultyStore, Kind, check_crash_safety
from tests.crash.harness import two_deaths
from tests.tables.iceberg.lake import Lake

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("part", pa.string()), ("v", pa.string())])
OPTIONS = {
    "format-version": "2", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2",
    "commit.status-check.min-wait-ms": "1", "commit.status-check.max-wait-ms": "2",
}  # fmt: skip
ALONE = LocalEngine(1)


def some(*ids: int, value: str) -> pa.Table:
    return pa.Table.from_pylist([{"id": id, "part": "ab"[id % 2], "v": value} for id in ids], SCHEMA)


def rows(store: Store, every: bool = False) -> list[tuple[object, ...]]:
    """The rows, once every snapshot of the history was read too where that is asked for."""
    table = lakebed.open(store)
    for instant in table.history() if every else ():
        table.read(as_of=instant).read_all()
    columns = [name for name in table.schema.names if name in SCHEMA.names]
    return sorted(tuple(row.values()) for row in table.read(columns).read_all().to_pylist())


def append(store: Store) -> None:
    """What a job runs that may start again."""
    writer = lakebed.open(store).writer(commit_user="job")
    writer.write(some(20, 21, value="new"))
    writer.filter_and_commit({7: writer.prepare_commit()})


def overwrite(store: Store) -> None:
    lakebed.open(store).write(some(0, 2, value="over"), "overwrite")


def upsert(store: Store) -> None:
    lakebed.open(store).write(some(0, 1, 30, value="up"), "upsert")


def rewrite(store: Store) -> None:
    lakebed.open(store).rewrite(engine=ALONE, options={"min-input-files": 2})


def rewrite_deletes(store: Store) -> None:
    options = {"lakebed.rewrite.what": "position-deletes", "min-input-files": 2, "min-file-size-bytes": "1 mb"}
    lakebed.open(store).rewrite(engine=ALONE, options=options)


def rewrite_manifests(store: Store) -> None:
    lakebed.open(store).rewrite(engine=ALONE, options={"lakebed.rewrite.what": "manifests"})


def expire(store: Store) -> None:
    lakebed.open(store).expire(engine=ALONE, options={"older-than": "2100-01-01", "retain-last": 1})


def alter(store: Store) -> None:
    table = lakebed.open(store)
    if "more" not in table.schema.names:
        table.alter(lakebed.add_column("more", "int"))


@dataclass(frozen=True)
class Verb:
    """`act` as a job runs that starts again; `shows` says whether the verb changes rows."""

    act: Callable[[Store], None]
    shows: bool = False


VERBS = {
    "append": Verb(append, True),
    "overwrite": Verb(overwrite, True),
    "changes by key": Verb(upsert, True),
    "rewrite": Verb(rewrite),
    "rewrite of deletes": Verb(rewrite_deletes),
    "rewrite of manifests": Verb(rewrite_manifests),
    "expire": Verb(expire),
    "alter": Verb(alter),
}


def another_writer(store: Store) -> None:
    lakebed.open(store).write(some(40, 41, value="rival"))


def an_expiry(store: Store) -> None:
    """Everything that the verb has planned on goes, but what the newest snapshot needs."""
    another_writer(store)
    expire(store)


@pytest.fixture
def copies(tmp_path: Path) -> Callable[[], Store]:
    """Fresh copies of a table with several files, manifests and position deletes. Its metadata holds absolute
    locations, so each copy takes the place of the one before."""
    original, place, number = tmp_path / "original", tmp_path / "table", itertools.count()
    table = lakebed.create(place, "iceberg", SCHEMA, ["id"], ["part"], OPTIONS)
    for turn in range(3):
        table.write(some(*range(turn * 4, turn * 4 + 4), value=f"v{turn}"))
    made = Lake.at(str(place))
    for task in made.tasks[:2]:
        made.delete_positions({task.data.path: [0]})
        made.delete_positions({task.data.path: [1]})
    shutil.copytree(place, original)

    def make() -> Store:
        place.rename(tmp_path / f"done-{next(number)}")
        shutil.copytree(original, place)
        return open_store(place)

    return make


@pytest.mark.parametrize("name", VERBS)
def test_two_deaths_and_a_third_run(copies: Callable[[], Store], name: str) -> None:
    verb, whole = VERBS[name], copies()
    old = rows(whole)
    verb.act(whole)
    new = rows(whole)
    assert (new != old) is verb.shows
    for moment in two_deaths(verb.act, copies, 4):
        assert rows(moment.store) in (old, new), moment.where
        if moment.ended:
            assert rows(moment.store, every=True) == new, moment.where


@pytest.mark.parametrize("rival", [another_writer, an_expiry], ids=["another writer", "an expiry"])
@pytest.mark.parametrize("name", VERBS)
def test_who_comes_between_plan_and_commit(
    copies: Callable[[], Store], name: str, rival: Callable[[Store], None]
) -> None:
    verb, whole = VERBS[name], FaultyStore(copies())
    verb.act(whole)
    at = next(number for number, call in enumerate(whole.changes, 1) if call.verb == "put_if_absent")
    after = copies()
    rival(after)
    without = rows(after)
    verb.act(after)
    wanted = rows(after)

    store = FaultyStore(copies(), Fault(at, Kind.EXISTS, rival=rival))
    try:
        verb.act(store)
        refused = False
    except CommitConflictError:
        refused = True
        assert rows(store.real) == without
        verb.act(store.real)
    assert rows(store.real, every=True) == wanted
    assert not refused or name in ("overwrite", "changes by key", "rewrite of deletes", "rewrite")


def test_manifests_are_rewritten_or_not(copies: Callable[[], Store]) -> None:
    kinds = (Kind.CRASH_TORN, Kind.CRASH_AFTER, Kind.UNKNOWN_BEFORE)

    def observe(store: Store) -> tuple[object, int]:
        return rows(store), lakebed.open(store).metadata("manifests").read_all().num_rows

    assert check_crash_safety(copies, rewrite_manifests, observe, kinds) >= 2 * len(kinds)
