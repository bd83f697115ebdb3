"""A rewrite of data files: planned, done on an engine, committed in one REPLACE snapshot (or several, as groups end).

Rules: the reference engine's RewriteDataFilesSparkAction and RewriteDataFilesCommitManager. Without partial progress
one failed group fails the rewrite and nothing stays of it; with it a failed group is counted and the others go on. Rows
in and rows out are compared before each commit. After a commit of unknown outcome the new files are kept.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lakebed.errors import CommitConflictError, CommitUnknownError, LakebedError, StorageError
from lakebed.formats.iceberg import publish
from lakebed.formats.iceberg.catalog import TableAccess
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.entries import DataFile, DeleteFile, FileTask
from lakebed.formats.iceberg.manifests import iter_entries, read_manifest_list
from lakebed.formats.iceberg.read.context import DELETE_MEMORY, ReadContext
from lakebed.formats.iceberg.read.data import predicate_schema
from lakebed.formats.iceberg.read.plan import kept_manifests, live_deletes, unpartitioned
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.rewrite import options as opt
from lakebed.formats.iceberg.rewrite.arrange import Order, order_of, table_order
from lakebed.formats.iceberg.rewrite.dangling import DATA_COLUMNS, dangling
from lakebed.formats.iceberg.rewrite.join import may_join
from lakebed.formats.iceberg.rewrite.plan import Plan, PlannedGroup, plan_groups
from lakebed.formats.iceberg.rewrite.predict import partition_notes
from lakebed.formats.iceberg.rewrite.scan import ChosenFiles, LiveFiles
from lakebed.formats.iceberg.rewrite.tasks import (
    RewriteTask,
    Stop,
    StoppedError,
    TaskResult,
    TaskRunner,
    Way,
    check_rows,
)
from lakebed.formats.iceberg.write.files import WriteTarget
from lakebed.formats.iceberg.write.routing import Router
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.options import Options
from lakebed.kernel.packing import even_runs
from lakebed.kernel.predicates import Where, parse_where
from lakebed.model.upkeep import RewriteResult, Skipped

_LEAST_OUTPUTS = 4
"""Files of one task where a group is split, at least."""


@dataclass(frozen=True, slots=True)
class IcebergRewrite:
    """A planned rewrite of one branch. `snapshot` is the one that was planned from, None for an empty table."""

    access: TableAccess
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
    def planned(
        cls, access: TableAccess, branch: str, where: Where, given: Mapping[str, object],
        commit_options: Mapping[str, str] = {}, delete_memory: int = DELETE_MEMORY,
    ) -> IcebergRewrite:  # fmt: skip
        """Decide what to do; nothing is changed. `where` chooses files that may hold a matching row; they are
        rewritten whole. `commit_options` are those of the table that say how a commit is tried again,
        `delete_memory` bounds in bytes what the equality deletes of one file hold at a time.

        OptionError for an option that is unknown or out of range, PredicateError for a `where` that cannot be,
        NotInHistoryError for a branch that is not there.
        """
        options = opt.parse(given)
        metadata = access.load().metadata
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
                access, metadata, None, branch, options, rules, nothing, None, order, commit_options, context
            )  # fmt: skip
        overlap = order.first if order is not None and rules.overlap_depth is not None else None
        live = LiveFiles.of(access.files, metadata, snapshot, pruning, overlap)
        plan = plan_groups(live.table, rules)
        return cls(access, metadata, snapshot, branch, options, rules, plan, live, order, commit_options, context)

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
        files, metadata = self.access.files, self.metadata
        data, deletes = kept_manifests(metadata, read_manifest_list(files, self.snapshot), None)
        found = list(live_deletes(files, metadata, deletes))
        if not found:
            return []
        pieces = (piece for some in data.values() for piece in iter_entries(files, metadata, some, DATA_COLUMNS))
        return dangling(found, pieces, {one.path for one in removed}, unpartitioned(metadata))

    def commit(self, removed: Sequence[DataFile], deletes: Sequence[DeleteFile], added: Sequence[DataFile]) -> str:
        """One REPLACE snapshot; its id."""
        assert self.snapshot is not None  # there is one
        return publish.replace(
            self.access, self.snapshot.snapshot_id, [*removed, *deletes], added, branch=self.branch,
            starting_sequence_number=self.options[opt.STARTING_SEQUENCE], options=self.commit_options,
        ).instant  # fmt: skip


@dataclass(slots=True)
class _Group:
    """A group under way: its tasks, and what they gave so far."""

    planned: PlannedGroup
    tasks: list[RewriteTask]
    results: list[TaskResult] = field(default_factory=list)

    @property
    def error(self) -> Exception | None:
        """The first real error of its tasks."""
        found = [one.error for one in self.results if one.error is not None]
        return next((e for e in found if not isinstance(e, StoppedError)), found[0] if found else None)

    @property
    def done(self) -> bool:
        return len(self.results) == len(self.tasks)

    @property
    def inputs(self) -> list[FileTask]:
        return [one for task in self.tasks for one in task.inputs]

    @property
    def files(self) -> list[DataFile]:
        return [one for result in self.results for one in result.files]

    @property
    def vectors(self) -> list[DeleteFile]:
        return [delete for one in self.inputs for delete in one.deletes if delete.is_vector]


class _Run:
    """One execution of a plan."""

    def __init__(self, rewrite: IcebergRewrite, engine: Engine) -> None:
        self._rewrite, self._engine = rewrite, engine
        metadata, options = rewrite.metadata, rewrite.options
        self._partial: bool = options[opt.PARTIAL]
        self._concurrent: int = options[opt.CONCURRENT]
        self._write_id = str(uuid.uuid4())
        order = rewrite.order
        lineage = metadata.format_version >= 3
        spec = metadata.specs[rewrite.rules.output_spec]
        target = WriteTarget.of(
            rewrite.access.files, metadata, spec.spec_id, lineage, order.id if order is not None else None
        )
        router = Router(metadata.schema, spec) if any(g.repartitioned for g in rewrite.plan.groups) else None
        self._stop = Stop()
        self._runner = TaskRunner(
            rewrite.context, target, rewrite.rules.sizes, order.keys if order is not None else None, router,
            lineage, stop=self._stop,
        )  # fmt: skip
        self._chosen: ChosenFiles | None = None
        self._instants: list[str] = []
        self._failed: list[Skipped] = []
        self._failed_commits = 0
        self._removed_deletes = 0
        self._committed: list[_Group] = []

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
            notes=(*predicted.notes, *_ways(results)),
        )  # fmt: skip

    # ---- doing ----

    def _at_once(self, planned: Sequence[PlannedGroup]) -> None:
        groups: list[_Group] = []
        try:
            for group in self._executed(planned):
                groups.append(group)
                if group.error is not None:
                    self._stop.set()
            failed = next((g for g in groups if g.error and not isinstance(g.error, StoppedError)), None)
            if failed is not None:
                raise _of_group(failed)
            self._commit(groups, last=True)
        except CommitUnknownError:
            raise
        except BaseException:
            self._remove(groups)
            raise

    def _in_parts(self, planned: Sequence[PlannedGroup]) -> None:
        """A commit whenever enough groups are done."""
        each = -(-len(planned) // self._rewrite.options[opt.MAX_COMMITS])
        ready: list[_Group] = []
        for group in self._executed(planned):
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
            again = IcebergRewrite.planned(
                self._rewrite.access,
                self._rewrite.branch,
                None,
                self._rewrite.options.raw,
                self._rewrite.commit_options,
            )
            dead = again.dead_deletes(())
            if dead:
                self._instants.append(again.commit([], dead, []))
                self._removed_deletes += len(dead)
        most = self._rewrite.options[opt.MAX_FAILED_COMMITS]
        if self._failed_commits > (self._rewrite.options[opt.MAX_COMMITS] if most is None else most):
            raise CommitConflictError(
                f"{self._failed_commits} commits of a rewrite failed", table=self._rewrite.metadata.location,
                why="; ".join(f"{one.what}: {one.reason}" for one in self._failed[:3]),
                todo=f"{len(self._instants)} commits stand. Run the rewrite again for the rest",
            )  # fmt: skip

    def _executed(self, planned: Sequence[PlannedGroup]) -> Iterator[_Group]:
        """The groups as they end, in their order; no more at a time than the call allows."""
        wave = len(planned) if self._engine.parallelism <= self._concurrent else self._concurrent
        for start in range(0, len(planned), wave):
            groups = self._prepared(planned[start : start + wave], start)
            tasks = [task for group in groups for task in group.tasks]
            by_number = {start + number: group for number, group in enumerate(groups)}
            for task, result in zip(tasks, self._engine.map(self._runner, tasks), strict=True):
                group = by_number[task.group]
                group.results.append(_checked(result, task))
                if group.error is not None and not self._partial:
                    self._stop.set()
                if group.done:
                    yield group

    def _prepared(self, planned: Sequence[PlannedGroup], first: int) -> list[_Group]:
        """The tasks of groups. Figures of files are fetched for those that may be joined."""
        rewrite = self._rewrite
        assert rewrite.live is not None  # else there would be no group
        if self._chosen is None:
            self._chosen = rewrite.live.chosen(np.concatenate([group.rows for group in rewrite.plan.groups]))
        chosen = self._chosen
        inputs = [chosen.tasks(group.rows) for group in planned]
        joins = [
            self._runner.order is None and not group.repartitioned and self._may_join(some)
            for group, some in zip(planned, inputs, strict=True)
        ]
        joined = [group.rows for group, join in zip(planned, joins, strict=True) if join]
        metrics = chosen.metrics(np.concatenate(joined)) if joined else {}
        parts = max(1, self._engine.parallelism // max(1, len(planned)))
        found = []
        for number, (group, some, join) in enumerate(zip(planned, inputs, joins, strict=True)):
            if join:
                some = [replace(one, data=replace(one.data, metrics=metrics.get(one.data.path))) for one in some]
                join = self._may_join(some, lineage=True)
            way = Way.JOIN if join else Way.ENCODE
            if group.repartitioned or self._runner.order is not None:
                way = Way.ARRANGE
            found.append(_Group(group, self._tasks(first + number, group, some, way, parts)))
        return found

    def _may_join(self, some: Sequence[FileTask], lineage: bool = False) -> bool:
        rewrite = self._rewrite
        version = rewrite.metadata.format_version if lineage else 2
        return self._runner.target.layout.format == "PARQUET" and may_join(
            some, rewrite.options[opt.CONCAT], rewrite.rules.sizes.write_max, version
        )

    def _tasks(
        self, number: int, group: PlannedGroup, some: Sequence[FileTask], way: Way, parts: int
    ) -> list[RewriteTask]:
        """A group as tasks: one a file where files are joined, as many as run at once where they are encoded, but
        then of several files each: a task can even its files out only among themselves."""
        outputs = group.about.files_after
        sizes = np.array([one.data.size for one in some], np.int64)
        pieces = {Way.JOIN: outputs, Way.ENCODE: min(max(1, outputs // _LEAST_OUTPUTS), parts), Way.ARRANGE: 1}[way]
        starts = even_runs(sizes, pieces).tolist()
        ends = [*starts[1:], len(some)]
        shares = [round(outputs * float(sizes[:end].sum()) / max(1, float(sizes.sum()))) for end in ends]
        counts = [max(1, after - before) for before, after in zip([0, *shares[:-1]], shares, strict=True)]
        return [
            RewriteTask(
                number, f"{self._write_id}-{number:05d}-{place}", way, tuple(some[start:end]), count,
                group.repartitioned,
            )
            for place, (start, end, count) in enumerate(zip(starts, ends, counts, strict=True))
        ]  # fmt: skip

    # ---- committing ----

    def _try_commit(self, groups: list[_Group]) -> None:
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

    def _commit(self, groups: Sequence[_Group], last: bool) -> None:
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

    def _remove(self, groups: Sequence[_Group]) -> None:
        """Remove what groups wrote, as far as the store lets us."""
        paths = [one.path for group in groups for one in group.files]
        try:
            self._rewrite.access.files.delete_many(paths)
        except (StorageError, OSError):
            return  # orphans, which upkeep finds; the error that brought us here is the one to tell


def _checked(result: TaskResult, task: RewriteTask) -> TaskResult:
    """The result, or the error that its rows are not those of the input."""
    if result.error is None:
        try:
            check_rows(result, task)
        except LakebedError as error:
            return replace(result, error=error)
    return result


def _of_group(group: _Group) -> Exception:
    """The error that failed a group."""
    error = group.error
    assert error is not None  # it failed
    return error


def _ways(results: Sequence[TaskResult]) -> list[str]:
    """What was joined, and why some was not."""
    joined = sum(1 for one in results if one.way is Way.JOIN)
    found = [f"{joined} files were joined without decoding their rows"] if joined else []
    reasons = {one.note for one in results if one.note}
    return found + [f"some files could not be joined without decoding: {reason}" for reason in sorted(reasons)]
