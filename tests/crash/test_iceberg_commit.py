"""An Iceberg commit that fails at any storage call leaves the old snapshot or the new one, complete, and lands once
when it is repeated. So do expiry and creation."""

import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import CommitConflictError, LakebedError, TableExistsError, TableNotFoundError
from lakebed.formats.iceberg.data_files import DataFile, data_files
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import FAILURES, Crash, Fault, FaultyStore, Kind, check_crash_safety, crash_points
from tests.tables.iceberg import commits
from tests.tables.iceberg.commits import scan
from tests.tables.iceberg.small import SCHEMA, create, data_file, ids


def opened(store: Store) -> IcebergTable:
    table = lakebed.open(store)
    assert isinstance(table, IcebergTable)
    return table


def live(table: IcebergTable) -> list[DataFile]:
    metadata = table.table_metadata
    found = scan(table.operations.files, metadata, metadata.head())
    return [file for entries in found.data.values() for file in data_files(entries)]


def observe(store: Store) -> tuple[list[int], list[str]]:
    table = opened(store)
    return ids(table), [instant.action for instant in table.history()]


def once(commit: Callable[[IcebergTable, DataFile], None], rows: list[int]) -> Callable[[Store], None]:
    """A job that does not commit again what it has committed when it is restarted."""

    def operation(store: Store) -> None:
        table = opened(store)
        if not {*rows} <= {*ids(table)}:
            commit(table, data_file(table, rows))

    return operation


def append(table: IcebergTable, file: DataFile) -> None:
    commits.append(table.operations, [file])


def overwrite(table: IcebergTable, file: DataFile) -> None:
    commits.overwrite(table.operations, [file], [(0, ("a",))])


def rewrite(store: Store) -> None:
    table = opened(store)
    if table.history()[-1].action != "replace":
        head = table.table_metadata.head()
        old = [file for file in live(table) if file.partition == ("a",)]
        commits.replace(table.operations, head and head.snapshot_id, old, [data_file(table, [1, 2, 3])])


def expire(store: Store) -> None:
    opened(store).expire(options={"older-than": "2100-01-01"})


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Fresh copies of a table with rows 1, 2, 3 in a and 4 in b, whose next commit merges manifests. Its metadata has
    absolute locations, so each copy takes the place of the one before."""
    number = itertools.count()
    original, place = tmp_path / "original", tmp_path / "t"
    table = create(place, **{"commit.manifest.min-count-to-merge": "3"})
    commits.append(table.operations, [data_file(table, [1, 2])])
    commits.append(table.operations, [data_file(table, [3]), data_file(table, [4], "b")])
    shutil.copytree(place, original)

    def make() -> Store:
        place.rename(tmp_path / f"done-{next(number)}")
        shutil.copytree(original, place)
        return open_store(place)

    yield make


FEW = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.ERROR_BEFORE, Kind.UNKNOWN_BEFORE, Kind.UNKNOWN_AFTER)


@pytest.mark.parametrize(
    ("operation", "kinds"),
    [(once(append, [7]), FAILURES), (once(overwrite, [8]), FEW), (rewrite, FEW), (expire, FAILURES)],
    ids=["append", "overwrite", "rewrite", "expire"],
)
def test_every_failure_leaves_the_old_or_the_new(
    copies: Callable[[], Store], operation: Callable[[Store], Any], kinds: Sequence[Kind]
) -> None:
    assert check_crash_safety(copies, operation, observe, kinds) >= 20


def test_a_killed_removal_of_orphans_takes_nothing_that_is_known(copies: Callable[[], Store], tmp_path: Path) -> None:
    """Whatever it removed before it was killed, the rows of every snapshot are there, and a repeated run completes."""
    strays = [f"data/p=a/stray-{number}.parquet" for number in range(3)] + ["metadata/stray-m0.avro"]
    then = time.time() - 10 * 86_400

    def with_strays() -> Store:
        store = copies()
        for stray in strays:
            (tmp_path / "t" / stray).write_bytes(b"x")
        for path in (tmp_path / "t").rglob("*"):
            os.utime(path, (then, then))
        return store

    def remove(store: Store) -> None:
        opened(store).expire(options={"expire-snapshots": False, "remove-orphan-files": True})

    def left(store: Store) -> list[str]:
        return [stray for stray in strays if (tmp_path / "t" / stray).exists()]

    before = observe(with_strays())
    tried = 0
    for point in crash_points(remove, with_strays, FAILURES):
        tried += 1
        assert observe(point.store) == before, str(point)
        for instant in opened(point.store).history():
            ids(opened(point.store), as_of=instant)
        remove(point.store)
        assert left(point.store) == [] and observe(point.store) == before, str(point)
    assert tried


def test_what_a_failed_commit_wrote_is_removed(copies: Callable[[], Store], tmp_path: Path) -> None:
    """No manifest stays when the store refuses (a killed process may leave some)."""
    for point in crash_points(once(append, [7]), copies, [Kind.ERROR_BEFORE]):
        if isinstance(point.error, LakebedError) and not point.call.path.endswith(".parquet"):
            named = {m for s in opened(point.store).table_metadata.snapshots.values() for m in [s.manifest_list]}
            there = {str(p) for p in (tmp_path / "t/metadata").glob("snap-*.avro")}
            assert there == named, str(point)


def test_a_rival_at_the_same_version_is_met_by_a_retry(copies: Callable[[], Store]) -> None:
    def rival(store: Store) -> None:
        table = opened(store)
        commits.append(table.operations, [data_file(table, [100])])

    real = copies()
    probe = FaultyStore(real)
    table = opened(probe)
    commits.append(table.operations, [data_file(table, [7])])
    puts = [call.verb for call in probe.changes]
    at = puts.index("put_if_absent") + 1
    real = copies()
    faulty = FaultyStore(real, Fault(at, Kind.EXISTS, rival=rival))
    table = opened(faulty)
    commits.append(table.operations, [data_file(table, [7])])
    assert ids(opened(real)) == [1, 2, 3, 4, 7, 100]


def test_a_rival_that_rewrites_the_same_files_is_a_conflict(copies: Callable[[], Store]) -> None:
    probe = FaultyStore(copies())
    rewrite(probe)
    at = [call.verb for call in probe.changes].index("put_if_absent") + 1
    real = copies()
    with pytest.raises(CommitConflictError):
        rewrite(FaultyStore(real, Fault(at, Kind.EXISTS, rival=rewrite)))
    assert observe(real) == ([1, 2, 3, 4], ["append", "append", "replace"])


def test_creation_is_whole_or_not(tmp_path: Path) -> None:
    number = itertools.count()

    def make() -> Store:
        return open_store(tmp_path / f"t{next(number)}")

    def run(store: Store) -> None:
        lakebed.create(store, "iceberg", SCHEMA)

    for point in crash_points(run, make):
        try:
            assert lakebed.open(point.store).history() == [], str(point)
            with pytest.raises(TableExistsError):
                run(point.store)
        except TableNotFoundError:
            assert isinstance(point.error, (Crash, LakebedError)), str(point)
            run(point.store)
