"""A Paimon commit that fails at any storage call leaves the old snapshot or the new one, and done again lands once."""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.callbacks import Committed
from lakebed.errors import TableExistsError, TableNotFoundError
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import (
    CHANGES,
    CRASHES,
    FAILURES,
    READS,
    Crash,
    Fault,
    FaultyStore,
    Kind,
    check_crash_safety,
)

SCHEMA = pa.schema(
    [pa.field("dt", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("v", pa.string())]
)
FIRST = [{"dt": "a", "id": n, "v": "first"} for n in range(4)] + [{"dt": "b", "id": 0, "v": "first"}]
SECOND = [
    {"dt": "a", "id": 1, "v": "second", "_row_kind": "+U"},
    {"dt": "a", "id": 2, "v": None, "_row_kind": "-D"},
    {"dt": "c", "id": 9, "v": "second", "_row_kind": "+I"},
]
AFTER_SECOND = [("a", 0, "first"), ("a", 1, "second"), ("a", 3, "first"), ("b", 0, "first"), ("c", 9, "second")]
QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}


def create(store: Any) -> None:
    lakebed.create(store, "paimon", SCHEMA, ["dt", "id"], ["dt"], {"bucket": "2"})


def commit(rows: list[dict[str, Any]], identifier: int, user: str = "job") -> Callable[[Store], None]:
    """What a restarted job runs: the same rows under the same commit user and identifier."""

    def operation(store: Store) -> None:
        writer = lakebed.open(store, QUICK).writer(commit_user=user)
        writer.write(pa.Table.from_pylist(rows))
        writer.filter_and_commit({identifier: writer.prepare_commit()})

    return operation


def observe(store: Store) -> tuple[list[tuple[Any, ...]], list[tuple[str, str]]]:
    """The rows, and each snapshot's user and identifier, with fresh eyes."""
    table = lakebed.open(store)
    rows = sorted(tuple(row.values()) for row in table.read().read_all().to_pylist())
    commits = [(i.summary["commit_user"], i.summary["commit_identifier"]) for i in table.history()]
    return rows, commits


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Callable[..., Callable[[], Store]]]:
    """From a function that makes a table: a function that gives fresh copies of it."""
    number = itertools.count()

    def of(prepare: Callable[[Store], None], hints: bool = True) -> Callable[[], Store]:
        original = tmp_path / f"original-{next(number)}"
        prepare(open_store(original))
        if not hints:
            for hint in ("LATEST", "EARLIEST"):
                (original / "snapshot" / hint).unlink(missing_ok=True)

        def make() -> Store:
            return open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))

        return make

    yield of


def with_first(store: Store) -> None:
    create(store)
    commit(FIRST, 1)(store)


@pytest.mark.parametrize("hints", [True, False], ids=["hints", "no hints"])
def test_an_upsert_lands_once_or_not_at_all(copies: Callable[..., Callable[[], Store]], hints: bool) -> None:
    make = copies(with_first, hints)
    tried = check_crash_safety(make, commit(SECOND, 2), observe)
    assert tried > 50
    reached = make()
    commit(SECOND, 2)(reached)
    assert observe(reached) == (AFTER_SECOND, [("job", "1"), ("job", "2")])


def test_the_first_commit_of_a_table(copies: Callable[..., Callable[[], Store]]) -> None:
    assert check_crash_safety(copies(create), commit(FIRST, 1), observe) > 30


def test_an_overwrite(copies: Callable[..., Callable[[], Store]]) -> None:
    def overwrite(store: Store) -> None:
        rows = pa.Table.from_pylist([{"dt": "a", "id": 7, "v": "new"}])
        lakebed.open(store, QUICK).write(rows, mode="overwrite")

    def rows(store: Store) -> list[tuple[Any, ...]]:
        return observe(store)[0]  # done again it is one more snapshot, of the same rows

    assert check_crash_safety(copies(with_first), overwrite, rows) > 30


def test_a_table_is_created_whole_or_not_at_all(tmp_path: Path) -> None:
    number = itertools.count()

    def make() -> Store:
        return open_store(tmp_path / str(next(number)))

    def create_or_find(store: Store) -> None:
        try:
            create(store)
        except TableExistsError:
            lakebed.open(store)

    def schema(store: Store) -> pa.Schema | None:
        try:
            return lakebed.open(store).schema
        except TableNotFoundError:
            return None

    assert check_crash_safety(make, create_or_find, schema, CRASHES) == 3


