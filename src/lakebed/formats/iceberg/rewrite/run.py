"""A rewrite of data files: planned, done on an engine, committed in one REPLACE snapshot (or several, as groups end).

Rules: the reference engine's RewriteDataFilesSparkAction and RewriteDataFilesCommitManager. Without partial progress
one failed group fails the rewrite and nothing stays of it; with it a failed group is counted and the others go on. Rows
in and rows out are compared before each commit. After a commit of unknown outcome the new files are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError, StorageError
from lakebed.formats.iceberg.catalog.table import TableOperations
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.commit import kinds
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
from lakebed.kernel.predicates.where import Where, parse_where
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
        """Decide what to do; nothing is changed. `where` chooses files that may hold a matching row; they are
        rewritten whole. `commit_options` are those of the table that say how a commit is tried again,
        `delete_memory` bounds in bytes what the equality deletes of one file hold at a time.

        OptionError for an option that is unknown or out of range, PredicateError for a `where` that cannot be,
        NotInHistoryError for a branch that is not there.
        """
        options = opt.parse(given)
        metadata = operations.load().metadata
        branch = options[opt.BRANCH] if options.given(opt.BRANCH) else branch
        snapshot = metadata.head(branch)
        rules = opt.plan_rules(options, metadata.properties, metadata.default_spec_id, metadata.specs.keys())
        order = order_of(metadata, options[opt.STRATEGY], options[opt.SORT_ORDER], options[opt.VAR_LENGTH])
        if order is None and options[opt.KEEP_ORDER]:
            order = table_order(metadata)
        context = ReadContext.of(metadata, delete_memory=delete_memory)
        pruning = Pruning.of(parse_where(where, predicate_schema(context)), metadata.schema)
        if snapshot is None:
            nothing = Plan((), ())
            return cls(
                operations, metadata, None, branch, options, rules, nothing, None, order, commit_options, context
            )  # fmt: skip
        overlap = order.first if order is not None and rules.overlap_depth is not None else None
        live = LiveFiles.of(operations.files, metadata, snapshot, pruning, overlap)
        plan = plan_groups(live.table, rules)
        planned = cls(
            operations, metadata, snapshot, branch, options, rules, plan, live, order, commit_options, context
        )
        if plan.groups:  # what cannot be written is refused now, so that a dry run promises nothing that a run refuses
            planned.router()
            planned.target()
            if order is not None and isinstance(order.keys, Sorter):
                order.keys.refuse_lost()
        return planned

    def router(self) -> Router | None:
        """What spreads rows over the partitions of the output spec, where some files are of another one.
        UnsupportedError where a column that it needs was dropped."""
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
        """Do it. Raises the error of the group that failed, CommitConflictError when another writer changed the same
        files, CommitUnknownError when nobody said whether the commit is there."""
        result = self._predicted()
        if dry_run or self.snapshot is None or self.live is None:
            return replace(result, dry_run=dry_run)
        if not self.plan.groups:
            return self._only_deletes(result)
        return _Run(self, engine or LocalEngine()).run(result)

    def _predicted(self) -> RewriteResult:
        about = [group.about for group in self.plan.groups]
        notes = partition_notes(self.live, self.metadata, self.plan, self.rules) if self.live is not None else []
        return RewriteResult(
            sum(one.files for one in about), sum(one.files_after for one in about), sum(one.size for one in about),
            sum(one.size_after for one in about), len(about), self.plan.skipped, plan=tuple(about), notes=tuple(notes),
        )  # fmt: skip

    def _only_deletes(self, result: RewriteResult) -> RewriteResult:
        """No data file is worth a rewrite; delete files may be dead all the same."""
        dead = self.dead_deletes(()) if self.options[opt.DANGLING] else []
        if not dead:
            return result
        instant = self.commit([], dead, [])
        return replace(result, instants=(instant,), removed_deletes=len(dead))

    def dead_deletes(self, removed: Sequence[DataFile]) -> list[DeleteFile]:
        """The delete files that nothing needs once these data files are gone."""
        assert self.snapshot is not None  # there is one
        files, metadata = self.operations.files, self.metadata
        data, deletes = kept_manifests(metadata, manifests_of(files, metadata, self.snapshot), None)
        found = list(live_deletes(files, metadata, deletes))
        if not found:
            return []
        pieces = (piece for some in data.values() for piece in iter_entries(files, metadata, some, DATA_COLUMNS))
        return dangling(found, pieces, {one.path for one in removed}, unpartitioned(metadata))

    def commit(self, removed: Sequence[DataFile], deletes: Sequence[DeleteFile], added: Sequence[DataFile]) -> str:
        """One REPLACE snapshot; its id."""
        assert self.snapshot is not None  # there is one
        return kinds.replace(
            self.operations, self.snapshot.snapshot_id, [*removed, *deletes], added, branch=self.branch,
            starting_sequence_number=self.options[opt.STARTING_SEQUENCE], options=self.commit_options,
        ).instant  # fmt: skip


class _Run:
    """One execution of a plan."""

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
        assert rewrite.live is not None  # else nothing would be run
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
        """All groups, and the commits."""
        groups = list(self._rewrite.plan.groups)
        if self._partial:
            self._in_parts(groups)
        else:
            self._at_once(groups)
        results = [result for group in self._committed for result in group.results]
        before = [one.data for group in self._committed for one in group.inputs]
        after = [one for group in self._committed for one in group.files]
        return replace(
            predicted, files_before=len(before), files_after=len(after), bytes_before=sum(one.size for one in before),
            bytes_after=sum(one.size for one in after), groups=len(self._committed), failed=tuple(self._failed),
            instants=tuple(self._instants), removed_deletes=self._removed_deletes,
            notes=(*predicted.notes, *_ways(results), *self._notes),
        )  # fmt: skip

    # ---- doing ----

    def _at_once(self, planned: Sequence[PlannedGroup]) -> None:
        groups: list[Group] = []
        try:
            for group in self._work.executed(planned, self._stop):
                groups.append(group)
                if group.error is not None:
                    self._stop.set()
            failed = next((g for g in groups if g.error and not isinstance(g.error, StoppedError)), None)
            if failed is not None:
                raise _of_group(failed)
        except BaseException:
            self._remove(groups)
            raise
        try:
            self._commit(groups, last=True)
        except CommitUnknownError:
            raise
        except Exception:  # an interrupt says nothing of the outcome: the files are left to orphan removal then
            self._remove(groups)
            raise

    def _in_parts(self, planned: Sequence[PlannedGroup]) -> None:
        """A commit whenever enough groups are done."""
        each = -(-len(planned) // self._rewrite.options[opt.MAX_COMMITS])
        ready: list[Group] = []
        for group in self._work.executed(planned):
            if group.error is not None:
                self._failed.append(Skipped(group.planned.about.what, str(group.error)))
                self._remove([group])
                continue
            ready.append(group)
            if len(ready) == each:
                self._try_commit(ready)
                ready = []
        if ready:
            self._try_commit(ready)
        if self._rewrite.options[opt.DANGLING] and self._committed:
            self._notes += afterwards("delete files that nothing needs any more stay", self._drop_dead_deletes)
        most = self._rewrite.options[opt.MAX_FAILED_COMMITS]
        if self._failed_commits > (self._rewrite.options[opt.MAX_COMMITS] if most is None else most):
            raise CommitConflictError(
                f"{self._failed_commits} commits of a rewrite failed", table=self._rewrite.metadata.location,
                why="; ".join(f"{one.what}: {one.reason}" for one in self._failed[:3]),
                todo=f"{len(self._instants)} commits stand. Run the rewrite again for the rest",
            )  # fmt: skip

    def _drop_dead_deletes(self) -> None:
        """One commit more, without the delete files that the rewritten data files needed."""
        done = self._rewrite
        again = IcebergRewrite.planned(done.operations, done.branch, None, done.options.raw, done.commit_options)
        dead = again.dead_deletes(())
        if dead:
            self._instants.append(again.commit([], dead, []))
            self._removed_deletes += len(dead)

    # ---- committing ----

    def _try_commit(self, groups: list[Group]) -> None:
        """Commit groups together; when another writer stands in the way of some, each alone, so that only these
        fail."""
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
        removed = [one.data for group in groups for one in group.inputs]
        added = [one for group in groups for one in group.files]
        deletes = {(one.path, one.content_offset): one for group in groups for one in group.vectors}
        vectors = len(deletes)
        if last and self._rewrite.options[opt.DANGLING]:
            dead = self._rewrite.dead_deletes(removed)
            deletes |= {(one.path, one.content_offset): one for one in dead}
        self._instants.append(self._rewrite.commit(removed, list(deletes.values()), added))
        self._removed_deletes += len(deletes) if last else vectors
        self._committed += groups

    def _remove(self, groups: Sequence[Group]) -> None:
        """Remove what groups wrote, as far as the store lets us."""
        paths = [one.path for group in groups for one in group.files]
        try:
            self._rewrite.operations.files.delete_many(paths)
        except (StorageError, OSError):
            return  # orphans, which upkeep finds; the error that brought us here is the one to tell


def _of_group(group: Group) -> Exception:
    """The error that failed a group."""
    error = group.error
    assert error is not None  # it failed
    return error


def _ways(results: Sequence[TaskResult]) -> list[str]:
    """What was joined, and why some was not."""
    joined = sum(1 for one in results if one.way is RewriteStrategy.JOIN)
    found = [f"{joined} files were joined without decoding their rows"] if joined else []
    reasons = {one.note for one in results if one.note}
    return found + [f"some files could not be joined without decoding: {reason}" for reason in sorted(reasons)]
