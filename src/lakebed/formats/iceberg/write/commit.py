"""The commit of a write: what it replaces is looked up in the snapshot that it builds on, and it happens once.

Rules: a commit user and an identifier commit once, told by the summaries of the branch's snapshots, as Flink's sink for
Iceberg does it. Each attempt looks again: another writer's commit in between is never overlooked, so that two writers
which change one key leave one row of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError
from lakebed.formats.iceberg import publish
from lakebed.formats.iceberg.access import TableAccess
from lakebed.formats.iceberg.attempt import Attempt
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.committing import Produced, commit_snapshot
from lakebed.formats.iceberg.entries import DataFile, DeleteFile, FileTask
from lakebed.formats.iceberg.manifests import iter_entries, read_manifest_list
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.data import predicate_schema
from lakebed.formats.iceberg.snapshot import ancestors
from lakebed.formats.iceberg.write.changes import widened
from lakebed.formats.iceberg.write.message import IcebergMessage, RowDeletes
from lakebed.formats.iceberg.write.row_deletes import ByKey, ByPredicate, RowFinder
from lakebed.formats.iceberg.write.settings import WriteSettings
from lakebed.kernel.commit.callbacks import CommitCallback, Committed, call_each
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.predicates import parse_where
from lakebed.kernel.staging import StagedBuckets
from lakebed.model.commit import CommitResult, Outcome
from lakebed.verbs.write import BATCH_IDENTIFIER, Mode

USER, IDENTIFIER = "lakebed.commit-user", "lakebed.commit-identifier"
"""Keys of a snapshot's summary."""


class _ReplayedError(LakebedError):
    """This commit stands already."""


@dataclass(slots=True)
class Committer:
    """Commits the messages of one write. `key_schema` are the columns that changes go by; `properties` are options of
    the call that lie over the table's."""

    access: TableAccess
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
        try:
            result = commit_snapshot(self.access, produce, self.branch, summary, self.properties)
        except _ReplayedError:
            produce.discard()
            self.remove(messages)
            return CommitResult("", Outcome.SKIPPED, ("this user has committed this identifier before",))
        except CommitUnknownError:
            raise
        except BaseException:
            produce.discard()
            self.remove(messages)
            raise
        return self._called(result, identifier, added)

    def remove(self, messages: Sequence[IcebergMessage]) -> None:
        """Delete the files of messages, except those of snapshots of this user: an abort may follow a commit."""
        paths = [file.path for message in messages for file in message.data_files]
        paths += [file.path for message in messages if message.deletes for file in message.deletes.added]
        if not paths:
            return
        live = self._committed_paths()
        self.access.files.delete_many([path for path in dict.fromkeys(paths) if path not in live])

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
        return RowFinder(self.access.files, metadata, self.settings.granularity, engine)

    def _by_key(self, metadata: TableMetadata, messages: Sequence[IcebergMessage]) -> ByKey | None:
        staged = [one for message in messages for one in message.keys]
        if not staged:
            return None
        bounds: pa.Table | None = None
        for message in messages:
            bounds = widened(bounds, message.bounds)
        keys = StagedBuckets(staged, self.key_schema)
        return ByKey.of(keys, tuple(self.key_schema.names), bounds, ReadContext.of(metadata))

    def done(self, metadata: TableMetadata, head: Snapshot | None, identifier: int) -> bool:
        """Whether this user has committed this identifier, or a later one, on the branch. Batch commits are never taken
        as replays."""
        if identifier == BATCH_IDENTIFIER:
            return False
        for snapshot in ancestors(metadata, head) if head is not None else ():
            number = snapshot.summary.get(IDENTIFIER)
            if snapshot.summary.get(USER) == self.user and number != str(BATCH_IDENTIFIER):
                return int(number or -1) >= identifier
        return False

    def _committed_paths(self) -> set[str]:
        """The data files and delete files that snapshots of this user added."""
        metadata = self.access.load().metadata
        found: set[str] = set()
        for snapshot in metadata.snapshots.values():
            if snapshot.summary.get(USER) == self.user:
                manifests = read_manifest_list(self.access.files, snapshot)
                mine = [one for one in manifests if one.added_snapshot_id == snapshot.snapshot_id]
                for spec_id in {one.spec_id for one in mine}:
                    some = [one for one in mine if one.spec_id == spec_id]
                    for entries in iter_entries(self.access.files, metadata, some, ("file_path",)):
                        found.update(entries["file_path"].to_pylist())
        return found

    def _called(self, result: CommitResult, identifier: int, added: Sequence[DataFile]) -> CommitResult:
        """Call the callbacks, best effort."""
        if not self.callbacks or result.snapshot_id is None:
            return result
        commit = Committed(
            self.access.name, result.snapshot_id, self.user, identifier, str(self.mode),
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
            self.committer.access.files.delete_many(sorted(set(planned)))

    def __call__(self, attempt: Attempt) -> Produced:
        committer = self.committer
        if committer.done(attempt.metadata, attempt.head, self.identifier):
            raise _ReplayedError("this commit stands already")
        self._refuse_older_tables(attempt.metadata)
        if committer.mode is Mode.OVERWRITE and not committer.settings.filter:
            return self._overwrite(attempt)
        if not committer.key_schema.names and committer.mode is not Mode.OVERWRITE:
            return publish.Change(tuple(self.added)).produce(attempt, "append")
        self._find(attempt)
        deletes = self.deletes or RowDeletes()
        removed: tuple[DataFile | DeleteFile, ...] = (*self.gone, *deletes.replaced)
        change = publish.Change(tuple(self.added), deletes.added, removed, found_on=self.found_on)
        if not (deletes.added or removed):
            return change.produce(attempt, "append")
        return change.produce(attempt, "overwrite" if self.added else "delete")

    def discard(self) -> None:
        """Remove the delete files that were written."""
        if self.deletes is not None and self.deletes.added:
            with suppress(LakebedError):
                self.committer.access.files.delete_many(sorted({file.path for file in self.deletes.added}))
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
        choose = publish.dropping(drop)
        change = publish.Change(tuple(self.added), choose_data=choose, choose_deletes=choose)
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