def test_a_rival_commit_in_between_is_kept_and_ours_follows(copies: Callable[..., Callable[[], Store]]) -> None:
    rival = commit([{"dt": "z", "id": 1, "v": "rival"}], 1, "rival")
    real = copies(with_first)()
    commit(SECOND, 2)(FaultyStore(real, Fault(1, Kind.EXISTS, frozenset({"put_if_absent"}), rival)))
    rows, commits = observe(real)
    assert rows == [*AFTER_SECOND, ("z", 1, "rival")]
    assert commits == [("job", "1"), ("rival", "1"), ("job", "2")]


@pytest.mark.parametrize("kind", [Kind.UNKNOWN_BEFORE, Kind.UNKNOWN_AFTER])
def test_a_store_that_never_says_is_asked_again(copies: Callable[..., Callable[[], Store]], kind: Kind) -> None:
    real = copies(with_first)()
    puts = frozenset({"put_if_absent"})
    commit(SECOND, 2)(FaultyStore(real, *(Fault(n, kind, puts) for n in (1, 2, 3))))
    assert observe(real) == (AFTER_SECOND, [("job", "1"), ("job", "2")])


def test_a_failing_read_harms_nothing(copies: Callable[..., Callable[[], Store]]) -> None:
    make = copies(with_first)
    old = observe(make())
    counting = FaultyStore(make())
    commit(SECOND, 2)(counting)
    new = observe(counting.real)
    reads = sum(call.verb in READS for call in counting.calls)
    assert reads > 5
    for at in range(1, reads + 1):
        store = FaultyStore(make(), Fault(at, Kind.CRASH_BEFORE, READS))
        with pytest.raises(Crash):
            commit(SECOND, 2)(store)
        assert observe(store.real) in (old, new), f"killed at read {at}"
        commit(SECOND, 2)(store.real)
        assert observe(store.real) == new, f"killed at read {at}"


def test_after_a_crash_the_metadata_folders_hold_nothing_foreign(copies: Callable[..., Callable[[], Store]]) -> None:
    """Paimon's own engine fails on a name in its snapshot folder that it does not know."""
    make = copies(with_first)
    for kind, at in itertools.product(FAILURES, range(1, 5)):
        store = FaultyStore(make(), Fault(at, kind, frozenset({"write", "put_if_absent"})))
        with suppress(Crash, lakebed.errors.LakebedError, ValueError):  # ValueError: this call cannot fail in that way
            commit(SECOND, 2)(store)
        root = Path(store.real.location)
        assert set(os.listdir(root / "snapshot")) <= {"LATEST", "EARLIEST", "snapshot-1", "snapshot-2"}
        assert os.listdir(root / "schema") == ["schema-0"]


class Told:
    """A commit callback that remembers beyond the life of a process."""

    def __init__(self) -> None:
        self.snapshots: list[int] = []

    def call(self, commit: Committed) -> None:
        self.snapshots.append(commit.snapshot_id)


@pytest.mark.parametrize("resumed_by", ["replay", "next commit"])
def test_a_callback_is_called_for_every_snapshot(copies: Callable[..., Callable[[], Store]], resumed_by: str) -> None:
    """Killed at any storage call: the same commit done again, or the next one, calls what is owed."""
    make = copies(with_first)

    def told(store: Store, callback: Told, identifier: int) -> None:
        writer = lakebed.open(store, QUICK).writer("job", callbacks=[callback])
        writer.write(pa.Table.from_pylist(SECOND))
        writer.filter_and_commit({identifier: writer.prepare_commit()})

    counting = FaultyStore(make())
    told(counting, Told(), 2)
    changes = sum(call.verb in CHANGES for call in counting.calls)
    for kind, at in itertools.product((Kind.CRASH_BEFORE, Kind.CRASH_AFTER), range(1, changes + 1)):
        store, callback = FaultyStore(make(), Fault(at, kind)), Told()
        with suppress(Crash, ValueError):  # ValueError: this call cannot fail in that way
            told(store, callback, 2)
        told(store.real, callback, 2 if resumed_by == "replay" else 3)
        made = [int(instant.time) for instant in lakebed.open(store.real).history()]
        assert set(callback.snapshots) == set(made[1:]), f"{kind} at change {at}"
        assert len(callback.snapshots) <= len(made[1:]) + 1, "at most the one under way is told twice"
