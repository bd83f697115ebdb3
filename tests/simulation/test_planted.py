"""The simulation can fail: what breaks a promise is found within few seeds, and a failure shrinks to a short schedule
that fails again by its command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.formats.hudi import rollback
from lakebed.formats.hudi.archive.write_lsm import LsmWriter
from lakebed.formats.hudi.archive.write_v1 import V1Writer
from lakebed.formats.hudi.commit import conflicts, exclusive, transaction
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.restore import request_restore
from lakebed.formats.hudi.expire import plan as clean_plan
from lakebed.formats.hudi.expire import run as clean_run
from lakebed.formats.hudi.read.stream import HudiStream
from lakebed.formats.hudi.rewrite import log_compact, resize
from lakebed.formats.hudi.timeline.active import Entry, Timeline
from lakebed.formats.iceberg.alter import plan
from lakebed.formats.iceberg.catalog import hadoop
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.catalog.table import CatalogTable
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.theta import Sketch
from lakebed.formats.iceberg.commit import branches_and_tags, cherry_pick
from lakebed.formats.iceberg.commit import conflicts as iceberg_conflicts
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.expire import run as expire_run
from lakebed.formats.iceberg.expire.named_meanwhile import Stays
from lakebed.formats.iceberg.read.stream import IcebergStream, StreamPosition
from lakebed.formats.iceberg.repair import change, check
from lakebed.formats.iceberg.write import committer as iceberg_committer
from lakebed.formats.paimon import branches as paimon_branches
from lakebed.formats.paimon.catalog import rest
from lakebed.formats.paimon.codec.types import VALUE_KIND
from lakebed.formats.paimon.commit import attempt
from lakebed.formats.paimon.commit import committer as paimon_committer
from lakebed.formats.paimon.expire import orphans, partitions
from lakebed.formats.paimon.expire.partition_time import PartitionTimes
from lakebed.formats.paimon.expire.run import SnapshotExpiry
from lakebed.formats.paimon.expire.unused import UnusedFiles
from lakebed.formats.paimon.read import changes as paimon_changes
from lakebed.formats.paimon.read import stream as paimon_stream
from lakebed.formats.paimon.rewrite import merge_tree, postpone
from lakebed.kernel.commit import claim
from lakebed.kernel.decoding import Stated
from lakebed.kernel.files import PutOutcome, Store
from lakebed.testing.simulation import Report, Schedule, drawn, simulate
from lakebed.testing.simulation.__main__ import main
from lakebed.testing.simulation.memory import MemoryStore

Planted = Callable[[], AbstractContextManager[Any]]
SEEDS = 10
"""Within how many seeds each fault must be found."""


def put_replaces(self: MemoryStore, path: str, data: bytes) -> PutOutcome:
    self.write(path, data)
    return PutOutcome.CREATED


def never(*_: Any, **__: Any) -> None:
    return None


def all_paths(_: Store, paths: Iterator[str], __: float) -> list[str]:
    return [*paths]


def not_staged(*arguments: Any) -> CommitOptions:
    return CommitOptions(*arguments[:-1])


def of_the_vector(self: check.Checker, sizes: dict[str, int], file: check.NamedFile) -> None:
    sizes[file.path] = self.files.size(file.path)
    Stated(file.length or file.size).check_size(sizes[file.path])


def as_it_is(_: TableOperations, done: Loaded, *__: Any) -> Stays:
    return Stays(done.metadata)


def but_one_file(self: change.WithoutLost) -> set[str]:
    """The data files that are lost now, but for one."""
    return {*sorted(STILL_LOST(self))[1:]}


STILL_LOST = change.WithoutLost._still_lost_data


def no(*_: Any, **__: Any) -> bool:
    return False


@contextmanager
def all_of(*patches: AbstractContextManager[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


def without_deletes(self: Any, *arguments: Any) -> Iterator[pa.RecordBatch]:
    """The rows of a file that is compacted, without those that delete others."""
    for rows in BATCHES(self, *arguments):
        yield rows.filter(pc.is_in(rows[VALUE_KIND], pa.array([0, 2], rows[VALUE_KIND].type)))


def without_the_first(steps: Any, snapshots: Sequence[Any]) -> None:
    """The changes of a batch of snapshots, but for those of the first one."""
    CHANGES(steps, snapshots[1:])


def without_the_newest(self: Any, branch: str, kind: str, wanted: Callable[[int], bool]) -> dict[int, bytes]:
    """The snapshots of the branch that a fast-forward follows, but for the newest one."""
    files = FILES(self, branch, kind, wanted)
    drops = kind == "snapshot" and branch != self.history.branch and len(files) > 1
    return {number: data for number, data in files.items() if not drops or number < max(files)}


BATCHES, CHANGES = merge_tree.MergeTree._batches, paimon_stream._read_changes
FILES = paimon_branches.Branches._bytes


def known(self: rest.RestPublisher, *arguments: Any) -> PutOutcome:
    """What the server said, as if it had refused where it did not answer."""
    outcome = PUBLISH(self, *arguments)
    return PutOutcome.EXISTS if outcome is PutOutcome.UNKNOWN else outcome


PUBLISH = rest.RestPublisher.__call__


def one_id_less(entries: Any, snapshot: int, next_row: int) -> Any:
    """The ids of a commit's rows, which begin with that of the newest older row."""
    return WITH_ROW_IDS(entries, snapshot, max(next_row - 1, 0))


