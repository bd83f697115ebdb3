"""The table as the target of one write by many tasks: what a task needs, and how its messages are committed.

The sink is made on the driver. When it is pickled for workers it carries what the table's files say of each bucket:
the greatest sequence number, and the number of buckets of each partition. After a commit it forgets that, so that the
next copy carries the new state.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.commit.callbacks import named_callbacks
from lakebed.formats.paimon.commit.kinds import CommitSettings, Committer
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.overwrite import partition_spec, replaced_by
from lakebed.formats.paimon.definition import BucketMode, bucket_mode, refuse_unserved
from lakebed.formats.paimon.read.plan import plan_snapshot, shows_level_0, skips_level_0
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.formats.paimon.write.assigners import Assigner, Bucket, DirectAssigner
from lakebed.formats.paimon.write.bucket import BucketFiles
from lakebed.formats.paimon.write.conform import check_conformable, conform
from lakebed.formats.paimon.write.defaults import check_defaults
from lakebed.formats.paimon.write.hash_dynamic import DynamicSettings, HashAssigner
from lakebed.formats.paimon.write.key_dynamic import KeyAssigner
from lakebed.formats.paimon.write.routing import Router
from lakebed.formats.paimon.write.small_files import gather, refuse_scattered_keys
from lakebed.formats.paimon.write.staging import (
    StagingTaskWriter,
    drop_staged,
    make_files,
    sweep_staged,
    told_apart,
)
from lakebed.formats.paimon.write.state import WriteState, read_state
from lakebed.formats.paimon.write.task import PaimonTaskWriter, TaskTarget
from lakebed.kernel.again import looks_again
from lakebed.kernel.commit.callbacks import CommitCallback, checked_callbacks
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options
from lakebed.kernel.rows.row_kinds import RowKindRule
from lakebed.kernel.scratch import SCRATCH_DIR
from lakebed.model.commit import CommitMessage, CommitResult, Outcome
from lakebed.model.rowkind import RowKind
from lakebed.verbs.write import Mode


class PaimonSink:
    """Implements `lakebed.verbs.write.Sink` for one table, commit user and mode."""

    def __init__(
        self,
        store: Store,
        history: History,
        schema: TableSchema,
        options: Options,
        mode: Mode,
        commit_user: str | None = None,
        overwrite: Mapping[str, Any] = {},
        callbacks: Sequence[CommitCallback] = (),
        maintain: Callable[[], object] | None = None,
    ) -> None:
        self.store, self.history, self.schema, self.options, self.mode = store, history, schema, options, mode
        self.commit_user = commit_user or f"{options[opt.COMMIT_USER_PREFIX]}{uuid.uuid4()}"
        named = partition_spec(options[opt.OVERWRITE_PARTITION], schema, store.location)
        self.overwrite = {**overwrite, **named}
        self.callbacks = (*checked_callbacks(callbacks), *named_callbacks(options))
        self.settings, self._maintain = CommitSettings(), maintain
        self.bucket_mode = bucket_mode(schema, options)
        self._write = str(uuid.uuid4())
        self._state: WriteState | None = None
        self._tasks = 1  # as the driver's call of `channels` says; task writers are made from copies of this
        self._committer: Committer | None = None
        self._notes: tuple[str, ...] = ()
        refuse_unserved(schema, options, Use.WRITE, store.location)
        check_defaults(schema.fields, store.location)
        _refuse_unwritten(schema, options, mode, store.location)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_state": self.state, "_committer": None, "callbacks": (), "_maintain": None}

    def change_settings(self, **changed: Any) -> None:
        """Change how commits behave; see `CommitSettings`."""
        self.settings, self._committer = dataclasses.replace(self.settings, **changed), None

    def overwrite_with(self, spec: Mapping[str, Any]) -> None:
        """Make this an overwrite of the partitions that `spec` names, before anything is written."""
        text = ",".join(f"{name}={'null' if value is None else value}" for name, value in spec.items())
        self.overwrite = {**self.overwrite, **partition_spec(text, self.schema, self.store.location)}
        self.mode, self._state = Mode.OVERWRITE, None

    @property
    def state(self) -> WriteState:
        """What the table's files say now; read once between commits."""
        if self._state is None:
            self._state = WriteState() if self.mode is Mode.OVERWRITE else self._seen()
        return self._state

    @looks_again
    def _seen(self) -> WriteState:
        return read_state(self.store, self.history.latest(), self.schema, self.options)

    @property
    def input_schema(self) -> pa.Schema:
        """The table's columns; rows may carry `_row_kind` too where there is a primary key."""
        return arrow_schema(self.schema.fields)

    @property
    def kind_rule(self) -> RowKindRule:
        """Where row kinds come from."""
        default = RowKind.DELETE if self.mode is Mode.DELETE else RowKind.INSERT
        return RowKindRule(
            self.options[opt.ROWKIND_FIELD],
            default,
            self.options[opt.IGNORE_DELETE],
            self.options[opt.IGNORE_UPDATE_BEFORE],
        )

    @property
    def router(self) -> Router:
        """Partition, bucket and channel of rows."""
        return Router(
            self.schema,
            self.bucket_mode,
            self.options[opt.BUCKET],
            self.options[opt.BUCKET_FUNCTION],
            {} if self.mode is Mode.OVERWRITE else self.state.partition_buckets,
        )

    @property
    def routing_columns(self) -> tuple[str, ...]:
        """The columns that `channels` looks at: those of keys and partitions."""
        named = {*self.schema.partition_keys, *self.schema.bucket_keys, *self.schema.primary_keys}
        return tuple(name for name in self.schema.names if name in named)

    def channels(self, batch: pa.RecordBatch, count: int) -> pa.Array | None:
        """The task of each row, by (partition, bucket); None where rows need no routing on their way in, for sizes
        decide what is next. Only the routing columns need be there."""
        if self.bucket_mode is BucketMode.BUCKET_UNAWARE:
            return None
        most = self.options[opt.DYNAMIC_ASSIGNERS] if self.bucket_mode is BucketMode.HASH_DYNAMIC else None
        self._tasks = min(count, most or count)
        names, where = self.routing_columns, self.store.location
        given = pa.Table.from_batches([batch.select([name for name in names if name in batch.schema.names])])
        check_conformable(given.schema, self.schema, where, names)
        rows = conform(given, self.schema, where, names)
        channels = self.router.channels(rows, self._tasks, self._assigners)
        return None if channels is None else pa.array(channels, pa.int32())

    @property
    def target(self) -> TaskTarget:
        """What tasks need."""
        return TaskTarget(
            self.store, self.schema, self.options, self.bucket_mode, self.router, self.kind_rule, self.state,
            self.commit_user,
        )  # fmt: skip

    def task_writer(self, threads: int | None = None) -> PaimonTaskWriter | StagingTaskWriter:
        """A writer for one task. With `threads` it is the only one, in the process that settles: so many write files of
        different buckets at once."""
        if self.bucket_mode is BucketMode.BUCKET_UNAWARE:
            return StagingTaskWriter(self.target, alone=threads is not None, write=self._write)
        return PaimonTaskWriter(self.target, self.assigner(), threads or 1)

    def finalize(self, messages: Sequence[CommitMessage], engine: Engine) -> Sequence[CommitMessage]:
        """Make files of rows that tasks have staged, and bring together the files that several tasks wrote for one
        bucket; the commit's notes say what was left.

        Raises UnsupportedError when such tasks assigned dynamic buckets without routing, which could put one key into
        two: their files are removed then.
        """
        ours, waiting = told_apart(messages)
        files = BucketFiles(self.store, self.schema, self.options)
        if self.bucket_mode is BucketMode.BUCKET_UNAWARE:
            return [*ours, *make_files(files, waiting, engine)]
        if self._tasks == 1 and self.bucket_mode in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC):
            refuse_scattered_keys(self.store, ours, self.bucket_mode)
        gathered = gather(files, ours, engine)
        self._notes = (gathered.note,) if gathered.note else ()
        return gathered.messages

    def commit(self, identifier: int, messages: Sequence[CommitMessage]) -> CommitResult:
        """Publish messages, exactly once for this commit user and identifier."""
        ours = self._made(messages)
        replaced = None
        if self.mode is Mode.OVERWRITE:
            replaced = replaced_by(ours, self.schema, self.options, self.overwrite, self.store.location)
        result = self.committer.commit(identifier, ours, replaced=replaced)
        self._state = None
        notes, self._notes = self._notes, ()
        if any(message.new_files for message in ours):
            notes = (*notes, *filter(None, [self._waiting_note()]))
        return (
            dataclasses.replace(result, notes=(*result.notes, *notes))
            if result.outcome is Outcome.COMMITTED
            else result
        )

    def _waiting_note(self) -> str:
        """What a reader does not see yet, "" where it sees all."""
        if self.bucket_mode is BucketMode.POSTPONE_MODE:
            return "the rows lie in postponed buckets: batch reads see them after a compaction, table.rewrite()"
        if skips_level_0(self.schema, self.options) and not shows_level_0(self.options):
            return "the rows lie in level 0: batch reads of this table see them after a compaction"
        return ""

    def filter_and_commit(self, commits: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit those identifiers that this user has not committed yet, in their order; how many they were."""
        done = self.committer.filter_and_commit(
            {identifier: self._made(messages) for identifier, messages in commits.items()}
        )
        self._state = None
        return done

    def sweep(self) -> None:
        """Remove all rows that tasks of this write have staged, those too that no message names."""
        if self.bucket_mode is BucketMode.BUCKET_UNAWARE:
            sweep_staged(self.store, self._write)

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of messages, except those that a snapshot of this user may name."""
        ours, waiting = told_apart(messages)
        drop_staged(self.store, waiting)
        self.committer.abort(ours)

    def _made(self, messages: Sequence[CommitMessage]) -> list[PaimonMessage]:
        """Messages that name files; of rows that wait still, files are made here."""
        ours, waiting = told_apart(messages)
        return [*ours, *make_files(BucketFiles(self.store, self.schema, self.options), waiting, LocalEngine())]

    @property
    def committer(self) -> Committer:
        """The driver's half."""
        if self._committer is None:
            self._committer = Committer(
                self.store, self.history, self.schema, self.options, self.commit_user, self.callbacks, self.settings,
                self._maintain,
            )  # fmt: skip
        return self._committer

    def assigner(self) -> Assigner:
        """The bucket strategy of one task."""
        settings = DynamicSettings(
            self.options[opt.DYNAMIC_TARGET_ROWS], self.options[opt.DYNAMIC_MAX_BUCKETS], self._assigners, self._tasks
        )
        match self.bucket_mode:
            case BucketMode.HASH_DYNAMIC:
                return HashAssigner(self.router, self.store, self.state.indexes, settings)
            case BucketMode.KEY_DYNAMIC:
                scratch = self.options[SCRATCH_DIR]
                return KeyAssigner(self.router, self.options[opt.MERGE_ENGINE], self._live_keys, settings, scratch)
        return DirectAssigner(self.router)

    @property
    def _assigners(self) -> int:
        """How many tasks share the keys of one partition."""
        if self.bucket_mode is not BucketMode.HASH_DYNAMIC:
            return self._tasks
        wanted = self.options[opt.DYNAMIC_INITIAL_BUCKETS] or self._tasks
        most = self.options[opt.DYNAMIC_MAX_BUCKETS]
        return max(1, min(wanted, self._tasks, most if most > 0 else self._tasks))

    def _live_keys(self) -> Iterator[tuple[Bucket, pa.Table]]:
        """The primary keys of the snapshot that the write was planned on."""
        if not self.state.snapshot:
            return
        snapshot = self.history.snapshot(self.state.snapshot)
        names = self.schema.primary_keys
        plan = plan_snapshot(
            self.history, snapshot, self.schema, self.options, names, None, level_0=True, use=Use.WRITE
        )
        for split in plan.splits:
            for batch in plan.read(split):
                yield (split.partition, split.bucket), pa.Table.from_batches([batch.select(list(names))])


def _refuse_unwritten(schema: TableSchema, options: Options, write: Mode, table: str) -> None:
    if write in (Mode.UPSERT, Mode.DELETE) and not schema.primary_keys:
        raise UsageError(
            f"{write} needs a primary key", table=table, todo="Append, or create the table with a primary key"
        )
    if options[opt.OVERWRITE_PARTITION] and write is not Mode.OVERWRITE:
        raise UsageError(
            f"option {opt.OVERWRITE_PARTITION.key!r} is given, but the mode is {write}", table=table,
            todo="Leave it out, or write with mode overwrite",
        )  # fmt: skip
