"""The results of the verbs that maintain a table: what was done, what was left, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakebed.model.notebooks import Shown


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that a run left as it was: `what` (a file, group, partition or snapshot) and the `reason`."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Files that are rewritten together: `what` is their partition, `reason` why they are chosen.

    `files` is how many there are, `size` their bytes on disk. `files_after` and `size_after` are predictions.
    """

    what: str
    files: int
    size: int
    files_after: int
    size_after: int
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class RewriteResult(Shown):
    """What a rewrite did, in files and bytes on disk. After a dry run nothing is written, and the `_after` figures are
    predictions.

    `plan` holds the groups that were chosen and `skipped` what was not. `failed` are groups that failed, each with the
    reason; the other groups were committed nevertheless. `instants` are the commits that were made, `removed_deletes`
    is how many delete files they removed.
    """

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    groups: int
    skipped: tuple[Skipped, ...] = ()
    dry_run: bool = False
    plan: tuple[RewriteGroup, ...] = ()
    failed: tuple[Skipped, ...] = ()
    instants: tuple[str, ...] = ()
    removed_deletes: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class ExpireResult(Shown):
    """What an expiry removed: `expired` are instants or snapshot ids, `deleted_files` paths inside the table.

    `kept` is what stays, each with the reason; `notes` say what else was removed.
    """

    expired: tuple[str, ...]
    deleted_files: tuple[str, ...]
    kept: tuple[Skipped, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class RollbackResult(Shown):
    """Where a rollback put a table. `to` is the instant or snapshot id that is now its newest.

    `removed` are the instants or snapshot ids that went, newest first; `kept` those that the table still has, newest
    first, `to` the first of them. `deleted_files` are paths inside the table, `notes` say what else went or what stays.
    After a dry run nothing is changed, and all of it is what would be.
    """

    to: str
    removed: tuple[str, ...]
    kept: tuple[str, ...] = ()
    deleted_files: tuple[str, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file that a table names and that is gone or damaged. `kind` says what it holds, `reason` what is wrong.

    `rows` and `size` (bytes) are what the metadata states, `partition` is its path. `snapshots` are the ids of all
    snapshots that name it, oldest first. `remedy` says where its rows still are, "" where nobody knows.
    """

    path: str
    kind: str
    reason: str
    rows: int
    size: int
    partition: str = ""
    snapshots: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class RepairResult(Shown):
    """What a repair found and did. `lost` is what is gone or damaged, `kept` what the table still names of it and what
    could not be checked, each with the reason.

    `rows` is how many rows the lost data files have, deleted ones included; `checked` how many files were looked at.
    `restored` are the paths of files that were copied back, `removed` those of all files that the new snapshot no
    longer names, `instants` its id. After a dry run nothing is changed.
    """

    lost: tuple[LostFile, ...]
    kept: tuple[Skipped, ...] = ()
    rows: int = 0
    checked: int = 0
    dry_run: bool = False
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    instants: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddedPartition:
    """What was added to one partition: its path, how many files and rows, and their bytes."""

    path: str
    files: int
    rows: int
    size: int


@dataclass(frozen=True, slots=True, repr=False)
class AddFilesResult(Shown):
    """What was added, in files and rows, and by partition. `instants` is the commit. After a dry run nothing is
    changed."""

    files: int
    rows: int
    partitions: tuple[AddedPartition, ...] = ()
    dry_run: bool = False
    instants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """About how many different values a column has, exact up to 4096; -1 where it was not computed."""

    column: str
    distinct: int


@dataclass(frozen=True, slots=True, repr=False)
class TableStatsResult(Shown):
    """The statistics of a snapshot, in the file `path`. An empty table has neither."""

    snapshot: str
    path: str
    columns: tuple[ColumnStats, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class PartitionStatsResult(Shown):
    """The partition statistics of a snapshot, in the file `path`. An empty table has neither.

    `incremental` is whether they were made of those of an earlier snapshot.
    """

    snapshot: str
    path: str
    partitions: int
    incremental: bool = False
    dry_run: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class NewTableResult(Shown):
    """A table that was made of a folder's files. `table` is its path or its name in a catalog.

    `columns` are their names and types, such as "id long"; `instants` is the first snapshot. After a dry run nothing
    exists.
    """

    table: str
    files: int
    rows: int
    columns: tuple[str, ...]
    partitions: tuple[AddedPartition, ...] = ()
    dry_run: bool = False
    instants: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class RegisterResult(Shown):
    """A table that was made known to a catalog, with the current `snapshot` of its metadata file ("" for none).

    `files` and `rows` are those that the snapshot's summary states, -1 where it does not.
    """

    table: str
    metadata: str
    snapshot: str
    files: int
    rows: int
    dry_run: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class RelocateResult(Shown):
    """What a relocation did. `moved_from` is the location that the metadata named, `location` the one it names now.

    `manifests` and `delete_files` are how many of each were rewritten.
    """

    moved_from: str
    location: str
    manifests: int
    delete_files: int
    dry_run: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class TablePathResult(Shown):
    """A table's metadata for another place. `metadata` is the location of the metadata file at the target.

    `copies` are pairs: where a file is now, in the table or in the folder `staging`, and where it goes. `manifests` and
    `delete_files` are how many were rewritten. A dry run has written nothing.
    """

    metadata: str
    staging: str
    copies: tuple[tuple[str, str], ...]
    manifests: int
    delete_files: int
    dry_run: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Blocker(Shown):
    """Why an instant or snapshot cannot be archived or expired yet, and what would free it."""

    instant: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, repr=False)
class ArchiveResult(Shown):
    """What an archival did. `archived` and `kept` are instant times; each of `blockers` says what holds one.

    `settings` are the values that were really used, each with its reason. `dropped` are archived instants that the
    archive's retention removed, `dropped_files` the archive files that it removed or rewrote for that. `notes` say what
    failed after the instants were archived: the next run does it.
    """

    archived: tuple[str, ...]
    kept: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    dropped: tuple[str, ...] = ()
    dropped_files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class StepState(StrEnum):
    """What became of one verb of a table's upkeep."""

    DONE = "done"
    DUE = "due"
    """After a dry run: it would be done."""
    NOT_DUE = "not due"
    LEFT = "left"
    """It may be due, and was not done: the budget is spent, the table is broken, or another run is at work on it."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, repr=False)
class UpkeepStep(Shown):
    """One verb of a table's upkeep: what became of it, why, and the verb's own result where it ran or was planned."""

    verb: str
    state: StepState
    why: str
    result: RewriteResult | ExpireResult | ArchiveResult | None = None


@dataclass(frozen=True, slots=True, repr=False)
class TableUpkeep(Shown):
    """The upkeep of one table: its health before, "" where nobody could tell, and the steps in the order they were
    taken."""

    table: str
    format: str = ""
    health: str = ""
    steps: tuple[UpkeepStep, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether somebody has to look at the table: a step failed, or the table is broken."""
        return self.health == "broken" or any(step.state is StepState.FAILED for step in self.steps)


@dataclass(frozen=True, slots=True, repr=False)
class UpkeepResult(Shown):
    """One run of upkeep over tables, the worst first where a budget bounds it.

    `bytes` are those of the files that rewrites took, `requests` those that this process made of object stores,
    `seconds` how long the run took.
    """

    tables: tuple[TableUpkeep, ...]
    dry_run: bool = False
    bytes: int = 0
    requests: int = 0
    seconds: float = 0.0

    @property
    def failed(self) -> tuple[TableUpkeep, ...]:
        """The tables that somebody has to look at."""
        return tuple(table for table in self.tables if table.failed)
