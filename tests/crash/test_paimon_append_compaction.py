"""A rewrite of a table without a primary key, or into another number of buckets, that dies at any storage call leaves
the old files or the new ones. Beside other writers no row is lost, shown twice or brought back."""

import itertools
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, LakebedError
from lakebed.formats.paimon.commit.committer import Committer
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.options import CommitOptions
from lakebed.formats.paimon.manifests import live_and_index_files, live_files
from lakebed.formats.paimon.options import table_options
from lakebed.formats.paimon.read.plan import deletion_files
from lakebed.formats.paimon.rewrite.vectors import BucketVectors
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import CHANGES, Crash, Fault, FaultyStore, Kind, check_crash_safety
from tests.golden import unpack

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())])
QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}
PUTS = frozenset({"put_if_absent"})
Make = Callable[[], Store]


def rewrite(store: Store) -> None:
    lakebed.open(store, QUICK).rewrite(options={"compaction.delete-ratio-threshold": "0"})


def rescale(store: Store) -> None:
    lakebed.open(store, QUICK).rewrite(options={"bucket": "3"})


def append(store: Store) -> None:
    lakebed.open(store, {**QUICK, "write-only": "true"}).write(pa.table({"k": [100], "v": ["late"]}, schema=SCHEMA))


def rows(store: Store) -> list[Any]:
    """All rows, with their ids where the table has them."""
    table = lakebed.open(store)
    ids = ["_ROW_ID"] if History(store).latest_schema().options.get("row-tracking.enabled") else []
    return sorted(map(str, table.read([*table.schema.names, *ids]).read_all().to_pylist()))


def observe(store: Store) -> Any:
    return rows(store), len(lakebed.open(store).history())


def unknown_files(store: Store) -> set[str]:
    history = History(store)
    named = {entry.file.file_name for s in history.snapshots() for entry in live_files(store, s)}
    return {path.name for path in Path(store.location).rglob("bucket-*/*")} - named


def copies(original: Path, folder: Path) -> Make:
    number = itertools.count()
    return lambda: open_store(shutil.copytree(original, folder / f"copy-{next(number)}"))


@pytest.fixture
def small(tmp_path: Path) -> Make:
    """Five small files, whose rows have ids."""
    original = tmp_path / "original"
    table = lakebed.create(original, "paimon", SCHEMA, options={"row-tracking.enabled": "true"})
    for number in range(5):
        table.write(pa.table({"k": [number], "v": ["v"]}, schema=SCHEMA))
    return copies(original, tmp_path / "small")


@pytest.fixture
def deleted(tmp_path: Path) -> Make:
    """Files with deletion vectors, as the Java engine writes them."""
    return copies(unpack("paimon", "append_dv", into=tmp_path), tmp_path / "copies")


@pytest.fixture
def postponed(tmp_path: Path) -> Make:
    """Two real buckets, and rows that are still postponed."""
    original = tmp_path / "postponed"
    table = lakebed.create(
        original, "paimon", SCHEMA, ["k"], options={"bucket": "-2", "postpone.default-bucket-num": "2"}
    )
    for turn in range(2):
        table.write(pa.table({"k": list(range(8)), "v": [f"v{turn}"] * 8}, schema=SCHEMA))
        if not turn:
            table.rewrite()
    return copies(original, tmp_path / "postponed-copies")


def test_any_death(small: Make, deleted: Make, postponed: Make) -> None:
    kinds = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.ERROR_AFTER)
    assert check_crash_safety(small, rewrite, observe, (Kind.CRASH_AFTER,)) > 5
    assert check_crash_safety(deleted, rewrite, observe, kinds) > 15
    assert check_crash_safety(postponed, rescale, observe, (Kind.CRASH_AFTER,)) > 5


def test_of_two_rewrites_one_wins(small: Make, postponed: Make) -> None:
    for make, verb in ((small, rewrite), (postponed, rescale)):
        store = make()
        before = rows(store)
        with pytest.raises(CommitConflictError):
            verb(FaultyStore(store, Fault(1, Kind.EXISTS, PUTS, verb)))
        assert rows(store) == before
        assert not unknown_files(store)


def test_rows_that_come_meanwhile(small: Make, postponed: Make) -> None:
    store = small()
    rewrite(FaultyStore(store, Fault(1, Kind.EXISTS, PUTS, append)))
    assert len(rows(store)) == 6 and len(live_files(store, History(store).latest())) == 2

    store = postponed()
    rescale(FaultyStore(store, Fault(1, Kind.EXISTS, PUTS, append)))  # it lies in the postponed bucket
    rewrite(store)
    assert len(rows(store)) == 9


