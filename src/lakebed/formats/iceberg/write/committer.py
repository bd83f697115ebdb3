"""The commit of a write, exactly once for a commit user and identifier.

`commit/writers.py` recognises a replay. Each attempt finds the rows that the write replaces in the snapshot that it
builds on. So it never misses a commit of another writer in between, and two writers that change one key leave one row
of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyiceberg.types import NestedField

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError, StorageError
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.codec.metadata import MAIN, Document, TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.codec.updates import TableUpdate
from lakebed.formats.iceberg.commit.attempt import Attempt
from lakebed.formats.iceberg.commit.cherry_pick import STAGED
from lakebed.formats.iceberg.commit.conflicts import takes_deletes
from lakebed.formats.iceberg.commit.kinds import Append, Overwrite, RowDelta
from lakebed.formats.iceberg.commit.loop import Produced, commit_snapshot
from lakebed.formats.iceberg.commit.message import IcebergMessage, RowDeletes
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.commit.writers import IDENTIFIER, ORIGIN, USER, commit_of, is_committed, remembering
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile, FileTask, partition_key
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.task import predicate_schema
from lakebed.formats.iceberg.references import held_files
from lakebed.formats.iceberg.write.changes import widened
from lakebed.formats.iceberg.write.options import WriteOptions
from lakebed.formats.iceberg.write.row_deletes import ByKey, ByPredicate, RowFinder
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.commit.callbacks import CommitCallback, Committed, call_each
from lakebed.kernel.commit.replay import check_origin, refuse_lost_files
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.predicates.where import parse_where
from lakebed.kernel.sizing.staging import StagedBuckets
from lakebed.model.commit import CommitResult, Outcome
from lakebed.verbs.write import Mode

_NOWHERE = -1
"""In place of a snapshot id: deletes that apply to no snapshot."""


class _ReplayedError(LakebedError):
    """The commit user has committed this identifier before."""


@dataclass(slots=True)
class Committer:
    """Commits the messages of one write. `key_schema` has the key columns of changes, `key_fields` are these columns as
    the table had them when the write began."""

    operations: TableOperations
    options: WriteOptions
    user: str
    key_schema: pa.Schema
    callbacks: tuple[CommitCallback, ...] = ()
    key_fields: tuple[NestedField, ...] = ()

    def commit(
        self, identifier: int, messages: Sequence[IcebergMessage], base: Loaded | None = None, origin: str = "",
        again: bool = False,
    ) -> CommitResult:  # fmt: skip
        """Commit one snapshot with what the messages wrote. SKIPPED when there is nothing to commit, or on a replay.
        The first attempt is made on `base`, where the caller has just loaded it.

        Raises CommitConflictError when nothing is visible (the files are removed), also for an identifier that was
        committed with rows of another origin; CommitUnknownError when nobody knows. After a StorageError nothing is
        visible either. `again`: the caller may commit these messages again then, so that their files stay.
        """
        added = tuple(file for message in messages for file in message.data_files)
        keyed = any(message.keys for message in messages)
        static_overwrite = self.options.mode is Mode.OVERWRITE and self.options.static
        if not (added or keyed or static_overwrite):
            return CommitResult("", Outcome.SKIPPED)
        producer = _Producer(self, identifier, messages, added, origin)
        try:
            appended = added if producer.only_appends else ()
            options = self._commit_options(identifier, origin)
            committed = commit_snapshot(self.operations, producer, options, base, appended)
            result = replace(committed, rows=sum(message.rows for message in messages), files=len(added))
        except _ReplayedError:
            notes = afterwards("files of the replay stay", lambda: self.remove(messages, producer.deletes))
            return CommitResult("", Outcome.SKIPPED, ("this user has committed this identifier before", *notes))
        except CommitUnknownError:
            raise
        except Exception as error:  # an interrupt says nothing of the outcome: orphan-file removal cleans up then
            stays = again and isinstance(error, StorageError)
            with suppress(LakebedError):  # what stays is left to orphan-file removal; the first error counts
                self.remove((), producer.own_deletes()) if stays else self.remove(messages, producer.deletes)
            raise
        notes = afterwards("deletes of the messages that were found anew stay", producer.drop_replaced)
        result = result.with_notes(notes)
        if self.options.wap_id:
            name = self.options.wap_id
            return result.with_notes([f"it is staged as {name!r}, and not visible before table.publish({name!r})"])
        return self._call_back(result, identifier, added)

    def _commit_options(self, identifier: int, origin: str) -> CommitOptions:
        options = self.options
        summary = {**options.summary, USER: self.user, IDENTIFIER: str(identifier)}
        if origin:
            summary[ORIGIN] = origin
        if options.wap_id:
            summary[STAGED] = options.wap_id

        def remember(metadata: TableMetadata, snapshot: Document) -> list[TableUpdate]:
            return remembering(metadata, options.branch, self.user, identifier, snapshot)

        return CommitOptions(
            options.branch,
            summary,
            options.commit_properties,
            remember,
            MAIN if options.creates_branch else "",
            bool(options.wap_id),
        )

    def remove(self, messages: Sequence[IcebergMessage], found: RowDeletes | None = None) -> None:
        """Delete the files of messages and of deletes that were found for them, except those that the table holds, in
        whichever snapshot: an abort or a replay may follow a commit. When the table cannot be read, all files stay and
        the error is raised."""
        paths = [file.path for message in messages for file in message.data_files]
        written = [*(message.deletes for message in messages), found]
        paths += [file.path for deletes in written if deletes for file in deletes.added]
        if not paths:
            return
        held = held_files(self.operations, paths)
        self.operations.files.delete_many([path for path in dict.fromkeys(paths) if path not in held])

    def check_files(self, commits: Mapping[int, Sequence[IcebergMessage]]) -> None:
        """NotInHistoryError where files are gone that the messages of an identifier name which this user has not
        committed."""
        metadata, branch = self.operations.load().metadata, self.options.branch
        head = metadata.parent_on(branch) if self.options.creates_branch else metadata.head(branch)
        waiting = [
            message
            for identifier, messages in commits.items()
            if not is_committed(metadata, head, branch, self.user, identifier)
            for message in messages
        ]
        paths = [file.path for message in waiting for file in message.data_files]
        paths += [file.path for message in waiting if message.deletes for file in message.deletes.added]
        files = self.operations.files
        refuse_lost_files([*dict.fromkeys(paths)], files.exists, files.together, metadata.location)

    def find_deletes(
        self, metadata: TableMetadata, head: Snapshot | None, messages: Sequence[IcebergMessage], engine: Engine
    ) -> RowDeletes:
        """The row-level deletes of changes by key: of rows in the snapshot, and of rows that an earlier message of the
        same commit wrote."""
        self._refuse_other_keys(metadata)
        deletes = RowDeletes()
        finder = self._finder(metadata, engine)
        later: list[IcebergMessage] = []
        for message in reversed(messages):
            by_key = self._by_key(metadata, later)
            if by_key is not None and message.data_files:
                deletes += finder.in_files(by_key, [FileTask(file) for file in message.data_files])
            later.insert(0, message)
        by_key = self._by_key(metadata, later)
        if by_key is not None:
            deletes += finder.in_snapshot(by_key, head)
        return deletes

    def find_replaced(
        self, metadata: TableMetadata, head: Snapshot | None, engine: Engine
    ) -> tuple[RowDeletes, tuple[DataFile, ...]]:
        """What a static overwrite with a filter replaces: rows, and whole data files."""
        context = ReadContext.of(metadata)
        predicate = parse_where(self.options.filter, predicate_schema(context))
        assert predicate is not None
        return self._finder(metadata, engine).whole_files(ByPredicate(predicate), head)

    def _refuse_other_keys(self, metadata: TableMetadata) -> None:
        """CommitConflictError where the key columns are no longer those for which rows were written."""
        now = {field.name: field for field in metadata.schema.fields}
        for key in self.key_fields:
            same = now.get(key.name)
            if same is None or (same.field_id, same.field_type) != (key.field_id, key.field_type):
                raise CommitConflictError(
                    f"another writer altered the key column {key.name!r}",
                    table=metadata.location,
                    why="it was renamed, dropped or widened since this write began",
                    todo="Write the rows again",
                )

    def _finder(self, metadata: TableMetadata, engine: Engine) -> RowFinder:
        return RowFinder(self.operations.files, metadata, self.options.granularity, engine)

    def _by_key(self, metadata: TableMetadata, messages: Sequence[IcebergMessage]) -> ByKey | None:
        staged = [keys for message in messages for keys in message.keys]
        if not staged:
            return None
        bounds: pa.Table | None = None
        for message in messages:
            bounds = widened(bounds, message.bounds)
        keys = StagedBuckets(staged, self.key_schema)
        return ByKey.of(keys, tuple(self.key_schema.names), bounds, ReadContext.of(metadata))

    def _call_back(self, result: CommitResult, identifier: int, added: Sequence[DataFile]) -> CommitResult:
        """Call the callbacks. One that fails is a note of the result."""
        if not self.callbacks or result.snapshot_id is None:
            return result
        paths = tuple(file.path for file in added)
        commit = Committed(
            self.operations.name, result.snapshot_id, self.user, identifier, str(self.options.mode),
            added_files=paths, properties=dict(self.options.summary),
        )  # fmt: skip
        return result.with_notes(call_each(self.callbacks, lambda callback: callback.call(commit)))


@dataclass(slots=True)
class _Producer:
    """Makes the snapshot of one commit, in each attempt anew.

    `deletes` and `removed` are what the write replaces in the snapshot `found_on`; `deletes` is None before the first
    search.
    """

    committer: Committer
    identifier: int
    messages: Sequence[IcebergMessage]
    added: tuple[DataFile, ...]
    origin: str = ""
    deletes: RowDeletes | None = None
    removed: tuple[DataFile, ...] = ()
    found_on: int | None = None
    replaced: list[str] = field(default_factory=list)
    """The delete files of messages that other delete files replace. They stay as long as the messages may be committed
    again."""

    def __post_init__(self) -> None:
        if len(self.messages) == 1 and self.messages[0].deletes is not None:
            self.deletes, self.found_on = self.messages[0].deletes, self.messages[0].planned_on
        else:  # the deletes of each message were found without the others
            planned = [m.deletes for m in self.messages if m.deletes is not None]
            self.deletes, self.found_on = sum(planned, RowDeletes()) if planned else None, _NOWHERE

    def __call__(self, attempt: Attempt) -> Produced:
        committer, options = self.committer, self.committer.options
        if is_committed(attempt.metadata, attempt.head, options.branch, committer.user, self.identifier):
            committed = commit_of(attempt.metadata, attempt.head, committer.user, self.identifier)
            if committed is not None:
                origin = committed.summary.get(ORIGIN)
                check_origin(
                    self.identifier, self.origin, origin, attempt.metadata.location, str(committed.snapshot_id)
                )
            raise _ReplayedError("this user has committed this identifier before")
        self._refuse_dropped_specs(attempt.metadata)
        if options.mode is Mode.OVERWRITE and not options.filter:
            return self._overwrite(attempt.metadata)(attempt)
        if self.only_appends:
            return Append(self.added)(attempt)
        deletes = self._find(attempt)
        removed: tuple[DataFile | DeleteFile, ...] = (*self.removed, *deletes.replaced)
        produced = RowDelta(self.added, deletes.added, removed, deletes.data_files, self.found_on)(attempt)
        if options.wap_id and committer.key_schema.names and produced.operation == "append":
            # rows of new keys: an append could be picked where others have added the same keys since
            return replace(produced, operation="overwrite")
        return produced

    @property
    def only_appends(self) -> bool:
        """Whether the commit replaces nothing of the table."""
        return not self.committer.key_schema.names and self.committer.options.mode is not Mode.OVERWRITE

    def own_deletes(self) -> RowDeletes:
        """The deletes that are not those of messages."""
        given = self._given()
        deletes = self.deletes or RowDeletes()
        return RowDeletes(tuple(file for file in deletes.added if file.path not in given))

    def drop_replaced(self) -> None:
        """Remove the delete files of messages that other delete files replaced."""
        if self.replaced:
            self.committer.operations.files.delete_many(self.replaced)

    def _given(self) -> set[str]:
        return {file.path for message in self.messages if message.deletes for file in message.deletes.added}

    def _discard(self) -> None:
        """Remove the delete files that were written for another snapshot, except those of the messages. The commit has
        certainly not landed, or it would be known as a replay."""
        given = self._given()
        delete_paths = {file.path for file in self.deletes.added} if self.deletes is not None else set()
        self.replaced += sorted(delete_paths & given)
        if delete_paths - given:
            with suppress(LakebedError):
                self.committer.operations.files.delete_many(sorted(delete_paths - given))
        self.deletes = None

    def _find(self, attempt: Attempt) -> RowDeletes:
        """The deletes for the head of the attempt. Those that were found on another snapshot are discarded."""
        head = attempt.head.snapshot_id if attempt.head is not None else None
        if self.deletes is not None and self.found_on == head and takes_deletes(attempt.metadata, self.deletes.added):
            return self.deletes
        self._discard()
        attempt.written.forget_new_deletes()
        committer, engine = self.committer, LocalEngine()
        if committer.options.mode is Mode.OVERWRITE:
            deletes, self.removed = committer.find_replaced(attempt.metadata, attempt.head, engine)
        else:
            deletes = committer.find_deletes(attempt.metadata, attempt.head, self.messages, engine)
        self.deletes, self.found_on = deletes, head
        return deletes

    def _overwrite(self, metadata: TableMetadata) -> Overwrite:
        """Replace all files, or those of the partitions that were written. A spec without fields means all files of any
        spec."""
        static = self.committer.options.static
        if static or any(not metadata.specs[file.spec_id].fields for file in self.added):
            return Overwrite(self.added, None, dynamic=not static)
        partitions = {(file.spec_id, partition_key(file.partition)) for file in self.added}
        return Overwrite(self.added, partitions, dynamic=True)

    def _refuse_dropped_specs(self, metadata: TableMetadata) -> None:
        """CommitConflictError for files of a partition spec that the table no longer has."""
        missing = {file.spec_id for file in self.added} - set(metadata.specs)
        if missing:
            raise CommitConflictError(
                f"the table no longer has partition spec {min(missing)}",
                table=metadata.location,
                why="another writer has replaced the table since",
                todo="Write the rows again",
            )
