"""The kinds of commit to an Iceberg table: append, overwrite, row delta and replace. Each is one new snapshot.

A kind is a value that is called once per attempt. It checks for conflicts with the snapshot that the attempt builds on
and gives the manifests of the new one. Rules: the reference engine's MergeAppend, BaseOverwriteFiles,
BaseReplacePartitions, BaseRowDelta and BaseRewriteFiles. `loop.py` retries a commit and cleans up after it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.commit import conflicts
from lakebed.formats.iceberg.commit.attempt import Attempt
from lakebed.formats.iceberg.commit.change import Change, in_partitions
from lakebed.formats.iceberg.commit.loop import Produced, commit_snapshot
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.data_files import Content, DataFile, DeleteFile, Partition
from lakebed.model.commit import CommitResult, Outcome


@dataclass(frozen=True, slots=True)
class Append:
    """Adds data files. It never conflicts."""

    added: tuple[DataFile, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is no file to add."""
        return not self.added

    def __call__(self, attempt: Attempt) -> Produced:
        """The new snapshot on top of the attempt's head."""
        return Change(self.added).produce(attempt, "append")


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replaces all files, or those of some partitions, by new ones.

    `partitions` has (spec id, `partition_key`) pairs, None for the whole table. `dynamic` records in the snapshot that
    the partitions of the new files were replaced. Each attempt looks up anew what to remove, so files that others
    added meanwhile go too, as with the reference engine.
    """

    added: tuple[DataFile, ...]
    partitions: Collection[tuple[int, Partition]] | None = None
    dynamic: bool = False

    @property
    def is_empty(self) -> bool:
        """False: even an empty table gets a snapshot."""
        return False

    def __call__(self, attempt: Attempt) -> Produced:
        """The new snapshot on top of the attempt's head."""
        choose = in_partitions(self.partitions)
        operation = "overwrite" if self.added or self.dynamic else "delete"
        produced = Change(self.added, choose_data=choose, choose_deletes=choose).produce(attempt, operation)
        if not self.dynamic:
            return produced
        return replace(produced, summary={**produced.summary, "replace-partitions": "true"})


@dataclass(frozen=True, slots=True)
class RowDelta:
    """Adds data files and delete files, and removes files, in one snapshot.

    `referenced` has the paths of the data files that position deletes name. They must still be live, and a deletion
    vector may come only for a data file without one, unless `removed` has the old one. `found_on` is the id of the
    snapshot in which the deletes were found: an attempt on top of it skips these checks. Raises CommitConflictError.
    """

    added: tuple[DataFile, ...]
    deletes: tuple[DeleteFile, ...]
    removed: tuple[DataFile | DeleteFile, ...] = ()
    referenced: tuple[str, ...] = ()
    found_on: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to add or to remove."""
        return not (self.added or self.deletes or self.removed)

    def __call__(self, attempt: Attempt) -> Produced:
        """The new snapshot on top of the attempt's head."""
        conflicts.check_kinds_of_deletes(attempt, self.deletes)
        change = Change(self.added, self.deletes, self.removed, found_on=self.found_on)
        if attempt.head is None or attempt.head.snapshot_id != self.found_on:
            self._check(attempt, change)
        return change.produce(attempt, self._operation(change))

    def _check(self, attempt: Attempt, change: Change) -> None:
        of_vectors = {file.referenced_data_file for file in self.deletes if file.is_vector}
        paths = {path for path in (*self.referenced, *of_vectors) if path is not None}
        conflicts.check_files_exist(attempt, paths - {file.path for file in self.added})
        removed = {(file.path, file.content_offset) for file in change.removed_deletes}
        conflicts.check_no_new_vectors(attempt, self.deletes, removed)

    def _operation(self, change: Change) -> str:
        if not (self.deletes or change.removed_data) and (self.added or not self.removed):
            return "append"
        return "overwrite" if self.added or not (self.deletes or change.removed_data) else "delete"


@dataclass(frozen=True, slots=True)
class Replace:
    """Replaces files by others with the same rows: no row may change.

    The new files were made from the snapshot `start_snapshot_id`. With `keeps_sequence_number` they get its sequence
    number, so that equality deletes of later snapshots apply to them. The deletion vectors of removed data files go in
    the same commit. `added_deletes` (rewritten delete files) must carry their sequence numbers.

    Raises CommitConflictError when a data file to remove is no longer live, or others added a delete for it since
    `start_snapshot_id`; when an equality delete to remove applies to a data file that others brought since then. With
    `added_deletes` it also raises it when a delete file to remove is no longer live, or a data file got a deletion
    vector meanwhile for which one is added.
    """

    start_snapshot_id: int | None
    removed: tuple[DataFile | DeleteFile, ...]
    added: tuple[DataFile, ...]
    added_deletes: tuple[DeleteFile, ...] = ()
    keeps_sequence_number: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to add or to remove."""
        return not (self.added or self.added_deletes or self.removed)

    def __call__(self, attempt: Attempt) -> Produced:
        """The new snapshot on top of the attempt's head."""
        conflicts.check_kinds_of_deletes(attempt, self.added_deletes)
        change = Change(self.added, self.added_deletes, self.removed)
        keeps_number = self.keeps_sequence_number and attempt.metadata.format_version > 1
        ignore_equality = keeps_number and bool(self.added)
        conflicts.check_no_new_deletes(attempt, self.start_snapshot_id, change.removed_data, ignore_equality)
        equality = [file for file in change.removed_deletes if file.content is Content.EQUALITY_DELETES]
        conflicts.check_no_old_data(attempt, self.start_snapshot_id, equality)
        if self.added_deletes:
            removed = {(file.path, file.content_offset) for file in change.removed_deletes}
            conflicts.check_no_new_vectors(attempt, self.added_deletes, removed)
            conflicts.check_deletes_exist(attempt, {path for path, _ in removed})
        start = attempt.metadata.snapshots.get(self.start_snapshot_id or 0)
        number = start.sequence_number if keeps_number and start is not None else None
        return change.produce(attempt, "replace", number)


def commit(
    operations: TableOperations,
    kind: Append | Overwrite | RowDelta | Replace,
    options: CommitOptions = CommitOptions(),  # noqa: B008  # frozen
) -> CommitResult:
    """Commit a snapshot of this kind; SKIPPED when it would change nothing.

    Raises CommitConflictError when nothing is visible, CommitUnknownError when nobody knows.
    """
    if kind.is_empty:
        return CommitResult("", Outcome.SKIPPED)
    return commit_snapshot(operations, kind, options)
