"""A rewrite of a table: planned, run on an engine, committed in one COMPACT snapshot.

Rules: Paimon's CompactAction and FileStoreCommitImpl. Writers may append meanwhile: what they add stays as it is. Of
two compactions of the same files one is committed, and the other is a conflict and leaves nothing behind.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakebed.errors import CommitConflictError, OptionError, UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.commit.callbacks import named_callbacks
from lakebed.formats.paimon.commit.committer import Committer
from lakebed.formats.paimon.commit.leftovers import removed_on_failure
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.options import CommitOptions
from lakebed.formats.paimon.definition import BucketMode, bucket_mode, refuse_unserved
from lakebed.formats.paimon.rewrite.append_plan import not_rewritten, plan_append_compaction
from lakebed.formats.paimon.rewrite.append_task import AppendCompactor
from lakebed.formats.paimon.rewrite.arrange import order_of
from lakebed.formats.paimon.rewrite.manifests import rewrite_manifests
from lakebed.formats.paimon.rewrite.options import MAX_FILES, ORDER_STRATEGY, STRATEGY, WHAT
from lakebed.formats.paimon.rewrite.plan import CompactionPlan, plan_compaction
from lakebed.formats.paimon.rewrite.postpone import PostponeRewrite
from lakebed.formats.paimon.rewrite.rescale import Rescaler, plan_rescale, plan_telling
from lakebed.formats.paimon.rewrite.rivals import raise_if_replaced
from lakebed.formats.paimon.rewrite.task import BucketCompactor
from lakebed.formats.paimon.rewrite.unit import CompactionRules
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.kernel.again import looks_again
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where
from lakebed.kernel.shared_engine import SharedEngine
from lakebed.model.commit import BATCH_IDENTIFIER
from lakebed.model.upkeep import RewriteResult

Messages = PaimonMessage | tuple[PaimonMessage, ...]


def rewrite_files(
    history: History, schema: TableSchema, options: Options, where: Where, own: Options, given: Mapping[str, str],
    dry_run: bool, engine: Engine | None,
) -> RewriteResult:  # fmt: skip
    """Rewrite the files of a table by its bucket mode, or its manifests. `own` are the options that only a rewrite has,
    `given` the table options of the call: `bucket` among them rescales.

    Raises UnsupportedError for what lakebed does not compact, CommitConflictError when another writer was faster;
    nothing is left behind then.
    """
    if own[WHAT] == "manifests":
        _refuse_bound(own, "a rewrite of manifests", history)
        return rewrite_manifests(history, schema, options, where, dry_run)
    table, mode = history.store.location, bucket_mode(schema, options)
    if own[ORDER_STRATEGY] != "none" and mode is not BucketMode.BUCKET_UNAWARE:
        raise UnsupportedError(
            f"lakebed cannot sort the files of a table of bucket mode {mode}",
            table=table,
            todo="Leave order_strategy out: only tables without a primary key and without buckets are sorted",
        )
    rescales = opt.BUCKET.key in map(str.lower, given)
    if mode is BucketMode.POSTPONE_MODE and not rescales:
        return PostponeRewrite.plan(history, schema, options, where).up_to(own[MAX_FILES]).run(dry_run, engine)
    if rescales:
        _refuse_bound(own, "a move into another number of buckets", history)
    refuse_unserved(schema, options, Use.WRITE, table)
    if not schema.primary_keys:
        _refuse_append(options, table)
    minor, user = own[STRATEGY] == "minor", f"{options[opt.COMMIT_USER_PREFIX]}{uuid.uuid4()}"
    order = order_of(own, options, schema, table)

    @looks_again
    def planned() -> Compaction:
        latest, write_options = history.latest(), WriteOptions.of(schema, options)
        if rescales:
            moves = plan_rescale(history, schema, options, latest, where, dry_run)
            return Compaction(history, schema, options, user, Rescaler.of(history, schema, options, user), moves)
        if not schema.primary_keys:
            append = AppendCompactor(history, schema, write_options, order)
            packed = plan_append_compaction(append, latest, where, minor, dry_run, own[MAX_FILES])
            if isinstance(engine, SharedEngine):
                packed = replace(packed, tasks=append.among_many(packed.tasks))
            return Compaction(history, schema, options, user, append, packed)
        compactor = BucketCompactor.of(history, CompactionRules.of(schema, write_options))
        plan = plan_compaction(compactor, latest, where, minor, dry_run).up_to(own[MAX_FILES])
        return Compaction(history, schema, options, user, compactor, plan)

    earlier_instants: tuple[str, ...] = ()
    if rescales and schema.primary_keys and not dry_run:
        compactor = BucketCompactor.of(history, CompactionRules.of(schema, WriteOptions.of(schema, options)))
        telling = plan_telling(compactor, history.latest(), where)
        earlier_instants = Compaction(history, schema, options, user, compactor, telling).run(dry_run, engine).instants
    result = planned().run(dry_run, engine)
    return replace(result, instants=(*earlier_instants, *result.instants))


def _refuse_bound(own: Options, what: str, history: History) -> None:
    """Raise OptionError for a bound of the files of a call that takes all of them."""
    if own[MAX_FILES] is not None:
        refused, table = f"{what} does not take {MAX_FILES.key}", history.store.location
        raise OptionError(refused, key=MAX_FILES.key, table=table, todo="Leave it out")


def _refuse_append(options: Options, table: str) -> None:
    """Raise UnsupportedError for a table without a primary key whose files lakebed cannot rewrite."""
    for key, why in not_rewritten(options).items():
        raise UnsupportedError(
            f"lakebed cannot rewrite the files of a table with {key}",
            table=table,
            why=why,
            todo="Compact this table with Paimon's own engine",
        )


@dataclass(frozen=True, slots=True)
class Compaction:
    """A planned compaction of one branch. `work` does one task of the plan, and `user` commits."""

    history: History
    schema: TableSchema
    options: Options
    user: str
    work: Callable[[Any], Messages]
    plan: CompactionPlan[Any]

    def run(self, dry_run: bool, engine: Engine | None) -> RewriteResult:
        """Compact and commit; `engine` None: in threads. Raises CommitConflictError when another writer compacted or
        overwrote the same files; nothing is left behind then."""
        plan, options = self.plan, self.options
        if dry_run or not plan.tasks:
            return self._result(None, dry_run=dry_run)
        messages: list[PaimonMessage] = []
        try:
            with removed_on_failure(self.history.store, self.work) as work:
                for done in (engine or LocalEngine()).map(work, plan.tasks):
                    messages += done if isinstance(done, tuple) else (done,)
        except BaseException as error:
            raise_if_replaced(self.history, error)
            raise
        commit = CommitOptions(self.user, named=named_callbacks(options))
        committer = Committer(self.history, self.schema, options, commit)
        try:
            committed = committer.commit(BATCH_IDENTIFIER, messages)
        except CommitConflictError:
            committer.abort(messages)
            raise
        return self._result(messages, (committed.instant,), committed.notes)

    def _result(
        self,
        done: Sequence[PaimonMessage] | None,
        instants: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        dry_run: bool = False,
    ) -> RewriteResult:
        groups = self.plan.groups
        files = [file for message in done or () for file in message.compact_after]
        return RewriteResult(
            sum(group.files for group in groups),
            sum(group.files_after for group in groups) if done is None else len(files),
            sum(group.size for group in groups),
            sum(group.size_after for group in groups) if done is None else sum(file.file_size for file in files),
            len(groups),
            self.plan.skipped,
            dry_run,
            groups,
            instants=instants,
            notes=notes,
        )
