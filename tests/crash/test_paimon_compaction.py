"""A compaction that dies at any storage call leaves the old files or the new ones. A write that compacts lands once,
and what its changelog misses the next compaction says. Beside other writers nothing is lost or said twice."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, LakebedError
from lakebed.formats.paimon.codec.file_schema import KIND_FIELD
from lakebed.formats.paimon.layout import bucket_folder
from lakebed.formats.paimon.manifests import changelog_lists, entries_of, live_files, metas_of_lists
from lakebed.formats.paimon.read.files import read_batches
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import CHANGES, Crash, Fault, FaultyStore, Kind, check_crash_safety

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())])
QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}
WRITE_ONLY = {**QUICK, "write-only": "true"}
VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"}
Row = dict[str, Any]


def write(store: Store, identifier: int, keys: range, options: dict[str, str] = QUICK, user: str = "job") -> None:
    """What a restarted job runs: the same rows under the same commit user and identifier."""
    writer = lakebed.open(store, options).writer(commit_user=user)
    writer.write(pa.table({"k": list(keys), "v": [f"{user}-{identifier}"] * len(keys)}, schema=SCHEMA))
    writer.filter_and_commit({identifier: writer.prepare_commit()})


def rewrite(store: Store) -> None:
    lakebed.open(store, QUICK).rewrite()


def contents(store: Store) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lakebed.open(store).read().read_all().to_pylist())


def changed(store: Store) -> list[tuple[Any, ...]]:
    """What a reader of the changelog has in the end. It fails on a change that does not follow the one before."""
    history, state = History(store), dict[int, Row]()
    for snapshot in history.snapshots():
        metas = [meta for metas in metas_of_lists(store, changelog_lists(snapshot)) for meta in metas]
        for entry in entries_of(store, metas):
            path = f"{bucket_folder('', entry.bucket)}/{entry.file.file_name}"
            schema = history.schema(entry.file.schema_id)
            for batch in read_batches(store, path, schema, schema.fields, (KIND_FIELD,)):
                for row in batch.to_pylist():
                    if row.pop("_VALUE_KIND") in (1, 3):
                        assert state.pop(row["k"]) == row
                    else:
                        assert state.setdefault(row["k"], row) is row
    return sorted(tuple(row.values()) for row in state.values())


def unknown_files(store: Store) -> set[str]:
    """Data files that no snapshot names."""
    history = History(store)
    named = {entry.file.file_name for s in history.snapshots() for entry in live_files(store, s)}
    for snapshot in history.snapshots():
        metas = [meta for metas in metas_of_lists(store, changelog_lists(snapshot)) for meta in metas]
        named |= {entry.file.file_name for entry in entries_of(store, metas)}
    return {path.name for path in Path(store.location).glob("bucket-*/*")} - named


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Callable[[dict[str, str], Callable[[Store], None]], Callable[[], Store]]]:
    number = itertools.count()

    def of(options: dict[str, str], prepare: Callable[[Store], None]) -> Callable[[], Store]:
        original = tmp_path / f"original-{next(number)}"
        lakebed.create(original, "paimon", SCHEMA, ["k"], options=options)
        prepare(open_store(original))
        return lambda: open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))

    yield of


Copies = Callable[[dict[str, str], Callable[[Store], None]], Callable[[], Store]]


def with_levels(store: Store) -> None:
    """A file in the highest level, and two in level 0 that no batch read sees."""
    write(store, 1, range(6))
    write(store, 2, range(3, 8), WRITE_ONLY)
    write(store, 3, range(5), WRITE_ONLY)


def test_a_rewrite(copies: Copies) -> None:
    def observe(store: Store) -> Any:
        return contents(store), len(lakebed.open(store).history())

    kinds = (Kind.CRASH_AFTER, Kind.ERROR_AFTER)
    make = copies(VECTORS, with_levels)
    assert check_crash_safety(make, rewrite, observe, kinds) > 15
    reached = make()
    rewrite(reached)
    assert (
        changed(reached) == contents(reached) == [*((k, "job-3") for k in range(5)), *((k, "job-2") for k in (5, 6, 7))]
    )


@pytest.mark.parametrize("kind", [Kind.CRASH_AFTER, Kind.CRASH_BEFORE])
def test_a_write_that_compacts(copies: Copies, kind: Kind) -> None:
    """Killed anywhere and done again, then one more commit: all rows are there, and the changelog says each change
    once."""
    make = copies(VECTORS, lambda store: write(store, 1, range(6)))
    counting = FaultyStore(make())
    write(counting, 2, range(4, 9))
    calls = sum(call.verb in CHANGES for call in counting.calls)
    assert calls > 15
    for at in range(1, calls + 1, 1 if kind is Kind.CRASH_AFTER else 4):
        store = FaultyStore(make(), Fault(at, kind))
        with suppress(Crash, LakebedError, ValueError):  # ValueError: this call cannot fail in that way
            write(store, 2, range(4, 9))
        write(store.real, 2, range(4, 9))
        write(store.real, 3, range(8, 10))
        rows = contents(store.real)
        assert rows == [
            *((k, "job-1") for k in range(4)),
            *((k, "job-2") for k in range(4, 8)),
            (8, "job-3"),
            (9, "job-3"),
        ], at
        assert changed(store.real) == rows, f"killed at change {at}"


def test_of_two_rewrites_one_wins_and_the_other_leaves_nothing(copies: Copies) -> None:
    real = copies(VECTORS, with_levels)()
    puts = frozenset({"put_if_absent"})
    with pytest.raises(CommitConflictError, match="compacted"):
        rewrite(FaultyStore(real, Fault(1, Kind.EXISTS, puts, rewrite)))
    assert changed(real) == contents(real)
    assert not unknown_files(real)


def test_appends_during_a_rewrite_stay(copies: Copies) -> None:
    real = copies(VECTORS, with_levels)()

    def rival(store: Store) -> None:
        write(store, 1, range(20, 23), WRITE_ONLY, "rival")

    rewrite(FaultyStore(real, Fault(1, Kind.EXISTS, frozenset({"put_if_absent"}), rival)))
    rewrite(real)
    assert [row for row in contents(real) if row[0] >= 20] == [(k, "rival-1") for k in range(20, 23)]
    assert changed(real) == contents(real)


@pytest.mark.parametrize("at", [1, 2], ids=["before its rows", "before its compaction"])
def test_a_rival_that_compacts_during_a_write(copies: Copies, at: int) -> None:
    """The write's rows stand, its compaction gives way, and the next write compacts them."""
    real = copies(VECTORS, lambda store: write(store, 1, range(6)))()

    def rival(store: Store) -> None:
        write(store, 1, range(5, 8), QUICK, "rival")

    write(FaultyStore(real, Fault(at, Kind.EXISTS, frozenset({"put_if_absent"}), rival)), 2, range(4, 6))
    assert not unknown_files(real)
    write(real, 3, range(30, 31))
    assert changed(real) == contents(real)
    assert {row[0] for row in contents(real)} == {*range(8), 30}


def test_an_expiry_between_plan_and_commit(copies: Copies) -> None:
    real = copies({**VECTORS, "snapshot.num-retained.min": "1"}, with_levels)()

    def rival(store: Store) -> None:
        write(store, 1, range(20, 21), WRITE_ONLY, "rival")
        options = {"snapshot.time-retained": "0 ms", "lakebed.owed.time-retained": "0 ms"}
        lakebed.open(store, options).expire()

    rewrite(FaultyStore(real, Fault(1, Kind.EXISTS, frozenset({"put_if_absent"}), rival)))
    rewrite(real)
    assert {row[0] for row in contents(real)} == {*range(8), 20}
