"""The sink: an Iceberg table as the target of one write by many tasks.

Tasks stage rows (`write/task.py`). When all of them are done, the sink finalizes. It reduces changes by key to the last
row of each key (`write/changes.py`), and writes staged rows to data files of the right number and size, in parallel
(`kernel/sizing/finalize.py`). The commit (`write/committer.py`) finds the rows that an overwrite or a change replaces
in the snapshot that it builds on.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa

from lakebed.errors import UsageError, known_columns
from lakebed.formats.iceberg.catalog.operations import Loaded, TableOperations
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.commit.message import IcebergMessage
from lakebed.formats.iceberg.layout import staging_folder
from lakebed.formats.iceberg.write.changes import last_of_each_key, widened
from lakebed.formats.iceberg.write.committer import Committer
from lakebed.formats.iceberg.write.file_maker import IcebergFileMaker
from lakebed.formats.iceberg.write.files import WriteTarget
from lakebed.formats.iceberg.write.options import Distribution, WriteOptions, refuse_numbered
from lakebed.formats.iceberg.write.plan import IcebergWritePlan
from lakebed.formats.iceberg.write.routing import Router, Sorter
from lakebed.formats.iceberg.write.task import TaskTarget
from lakebed.kernel import clock
from lakebed.kernel.again import looks_again
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.commit.callbacks import CommitCallback, checked_callbacks
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.predicates.where import find_column
from lakebed.kernel.sizing.finalize import finalize
from lakebed.kernel.sizing.ranges import RangeSplitter
from lakebed.kernel.sizing.staging import StagedBuckets
from lakebed.model.commit import BATCH_IDENTIFIER, CommitMessage, CommitResult
from lakebed.model.rowkind import RowKind
from lakebed.verbs.write import Mode, Prepared

_FRESH_SECONDS = 2.0
"""How long a commit builds on metadata that was loaded before the files were written. Older metadata is loaded again:
a race that is lost costs more than a look."""


class IcebergSink:
    """Implements `lakebed.verbs.write.TwoPhaseSink` for one table, branch, commit user and mode.

    Picklable, but a copy has only the callbacks that options name. It writes with the schema, spec and sort order that
    the table has when the sink is created. `base` is the metadata as it was just loaded: a commit that follows soon
    does not load it again.
    """

    def __init__(
        self,
        operations: TableOperations,
        metadata: TableMetadata,
        options: WriteOptions,
        commit_user: str | None = None,
        callbacks: Sequence[CommitCallback] = (),
        base: Loaded | None = None,
    ) -> None:
        self.operations, self.metadata, self.options = operations, metadata, options
        self._base = base
        self._base_until = clock.steady() + _FRESH_SECONDS
        if options.wap_id and commit_user is not None:
            refuse_numbered(options.wap_id, metadata.location)
        self.commit_user = commit_user or str(uuid.uuid4())
        self.callbacks = checked_callbacks(callbacks)
        self.keys = _keys(metadata, options)
        self._staging = staging_folder(metadata.location, metadata.properties)
        self._scratch = f"{os.path.abspath(tempfile.gettempdir())}/{self._staging.rpartition('/')[2]}"
        """A folder on this machine for rows that are staged in this process, with a name that no table knows."""
        self.files = operations.files.also(self._scratch)  # tasks reach files without asking a catalog
        self._refuse()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "callbacks": (), "_base": None}

    @property
    def input_schema(self) -> pa.Schema:
        """The table's columns. Rows may also have `_row_kind` where the write has a key."""
        return self._target().input_schema

    @property
    def knows_batches(self) -> bool:
        """Iceberg's own sink keeps its batches under the id of its query."""
        return False

    @property
    def left_out(self) -> frozenset[str]:
        """No columns."""
        return frozenset()

    def plan(self, tasks: int = 1) -> IcebergWritePlan:
        """The plan of a write. It does not depend on the number of tasks."""
        return IcebergWritePlan(self._target(), self._scratch)

    def finalize(self, plan: object, messages: Sequence[CommitMessage], engine: Engine) -> Prepared:
        """Write the files of all rows that tasks staged. Staged rows are removed, also when it fails."""
        return Prepared(tuple(self._finalized(messages, engine)))

    def _finalized(self, messages: Sequence[CommitMessage], engine: Engine) -> list[IcebergMessage]:
        """The messages, with one for the files of all staged rows in place of those that have staged rows."""
        ours = _ours(messages)
        waiting = [message for message in ours if message.is_staged]
        if not waiting:
            return ours
        target, sizes = self._target(), self.options.sizes
        keyed: list[IcebergMessage] = []
        try:
            changed = [rows for message in waiting for rows in message.changed]
            keyed = last_of_each_key(changed, target, engine) if changed else []
            added = [rows for message in (*waiting, *keyed) for rows in message.added]
            buckets = StagedBuckets(added, target.rows_schema)
            files = finalize(buckets, self._maker(), engine, sizes.target, sizes.write_max, self._splitter(target))
        except BaseException:
            self._drop_staged(keyed)
            raise
        finally:
            self._drop_staged(waiting)
        self._drop_staged([replace(message, keys=()) for message in keyed])
        written = IcebergMessage(
            data_files=tuple(files),
            keys=tuple(keys for message in keyed for keys in message.keys),
            bounds=reduce(widened, [message.bounds for message in keyed], None),
            rows=sum(message.rows for message in waiting),
        )
        return [*(message for message in ours if not message.is_staged), self._with_deletes(written, engine)]

    def _with_deletes(self, message: IcebergMessage, engine: Engine) -> IcebergMessage:
        """Find the rows that changes by key replace, on the engine. The commit searches again only when another commit
        came in between."""
        if not message.keys:
            return message
        try:
            return self._planned(message, engine)
        except BaseException:
            self.abort([message])
            raise

    @looks_again
    def _planned(self, message: IcebergMessage, engine: Engine) -> IcebergMessage:
        """A message with its deletes. The search begins anew where an expiry removes files of the snapshot."""
        base = self._fresh_base() or self.operations.load()
        self._base = None
        metadata, options = base.metadata, self.options
        head = metadata.parent_on(options.branch) if options.creates_branch else metadata.head(options.branch)
        deletes = self._committer().find_deletes(metadata, head, [message], engine)
        self._base = base
        return replace(message, deletes=deletes, planned_on=head.snapshot_id if head is not None else None)

    def _fresh_base(self) -> Loaded | None:
        """The metadata that this sink has loaded, unless it is so old that others may well have committed since."""
        return self._base if clock.steady() < self._base_until else None

    def commit(self, identifier: int, messages: Sequence[CommitMessage], origin: str = "") -> CommitResult:
        """Publish messages, exactly once for this commit user and identifier. Raises what `Committer.commit` raises,
        and UsageError for a numbered commit that is to be staged under a `wap.id`. After a StorageError a numbered
        commit may be made again."""
        if self.options.wap_id and identifier != BATCH_IDENTIFIER:
            self.abort(messages)
            refuse_numbered(self.options.wap_id, self.metadata.location)
        again = identifier != BATCH_IDENTIFIER and not any(message.is_staged for message in _ours(messages))
        finalized = self._finalized(messages, LocalEngine())
        base, self._base = self._fresh_base(), None
        result = self._committer().commit(identifier, finalized, base, origin, again)
        notes = afterwards("rows that were staged for it are left", lambda: self._drop_staged(finalized))
        return replace(result, notes=(*result.notes, *notes)) if notes else result

    def filter_and_commit(self, commits: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit, in ascending order, the identifiers that this user has not committed yet. Returns their number.
        NotInHistoryError where files of one of them are gone: nothing is committed then."""
        self._committer().check_files({identifier: _ours(messages) for identifier, messages in commits.items()})
        committed = 0
        for identifier in sorted(commits):
            committed += bool(self.commit(identifier, commits[identifier]).instant)
        return committed

    def sweep(self) -> None:
        """Remove all rows that tasks of this write have staged, including those that no message names."""
        self.files.remove_folder(self._staging)

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of messages, except those that the table holds."""
        ours = _ours(messages)
        self._drop_staged(ours)
        self._committer().remove(ours)

    def _committer(self) -> Committer:
        key_schema = self._target().key_schema
        key_fields = tuple(field for field in self.metadata.schema.fields if field.name in self.keys)
        callbacks = (*self.callbacks, *self.options.callbacks.made)
        return Committer(self.operations, self.options, self.commit_user, key_schema, callbacks, key_fields)

    def _target(self) -> TaskTarget:
        metadata, mode = self.metadata, self.options.mode
        return TaskTarget(
            self.files,
            metadata.location,
            metadata.schema,
            Router(metadata.schema, metadata.spec),
            self.keys,
            always_by_key=mode in (Mode.UPSERT, Mode.DELETE),
            default=RowKind.DELETE if mode is Mode.DELETE else RowKind.INSERT,
            staging=self._staging,
            buffer=self.options.buffer,
        )

    def _sorter(self) -> Sorter:
        return Sorter(self.metadata.schema, self.metadata.sort_orders[self.metadata.default_sort_order_id])

    def _maker(self) -> IcebergFileMaker:
        order = self.metadata.default_sort_order_id if self._sorter() else None
        properties = {"write.format.default": self.options.format.lower()}
        target = WriteTarget.of(self.files, self.metadata, sort_order_id=order, properties=properties)
        return IcebergFileMaker(target, self._sorter())

    def _splitter(self, target: TaskTarget) -> RangeSplitter | None:
        sorter = self._sorter()
        if self.options.distribution is not Distribution.RANGE or not sorter:
            return None
        return RangeSplitter(target.files, self._staging, target.rows_schema, sorter.keys)

    def _drop_staged(self, messages: Sequence[IcebergMessage]) -> None:
        paths = [path for message in messages for path in message.staged_paths]
        self.files.delete_many(paths)
        for folder in {path.rpartition("/")[0] for path in paths}:
            self.files.remove_empty(folder)

    def _refuse(self) -> None:
        """Raise for a table that lakebed does not write, before any row is read."""
        self._maker().target.refuse_partition()
        dropped = [
            field.name
            for field in self.metadata.spec.fields
            if field.source_id not in self.metadata.schema.field_ids and str(field.transform) != "void"
        ]
        if dropped:
            raise UsageError(
                f"partition field {dropped[0]!r} uses a column that the table no longer has",
                table=self.metadata.location,
                todo="Remove it from the partition spec, with lakebed.drop_partition_field",
            )


def _keys(metadata: TableMetadata, options: WriteOptions) -> tuple[str, ...]:
    """The key columns of changes, () for a write that can only add rows. UsageError when the mode needs keys."""
    mode = options.mode
    if mode is Mode.OVERWRITE:
        return ()
    schema = metadata.schema
    if options.keys:
        return tuple(_column(name, metadata) for name in options.keys)
    top_level = {field.field_id: field.name for field in schema.fields}
    identifiers = list(schema.identifier_field_ids)
    if identifiers and all(field_id in top_level for field_id in identifiers):
        return tuple(top_level[field_id] for field_id in identifiers)
    if mode is Mode.APPEND:
        return ()
    raise UsageError(
        f"{mode} needs to know which columns identify a row",
        table=metadata.location,
        why="an identifier field lies inside another column" if identifiers else "the table has no identifier fields",
        todo="Name the columns in the option upsert.keys",
    )


def _column(name: str, metadata: TableMetadata) -> str:
    """A column of the table, as the table spells it."""
    names = [field.name for field in metadata.schema.fields]
    column = find_column(name, names)
    if column is None:
        raise UsageError(
            f"option upsert.keys names the unknown column {name!r}",
            table=metadata.location,
            todo=known_columns(name, names),
        )
    return column


def _ours(messages: Sequence[CommitMessage]) -> list[IcebergMessage]:
    for message in messages:
        if not isinstance(message, IcebergMessage):
            raise UsageError(f"a {type(message).__name__} is not a commit message of an Iceberg table")
    return [message for message in messages if isinstance(message, IcebergMessage)]
