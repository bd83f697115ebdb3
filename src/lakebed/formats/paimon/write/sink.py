"""The table as the target of one write by many tasks: what a task needs, and how its messages are committed.

The sink stays on the driver. Its plan carries what workers need, with what the table's files say of each bucket: the
greatest sequence number, and the number of buckets of each partition.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Mapping, Sequence
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
from lakebed.formats.paimon.read.plan import shows_level_0, skips_level_0
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.formats.paimon.write.bucket import BucketFiles
from lakebed.formats.paimon.write.defaults import check_defaults
from lakebed.formats.paimon.write.plan import PaimonWritePlan, dynamic_settings
from lakebed.formats.paimon.write.routing import Router
from lakebed.formats.paimon.write.small_files import merge_small_files, refuse_scattered_keys
from lakebed.formats.paimon.write.staging import (
    drop_staged,
    make_files,
    sweep_staged,
    told_apart,
)
from lakebed.formats.paimon.write.state import WriteState, read_state
from lakebed.formats.paimon.write.task import TaskTarget
from lakebed.kernel.again import looks_again
from lakebed.kernel.commit.callbacks import CommitCallback, checked_callbacks
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options
from lakebed.kernel.rows.row_kinds import RowKindRule
from lakebed.model.commit import CommitMessage, CommitResult
from lakebed.model.rowkind import RowKind
from lakebed.verbs.write import Mode, Prepared


class PaimonSink:
    """Implements `lakebed.verbs.write.TwoPhaseSink` for one table, commit user and mode."""

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
        self._committer: Committer | None = None
        refuse_unserved(schema, options, Use.WRITE, store.location)
        check_defaults(schema.fields, store.location)
        _refuse_unwritten(schema, options, mode, store.location)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_committer": None, "callbacks": (), "_maintain": None}

    def change_settings(self, **changed: Any) -> None:
        """Change how commits behave; see `CommitSettings`."""
        self.settings, self._committer = dataclasses.replace(self.settings, **changed), None

    def overwrite_with(self, spec: Mapping[str, Any]) -> None:
        """Make this an overwrite of the partitions that `spec` names, before anything is written."""
        text = ",".join(f"{name}={'null' if value is None else value}" for name, value in spec.items())
        self.overwrite = {**self.overwrite, **partition_spec(text, self.schema, self.store.location)}
        self.mode = Mode.OVERWRITE

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

    def plan(self, tasks: int = 1) -> PaimonWritePlan:
        """Plan a write from the newest snapshot. CommitConflictError where the files have another number of buckets
        than the table."""
        state = WriteState() if self.mode is Mode.OVERWRITE else self._read_state()
        options, mode = self.options, self.bucket_mode
        router = Router(
            self.schema, mode, options[opt.BUCKET], options[opt.BUCKET_FUNCTION], state.partition_buckets
        )  # fmt: skip
        target = TaskTarget(
            self.store, self.schema, options, mode, router, self.kind_rule, state, self.commit_user
        )  # fmt: skip
        return PaimonWritePlan(
            self.history, target, dynamic_settings(self.schema, options, mode, tasks), self._write
        )  # fmt: skip

    @looks_again
    def _read_state(self) -> WriteState:
        return read_state(self.store, self.history.latest(), self.schema, self.options)

    def finalize(self, plan: PaimonWritePlan, messages: Sequence[CommitMessage], engine: Engine) -> Prepared:
        """Make files of rows that tasks have staged, and bring together the files that several tasks wrote for one
        bucket; a note says what was left.

        Raises UnsupportedError when such tasks assigned dynamic buckets without routing, which could put one key into
        two: their files are removed then.
        """
        ours, waiting = told_apart(messages)
        files = BucketFiles(self.store, self.schema, self.options)
        if self.bucket_mode is BucketMode.BUCKET_UNAWARE:
            return Prepared((*ours, *make_files(files, waiting, engine)))
        if not plan.is_routed and self.bucket_mode in (BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC):
            refuse_scattered_keys(self.store, ours, self.bucket_mode)
        return merge_small_files(files, ours, engine)

    def commit(self, identifier: int, messages: Sequence[CommitMessage]) -> CommitResult:
        """Publish messages, exactly once for this commit user and identifier."""
        ours = self._made(messages)
        replaced = None
        if self.mode is Mode.OVERWRITE:
            replaced = replaced_by(ours, self.schema, self.options, self.overwrite, self.store.location)
        result = self.committer.commit(identifier, ours, replaced=replaced)
        waiting = self._waiting_note() if any(message.new_files for message in ours) else ""
        return result.with_notes([waiting] if waiting else [])

    def _waiting_note(self) -> str:
        """What a reader does not see yet, "" where it sees all."""
        if self.bucket_mode is BucketMode.POSTPONE_MODE:
            return "the rows lie in postponed buckets: batch reads see them after a compaction, table.rewrite()"
        if skips_level_0(self.schema, self.options) and not shows_level_0(self.options):
            return "the rows lie in level 0: batch reads of this table see them after a compaction"
        return ""

    def filter_and_commit(self, commits: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit those identifiers that this user has not committed yet, in their order; how many they were."""
        return self.committer.filter_and_commit(
            {identifier: self._made(messages) for identifier, messages in commits.items()}
        )

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