WITH_ROW_IDS = attempt.with_row_ids


def half_a_minute_early(self: PartitionTimes, text: str) -> int | None:
    """The time that a partition's values say, as if it were earlier."""
    time = TIME(self, text)
    return None if time is None else time - 30 * 10**9


def but_the_last(self: partitions.PartitionExpiry, *arguments: Any) -> Any:
    """What is too old, but for one partition."""
    plan = PLAN_OF_PARTITIONS(self, *arguments)
    return replace(plan, expired=plan.expired[:-1])


TIME, PLAN_OF_PARTITIONS = PartitionTimes.time, partitions.PartitionExpiry._plan


def newest_first(*arguments: Any) -> Iterator[Any]:
    """The postponed files of each partition in the wrong order."""
    return (replace(one, files=one.files[::-1]) for one in PARTITIONS(*arguments))


PARTITIONS = postpone._partitions


def of_the_last_one(self: IcebergStream, start: str, end: str) -> Any:
    """The plan of a batch that tells only what its last snapshot changed."""
    known, last = self.load().snapshots, StreamPosition.parse(end).snapshot
    parent = known[last].parent_id if last is not None and last in known else None
    whole = StreamPosition.parse(start).whole or parent not in known
    return PLAN(self, start if whole else StreamPosition(parent).text(), end)


PLAN = IcebergStream.plan


def without_a_look(operations: TableOperations, branch: str, to: str, dry_run: bool = False) -> Any:
    """A fast-forward, whatever the branch has that the other one does not have."""

    def decide(metadata: TableMetadata) -> Any:
        target = metadata.snapshot(branches_and_tags._named(metadata, to, "").snapshot_id)
        return branches_and_tags.branch_moved(metadata, branch, target)

    return branches_and_tags.decided(operations, decide, dry_run)


def whatever_is_there(self: CatalogTable, base: Loaded, current: Any, *arguments: Any) -> Any:
    """A swap that takes what the catalog names now for what it was based on."""
    return STAGE(self, Loaded(base.metadata, current.metadata_location), current, *arguments)


STAGE = CatalogTable._stage


def but_one(context: WriteContext, timeline: Timeline, to: Entry, going: Sequence[Entry]) -> str:
    """The plan of a restore without the oldest of the commits that it takes back."""
    return request_restore(context, timeline, to, going[:-1])


def only_the_last(self: HudiStream, *arguments: Any) -> list[Any]:
    return COMMITS(self, *arguments)[-1:]


COMMITS = HudiStream._commits


def of_clocks_v1(self: V1Writer, records: Any) -> None:
    """The records of instants that a clock could give."""
    ADD_V1(self, (record for record in records if record[0] > "1971"))


def of_clocks_lsm(self: LsmWriter, rows: Any) -> None:
    """The rows of instants that a clock could give."""
    ADD_LSM(self, [row for row in rows if row.time > "1971"])


ADD_V1, ADD_LSM = V1Writer.add, LsmWriter.add


def to_the_first(hashes: Any, _: Any) -> Any:
    """The first node for each hash."""
    return np.zeros(len(hashes), np.int64)


def nothing(*_: Any, **__: Any) -> bytes:
    return b""


