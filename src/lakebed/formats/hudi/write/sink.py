"""The sink: a Hudi table as the target of one write by many tasks.

Tasks stage rows (`write/task.py`). Everything that depends on the table's state comes with the commit (`write/run.py`):
its instant, the lookup of keys, the files. So rows can be prepared long before they are committed, several prepared
writes do not disturb each other, and nothing of them is on the timeline until then.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError, UsageError
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.gone import changed_meanwhile, conflict_when_gone
from lakebed.formats.hudi.commit.message import HudiMessage
from lakebed.formats.hudi.commit.once import Once, ReplayedError
from lakebed.formats.hudi.commit.options import check_non_blocking
from lakebed.formats.hudi.commit.transaction import Committed, Keys, Transaction
from lakebed.formats.hudi.index.build import build_indexes
from lakebed.formats.hudi.index.hashing_files import mark_rings, save_rings
from lakebed.formats.hudi.index.lookups import begin_lookup
from lakebed.formats.hudi.index.renewal import check_renewed, new_rings, with_buckets
from lakebed.formats.hudi.index.replaced_keys import ReplacedKeys
from lakebed.formats.hudi.layout import META_COLUMNS, PARTITION_PATH, RECORD_KEY
from lakebed.formats.hudi.merge.rules import check_known, rules_of
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.timeline.active import Timeline
from lakebed.formats.hudi.timeline.archived import ArchivedTimeline, ArchiveMemory
from lakebed.formats.hudi.write.column_ids import ColumnIds
from lakebed.formats.hudi.write.combine import Combiner
from lakebed.formats.hudi.write.conform import WriteSchema
from lakebed.formats.hudi.write.dropped import stored_avro, stored_columns
from lakebed.formats.hudi.write.evolution import check_prepared, check_unchanged, user_columns
from lakebed.formats.hudi.write.files import FileTarget, with_meta_columns
from lakebed.formats.hudi.write.keys import RowKeys
from lakebed.formats.hudi.write.made_keys import check_keyless
from lakebed.formats.hudi.write.operation import Operation
from lakebed.formats.hudi.write.place import StagingPlace
from lakebed.formats.hudi.write.plan import HudiWritePlan
from lakebed.formats.hudi.write.preflight import Preflight
from lakebed.formats.hudi.write.run import StagedInput, WriteRun
from lakebed.formats.hudi.write.served import check_engine, check_table
from lakebed.formats.hudi.write.settings import WriteSettings
from lakebed.formats.hudi.write.staged_rows import own_columns
from lakebed.formats.hudi.write.task import TaskTarget
from lakebed.formats.hudi.write.wanted import wanted_of
from lakebed.kernel import clock
from lakebed.kernel.again import is_gone
from lakebed.kernel.commit import callbacks as commit_callbacks
from lakebed.kernel.commit.afterwards import afterwards, noted
from lakebed.kernel.commit.callbacks import CommitCallback, checked_callbacks
from lakebed.kernel.commit.turns import turn
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.files.local import LocalStore
from lakebed.model.commit import CommitMessage, CommitResult, Outcome
from lakebed.verbs.write import Prepared

_SHORT = 2.0
"""Attempts of fewer seconds than this wait for a turn once one was lost: a race wins little then, and loses all."""


class HudiSink:
    """Implements `lakebed.verbs.write.TwoPhaseSink` for one table, commit user and mode. Picklable, without its
    callbacks.

    `schema` are the user's columns after the write, `avro` their Avro schema; `before` are those that the table has
    before it, where they differ. With `ends_here` rows that this process stages need not outlive it. `after` runs after
    each commit and gives notes; it never raises.
    """

    def __init__(
        self,
        context: WriteContext,
        settings: WriteSettings,
        schema: pa.Schema,
        avro: str,
        commit_user: str | None = None,
        callbacks: Sequence[CommitCallback] = (),
        ends_here: bool = False,
        after: Callable[[], Sequence[str]] = tuple,
        before: pa.Schema | None = None,
    ) -> None:
        self.context, self.settings, self.schema = context, settings, schema
        self.avro = stored_avro(context.config, avro)
        self.commit_user, self._named = commit_user or str(uuid.uuid4()), bool(commit_user)
        self.callbacks = checked_callbacks(callbacks)
        self._ends_here, self._after = ends_here, after
        self._staging = StagingPlace(
            context.store, LocalStore(os.path.abspath(tempfile.gettempdir())), f"lakebed-{uuid.uuid4()}"
        )
        self._before = schema if before is None else before
        self._engine: Engine | None = None
        self._check: Callable[[TableState], None] = _anything
        self._archive = ArchiveMemory()
        self._races = False
        """Whether other writers were met lately, and writes are short: each then waits for its turn from its start."""
        self._keys = self._checked_keys()

    def followed_by(self, other: HudiSink) -> HudiSink:
        """Another sink of the same table, which goes on under this one's commit user."""
        other.commit_user = self.commit_user
        return other

    def checked_by(self, check: Callable[[TableState], None]) -> HudiSink:
        """This sink, which asks before it changes anything whether the table that its commit builds on is as wanted.
        The check raises CommitConflictError where it is not."""
        self._check = check
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "callbacks": (), "_engine": None, "_check": _anything}

    @property
    def input_schema(self) -> pa.Schema:
        """The table's columns. Rows may also have `_row_kind`, and Hudi's meta columns, which are left out. Where
        nothing else tells which rows are meant, they have their meta columns."""
        if self.context.config.record_keys or not self.settings.operation.tags:
            return self.schema
        return pa.schema([*(pa.field(name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH)), *self.schema])

    @property
    def knows_batches(self) -> bool:
        """Whether the stream has a name for Hudi's own sink too, whose commits keep their batches under it."""
        return bool(self.settings.checkpoint)

    @property
    def left_out(self) -> frozenset[str]:
        """Hudi's meta columns, which the commit gives each row anew. Rule: `HoodieSparkSqlWriter`, which drops them."""
        return frozenset(META_COLUMNS)

    def plan(self, tasks: int = 1) -> HudiWritePlan:
        """The plan of a write. It does not depend on the number of tasks."""
        record_keys = self.context.config.record_keys
        keys = record_keys if len(record_keys) == 1 else ()  # of several, some may be null
        by_partition = record_keys and self.settings.deletes_by_partition
        target = TaskTarget(
            self._staging,
            self.context.store.location,
            self.context.config,
            WriteSchema(
                self.schema,
                keys,
                self.context.store.location,
                self._keys.partition_fields if by_partition else (),
            ),
            self.settings.operation,
            self.settings.by_key,
            self._keys,
        )
        return HudiWritePlan(target, self._ends_here)

    def finalize(self, plan: object, messages: Sequence[CommitMessage], engine: Engine) -> Prepared:
        """The messages as they are: the commit writes the files, on this engine."""
        self._engine = engine
        return Prepared(tuple(_ours(messages)))

    def commit(self, identifier: int, messages: Sequence[CommitMessage], origin: str = "") -> CommitResult:
        """Write the rows of messages as one instant, exactly once for this commit user and identifier, also where two
        processes of the user try it at once.

        Raises CommitConflictError where another writer changed the same file groups meanwhile, and for an identifier
        that was committed with rows of another origin.
        """
        ours = _ours(messages)
        once = self._once(origin)
        left = self.settings.retries
        replayed = not self._has_work(ours) or once.was_committed(identifier)
        while not replayed:
            began = clock.steady()
            try:
                with turn(self.context.store.location) if self._races else nullcontext() as queue:
                    committed, files = self._attempt(identifier, ours, once)
                self._races = queue is not None and queue.waited
                break
            except ReplayedError:
                replayed = True
            except CommitConflictError:
                self._races = clock.steady() - began < _SHORT
                replayed = once.was_committed(identifier)
                if not left and not replayed:
                    raise
                left -= 1
        if replayed:
            self._drop(ours)
            return CommitResult("", Outcome.SKIPPED)
        notes = afterwards("rows that were staged for it are left", lambda: self._drop(ours))
        notes += self._call(committed.instant, identifier, files)
        notes += noted("the metadata table lacks parts", lambda: build_indexes(self.context, self._state))
        notes = (*committed.notes, *notes, *noted("upkeep that is due was not done", self._after))
        rows = sum(message.rows for message in ours)
        return CommitResult(committed.instant, Outcome.COMMITTED, notes, rows, len(files))

    def _once(self, origin: str) -> Once:
        archived = ArchivedTimeline(self.context.store, self.context.config, self.context.scratch, self._archive)
        return Once(self.context, archived, self.commit_user, self._named, self.settings.checkpoint, origin)

    def _call(self, instant: str, identifier: int, files: tuple[str, ...]) -> tuple[str, ...]:
        """Call the callbacks, at most once. One that fails is a note of the result."""
        user, kind = self.commit_user, str(self.settings.operation)
        location = self.context.store.location
        commit = commit_callbacks.Committed(location, int(instant), user, identifier, kind, added_files=files)
        return commit_callbacks.call_each(self.callbacks, lambda callback: callback.call(commit))

    @conflict_when_gone
    def _attempt(
        self, identifier: int, messages: Sequence[HudiMessage], once: Once
    ) -> tuple[Committed, tuple[str, ...]]:
        """Write the rows and commit them. Returns the paths of the files too."""
        context = self.context
        operation = self._operation(messages)
        staged = _staged(messages, self.settings.by_key)
        if staged is not None:
            check_prepared(own_columns(staged.schema), self.schema, context.store.location)
        checked = self._preflight(operation, messages)
        bucketed = bool(self.settings.index.buckets)
        looks_up = not bucketed and (self.settings.looks_up or operation.tags)
        keys = Keys.IN_TABLE if self.settings.index.everywhere else Keys.IN_PARTITION
        action = operation.action(context.config, bucketed)
        transaction = Transaction.begin(context, action, operation.recorded, keys=keys if looks_up else Keys.ANY)
        try:
            run, notes = self._run(transaction, operation, messages, checked)
            self._check(run.files.state)
            ids = ColumnIds.of(context, run.files.state, transaction.instant, self.schema)
            outcome = run.run(staged)
            rings = new_rings(run.files.state, run.tag, outcome.replaced, transaction.instant)
            extra = {**once.extra(identifier), **(ids.extra if ids is not None else {})}
            replaced = with_buckets(run.files.state, outcome.replaced, rings)

            def last_steps() -> None:
                once.refuse_replay(identifier)
                if rings:
                    check_renewed(run.files.state.later(), rings)
                save_rings(context.store, rings)
                if ids is not None:
                    ids.keep()

            done = transaction.commit(
                outcome.written,
                schema=self.avro,
                replaced=replaced,
                extra=extra,
                replaced_keys=ReplacedKeys(run.files.state, outcome.replaced),
                check=last_steps,
            )
        except BaseException as error:
            with suppress(LakebedError, OSError) if isinstance(error, CommitUnknownError) else nullcontext():
                transaction.abort()  # whatever becomes of it, nobody knows of a commit that the store left open
            if is_gone(error):
                raise changed_meanwhile(error) from error
            raise
        marked = afterwards("nothing beside its new buckets says so", lambda: mark_rings(context.store, rings))
        return replace(done, notes=(*notes, *done.notes, *marked)), tuple(file.path for file in outcome.written)

    def _preflight(self, operation: Operation, messages: Sequence[HudiMessage]) -> Preflight:
        """The table as it is now. Raises for what this write cannot do with it."""
        state = self._state()
        check_unchanged(self._before, self.schema, user_columns(state.schema()), state.store.location)
        partitions = [path for message in messages for path in message.partitions]
        return Preflight.of(
            state, self.settings, operation, partitions, with_meta_columns(stored_columns(state.config, self.schema))
        )

    def _run(
        self, transaction: Transaction, operation: Operation, messages: Sequence[HudiMessage], found: Preflight
    ) -> tuple[WriteRun, tuple[str, ...]]:
        """The write on the table's newest state, and notes about it."""
        context, settings = self.context, self.settings
        if operation is not settings.operation:  # an insert of changes
            settings = replace(settings, operation=operation, combines=True)
        if not found.holds(self._state(transaction.timeline), transaction.instant):
            found = self._preflight(operation, messages)
        lookup = begin_lookup(found.lookup, context.store, operation, transaction.instant)
        target = FileTarget(
            context.store,
            context.config,
            transaction.instant,
            stored_columns(context.config, self.schema),
            self.avro,
            settings.files,
            transaction.markers,
            wanted_of(context.store, context.config, context.options),
        )
        rules = rules_of(context.config)
        if settings.combines:
            check_known(rules, context.store.location, target.file_schema.names)
        run = WriteRun(
            settings,
            found.files,
            target,
            self._staging,
            self._engine or LocalEngine(),
            found.pending,
            transaction.inflight,
            Combiner(rules, settings.index.everywhere is not None) if settings.combines else None,
            lookup.find,
            context.concurrency.beside_clusterings,
        )
        return run, lookup.notes

    def _state(self, timeline: Timeline | None = None) -> TableState:
        """The table with a timeline that was listed, else with the one that it has now."""
        context = self.context
        archived = ArchivedTimeline(context.store, context.config, context.scratch, self._archive)
        return TableState(context.store, context.config, timeline or context.timeline(), context.files, archived)

    def _operation(self, messages: Sequence[HudiMessage]) -> Operation:
        """The operation: an insert of rows that have kinds is an upsert."""
        operation = self.settings.operation
        if operation is Operation.INSERT and any(message.changes for message in messages):
            return Operation.UPSERT
        return operation

    def _has_work(self, messages: Sequence[HudiMessage]) -> bool:
        if self.settings.operation is Operation.DELETE_PARTITION:
            return bool(messages or self.settings.partitions)
        return any(message.staged for message in messages)

    def filter_and_commit(self, commits: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit, in ascending order, the identifiers that this user has not committed yet. Returns their number."""
        return sum(bool(self.commit(identifier, commits[identifier]).instant) for identifier in sorted(commits))

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the rows of messages that were not committed."""
        self._drop(_ours(messages))

    def sweep(self) -> None:
        """Remove all rows that tasks of this write have staged, including those that no message names."""
        self._staging.sweep()

    def _drop(self, messages: Sequence[HudiMessage]) -> None:
        paths = [staged.path for message in messages for staged in message.staged if staged.path]
        if paths:
            self._staging.delete_many(paths)
            self._staging.sweep()

    def _checked_keys(self) -> RowKeys:
        """How keys are made. Raises for what lakebed does not write, before any row is read."""
        context = self.context
        check_table(context.config, self.avro, context.store.location)
        check_keyless(self.settings, context.config, context.store.location)
        everywhere = {"the index looks keys up in all partitions": bool(self.settings.index.everywhere)}
        context.config.check_dropped(context.store.location, everywhere)
        if self.settings.operation is not Operation.DELETE_PARTITION:
            check_engine(context.store, context.config, self.settings.index.consistent)
        index, replaces = self.settings.index, self.settings.operation.replaces
        buckets = bool(index.buckets) and not index.consistent
        check_non_blocking(context.options, context.config, buckets, replaces, context.store.location)
        return RowKeys.of(context.config, self.schema, context.options, context.store.location)


def _anything(state: TableState) -> None:
    """The check of a write that may build on any state of its table."""


def _staged(messages: Sequence[HudiMessage], by_key: bool) -> StagedInput | None:
    whole = [message for message in messages if message.staged]
    if not whole:
        return None
    schema = whole[0].schema
    if any(message.schema != schema for message in whole):
        raise UsageError("the tasks of one write gave rows different columns", todo="Give all rows the same columns")
    partitions = tuple(sorted({path for message in whole for path in message.partitions}))
    staged = tuple(staged for message in whole for staged in message.staged)
    return StagedInput(staged, schema or pa.schema([]), partitions, by_key or any(m.changes for m in whole))


def _ours(messages: Sequence[CommitMessage]) -> list[HudiMessage]:
    for message in messages:
        if not isinstance(message, HudiMessage):
            raise UsageError(
                f"a {type(message).__name__} is not a commit message of a Hudi table",
                todo="Commit what this writer's prepare_commit() returned",
            )
    return [message for message in messages if isinstance(message, HudiMessage)]
