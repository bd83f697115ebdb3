"""Assign rows to file groups: those with a known key to the group that holds it, new ones to small files and to new
groups.

Rules: Hudi's `UpsertPartitioner` and `SparkUpsertDeltaCommitPartitioner`. Where a merge-on-read table writes new rows
into a small base file, the updates of that file group go there too. Where the index finds rows in log files, all rows
go to log files.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from lakebed.formats.hudi.slices import FileSlice
from lakebed.formats.hudi.write.small_files import FileSizes, fills, small_files
from lakebed.formats.hudi.write.staged_rows import NewRows
from lakebed.kernel.sizing.staging import Run, StagedBuckets


class Way(Enum):
    """How a task writes the rows of a file group."""

    CREATE = "create"
    """Write the first base file of a new group."""
    MERGE = "merge"
    """Into a new base file, with what the file slice holds."""
    CONCAT = "concat"
    """Into a new base file, behind what the base file holds, without looking at keys."""
    APPEND = "append"
    """To a log file."""


@dataclass(frozen=True, slots=True)
class GroupJob:
    """What one file group gets: its new rows and its changed rows, and how they are written. Picklable.

    `file_slice` is the newest one, None for a new group. `inserts` and `updates` count rows, `number` numbers the jobs
    of a write.
    """

    number: int
    way: Way
    partition: str
    file_id: str
    file_slice: FileSlice | None
    runs: tuple[Run, ...]
    inserts: int = 0
    updates: int = 0

    @property
    def base_instant(self) -> str:
        """The instant of the file slice that it follows, "" for a new group."""
        return base_instant(self.file_slice) if self.file_slice is not None else ""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The jobs of existing file groups, and the runs of rows that go to new ones, by partition."""

    jobs: tuple[GroupJob, ...]
    fresh: Mapping[str, tuple[int, int, int]]
    """By partition: the bucket of its new rows, and the first and last of them that no small file takes."""


@dataclass
class Assigner:
    """How a write assigns rows. `concat` says that new rows do not replace rows of small files (inserts)."""

    sizes: FileSizes
    merge_on_read: bool
    fills_small_files: bool
    concat: bool
    row_bytes: Callable[[], float]
    """The bytes of a row in base files. It is asked only where there is a small file."""
    held: frozenset[tuple[str, str]] = frozenset()
    """File groups (partition, file id) of pending table services, which are not filled up."""
    begins_with_logs: bool = False
    """Whether a file group that the index names is begun with a log file."""
    _jobs: dict[tuple[str, str], GroupJob] = field(default_factory=dict)

    def assign(self, buckets: StagedBuckets, slices: Mapping[str, Sequence[FileSlice]]) -> Assigned:
        """The jobs for staged rows, whose buckets are file slices and `NewRows`. `slices` are the newest ones of the
        partitions with new rows."""
        self._jobs = {}
        fresh: dict[str, tuple[int, int, int]] = {}
        for at, bucket in enumerate(buckets.buckets):
            if isinstance(bucket, FileSlice):
                rows = int(buckets.rows[at])
                self._add(bucket, buckets.run(at, 0, rows), 0 if _is_new(bucket) else rows, rows)
        for at, bucket in enumerate(buckets.buckets):
            if isinstance(bucket, NewRows):
                taken = self._fill(buckets, at, slices.get(bucket.partition, ()))
                if taken < int(buckets.rows[at]):
                    fresh[bucket.partition] = (at, taken, int(buckets.rows[at]))
        return Assigned(tuple(self._jobs.values()), fresh)

    def _fill(self, buckets: StagedBuckets, at: int, slices: Sequence[FileSlice]) -> int:
        """Give new rows to small files; how many of them these take."""
        if not self.fills_small_files:
            return 0
        free = [s for s in slices if (s.partition, s.file_id) not in self.held]
        small = small_files(free, self.sizes, merge_on_read=self.merge_on_read)
        if not small:
            return 0
        start = 0
        for file_slice, rows in fills(int(buckets.rows[at]), small, self.sizes.greatest, max(1.0, self.row_bytes())):
            self._add(file_slice, buckets.run(at, start, start + rows), 0, rows, filled=True)
            start += rows
        return start

    def _add(self, file_slice: FileSlice, run: Run, updates: int, rows: int, filled: bool = False) -> None:
        key = file_slice.partition, file_slice.file_id
        before = self._jobs.get(key)
        way = self._way(file_slice, filled)
        if before is None:
            new = None if _is_new(file_slice) else file_slice
            job = GroupJob(len(self._jobs), way, *key, new, (run,), rows - updates, updates)
        else:
            job = GroupJob(
                before.number,
                Way.MERGE if Way.MERGE in (way, before.way) or before.way is not way else way,
                *key,
                before.file_slice,
                (*before.runs, run),
                before.inserts + rows - updates,
                before.updates + updates,
            )
        self._jobs[key] = job

    def _way(self, file_slice: FileSlice, filled: bool) -> Way:
        if _is_new(file_slice):
            return Way.APPEND if self.begins_with_logs else Way.CREATE
        if filled:
            return Way.CONCAT if self.concat else Way.MERGE
        if self.merge_on_read:
            return Way.APPEND
        return Way.CONCAT if self.concat else Way.MERGE  # rows are only added: their bucket, not their key, is known


def new_file_id() -> str:
    """A file id that no other group has."""
    return f"{uuid.uuid4()}-0"


def base_instant(file_slice: FileSlice) -> str:
    """The instant of a slice: that of its base file, else of its first log file, "" for a slice without files."""
    if file_slice.base is not None:
        return file_slice.base.instant
    return file_slice.logs[0].instant if file_slice.logs else ""


def _is_new(file_slice: FileSlice) -> bool:
    """Whether the index names a group that is still to be made, such as the first one of a bucket."""
    return file_slice.base is None and not file_slice.logs
