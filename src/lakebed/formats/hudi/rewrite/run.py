"""A compaction from beginning to end: a plan is requested, and run later or at once.

    requested (the plan) -> inflight -> new base files -> completed, as a commit

A plan that another engine requested is run like our own. A run that died leaves the instant inflight, and files that no
commit names: named by its instant, it is run anew, after these files are removed. In table version 6 and older, the log
files of a write that is under way would be lost behind the new base files, so no plan is made meanwhile.

Rules: Hudi's `ScheduleCompactionActionExecutor` and `RunCompactionActionExecutor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import CommitConflictError, NotInHistoryError, UnsupportedError
from lakebed.formats.hudi.codec.service_plans import CompactionPlan, PlannedSlice, encode_compaction_plan
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.markers import marker_folder
from lakebed.formats.hudi.commit.transaction import Transaction
from lakebed.formats.hudi.layout import META_COLUMNS, parse_base_name, parse_log_name, write_attempt
from lakebed.formats.hudi.options import READ
from lakebed.formats.hudi.read.plan import reader_of
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.rewrite import options as opt
from lakebed.formats.hudi.rewrite.plan import Planned, plan_compaction
from lakebed.formats.hudi.rewrite.task import CompactionTask, Compactor
from lakebed.formats.hudi.slices import live_slices
from lakebed.formats.hudi.timeline.active import Entry
from lakebed.formats.hudi.timeline.pending_services import pending_services
from lakebed.formats.hudi.timeline.writing import new_instant, remove_pending, request
from lakebed.formats.hudi.write.files import FileOptions, FileTarget
from lakebed.formats.hudi.write.served import check_table
from lakebed.kernel.engine import Engine
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import Where, parse_where
from lakebed.model.upkeep import RewriteResult, Skipped

_WRITES = ("commit", "deltacommit", "replacecommit")


def parse_options(given: Mapping[str, str], properties: Mapping[str, str]) -> Options:
    """The options of a call over those of the table's properties. OptionError for a key that is unknown."""
    stored = {key: text for key, text in properties.items() if key.startswith("hoodie.") and opt.REWRITE.knows(key)}
    spelled = {opt.REWRITE.spelled(key): text for key, text in given.items()}
    return opt.REWRITE.parse({**stored, **spelled})


