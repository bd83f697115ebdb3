"""A rewrite of data files: planned, run on an engine, committed in one REPLACE snapshot (or several, as groups end).

Rules: the reference engine's RewriteDataFilesSparkAction and RewriteDataFilesCommitManager. Without partial progress
one failed group fails the rewrite and nothing of it stays. With partial progress a failed group is counted and the
others go on. The numbers of rows read and written are compared before each commit. When the outcome of a commit is
unknown, the new files are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError, StorageError, counted
from lakebed.formats.iceberg.catalog.operations import TableOperations, refuse_writing
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.commit.kinds import Replace, commit
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile
from lakebed.formats.iceberg.manifests import iter_entries, manifests_of
from lakebed.formats.iceberg.read.context import DELETE_MEMORY, ReadContext
from lakebed.formats.iceberg.read.plan import kept_manifests, live_deletes, unpartitioned
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.read.task import predicate_schema
from lakebed.formats.iceberg.rewrite import options as opt
from lakebed.formats.iceberg.rewrite.arrange import Order, order_of, table_order
from lakebed.formats.iceberg.rewrite.dangling import DATA_COLUMNS, dangling
from lakebed.formats.iceberg.rewrite.groups import Group, GroupWork
from lakebed.formats.iceberg.rewrite.plan import Plan, PlannedGroup, plan_groups
from lakebed.formats.iceberg.rewrite.predict import partition_notes
from lakebed.formats.iceberg.rewrite.scan import LiveFiles
from lakebed.formats.iceberg.rewrite.task import (
    RewriteStrategy,
    Stop,
    StoppedError,
    TaskResult,
    TaskRunner,
)
from lakebed.formats.iceberg.write.files import WriteTarget
from lakebed.formats.iceberg.write.routing import Router, Sorter
from lakebed.kernel.again import looks_again
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where, parse_where, unread_parts
from lakebed.model.upkeep import RewriteResult, Skipped


@dataclass(frozen=True, slots=True)
class IcebergRewrite:
    """A planned rewrite of one branch. `snapshot` is the one that was planned from, None for an empty table."""

    operations: TableOperations
    metadata: TableMetadata
    snapshot: Snapshot | None
    branch: str
    options: Options
    rules: opt.PlanRules
    plan: Plan
    live: LiveFiles | None
    order: Order | None
    commit_options: Mapping[str, str]
    context: ReadContext

    @classmethod
    @looks_again
    def planned(
        cls, operations: TableOperations, branch: str, where: Where, given: Mapping[str, object],
        commit_options: Mapping[str, str] = {}, delete_memory: int = DELETE_MEMORY,
    ) -> IcebergRewrite:  # fmt: skip
        """Decide what to do; nothing is changed.

        `where` chooses files that may hold a matching row; they are rewritten whole. `commit_options` are the table's
        options that say how a commit is retried. `delete_memory` is how many bytes the equality deletes of one file may
        hold at a time. OptionError for an option that is unknown or out of range, PredicateError for an impossible
        `where`, NotInHistoryError for a branch that does not exist, UnsupportedError for what lakebed does not write.
        """
        options = opt.parse(given)
        loaded = operations.load()
        refuse_writing(operations, loaded)
        metadata = loaded.metadata
        branch = options[opt.BRANCH] if options.given(opt.BRANCH) else branch
        snapshot = metadata.head(branch)
        rules = opt.plan_rules(options, metadata.properties, metadata.default_spec_id, metadata.specs.keys())
        order = order_of(metadata, options[opt.STRATEGY], options[opt.SORT_ORDER], options[opt.VAR_LENGTH])
        if order is None and options[opt.KEEP_ORDER]:
            order = table_order(metadata)
        context = ReadContext.of(metadata, delete_memory=delete_memory)
        pruning = Pruning(parse_where(where, predicate_schema(context)), metadata.schema)
        if snapshot is None:
            live, plan = None, Plan((), ())
        else:
            overlap_of = order.first if order is not None and rules.overlap_depth is not None else None
            weigh = rules.payback_reads is not None
            live = LiveFiles.of(operations.files, metadata, snapshot, pruning, overlap_of, weigh)
            plan = plan_groups(live.table, rules)
        planned = cls(
            operations, metadata, snapshot, branch, options, rules, plan, live, order, commit_options, context
        )
        if plan.groups:  # refuse now what cannot be written, so that a dry run promises only what a run does
            planned.router()
            planned.target()
            if order is not None and isinstance(order.keys, Sorter):
                order.keys.refuse_lost()
        return planned

    def router(self) -> Router | None:
        """Spreads rows over the partitions of the output spec; None when no file has another spec.

        UnsupportedError when a column that the spec needs was dropped.
        """
        if not any(group.repartitioned for group in self.plan.groups):
            return None
        router = Router(self.metadata.schema, self.metadata.specs[self.rules.output_spec])
        router.refuse_lost()
        return router

    def target(self) -> WriteTarget:
        """Where new files go and what they hold. UnsupportedError for what lakebed does not write."""
        spec, order = self.metadata.specs[self.rules.output_spec], self.order
        lineage = self.metadata.format_version >= 3
        return WriteTarget.of(
            self.operations.files, self.metadata, spec.spec_id, lineage, order.id if order is not None else None
        )

    def run(self, dry_run: bool = False, engine: Engine | None = None) -> RewriteResult:
        """Rewrite the planned groups.

        Raises the error of the group that failed, CommitConflictError when another writer changed the same files,
        CommitUnknownError when the outcome of the commit is unknown.
        """
        result = self._predicted()
        if dry_run or self.snapshot is None or self.live is None:
            return replace(result, dry_run=dry_run)
        if not self.plan.groups:
            return self._only_deletes(result)
        return _Run(self, engine or LocalEngine()).run(result)

    def _predicted(self) -> RewriteResult:
        notes: list[str] = []
        if self.live is not None:
            notes += unread_parts(self.live.pruning.predicate, filters_rows=False)
            notes += partition_notes(self.live, self.metadata, self.plan, self.rules)
        return self.plan.predicted(notes)

    def _only_deletes(self, result: RewriteResult) -> RewriteResult:
        """Remove dangling delete files when no data file is worth a rewrite."""
        dangling = self.dangling_deletes(()) if self.options[opt.DANGLING] else []
        if not dangling:
            return result
        instant = self.commit([], dangling, [])
        return replace(result, instants=(instant,), removed_deletes=len(dangling))

    def dangling_deletes(self, removed: Sequence[DataFile]) -> list[DeleteFile]:
        """The delete files that no data file needs once these data files are removed."""
        assert self.snapshot is not None  # an empty table has nothing to rewrite
        files, metadata = self.operations.files, self.metadata
        data, delete_manifests = kept_manifests(metadata, manifests_of(files, metadata, self.snapshot), None)
        deletes = list(live_deletes(files, metadata, delete_manifests))
        if not deletes:
            return []
        pieces = (
            entries for of_spec in data.values() for entries in iter_entries(files, metadata, of_spec, DATA_COLUMNS)
        )
        return dangling(deletes, pieces, {file.path for file in removed}, unpartitioned(metadata))

    def commit(self, removed: Sequence[DataFile], deletes: Sequence[DeleteFile], added: Sequence[DataFile]) -> str:
        """Commit one REPLACE snapshot. Returns its id."""
        assert self.snapshot is not None  # an empty table has nothing to rewrite
        kind = Replace(
            self.snapshot.snapshot_id,
            (*removed, *deletes),
            tuple(added),
            keeps_sequence_number=self.options[opt.STARTING_SEQUENCE],
        )
        return commit(self.operations, kind, CommitOptions(self.branch, properties=self.commit_options)).instant


class _Run:
    """One execution of a planned rewrite."""

    def __init__(self, rewrite: IcebergRewrite, engine: Engine) -> None:
        self._rewrite = rewrite
        metadata, options, order = rewrite.metadata, rewrite.options, rewrite.order
        self._partial: bool = options[opt.PARTIAL]
        lineage = metadata.format_version >= 3
        target, router = rewrite.target(), rewrite.router()
        self._stop = Stop()
        runner = TaskRunner(
            rewrite.context, target, rewrite.rules.sizes, order.keys if order is not None else None, router,
            lineage, stop=self._stop,
        )  # fmt: skip
        assert rewrite.live is not None  # an empty table has nothing to run
        self._work = GroupWork(
            runner, rewrite.live.chosen(np.concatenate([group.rows for group in rewrite.plan.groups])), engine,
            options[opt.CONCURRENT], options[opt.CONCAT], order.columns if order is not None else (),
        )  # fmt: skip
        self._instants: list[str] = []
        self._failed: list[Skipped] = []
        self._failed_commits = 0
        self._notes: tuple[str, ...] = ()
        self._removed_deletes = 0
        self._committed: list[Group] = []

    def run(self, predicted: RewriteResult) -> RewriteResult:
        """Run all groups and commit them. Returns the predicted result with what really happened."""
        groups = list(self._rewrite.plan.groups)
        if self._partial:
            self._with_partial_progress(groups)
        else:
            self._all_or_nothing(groups)
        results = [result for group in self._committed for result in group.results]
        before = [file.data for group in self._committed for file in group.inputs]
        after = [file for group in self._committed for file in group.files]
        return replace(
            predicted,
            files_before=len(before),
            files_after=len(after),
            bytes_before=sum(file.size for file in before),
            bytes_after=sum(file.size for file in after),
            groups=len(self._committed),
            failed=tuple(self._failed),
            instants=tuple(self._instants),
            removed_deletes=self._removed_deletes,
            notes=(*predicted.notes, *_join_notes(results), *self._notes),
        )

    # ---- running groups ----

    def _all_or_nothing(self, planned: Sequence[PlannedGroup]) -> None:
        groups: list[Group] = []
        try:
            for group in self._work.executed(planned, self._stop):
                groups.append(group)
                if group.error is not None:
                    self._stop.set()
            errors = (group.error for group in groups)
            failure = next((error for error in errors if error and not isinstance(error, StoppedError)), None)
            if failure is not None:
                raise failure
        except BaseException:
            self._remove(groups)
            raise
        try:
            self._commit(groups, last=True)
        except CommitUnknownError:
            raise
        except Exception:  # after an interrupt the outcome is unknown: orphan-file removal cleans up any leftovers
            self._remove(groups)
            raise

    def _with_partial_progress(self, planned: Sequence[PlannedGroup]) -> None:
        """Commit whenever enough groups have ended."""
        groups_per_commit = -(-len(planned) // self._rewrite.options[opt.MAX_COMMITS])
        ready: list[Group] = []
        for group in self._work.executed(planned):
            if group.error is not None:
                self._failed.append(Skipped(group.planned.about.what, str(group.error)))
                self._remove([group])
                continue
            ready.append(group)
            if len(ready) == groups_per_commit:
                self._try_commit(ready)
                ready = []
        if ready:
            self._try_commit(ready)
        if self._rewrite.options[opt.DANGLING] and self._committed:
            self._notes += afterwards("delete files that nothing needs any more stay", self._drop_dangling_deletes)
        most = self._rewrite.options[opt.MAX_FAILED_COMMITS]
        if self._failed_commits > (self._rewrite.options[opt.MAX_COMMITS] if most is None else most):
            raise CommitConflictError(
                f"{counted(self._failed_commits, 'commit')} of a rewrite failed",
                table=self._rewrite.metadata.location,
                why="; ".join(f"{failed.what}: {failed.reason}" for failed in self._failed[:3]),
                todo=counted(len(self._instants), "commit stands", "commits stand")
                + ". Run the rewrite again for the rest",
            )

    def _drop_dangling_deletes(self) -> None:
        """Make one more commit, without the delete files that only the rewritten data files needed."""
        done = self._rewrite
        rewrite = IcebergRewrite.planned(done.operations, done.branch, None, done.options.raw, done.commit_options)
        dangling = rewrite.dangling_deletes(())
        if dangling:
            self._instants.append(rewrite.commit([], dangling, []))
            self._removed_deletes += len(dangling)

    # ---- committing ----

    def _try_commit(self, groups: list[Group]) -> None:
        """Commit groups together. On a conflict commit each alone, so that only the groups that conflict fail."""
        try:
            self._commit(groups, last=False)
        except CommitUnknownError as error:
            self._failed_commits += 1
            self._failed += [Skipped(group.planned.about.what, str(error)) for group in groups]
        except LakebedError as error:
            if len(groups) > 1 and isinstance(error, CommitConflictError):
                for group in groups:
                    self._try_commit([group])
                return
            self._failed_commits += 1
            self._failed += [Skipped(group.planned.about.what, str(error)) for group in groups]
            self._remove(groups)

    def _commit(self, groups: Sequence[Group], last: bool) -> None:
        removed = [file.data for group in groups for file in group.inputs]
        added = [file for group in groups for file in group.files]
        deletes = {(delete.path, delete.content_offset): delete for group in groups for delete in group.vectors}
        vectors = len(deletes)
        if last and self._rewrite.options[opt.DANGLING]:
            dangling = self._rewrite.dangling_deletes(removed)
            deletes |= {(delete.path, delete.content_offset): delete for delete in dangling}
        self._instants.append(self._rewrite.commit(removed, list(deletes.values()), added))
        self._removed_deletes += len(deletes) if last else vectors
        self._committed += groups

    def _remove(self, groups: Sequence[Group]) -> None:
        """Remove the files that groups wrote, as far as the store allows."""
        paths = [file.path for group in groups for file in group.files]
        try:
            self._rewrite.operations.files.delete_many(paths)
        except (StorageError, OSError):
            return  # orphan-file removal cleans up any leftovers; the error that led here is the one to report


def _join_notes(results: Sequence[TaskResult]) -> list[str]:
    """How many files were joined, and why others were not."""
    joined = sum(1 for result in results if result.strategy is RewriteStrategy.JOIN)
    notes = (
        [counted(joined, "file was joined without decoding its rows", "files were joined without decoding their rows")]
        if joined
        else []
    )
    reasons = {result.note for result in results if result.note}
    return notes + [f"some files could not be joined without decoding: {reason}" for reason in sorted(reasons)]