PLANTED: dict[str, tuple[str, int, Planted]] = {
    "locks that are taken over without a look, Hudi": (
        "hudi", 200031, lambda: patch.object(exclusive, "decide_place", never)
    ),
    "puts that replace, Paimon": ("paimon", 2, lambda: patch.object(MemoryStore, "put_if_absent", put_replaces)),
    "puts that replace, Iceberg": ("iceberg", 0, lambda: patch.object(MemoryStore, "put_if_absent", put_replaces)),
    "a claim that believes, Iceberg": (
        "iceberg", 6, lambda: patch.object(claim, "_look", lambda *_: PutOutcome.CREATED)
    ),
    "a claim that never looks, Paimon": (
        "paimon", 2, lambda: patch.object(claim, "_look", lambda *_: PutOutcome.EXISTS)
    ),
    "commits without a check of new deletes, Iceberg": (
        "iceberg", 12, lambda: patch.object(iceberg_conflicts, "check_no_new_deletes", never)
    ),
    "replays that count as new, Iceberg": ("iceberg", 6, lambda: patch.object(iceberg_committer, "is_committed", no)),
    "aborts that remove what the table holds, Iceberg": (
        "iceberg", 16, lambda: patch.object(iceberg_committer, "held_files", lambda *_: set())
    ),
    "claims that are late, Iceberg": ("iceberg", 19, lambda: patch.object(hadoop.HadoopTable, "_is_followed", no)),
    "swaps that are not looked for, catalogs of Iceberg": (
        "iceberg-catalog", 5, lambda: patch.object(CatalogTable, "_landed_after_all", no)
    ),
    "swaps of what others have replaced, catalogs of Iceberg": (
        "iceberg-catalog", 12, lambda: patch.object(CatalogTable, "_stage", whatever_is_there)
    ),
    "fast-forwards that lose commits, Iceberg": (
        "iceberg", 23, lambda: patch.object(branches_and_tags, "fast_forward", without_a_look)
    ),
    "commits to a branch that begin at another one, Iceberg": (
        "iceberg", 30, lambda: patch.object(TableMetadata, "parent_on", lambda self, *_: self.head())
    ),
    "streams that skip snapshots, Iceberg": (
        "iceberg", 190, lambda: patch.object(IcebergStream, "plan", of_the_last_one)
    ),
    "new columns with the number of a dropped one, Iceberg": (
        "iceberg", 190, lambda: patch.object(plan, "_last_column_id", lambda now: now.schema.highest_field_id)
    ),
    "expiries that do not put new tags back, Iceberg": (
        "iceberg-catalog", 510274, lambda: patch.object(expire_run, "named_again", as_it_is)
    ),
    "staged writes that show, Iceberg": (
        "iceberg", 760000, lambda: patch.object(iceberg_committer, "CommitOptions", not_staged)
    ),
    "publications that are made twice, Iceberg": (
        "iceberg", 760204, lambda: patch.object(cherry_pick, "_check", never)
    ),
    "statistics of the last split, Iceberg": (
        "iceberg", 760010, lambda: patch.object(Sketch, "merged", lambda _, new: new)
    ),
    "repairs that take a vector for its file, Iceberg": (
        "iceberg", 760034, lambda: patch.object(check.Checker, "_length", of_the_vector)
    ),
    "repairs that leave a lost file, Iceberg": (
        "iceberg-lossy", 820000, lambda: patch.object(change.WithoutLost, "_still_lost_data", but_one_file)
    ),
    "commits without a check of files, Paimon": ("paimon", 79, lambda: patch.object(attempt, "check_conflicts", never)),
    "orphans of any age, Paimon": ("paimon", 1, lambda: patch.object(orphans, "older_than", all_paths)),
    "commits without a check of groups, Hudi": (
        "hudi", 26, lambda: patch.object(transaction, "conflict_at_commit", lambda *_: "")
    ),
    "commits without a check of files, Iceberg": (
        "iceberg", 15, lambda: patch.object(iceberg_conflicts, "check_files_exist", never)
    ),
    "expiries that ignore tags, Paimon": (
        "paimon", 8,
        lambda: all_of(
            patch.object(UnusedFiles, "tagged", lambda _: {}),
            patch.object(SnapshotExpiry, "_without_new_tags", lambda _, unused: unused.paths),
        ),
    ),
    "compactions that lose deletes, Paimon": (
        "paimon", 0, lambda: patch.object(merge_tree.MergeTree, "_batches", without_deletes)
    ),
    "streams that skip a snapshot, Paimon": (
        "paimon", 702, lambda: patch.object(paimon_stream, "_read_changes", without_the_first)
    ),
    "fast-forwards that drop the newest snapshot, Paimon": (
        "paimon", 3240, lambda: patch.object(paimon_branches.Branches, "_bytes", without_the_newest)
    ),
    "compactions that lose new columns, Paimon": (
        "paimon", 1975, lambda: patch.object(paimon_committer, "check_columns", never)
    ),
    "appends to buckets that rows have left, Paimon": (
        "paimon", 470,
        lambda: all_of(
            patch.object(attempt, "check_routes", lambda *_: True), patch.object(attempt, "buckets_of_others", never)
        ),
    ),
    "commits that a catalog does not answer and nobody looks for, Paimon": (
        "paimon-catalog", 820000, lambda: patch.object(rest.RestPublisher, "__call__", known)
    ),
    "postponed rows in another order, Paimon": (
        "paimon-postponed", 820000, lambda: patch.object(postpone, "_partitions", newest_first)
    ),
    "postponed rows that count as older than others, Paimon": (
        "paimon-postponed", 820019, lambda: patch.object(postpone, "greatest_sequences", lambda _: {})
    ),
    "postponed rows that come in any order, Paimon": (
        "paimon-postponed", 820048, lambda: patch.object(paimon_changes, "moved_partitions", lambda *_: frozenset())
    ),
    "row ids that an older row has, Paimon": (
        "paimon-tracked", 820000, lambda: patch.object(attempt, "with_row_ids", one_id_less)
    ),
    "partitions that expire half a minute early, Paimon": (
        "paimon-dated", 820047, lambda: patch.object(PartitionTimes, "time", half_a_minute_early)
    ),
    "partitions that expire one at a time, Paimon": (
        "paimon-dated", 820000, lambda: patch.object(partitions.PartitionExpiry, "_plan", but_the_last)
    ),
    "partitions that expire with what others add, Paimon": (
        "paimon", 100, lambda: patch.object(attempt, "check_age", never)
    ),
    "aborts that remove what the table holds, Paimon": (
        "paimon", 664, lambda: patch.object(paimon_committer, "held_files", lambda *_: set())
    ),
    "cleans that ignore savepoints, Hudi": (
        "hudi", 0,
        lambda: all_of(*(patch.object(one, "savepointed_files", lambda _: {}) for one in (clean_plan, clean_run))),
    ),
    "archivals that write nothing, Hudi": (
        "hudi", 290, lambda: all_of(patch.object(V1Writer, "add", never), patch.object(LsmWriter, "add", never))
    ),
    "streams that skip a commit, Hudi": ("hudi", 89, lambda: patch.object(HudiStream, "_commits", only_the_last)),
    "restores that leave a commit, Hudi": ("hudi", 1107, lambda: patch.object(rollback, "request_restore", but_one)),
    "log compactions that lose deletes, Hudi": (
        "hudi", 1650, lambda: patch.object(log_compact, "delete_block", nothing)
    ),
    "overwrites that do not see new rows, Hudi": (
        "hudi", 65, lambda: patch.object(transaction.Transaction, "_closed", lambda *_: frozenset())
    ),
    "splits that put keys into the other bucket, Hudi": (
        "hudi-consistent", 820027, lambda: patch.object(resize, "places_of", to_the_first)
    ),
    "archivals that leave a bootstrap out, Hudi": (
        "hudi-bootstrapped", 820050,
        lambda: all_of(patch.object(V1Writer, "add", of_clocks_v1), patch.object(LsmWriter, "add", of_clocks_lsm)),
    ),
    "buckets that are begun twice, Hudi": ("hudi", 108, lambda: patch.object(conflicts, "_buckets", frozenset)),
}  # fmt: skip
"""Each with its format and the first of the seeds that look for it."""


def found(format: str, first: int, planted: Planted) -> Report | None:
    with planted():
        reports = (simulate(drawn(format, seed)) for seed in range(first, first + SEEDS))
        return next((one for one in reports if one.failure), None)


@pytest.mark.parametrize("name", [*PLANTED])
def test_a_planted_fault_is_found(name: str) -> None:
    assert found(*PLANTED[name]) is not None


def test_a_failure_shrinks_to_a_short_schedule_that_its_command_runs_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    format, first, planted = PLANTED["puts that replace, Iceberg"]
    with planted():
        options = ["--format", format, "--first", str(first), "--tries", "40", "--folder", str(tmp_path)]
        assert main(options) == 1
        told = capsys.readouterr().out
        assert "./run simulate --replay" in told and "seed" in told
        kept = next(tmp_path.glob("*.json"))
        short = Schedule.from_json(kept.read_text())
        assert short.length < drawn(format, short.seed).length
        assert main(["--replay", str(kept)]) == 1
    assert main(["--replay", str(kept)]) == 0
