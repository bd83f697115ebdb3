"""A Paimon table as the target of one write by many tasks: its plan, its second half, and its commit.

The sink stays on the driver. Its plan carries what tasks need, with what the table's files tell about each bucket: the
greatest sequence number, and the number of buckets of each partition.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.commit.committer import Committer
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.options import CommitOptions
from lakebed.formats.paimon.commit.overwrite import partition_spec, replaced_partitions
from lakebed.formats.paimon.definition import BucketMode, refuse_unserved
from lakebed.formats.paimon.read.plan import shows_level_0
from lakebed.formats.paimon.read.splits import skips_level_0
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.formats.paimon.write.bucket import BucketFiles
from lakebed.formats.paimon.write.compaction import CompactionOfWrites
from lakebed.formats.paimon.write.defaults import check_defaults
from lakebed.formats.paimon.write.file_maker import make_files
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.formats.paimon.write.plan import PaimonWritePlan, dynamic_settings
from lakebed.formats.paimon.write.small_files import merge_small_files, refuse_scattered_keys
from lakebed.formats.paimon.write.staging import drop_staged, split_staged, sweep_staged
from lakebed.formats.paimon.write.state import NEED_NOTHING, WriteState, read_state
from lakebed.formats.paimon.write.task import TaskTarget
from lakebed.kernel.again import looks_again
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import Options
from lakebed.model.commit import CommitMessage, CommitResult
from lakebed.model.rowkind import RowKind
from lakebed.verbs.write import Mode, Prepared


@dataclasses.dataclass(frozen=True)
class PaimonSink:
    """Implements `lakebed.verbs.write.TwoPhaseSink` for one branch, commit user and mode.

    `overwrite` has the plain values by partition column of a static overwrite. `write_id` is unique to the write.
    `compaction` compacts the buckets that it writes to; None: nothing does.
    A pickled copy has the callbacks that options name, and none of those that are objects.
    """

    history: History
    schema: TableSchema
    options: WriteOptions
    mode: Mode
    commit_options: CommitOptions
    overwrite: Mapping[str, Any]
    write_id: str
    compaction: CompactionOfWrites | None = None

    @classmethod
    def of(
        cls,
        history: History,
        schema: TableSchema,
        options: Options,
        mode: Mode,
        commit_options: CommitOptions,
        overwrite: Mapping[str, Any] = {},
        compaction: CompactionOfWrites | None = None,
    ) -> PaimonSink:
        """The sink of a write, by the options of the table and of the call.

        Raises UnsupportedError and OptionError for tables and options that lakebed does not write, SchemaError for a
        default value that is none of its column, UsageError for a mode that the table does not have.
        """
        table = history.store.location
        named = partition_spec(options[opt.OVERWRITE_PARTITION], schema, table)
        refuse_unserved(schema, options, Use.WRITE, table)
        check_defaults(schema.fields, table)
        _refuse_mode(schema, options, mode, table)
        write_options = WriteOptions.of(schema, options)
        places = {**overwrite, **named}
        return cls(history, schema, write_options, mode, commit_options, places, str(uuid.uuid4()), compaction)

    def __getstate__(self) -> dict[str, Any]:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, "commit_options": self.commit_options.picklable}

    @property
    def commit_user(self) -> str:
        """The user of its commits."""
        return self.commit_options.user

    @property
    def input_schema(self) -> pa.Schema:
        """The table's columns; rows may carry `_row_kind` too where there is a primary key."""
        return arrow_schema(self.schema.fields)

    @property
    def knows_batches(self) -> bool:
        """Paimon's own sink keeps its batches under a user that its query draws."""
        return False

    @property
    def left_out(self) -> frozenset[str]:
        """No columns."""
        return frozenset()

    def with_commit_options(self, **changed: Any) -> PaimonSink:
        """The same sink with other `CommitOptions`."""
        return dataclasses.replace(self, commit_options=dataclasses.replace(self.commit_options, **changed))

    def with_overwrite(self, spec: Mapping[str, Any]) -> PaimonSink:
        """The same sink as an overwrite of the partitions that `spec` names, by plain values."""
        text = ",".join(f"{name}={'null' if value is None else value}" for name, value in spec.items())
        named = partition_spec(text, self.schema, self._table)
        return dataclasses.replace(self, mode=Mode.OVERWRITE, overwrite={**self.overwrite, **named})

    def plan(self, tasks: int = 1) -> PaimonWritePlan:
        """Plan a write from the newest snapshot. CommitConflictError where the files have another number of buckets
        than the table."""
        needs_none = self.mode is Mode.OVERWRITE or self.options.mode in NEED_NOTHING
        state = WriteState() if needs_none else self._read_state()
        kinds = self.options.row_kinds(RowKind.DELETE if self.mode is Mode.DELETE else RowKind.INSERT)
        write = self.write_id
        target = TaskTarget(self.history.store, self.schema, self.options, kinds, state, self.commit_user, write)
        return PaimonWritePlan(self.history, target, dynamic_settings(self.options, tasks), self.write_id)

    @looks_again
    def _read_state(self) -> WriteState:
        return read_state(self.history.store, self.history.latest(), self.schema, self.options)

    def finalize(self, plan: PaimonWritePlan, messages: Sequence[CommitMessage], engine: Engine) -> Prepared:
        """Make files of staged rows, and merge small files that several tasks wrote for one bucket; a note says what
        was left. Then compact the buckets that are due.

        Raises UnsupportedError when such tasks assigned dynamic buckets without routing, which could put one key into
        two: their files are removed then.
        """
        ours, staged = split_staged(messages)
        if self.options.mode is BucketMode.BUCKET_UNAWARE:
            return Prepared((*ours, *make_files(self._files, staged, engine)))
        if not plan.is_routed and self.options.mode in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC):
            refuse_scattered_keys(self.history.store, ours, self.options.mode)
        prepared = merge_small_files(self._files, ours, engine)
        if self.compaction is None:
            return prepared
        return self.compaction.compact(plan.target.state, prepared, engine, replaces=self.mode is Mode.OVERWRITE)

    def commit(self, identifier: int, messages: Sequence[CommitMessage], origin: str = "") -> CommitResult:
        """Publish messages, exactly once for this commit user and identifier."""
        ours = self._with_files(messages)
        replaced = None
        if self.mode is Mode.OVERWRITE:
            replaced = replaced_partitions(ours, self.schema, self.options.table, self.overwrite, self._table)
        result = self._committer.commit(identifier, ours, replaced, origin)
        self._forget(ours)
        waits = any(message.new_files and not message.compacts for message in ours)
        invisible = self._invisible_note() if waits else ""
        return result.with_notes([invisible] if invisible else [])

    def filter_and_commit(self, commits: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit, in ascending order, the identifiers that this user has not committed yet; returns their number."""
        ours = {identifier: self._with_files(messages) for identifier, messages in commits.items()}
        count = self._committer.filter_and_commit(ours)
        for messages_ in ours.values():
            self._forget(messages_)
        return count

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of messages, except those that a snapshot of the table names."""
        ours, staged = split_staged(messages)
        drop_staged(self.history.store, staged)
        self._committer.abort(ours)
        self._forget(ours)

    def sweep(self) -> None:
        """Remove all rows that tasks of this write have staged, also those that no message names."""
        if self.options.mode is BucketMode.BUCKET_UNAWARE:
            sweep_staged(self.history.store, self.write_id)

    def _forget(self, messages: Sequence[PaimonMessage]) -> None:
        if self.compaction is not None:
            self.compaction.forget(messages)

    def _with_files(self, messages: Sequence[CommitMessage]) -> list[PaimonMessage]:
        """Messages that name files; files are made here of rows that are still staged."""
        ours, staged = split_staged(messages)
        return [*ours, *make_files(self._files, staged, LocalEngine())]

    def _invisible_note(self) -> str:
        """Which rows a reader does not see yet, "" where it sees all."""
        if self.options.postpones:
            return "the rows lie in postponed buckets: batch reads see them after a compaction, table.rewrite()"
        if skips_level_0(self.schema, self.options.table) and not shows_level_0(self.options.table):
            return "the rows lie in level 0: batch reads of this table see them after a compaction"
        return ""

    @property
    def _table(self) -> str:
        return self.history.store.location

    @property
    def _files(self) -> BucketFiles:
        return BucketFiles(self.history.store, self.schema, self.options)

    @cached_property
    def _committer(self) -> Committer:
        return Committer(self.history, self.schema, self.options.table, self.commit_options)


def _refuse_mode(schema: TableSchema, options: Options, mode: Mode, table: str) -> None:
    if mode in (Mode.UPSERT, Mode.DELETE) and not schema.primary_keys:
        raise UsageError(
            f"{mode} needs a primary key", table=table, todo="Append, or create the table with a primary key"
        )
    if options[opt.OVERWRITE_PARTITION] and mode is not Mode.OVERWRITE:
        raise UsageError(
            f"option {opt.OVERWRITE_PARTITION.key!r} is given, but the mode is {mode}",
            table=table,
            todo="Leave it out, or write with mode overwrite",
        )