def test_rows_in_the_old_buckets_stop_a_rescale(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, ["k"], options={"bucket": "-2"})
    append(table.store)
    table.rewrite()

    def rival(store: Store) -> None:
        append(store)
        lakebed.open(store, QUICK).rewrite()

    with pytest.raises(CommitConflictError):
        rescale(FaultyStore(table.store, Fault(1, Kind.EXISTS, PUTS, rival)))
    assert rows(table.store) == ["{'k': 100, 'v': 'late'}"]
    assert not unknown_files(table.store)


def test_rows_that_are_deleted_meanwhile_do_not_come_back(deleted: Make) -> None:
    store = deleted()

    def rival(store: Store) -> None:
        """Deletes the first row of a file that has no deletion vector, or a further one of a file that has one."""
        history = History(store)
        live, indexes = live_and_index_files(store, history.latest())
        (first, *_) = live
        files, vectors = [entry.file for entry in live], deletion_files(indexes)
        of_bucket = BucketVectors(store, files, vectors[first.partition, first.bucket])
        held = of_bucket.of(first.file)
        free = min({*range(first.file.row_count)} - {*([] if held is None else held.tolist())})
        of_bucket.delete(first.file, np.array([free]))
        new = of_bucket.write(first.partition, first.bucket, False)
        message = PaimonMessage(first.partition, 0, -1, "bucket-0", new_index_files=new,
                                deleted_index_files=tuple(indexes))  # fmt: skip
        schema = history.latest_schema()
        committer = Committer(history, schema, table_options(schema.options), CommitOptions("rival"))
        committer.commit(1, [message])

    with pytest.raises(CommitConflictError, match="marked as deleted meanwhile"):
        rewrite(FaultyStore(store, Fault(1, Kind.EXISTS, PUTS, rival)))
    count = len(rows(store))
    rewrite(store)
    assert len(rows(store)) == count
    assert not unknown_files(store)


def test_an_expiry_between_plan_and_commit(small: Make) -> None:
    store = small()

    def rival(store: Store) -> None:
        append(store)
        options = {
            "snapshot.time-retained": "0 ms",
            "lakebed.owed.time-retained": "0 ms",
            "snapshot.num-retained.min": "1",
        }
        lakebed.open(store, options).expire()

    rewrite(FaultyStore(store, Fault(1, Kind.EXISTS, PUTS, rival)))
    assert len(rows(store)) == 6


# ---- inside a write ----


def commit(store: Store, identifier: int = 9, user: str = "job") -> None:
    """What a restarted job runs: the same row under the same commit user and identifier."""
    writer = lakebed.open(store, QUICK).writer(commit_user=user)
    writer.write(pa.table({"k": [identifier], "v": [user]}, schema=SCHEMA))
    writer.filter_and_commit({identifier: writer.prepare_commit()})


@pytest.fixture
def due(tmp_path: Path) -> Make:
    """A fixed bucket with four small files: the next write compacts it."""
    original = tmp_path / "due"
    lakebed.create(original, "paimon", SCHEMA, options={"bucket": "1", "bucket-key": "k"})
    for number in range(4):
        commit(open_store(original), number)
    return copies(original, tmp_path / "due-copies")


@pytest.mark.parametrize("kind", [Kind.CRASH_AFTER, Kind.CRASH_BEFORE])
def test_a_write_that_compacts_lands_once(due: Make, kind: Kind) -> None:
    counting = FaultyStore(due())
    commit(counting)
    calls = sum(call.verb in CHANGES for call in counting.calls)
    assert calls > 10
    for at in range(1, calls + 1, 2):
        store = FaultyStore(due(), Fault(at, kind))
        with suppress(Crash, LakebedError, ValueError):  # ValueError: this call cannot fail in that way
            commit(store)
        commit(store.real)
        assert [row["k"] for row in lakebed.open(store.real).read().read_all().to_pylist()] == [0, 1, 2, 3, 9], at


@pytest.mark.parametrize("at", [1, 2], ids=["before its rows", "before its compaction"])
def test_a_rival_that_compacts_during_a_write(due: Make, at: int) -> None:
    store = due()
    commit(FaultyStore(store, Fault(at, Kind.EXISTS, PUTS, lambda real: commit(real, 20, "rival"))))
    assert len(rows(store)) == 6
    assert not unknown_files(store)
