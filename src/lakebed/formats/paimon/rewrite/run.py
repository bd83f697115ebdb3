"""A rewrite of a table with a primary key: planned, run on an engine, committed in one COMPACT snapshot.

Rules: Paimon's CompactAction and FileStoreCommitImpl. Writers may append meanwhile: what they add stays as it is. Of
two compactions of the same files one is committed, and the other is a conflict and leaves nothing behind.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from lakebed.errors import CommitConflictError, UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.commit.callbacks import named_callbacks
from lakebed.formats.paimon.commit.committer import Committer
from lakebed.formats.paimon.commit.leftovers import remove_files
from lakebed.formats.paimon.commit.message import PaimonMessage
from lakebed.formats.paimon.commit.options import CommitOptions
from lakebed.formats.paimon.definition import BucketMode, bucket_mode, refuse_unserved
from lakebed.formats.paimon.rewrite.options import STRATEGY
from lakebed.formats.paimon.rewrite.plan import CompactionPlan, plan_compaction
from lakebed.formats.paimon.rewrite.postpone import PostponeRewrite
from lakebed.formats.paimon.rewrite.task import BucketCompactor
from lakebed.formats.paimon.rewrite.unit import CompactionRules
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.kernel.again import looks_again
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where
from lakebed.model.commit import BATCH_IDENTIFIER
from lakebed.model.upkeep import RewriteResult


def rewrite_files(
    history: History, schema: TableSchema, options: Options, where: Where, own: Options, dry_run: bool,
    engine: Engine | None,
) -> RewriteResult:  # fmt: skip
    """Rewrite the files of a table by its bucket mode. `own` are the options that only a rewrite has.

    Raises UnsupportedError for tables that lakebed does not compact, CommitConflictError when another writer was
    faster; nothing is left behind then.
    """
    if bucket_mode(schema, options) is BucketMode.POSTPONE_MODE:
        return PostponeRewrite.plan(history, schema, options, where).run(dry_run, engine)
    if not schema.primary_keys:
        raise UnsupportedError(
            "lakebed cannot rewrite Paimon tables without a primary key",
            table=history.store.location,
            todo="Compact this table with Paimon's own engine",
        )
    return PrimaryKeyRewrite.planned(history, schema, options, where, own[STRATEGY] == "minor").run(dry_run, engine)


@dataclass(frozen=True, slots=True)
class PrimaryKeyRewrite:
    """A planned compaction of one branch."""

    compactor: BucketCompactor
    plan: CompactionPlan

    @classmethod
    @looks_again
    def planned(
        cls, history: History, schema: TableSchema, options: Options, where: Where, minor: bool
    ) -> PrimaryKeyRewrite:
        """Decide what to do; nothing is changed. `minor`: by the rules of a writer, else whole buckets.

        Raises UsageError for a `where` that names other columns than those of partitions, UnsupportedError and
        OptionError for tables and options that lakebed does not write.
        """
        refuse_unserved(schema, options, Use.WRITE, history.store.location)
        compactor = BucketCompactor.of(history, CompactionRules.of(schema, WriteOptions.of(schema, options)))
        return cls(compactor, plan_compaction(compactor, history.latest(), where, minor))

    def run(self, dry_run: bool, engine: Engine | None) -> RewriteResult:
        """Compact and commit; `engine` None: in threads. Raises CommitConflictError when another writer compacted or
        overwrote the same files; nothing is left behind then."""
        plan = self.plan
        if dry_run or not plan.tasks:
            return self._result({}, dry_run=dry_run)
        messages: list[PaimonMessage] = []
        history, rules = self.compactor.history, self.compactor.rules
        try:
            messages.extend((engine or LocalEngine()).map(self.compactor, plan.tasks))
        except BaseException:
            remove_files(history.store, messages)
            raise
        options = rules.options.table
        user = f"{options[opt.COMMIT_USER_PREFIX]}{uuid.uuid4()}"
        committer = Committer(history, rules.schema, options, CommitOptions(user, named=named_callbacks(options)))
        try:
            committed = committer.commit(BATCH_IDENTIFIER, messages)
        except CommitConflictError:
            committer.abort(messages)
            raise
        after = {task.folder: message for task, message in zip(plan.tasks, messages, strict=True)}
        return self._result(after, (committed.instant,), committed.notes)

    def _result(
        self,
        done: Mapping[str, PaimonMessage],
        instants: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        dry_run: bool = False,
    ) -> RewriteResult:
        groups = self.plan.groups
        files = [file for message in done.values() for file in message.compact_after]
        return RewriteResult(
            sum(group.files for group in groups),
            len(files) if done else sum(group.files_after for group in groups),
            sum(group.size for group in groups),
            sum(file.file_size for file in files) if done else sum(group.size_after for group in groups),
            len(groups),
            self.plan.skipped,
            dry_run,
            groups,
            instants=instants,
            notes=notes,
        )
