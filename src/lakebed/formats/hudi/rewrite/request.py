"""The request of a compaction or clustering: its plan on the timeline, while no write is in its way.

A plan is requested under the lock of the table's writers, so a commit comes before it or knows of it.

Rules: Hudi's `ScheduleCompactionActionExecutor` and `ClusteringPlanActionExecutor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lakebed.errors import CommitConflictError
from lakebed.formats.hudi.codec.service_plans import (
    ClusteringPlan,
    CompactionPlan,
    encode_clustering_plan,
    encode_compaction_plan,
)
from lakebed.formats.hudi.commit.conflicts import changed_groups, pending_groups
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.heartbeat import has_heartbeat, stopped
from lakebed.formats.hudi.commit.options import STRATEGY, FailedWrites
from lakebed.formats.hudi.commit.restore import refuse_restored
from lakebed.formats.hudi.commit.rollback import failed_writes, is_failed_write
from lakebed.formats.hudi.layout import parse_log_name
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.timeline.active import Entry, Timeline
from lakebed.formats.hudi.timeline.pending_services import Group, pending_services
from lakebed.formats.hudi.timeline.writing import new_instant, remove_pending, request

Plan = CompactionPlan | ClusteringPlan
_WRITES = ("commit", "deltacommit", "replacecommit")


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests plans for a table that was read as `state`. `name` is what people call the service, `action` what state
    files do."""

    state: TableState
    context: WriteContext
    name: str
    action: str

    def request(self, plan: Plan) -> str:
        """Put a plan on the timeline. Its instant; CommitConflictError where a write is in its way."""
        context = self.context
        with context.locked(chooses=True) as held:
            timeline = context.timeline()
            refuse_restored(context.store, self.state.timeline, timeline, f"the {self.name}")
            self.refuse_writes(timeline)
            self._refuse_silent_writes(timeline)
            self._refuse_behind(plan, timeline)
            held()
            instant = new_instant(context.config, timeline)
            content = (
                encode_compaction_plan(plan)
                if isinstance(plan, CompactionPlan)
                else encode_clustering_plan(plan, context.location_of(""))
            )
            request(context.store, context.config, instant, self.action, content)
            timeline = context.timeline()
            try:
                self.refuse_writes(timeline, instant)
            except CommitConflictError:
                remove_pending(context.store, context.config, timeline.by_time[instant])
                raise
        return instant

    def refuse_writes(self, timeline: Timeline, before: str = "") -> None:
        """Table version 6 and older: CommitConflictError for a pending write, one that began `before` an instant."""
        if self.context.config.completion_times:
            return
        clusterings = pending_services(self.context.store, timeline).clusterings
        for entry in timeline.pending:
            if entry.action in _WRITES and entry.time not in clusterings and (not before or entry.time < before):
                raise CommitConflictError(
                    f"a write is under way, so no {self.name} can be planned",
                    table=self.context.store.location,
                    instant=entry.time,
                    why="its rows would lie behind the new base files",
                    todo="Run it again after the write; one that died is taken back by the next write",
                )

    def _refuse_silent_writes(self, timeline: Timeline) -> None:
        """CommitConflictError for a pending write that has no heartbeat, where failed writes are taken back eagerly.

        Hudi's own writers have none then, so nobody knows whether it lives. If it died, they could not take it back
        beyond a service that is planned now and completes. Hudi's own engine plans no compaction then either.

        Rules: Hudi's `ScheduleCompactionActionExecutor`, `BaseRollbackActionExecutor.validateRollbackCommitSequence`.
        """
        if self.context.concurrency.failed_writes is not FailedWrites.EAGER:
            return
        for entry in failed_writes(self.context, timeline):
            if not has_heartbeat(self.context.store, entry.time):
                raise CommitConflictError(
                    f"a write is pending that has no heartbeat, so no {self.name} can be planned",
                    table=self.context.store.location,
                    instant=entry.time,
                    why="if its writer died, Hudi's own writers could not take it back after the service",
                    todo="Run it again after the write. If its writer died, take it back: the next write does so, and "
                    "table.expire with lakebed.expire.what = failed-writes",
                )

    def _refuse_behind(self, plan: Plan, timeline: Timeline) -> None:
        """CommitConflictError where a commit that the plan does not know has changed one of its file groups."""
        seen = {entry.time for entry in self.state.timeline.commits}
        unknown = (entry for entry in timeline.commits if entry.time not in seen)
        time = _first_change(self.context, plan, unknown)
        if time:
            raise CommitConflictError(
                f"a write completed while the {self.name} was planned",
                table=self.context.store.location,
                instant=time,
                todo="Nothing was changed: run it again",
            )


