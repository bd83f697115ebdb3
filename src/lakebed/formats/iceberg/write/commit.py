"""The commit of a write: what it replaces is looked up in the snapshot that it builds on, and it happens once.

Rules: a commit user and an identifier commit once (`writers.py` tells a replay). Each attempt looks again: another
writer's commit in between is never overlooked, so that two writers which change one key leave one row of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.metadata import Document, Snapshot, TableMetadata
from lakebed.formats.iceberg.codec.updates import TableUpdate
from lakebed.formats.iceberg.commit import kinds
from lakebed.formats.iceberg.commit.attempt import Attempt
from lakebed.formats.iceberg.commit.loop import Produced, commit_snapshot
from lakebed.formats.iceberg.commit.message import IcebergMessage, RowDeletes
from lakebed.formats.iceberg.commit.writers import IDENTIFIER, USER, is_committed, remembering
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile, FileTask
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.task import predicate_schema
from lakebed.formats.iceberg.references import held_files
from lakebed.formats.iceberg.write.changes import widened
from lakebed.formats.iceberg.write.options import WriteSettings
from lakebed.formats.iceberg.write.row_deletes import ByKey, ByPredicate, RowFinder
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.commit.callbacks import CommitCallback, Committed, call_each
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.predicates.where import parse_where
from lakebed.kernel.sizing.staging import StagedBuckets
from lakebed.model.commit import CommitResult, Outcome
from lakebed.verbs.write import Mode


class _ReplayedError(LakebedError):
    """This commit stands already."""


@dataclass(slots=True)
class Committer:
    """Commits the messages of one write. `key_schema` are the columns that changes go by; `properties` are options of
    the call that lie over the table's."""

    operations: TableOperations
    settings: WriteSettings
    mode: Mode
    branch: str
    user: str
    key_schema: pa.Schema
    callbacks: tuple[CommitCallback, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def commit(self, identifier: int, messages: Sequence[IcebergMessage]) -> CommitResult:
        """One snapshot with what the messages wrote; SKIPPED when there is nothing, or it stands already.

        Raises CommitConflictError when nothing is visible (files are removed), CommitUnknownError when nobody knows.
        """
        added = [file for message in messages for file in message.data_files]
        keyed = any(message.keys for message in messages)
        if not added and not keyed and not (self.mode is Mode.OVERWRITE and self.settings.static):
            return CommitResult("", Outcome.SKIPPED)
        produce = _Produce(self, identifier, messages, added)
        summary = {**self.settings.summary, USER: self.user, IDENTIFIER: str(identifier)}

        def remembered(metadata: TableMetadata, snapshot: Document) -> list[TableUpdate]:
            return remembering(metadata, self.branch, self.user, identifier, snapshot)

        try:
            result = commit_snapshot(self.operations, produce, self.branch, summary, self.properties, also=remembered)
        except _ReplayedError:
            produce.discard()
            notes = afterwards("files of the replay stay", lambda: self.remove(messages))
            return CommitResult("", Outcome.SKIPPED, ("this user has committed this identifier before", *notes))
        except CommitUnknownError:
            raise
        except Exception:  # an interrupt says nothing of the outcome: the files are left to orphan removal then
            produce.discard()
            with suppress(LakebedError):  # what cannot be removed is left to orphan removal; the first error counts
                self.remove(messages)
            raise
        return self._called(result, identifier, added)

    def remove(self, messages: Sequence[IcebergMessage]) -> None:
        """Delete the files of messages, but those that the table holds, whichever snapshot brought them: an abort may
        follow a commit. When that cannot be seen, all stay and the error is raised."""
        paths = [file.path for message in messages for file in message.data_files]
        paths += [file.path for message in messages if message.deletes for file in message.deletes.added]
        if not paths:
            return
        held = held_files(self.operations, paths)
        self.operations.files.delete_many([path for path in dict.fromkeys(paths) if path not in held])

    def find_deletes(
        self, metadata: TableMetadata, head: Snapshot | None, messages: Sequence[IcebergMessage], engine: Engine
    ) -> RowDeletes:
        """The row-level deletes of changes by key: of rows in a snapshot, and of rows that an earlier message of the
        same commit holds."""
        found = RowDeletes()
        finder = self._finder(metadata, engine)
        later: list[IcebergMessage] = []
        for message in reversed(messages):
            by_key = self._by_key(metadata, later)
            if by_key is not None and message.data_files:
                found += finder.in_files(by_key, [FileTask(file) for file in message.data_files])
            later.insert(0, message)
        by_key = self._by_key(metadata, later)
        if by_key is not None:
            found += finder.in_snapshot(by_key, head)
        return found

    def find_replaced(
        self, metadata: TableMetadata, head: Snapshot | None, engine: Engine
    ) -> tuple[RowDeletes, tuple[DataFile, ...]]:
        """What a static overwrite replaces: rows, and data files as a whole."""
        context = ReadContext.of(metadata)
        predicate = parse_where(self.settings.filter, predicate_schema(context))
        assert predicate is not None
        return self._finder(metadata, engine).whole_files(ByPredicate(predicate), head)

    def _finder(self, metadata: TableMetadata, engine: Engine) -> RowFinder:
        return RowFinder(self.operations.files, metadata, self.settings.granularity, engine)

    def _by_key(self, metadata: TableMetadata, messages: Sequence[IcebergMessage]) -> ByKey | None:
        staged = [one for message in messages for one in message.keys]
        if not staged:
            return None
        bounds: pa.Table | None = None
        for message in messages:
            bounds = widened(bounds, message.bounds)
        keys = StagedBuckets(staged, self.key_schema)
        return ByKey.of(keys, tuple(self.key_schema.names), bounds, ReadContext.of(metadata))

    def _called(self, result: CommitResult, identifier: int, added: Sequence[DataFile]) -> CommitResult:
        """Call the callbacks, best effort."""
        if not self.callbacks or result.snapshot_id is None:
            return result
        commit = Committed(
            self.operations.name, result.snapshot_id, self.user, identifier, str(self.mode),
            added_files=tuple(file.path for file in added), properties=dict(self.settings.summary),
        )  # fmt: skip
        notes = call_each(self.callbacks, lambda callback: callback.call(commit))
        return replace(result, notes=(*result.notes, *notes))


@dataclass(slots=True)
class _Produce:
    """What one commit publishes, for each attempt anew."""

    committer: Committer
    identifier: int
    messages: Sequence[IcebergMessage]
    added: Sequence[DataFile]
    deletes: RowDeletes | None = None
    gone: tuple[DataFile, ...] = ()
    found_on: int | None = None

    def __post_init__(self) -> None:
        if len(self.messages) == 1 and self.messages[0].deletes is not None:
            self.deletes, self.found_on = self.messages[0].deletes, self.messages[0].planned_on
        else:  # each was planned without the others
            planned = [file.path for m in self.messages if m.deletes is not None for file in m.deletes.added]
            self.committer.operations.files.delete_many(sorted(set(planned)))

    def __call__(self, attempt: Attempt) -> Produced:
        committer = self.committer
        if is_committed(attempt.metadata, attempt.head, committer.branch, committer.user, self.identifier):
            raise _ReplayedError("this commit stands already")
        self._refuse_older_tables(attempt.metadata)
        if committer.mode is Mode.OVERWRITE and not committer.settings.filter:
            return self._overwrite(attempt)
        if not committer.key_schema.names and committer.mode is not Mode.OVERWRITE:
            return kinds.Change(tuple(self.added)).produce(attempt, "append")
        self._find(attempt)
        deletes = self.deletes or RowDeletes()
        removed: tuple[DataFile | DeleteFile, ...] = (*self.gone, *deletes.replaced)
        change = kinds.Change(tuple(self.added), deletes.added, removed, found_on=self.found_on)
        if not (deletes.added or removed):
            return change.produce(attempt, "append")
        return change.produce(attempt, "overwrite" if self.added else "delete")

    def discard(self) -> None:
        """Remove the delete files that were written."""
        if self.deletes is not None and self.deletes.added:
            with suppress(LakebedError):
                self.committer.operations.files.delete_many(sorted({file.path for file in self.deletes.added}))
        self.deletes = None

    def _find(self, attempt: Attempt) -> None:
        """The deletes on this snapshot; those of an earlier attempt on another one are of no use any more."""
        head = attempt.head.snapshot_id if attempt.head is not None else None
        if self.deletes is not None and self.found_on == head:
            return
        self.discard()
        for place in [place for place in attempt.work.new if place[0] == 1]:
            del attempt.work.new[place]
        if self.committer.mode is Mode.OVERWRITE:
            self.deletes, self.gone = self.committer.find_replaced(attempt.metadata, attempt.head, LocalEngine())
        else:
            self.deletes = self.committer.find_deletes(attempt.metadata, attempt.head, self.messages, LocalEngine())
        self.found_on = head

    def _overwrite(self, attempt: Attempt) -> Produced:
        """All files, or those of the partitions that were written; with a spec that has none, all of any spec."""
        static = self.committer.settings.static
        everything = static or any(not attempt.metadata.specs[file.spec_id].fields for file in self.added)
        drop = None if everything else {(file.spec_id, file.partition) for file in self.added}
        choose = kinds.dropping(drop)
        change = kinds.Change(tuple(self.added), choose_data=choose, choose_deletes=choose)
        made = change.produce(attempt, "overwrite" if self.added else "delete")
        if not static:
            made.summary["replace-partitions"] = "true"
        return made

    def _refuse_older_tables(self, metadata: TableMetadata) -> None:
        """Files of a spec that the table has no more cannot be committed."""
        gone = {file.spec_id for file in self.added} - set(metadata.specs)
        if gone:
            raise CommitConflictError(
                f"the table has no partition spec {min(gone)} any more", table=metadata.location,
                why="another writer replaced the table meanwhile", todo="Write the rows again",
            )  # fmt: skip