@dataclass(frozen=True, slots=True)
class Compaction:
    """Compactions of one table. `files` says how base files are encoded."""

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
            return _result(planned, skipped, dry_run=True)
        instants: list[str] = []
        if planned.plan.operations:
            instants.append(self._request(planned.plan))
            if step == "all":
                pending[instants[0]] = planned.plan
        if step == "schedule":
            return _result(planned, skipped, instants=tuple(instants), notes=("the plan is pending: nothing ran",))
        return self._run_all(pending, skipped, engine)

    def _refuse(self) -> None:
        state = self.state
        if not state.config.merge_on_read:
            raise UnsupportedError(
                "a copy-on-write table has no logs to compact",
                table=state.store.location,
                todo="lakebed does not cluster Hudi tables yet: cluster it with Hudi's own engine",
            )
        check_table(state.store, state.config, state.avro_schema(state.view()))

    def _planned(self, where: Where) -> Planned:
        state, view = self.state, self.state.view()
        schema = state.schema()
        keeping = state.partitions.keeping(parse_where(where, schema), schema)
        named = {stat.partition for commit in state.commits(view).values() for stat in commit.stats}
        listed = state.list_partitions(named, keeping)
        kept = [*listed] if keeping is None else keeping.kept(listed)
        written = state.written(view)
        slices = [s for path in kept for s in live_slices(path, listed[path], view, written, state.was_replaced)]
        return plan_compaction(slices, pending_services(state.store, state.timeline), self.options)

    def _pending(self) -> tuple[dict[str, CompactionPlan], list[Skipped]]:
        """Pending plans to run, and those that are left."""
        state, wanted = self.state, self.options[opt.INSTANT]
        plans = dict(pending_services(state.store, state.timeline).compactions)
        if wanted:
            if wanted not in plans:
                raise NotInHistoryError(
                    f"no pending compaction {wanted!r}",
                    table=state.store.location,
                    todo=f"Pending compactions: {', '.join(plans) or 'none'}",
                )
            return {wanted: plans[wanted]}, []
        begun = [time for time in plans if state.timeline.by_time[time].state == "inflight"]
        why = f"its run has begun and may be under way; where it died, run it anew with {opt.INSTANT.key}"
        return (
            {time: plan for time, plan in plans.items() if time not in begun},
            [Skipped(f"compaction {time}", why) for time in begun],
        )

    def _request(self, plan: CompactionPlan) -> str:
        context = self.context
        self._refuse_writes(context.timeline().pending, "")
        instant = new_instant(context.config, context.timeline())
        request(context.store, context.config, instant, "compaction", encode_compaction_plan(plan))
        timeline = context.timeline()
        try:
            self._refuse_writes(timeline.pending, instant)
        except CommitConflictError:
            remove_pending(context.store, context.config, timeline.by_time[instant])
            raise
        return instant

    def _refuse_writes(self, pending: tuple[Entry, ...], before: str) -> None:
        """Table version 6 and older: CommitConflictError for a write that began before the plan."""
        if self.context.config.completion_times:
            return
        for entry in pending:
            if entry.action in _WRITES and (not before or entry.time < before):
                raise CommitConflictError(
                    "a write is under way, so no compaction can be planned",
                    table=self.context.store.location,
                    instant=entry.time,
                    why="its log files would lie behind the new base files",
                    todo="Run it again after the write; one that died is taken back by the next write",
                )

    def _run_all(
        self, plans: Mapping[str, CompactionPlan], skipped: tuple[Skipped, ...], engine: Engine
    ) -> RewriteResult:
        files = size = after = size_after = groups = 0
        notes: list[str] = []
        for instant, plan in sorted(plans.items()):
            tasks, before, bytes_before = self._tasks(instant, plan)
            written, more = self._run(instant, tasks, engine)
            files, size, groups = files + before, size + bytes_before, groups + len(tasks)
            after, size_after = after + len(tasks), size_after + written
            notes += more
        return RewriteResult(
            files, after, size, size_after, groups, skipped, instants=tuple(sorted(plans)), notes=tuple(notes)
        )

    def _tasks(self, instant: str, plan: CompactionPlan) -> tuple[list[CompactionTask], int, int]:
        """The tasks of a plan, with the files that they read and the bytes of these. What an earlier run of it left is
        removed."""
        store, view = self.context.store, self.state.view()
        folders = sorted({part.partition for part in plan.operations})
        sizes: dict[tuple[str, str], int] = {}
        left = []
        for folder, listing in zip(folders, store.list_many(folders), strict=True):
            for info in listing.files:
                sizes[folder, info.name] = info.size
                parsed = parse_base_name(info.name)
                if parsed is not None and parsed[1].instant == instant:
                    left.append(info.path)
        store.delete_many(left)

        def position(name: str) -> tuple[str, int, tuple[int, ...]]:
            parsed = parse_log_name(name)
            assert parsed is not None
            log = parsed[1]
            order = view.order(log.instant) if view.timeline.completion_times else log.instant
            return order or log.instant, log.version, write_attempt(log.token)

        tasks, files, size = [], 0, 0
        for number, part in enumerate(plan.operations):
            ordered: PlannedSlice = part._replace(logs=tuple(sorted(part.logs, key=position)))
            log_bytes = sum(sizes.get((part.partition, name), 0) for name in part.logs)
            tasks.append(CompactionTask(number, ordered, log_bytes))
            files += len(part.logs) + bool(part.base)
            size += log_bytes + sizes.get((part.partition, part.base), 0)
        return tasks, files, size

    def _run(self, instant: str, tasks: list[CompactionTask], engine: Engine) -> tuple[int, tuple[str, ...]]:
        """Run the tasks of a plan and complete its instant. The bytes written, and notes."""
        state, view = self.state, self.state.view()
        schema, avro = state.schema(), state.avro_schema(view)
        transaction = Transaction(self.context, "compaction", "COMPACT", instant)
        transaction.inflight()
        columns = [field for field in schema if field.name not in META_COLUMNS]
        target = FileTarget(
            self.context.store,
            self.context.config,
            instant,
            pa.schema(columns),
            avro,
            self.files,
            transaction.markers,
        )
        reader = reader_of(state, READ.parse({}), schema, view)
        written = list(engine.map(Compactor(reader, target), tasks))
        committed = transaction.commit(written, schema=avro)
        self.context.store.delete_folder(marker_folder(instant))
        return sum(file.size for file in written), committed.notes

    def _withdraw(self, dry_run: bool) -> RewriteResult:
        """Take pending plans back that nobody has begun. Table version 6 and older: not where a writer has named log
        files by one, since these would belong to no slice."""
        plans, skipped = self._pending()
        gone = []
        for time, plan in plans.items():
            entry = self.state.timeline.by_time[time]
            why = "its run has begun" if entry.state == "inflight" else self._named_logs(time, plan)
            if why:
                skipped.append(Skipped(f"compaction {time}", why))
                continue
            gone.append(time)
            if not dry_run:
                remove_pending(self.context.store, self.context.config, entry)
        notes = tuple(f"compaction {time} is withdrawn" for time in gone)
        return RewriteResult(0, 0, 0, 0, 0, tuple(skipped), dry_run=dry_run, instants=tuple(gone), notes=notes)

    def _named_logs(self, instant: str, plan: CompactionPlan) -> str:
        if self.context.config.completion_times:
            return ""
        for part in plan.operations:
            for info in self.context.store.list(part.partition).files:
                parsed = parse_log_name(info.name)
                if parsed is not None and parsed[0] == part.file_id and parsed[1].instant == instant:
                    return f"log files are named by it already: {info.path}"
        return ""


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
