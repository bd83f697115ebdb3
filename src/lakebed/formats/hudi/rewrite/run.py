"""A compaction or clustering from beginning to end: a plan is requested, and run later or at once.

    requested (the plan) -> inflight -> new base files -> completed, as a commit

A plan that another engine requested is run like our own. A run that died leaves the instant inflight, and files that no
commit names: named by its instant, it is run anew, after these files are removed. In table version 6 and older, the log
files of a write that is under way would be lost behind the new base files, so no plan is made meanwhile.

Rules: Hudi's `ScheduleCompactionActionExecutor` and `RunCompactionActionExecutor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.errors import CommitConflictError, CorruptError, NotInHistoryError, UnsupportedError
from lakebed.formats.hudi.codec.service_plans import (
    SORT_COLUMNS,
    ClusteringPlan,
    CompactionPlan,
    PlannedSlice,
)
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.heartbeat import has_ended
from lakebed.formats.hudi.commit.markers import marked_files, marker_folder
from lakebed.formats.hudi.commit.rollback import forget_buckets
from lakebed.formats.hudi.commit.transaction import Transaction
from lakebed.formats.hudi.index.replaced_keys import ReplacedKeys
from lakebed.formats.hudi.layout import META_COLUMNS, parse_base_name, parse_log_name, write_attempt
from lakebed.formats.hudi.merge.rules import check_known
from lakebed.formats.hudi.metadata_table.change import WrittenFile
from lakebed.formats.hudi.options import READ
from lakebed.formats.hudi.read.completeness import check_cut
from lakebed.formats.hudi.read.plan import reader_of
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.read.task import SliceReader
from lakebed.formats.hudi.rewrite import options as opt
from lakebed.formats.hudi.rewrite.arrange import RowOrder, order_of
from lakebed.formats.hudi.rewrite.cluster import Clusterer
from lakebed.formats.hudi.rewrite.cluster_run import ClusteringRun, check_plan, planned_clustering
from lakebed.formats.hudi.rewrite.due import clustering_too_early, compaction_too_early
from lakebed.formats.hudi.rewrite.log_compact import LogCompactor, drop, plan_log_compaction
from lakebed.formats.hudi.rewrite.pending import file_sizes, pending_groups, read_by, slices_of
from lakebed.formats.hudi.rewrite.plan import Planned, plan_compaction
from lakebed.formats.hudi.rewrite.request import Plan, Requests, log_named_by, refuse_changed, take_back, unchanged
from lakebed.formats.hudi.rewrite.task import CompactionTask, Compactor
from lakebed.formats.hudi.slices import live_slices
from lakebed.formats.hudi.timeline.pending_services import pending_services
from lakebed.formats.hudi.write.dropped import stored_avro, stored_columns
from lakebed.formats.hudi.write.files import FileOptions, FileTarget
from lakebed.formats.hudi.write.served import check_table, has_rings
from lakebed.formats.hudi.write.wanted import wanted_of
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.engine import Engine
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where, parse_where
from lakebed.model.upkeep import RewriteResult, Skipped


def parse_options(given: Mapping[str, str], properties: Mapping[str, str]) -> Options:
    """The options of a call over those of the table's properties. OptionError for a key that is unknown."""
    return opt.REWRITE.over(properties, given, "hoodie.")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Compactions or clusterings of one table. `files` says how base files are encoded."""

    state: TableState
    context: WriteContext
    options: Options
    files: FileOptions

    def rewrite(self, where: Where, dry_run: bool, engine: Engine) -> RewriteResult:
        """What the options ask for. UnsupportedError before anything is written, for a table that lakebed does not
        compact; CommitConflictError where a write is under way that a plan cannot be made beside."""
        self._refuse()
        step = self.options[opt.STEP]
        if step == "withdraw":
            return self._withdraw(dry_run)
        planned = self._planned(where) if step != "run" else Planned(CompactionPlan(()), (), ())
        pending, left = self._pending() if step != "schedule" else ({}, [])
        skipped = (*planned.skipped, *left)
        if dry_run:
            waiting = pending_groups(self.state.store, self._name, pending) if pending else ()
            return _result(replace(planned, groups=(*waiting, *planned.groups)), skipped, dry_run=True)
        instants: list[str] = []
        if planned.groups:
            instants.append(self._requests.request(planned.plan))
            if step == "all":
                pending[instants[0]] = planned.plan
        if step == "schedule":
            notes = ("the plan is pending: nothing ran",) if instants else ()
            return _result(planned, skipped, instants=tuple(instants), notes=notes)
        return self._run_all(pending, skipped, engine)

    @property
    def clusters(self) -> bool:
        """Whether it is a clustering and not a compaction."""
        return self._what == "clustering"

    @property
    def _what(self) -> str:
        return self.options[opt.WHAT] or ("compaction" if self._merge_on_read else "clustering")

    @property
    def _logs_only(self) -> bool:
        return self._what == "log-compaction"

    @property
    def _merge_on_read(self) -> bool:
        return self.context.config.merge_on_read

    @property
    def _requests(self) -> Requests:
        return Requests(self.state, self.context, self._name, self._action)

    @property
    def _name(self) -> str:
        return self._what.replace("-", " ")

    @property
    def _action(self) -> str:
        """The action in the names of state files."""
        before_8 = not self.context.config.completion_times
        return ("replacecommit" if before_8 else "clustering") if self.clusters else self._what.replace("-", "")

    @property
    def _reader(self) -> SliceReader:
        state = self.state
        schema = state.schema()
        reader = reader_of(state, READ.parse({}), schema, state.view())
        if self._merge_on_read:
            check_known(reader.rules, state.store.location, schema.names)
        return reader

    def _refuse(self) -> None:
        state = self.state
        if not self._merge_on_read and not self.clusters:
            raise UnsupportedError(
                "a copy-on-write table has no logs to compact",
                table=state.store.location,
                todo=f"Cluster it: {opt.WHAT.key} = clustering",
            )
        check_table(state.config, state.avro_schema(state.view()), state.store.location)

    def _planned(self, where: Where) -> Planned:
        state, view = self.state, self.state.view()
        schema = state.schema()
        keeping = state.partitions.keeping(parse_where(where, schema), schema)
        named = {stat.partition for commit in state.commits(view).values() for stat in commit.stats}
        listed = state.list_partitions(named, keeping)
        kept = [*listed] if keeping is None else keeping.kept(listed)
        written = state.written(view)
        slices = [s for path in kept for s in live_slices(path, listed[path], view, written, state.was_replaced)]
        check_cut(state, view, {(part.partition, log.name): log.size for part in slices for log in part.logs})
        pending = pending_services(state.store, state.timeline)
        if self._logs_only:
            return plan_log_compaction(slices, pending, self.options, self._reader)
        early = (clustering_too_early if self.clusters else compaction_too_early)(state, self.options)
        if early:
            return Planned(CompactionPlan(()), (), (Skipped("the table", early),))
        if not self.clusters:
            return plan_compaction(slices, pending, self.options)
        self._order(self.options[opt.SORT_COLUMNS])
        return planned_clustering(state, slices, pending, self.options)

    def _order(self, columns: str, planned: Mapping[str, str] = {}) -> RowOrder | None:
        """How rows are sorted: by what the call says, else by what the plan keeps."""
        kept = planned.get(opt.LAYOUT.key, "")
        layout = opt.LAYOUT.read(kept) if kept and not self.options.given(opt.LAYOUT) else self.options[opt.LAYOUT]
        return order_of(columns, layout, self.state.schema())

    def _file_bytes(self, plan: ClusteringPlan) -> int:
        kept = plan.parameters.get(opt.TARGET_FILE.key, "")
        given = self.options.given(opt.TARGET_FILE) or not kept
        return self.options[opt.TARGET_FILE] if given else opt.TARGET_FILE.read(kept)

    def _pending(self) -> tuple[dict[str, Plan], list[Skipped]]:
        """Pending plans to run, and those that are left."""
        state, wanted = self.state, self.options[opt.INSTANT]
        pending = pending_services(state.store, state.timeline)
        compactions = pending.log_compactions if self._logs_only else pending.compactions
        plans: dict[str, Plan] = {**(pending.clusterings if self.clusters else compactions)}
        if wanted:
            if wanted not in plans:
                raise NotInHistoryError(
                    f"no pending {self._name} {wanted!r}",
                    table=state.store.location,
                    todo=f"Give {opt.INSTANT.key} one that is pending: {', '.join(sorted(plans)) or 'none is'}",
                )
            return {wanted: plans[wanted]}, []
        begun = [
            time
            for time in plans
            if state.timeline.by_time[time].state == "inflight" and not has_ended(state.store, time)
        ]
        why = f"its run has begun and may be under way; if it died, run it again with {opt.INSTANT.key}"
        return (
            {time: plan for time, plan in plans.items() if time not in begun},
            [Skipped(f"{self._name} {time}", why) for time in begun],
        )

    def _run_all(self, plans: Mapping[str, Plan], skipped: tuple[Skipped, ...], engine: Engine) -> RewriteResult:
        for plan in plans.values():  # refuse before any of them is begun
            if isinstance(plan, ClusteringPlan):
                self._order(plan.parameters.get(SORT_COLUMNS, ""), plan.parameters)
                check_plan(self.state, plan, self.options)
        files = size = after = size_after = groups = 0
        notes: list[str] = []
        for instant, plan in sorted(plans.items()):
            if self._logs_only and isinstance(plan, CompactionPlan):
                whole, plan = plan, unchanged(self.context, instant, plan)
                why = f"rows were written to it since the plan {instant}"
                gone = [part for part in whole.operations if part not in plan.operations]
                skipped = (*skipped, *(Skipped(f"{part.partition}/{part.file_id}", why) for part in gone))
            parts = slices_of(plan)
            operation = {"clustering": "CLUSTER", "log-compaction": "LOG_COMPACT"}.get(self._what, "COMPACT")
            transaction = Transaction.take(self.context, self._action, operation, instant)
            try:
                tasks, before, bytes_before = self._tasks(instant, parts, transaction)
                written, more = self._run(transaction, plan, tasks, engine)
            except BaseException:
                if self._logs_only:
                    with suppress(CommitConflictError):  # where another process has taken it up, it is that one's
                        transaction.check_run()
                        drop(self.context, instant)
                raise
            finally:
                transaction.leave()
            files, size = files + before, size + bytes_before
            groups += len(plan.operations) if isinstance(plan, CompactionPlan) else len(plan.groups)
            after, size_after = after + len(written), size_after + sum(file.size for file in written)
            notes += more
        return RewriteResult(
            files, after, size, size_after, groups, skipped, instants=tuple(sorted(plans)), notes=tuple(notes)
        )

    def _tasks(
        self, instant: str, parts: Sequence[PlannedSlice], transaction: Transaction | None = None
    ) -> tuple[list[CompactionTask], int, int]:
        """The slices of a plan, with the files that they read and the bytes of these. What an earlier run of it left is
        removed. Where they are to be read, by `transaction`: CorruptError for a log file that was cut short, and
        CommitConflictError where another process has taken the plan up meanwhile."""
        store, view = self.context.store, self.state.view()
        sizes = file_sizes(store, parts)
        left = []
        for folder, name in sizes:
            parsed = parse_base_name(name)
            if parsed is not None and parsed[1].instant == instant:
                left.append(f"{folder}/{name}".lstrip("/"))
        if transaction is not None:
            logs = {(part.partition, name) for part in parts for name in part.logs}
            check_cut(self.state, view, {file: size for file, size in sizes.items() if file in logs})
        left += (marked_files(store, instant) or ()) if self._logs_only else ()
        if left and transaction is not None:
            transaction.check_run()
        store.delete_many(left)

        def position(name: str) -> tuple[str, int, tuple[int, ...]]:
            parsed = parse_log_name(name)
            if parsed is None:
                what, todo = "the plan of a table service names a log file that is none", "Roll the instant back"
                raise CorruptError(what, table=self.state.store.location, instant=instant, file=name, todo=todo)
            log = parsed[1]
            order = view.order(log.instant) if view.timeline.completion_times else log.instant
            return order or log.instant, log.version, write_attempt(log.token)

        tasks, files, size = [], 0, 0
        for number, part in enumerate(parts):
            ordered: PlannedSlice = part._replace(logs=tuple(sorted(part.logs, key=position)))
            log_bytes = sum(sizes.get((part.partition, name), 0) for name in part.logs)
            tasks.append(CompactionTask(number, ordered, log_bytes))
            of_part = read_by(part, sizes)
            files, size = files + of_part[0], size + of_part[1]
        return tasks, files, size

    def _run(
        self, transaction: Transaction, plan: Plan, tasks: Sequence[CompactionTask], engine: Engine
    ) -> tuple[list[WrittenFile], tuple[str, ...]]:
        """Run the tasks of a plan and complete its instant. The new files, and notes."""
        state, view = self.state, self.state.view()
        config = self.context.config
        schema, avro = state.schema(), stored_avro(config, state.avro_schema(view))
        instant = transaction.instant
        columns = [field for field in schema if field.name not in META_COLUMNS]
        target = FileTarget(
            self.context.store,
            config,
            instant,
            stored_columns(config, pa.schema(columns)),
            avro,
            self.files,
            transaction.markers,
            wanted_of(self.context.store, self.context.config, self.context.options),
        )
        reader = self._reader
        clustering: ClusteringRun | None = None
        if isinstance(plan, ClusteringPlan):
            order = self._order(plan.parameters.get(SORT_COLUMNS, ""), plan.parameters)
            clusterer = Clusterer(reader, target, order, self._file_bytes(plan))
            clustering = ClusteringRun(self.context, state, self.options, plan, instant, clusterer)
            written = clustering.write([task.part for task in tasks], engine)
        elif self._logs_only:
            written = [file for files in engine.map(LogCompactor(reader, target), tasks) for file in files]
        else:
            written = list(engine.map(Compactor(reader, target, has_rings(self.context.store, target.config)), tasks))

        def check() -> None:
            if self._logs_only:
                self._requests.refuse_writes(self.context.timeline())
                refuse_changed(self.context, instant, plan)
            if clustering is not None:
                clustering.check()

        replaced = clustering.replaced if clustering is not None else {}
        keys = ReplacedKeys(state, replaced)
        committed = transaction.commit(written, schema=avro, replaced=replaced, check=check, replaced_keys=keys)
        notes = committed.notes
        if clustering is not None:
            notes += afterwards("nothing beside its new buckets says so", clustering.done)
        folder = marker_folder(instant)
        return written, notes + afterwards("its markers stay", lambda: self.context.store.delete_folder(folder))

    def _withdraw(self, dry_run: bool) -> RewriteResult:
        """Take pending plans back that nobody has begun. Table version 6 and older: not where a writer has named log
        files by one, since these would belong to no slice."""
        plans, skipped = self._pending()
        gone = []
        for time, plan in plans.items():
            entry = self.state.timeline.by_time[time]
            compaction = plan if isinstance(plan, CompactionPlan) and not self._logs_only else None
            if entry.state == "inflight" and compaction is not None:
                why = "its run has begun"
            else:
                why = (log_named_by if dry_run else take_back)(self.context, time, compaction)
            if why:
                skipped.append(Skipped(f"{self._name} {time}", why))
                continue
            gone.append(time)
            if not dry_run:
                self._tasks(time, slices_of(plan))  # no run can be committed any more that would need its files
                forget_buckets(self.context, time)
        notes = tuple(f"{self._name} {time} is withdrawn" for time in gone)
        return RewriteResult(0, 0, 0, 0, 0, tuple(skipped), dry_run=dry_run, instants=tuple(gone), notes=notes)


def _result(
    planned: Planned,
    skipped: tuple[Skipped, ...],
    *,
    dry_run: bool = False,
    instants: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> RewriteResult:
    groups = planned.groups
    return RewriteResult(
        sum(group.files for group in groups),
        sum(group.files_after for group in groups),
        sum(group.size for group in groups),
        sum(group.size_after for group in groups),
        len(groups),
        skipped,
        dry_run,
        groups,
        instants=instants,
        notes=notes,
    )