def refuse_changed(context: WriteContext, instant: str, plan: Plan) -> None:
    """CommitConflictError where a commit since a clustering or log compaction was planned wrote to one of its file
    groups: its rows would go with them, or lie before older ones."""
    time = _first_change(context, plan, _since(context, instant))
    if time:
        raise CommitConflictError(
            "rows were written to a file group while it was rewritten",
            table=context.store.location,
            instant=time,
            todo=f"Withdraw the plan {instant} and make another one",
        )


def refuse_under_way(context: WriteContext, instant: str, plan: Plan) -> None:
    """CommitConflictError where a write is changing a file group of a clustering, and its writer lives: the clustering
    gives way. Rule: Hudi's `PreferWriterConflictResolutionStrategy`."""
    planned = _groups(plan)
    for entry in context.timeline().pending:
        if entry.time == instant or not is_failed_write(context, entry):
            continue
        if planned & pending_groups(context, entry) and not stopped(
            context.store, entry.time, context.concurrency.patience
        ):
            raise CommitConflictError(
                "a write is changing the same file groups",
                table=context.store.location,
                instant=entry.time,
                why=f"{STRATEGY.key} prefers writers",
                todo=f"Run the plan {instant} again after the write, or withdraw it",
            )


def log_named_by(context: WriteContext, instant: str, plan: CompactionPlan | None) -> str:
    """Table version 6 and older: why the plan of a compaction (None: of another service) cannot be withdrawn, "" where
    it can. Log files that are named by its instant would belong to no slice."""
    if plan is None or context.config.completion_times:
        return ""
    for part in plan.operations:
        for info in context.store.list(part.partition).files:
            parsed = parse_log_name(info.name)
            if parsed is not None and parsed[0] == part.file_id and parsed[1].instant == instant:
                return f"log files are named by it already: {info.path}"
    return ""


def take_back(context: WriteContext, instant: str, plan: CompactionPlan | None) -> str:
    """Take a plan off the timeline, so that no run of it can be committed; then what runs left of it may go. Why it
    stays, "" where it is gone. `plan` is as in `log_named_by`: a writer that names log files by it later finds it
    withdrawn when it commits."""
    with context.locked() as held:
        entry = context.timeline().by_time.get(instant)
        if entry is None or entry.done:
            return "another process has run it, or withdrawn it"
        if entry.state == "inflight" and not stopped(context.store, instant, context.concurrency.patience):
            return "its run is under way"
        if why := log_named_by(context, instant, plan):
            return why
        held()
        remove_pending(context.store, context.config, entry)
    return ""


def unchanged(context: WriteContext, instant: str, plan: CompactionPlan) -> CompactionPlan:
    """A plan without the file groups that commits since then wrote to."""
    changed = set[Group]().union(*changed_groups(context, _since(context, instant)).values())
    kept = (part for part in plan.operations if (part.partition, part.file_id) not in changed)
    return replace(plan, operations=tuple(kept))


def changed_since(context: WriteContext, instant: str) -> Mapping[str, set[Group]]:
    """The file groups that each commit since a plan was made wrote to or replaced, by instant."""
    return changed_groups(context, _since(context, instant))


def _since(context: WriteContext, instant: str) -> list[Entry]:
    return [entry for entry in context.timeline().commits if entry.time > instant or entry.completed > instant]


def _first_change(context: WriteContext, plan: Plan, commits: Iterable[Entry]) -> str:
    """The first of some commits that changed a file group of the plan, "" for none."""
    planned = _groups(plan)
    return next((time for time, changed in changed_groups(context, commits).items() if planned & changed), "")


def _groups(plan: Plan) -> set[Group]:
    parts = plan.operations if isinstance(plan, CompactionPlan) else plan.slices
    return {(part.partition, part.file_id) for part in parts}
