"""A clean from beginning to end.

    requested (the plan) -> inflight -> files go -> completed (what went)

Files go only while nothing needs them: a plan that a clean left half way, ours or another engine's, is carried on
first, without files that a savepoint keeps by now or that became live again. A clean that has nothing to delete leaves
no instant.

Rules: Hudi's `CleanPlanActionExecutor` and `CleanActionExecutor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakebed.errors import CommitConflictError
from lakebed.formats.hudi.codec.metadata import parse_clean
from lakebed.formats.hudi.codec.plans import (
    ActionInstant,
    CleanerPlan,
    CleanFileInfo,
    CleanMetadata,
    CleanPartitionMetadata,
    decode,
    encode,
)
from lakebed.formats.hudi.commit.completion import complete_once
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.options import FailedWrites
from lakebed.formats.hudi.commit.restore import finish_restores, refuse_restored
from lakebed.formats.hudi.commit.rollback import failed_writes, forget_unplanned
from lakebed.formats.hudi.expire.failed_writes import end_silent_writes
from lakebed.formats.hudi.expire.plan import CleanDecision, live_files, plan_clean, savepointed_files
from lakebed.formats.hudi.layout import file_path, parse_base_name, parse_log_name
from lakebed.formats.hudi.metadata_table.change import MetadataChange
from lakebed.formats.hudi.metadata_table.update import update
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.timeline.active import Entry
from lakebed.formats.hudi.timeline.pending_services import pending_services
from lakebed.formats.hudi.timeline.writing import inflight, new_instant, remove_strays, request
from lakebed.kernel import clock
from lakebed.kernel.decoding import decoding
from lakebed.kernel.options import Options
from lakebed.model.upkeep import ExpireResult

_SAVEPOINTS = "savepointed_timestamps"
_EMPTY_INFLIGHT = 9
"""From this table version on the inflight file of a clean is empty; before, it repeats the plan."""


@dataclass(frozen=True, slots=True)
class Clean:
    """Cleans of one table. `state` gives the table as it is now."""

    state: Callable[[], TableState]
    context: WriteContext
    options: Options

    def run(self, dry_run: bool) -> ExpireResult:
        """Carry on cleans that stopped half way, then plan a new one and run it."""
        notes = list(self._silent_writes(dry_run))
        state = self.state()
        if not dry_run and finish_restores(self.context, state.timeline):
            state = self.state()
        halfway = [e for e in state.timeline.entries if e.action == "clean" and not e.done and e.requested]
        notes += [f"clean {entry.time} stopped half way: it is carried on" for entry in halfway]
        gone: list[str] = []
        if not dry_run:
            for entry in halfway:
                gone += self._carry_on(entry)
            if halfway:
                state = self.state()
        decision = plan_clean(state, self.options)
        expired = _unreadable(state, decision)
        gone += _paths(decision.files)
        if decision.files and not dry_run:
            notes += self._clean(state, decision)
        return ExpireResult(expired, tuple(gone), decision.kept, dry_run, tuple(notes))

    def _silent_writes(self, dry_run: bool) -> tuple[str, ...]:
        """Under the lazy policy of failed writes a clean takes them back."""
        context = self.context
        if context.concurrency.failed_writes is not FailedWrites.LAZY or not failed_writes(context, context.timeline()):
            return ()
        if dry_run:
            return end_silent_writes(context, None)
        with context.locked(chooses=True) as held:
            return end_silent_writes(context, held)

    def _clean(self, state: TableState, decision: CleanDecision) -> tuple[str, ...]:
        context, commits = self.context, state.timeline.commits
        earliest = decision.earliest
        plan = CleanerPlan(
            earliest_instant_to_retain=ActionInstant(timestamp=earliest.time, action=earliest.action)
            if earliest is not None
            else None,
            last_completed_commit_timestamp=commits[-1].time if commits else "",
            policy=decision.policy,
            file_paths_to_be_deleted_per_partition={
                partition: tuple(
                    CleanFileInfo(file_path=context.location_of(file_path(partition, name))) for name in sorted(names)
                )
                for partition, names in sorted(decision.files.items())
            },
            extra_metadata={_SAVEPOINTS: ",".join(decision.savepoints)} if decision.savepoints else {},
        )
        data = encode(plan)
        with context.locked(chooses=True) as held:
            timeline = context.timeline()
            refuse_restored(context.store, state.timeline, timeline, "the clean")
            if not timeline.savepointed <= {*decision.savepoints}:
                raise CommitConflictError(
                    "a savepoint was made while the clean was planned",
                    table=context.store.location,
                    todo="Run the clean again: nothing was deleted",
                )
            instant = new_instant(context.config, timeline)
            held()
            request(context.store, context.config, instant, "clean", data)
            held()  # a savepoint that was made since may need the files: whoever carries the clean on leaves them
        return self._execute(instant, plan, data, decision.files)

    def _carry_on(self, entry: Entry) -> list[str]:
        """End a clean that stopped half way. Its plan may be old, so what is needed by now is left out. One that has no
        plan yet is forgotten."""
        state, store = self.state(), self.context.store
        data = store.read(entry.requested)
        if not data:
            forget_unplanned(store, entry)
            return []
        todo = "Delete the state files of this clean by hand: a clean that did not end changes nothing else"
        with decoding(
            "the plan of a clean cannot be read",
            table=store.location,
            file=entry.requested,
            instant=entry.time,
            todo=todo,
        ):
            plan = decode(CleanerPlan, data)
        planned = _planned(plan)
        needed = live_files(state, pending_services(store, state.timeline), planned)
        saved = savepointed_files(state)
        files = {
            partition: {n: 0 for n in names if n not in needed.get(partition, ()) and n not in saved.get(partition, ())}
            for partition, names in planned.items()
        }
        self._execute(entry.time, plan, data, files)
        return _paths(files)

    def _execute(
        self, instant: str, plan: CleanerPlan, data: bytes, files: Mapping[str, Mapping[str, int]]
    ) -> tuple[str, ...]:
        """Delete the files of a requested clean, and complete it. Returns notes."""
        context = self.context
        store, config = context.store, context.config
        inflight(store, config, instant, "clean", b"" if config.version >= _EMPTY_INFLIGHT else data)
        began = clock.steady()
        store.delete_many(_paths(files))
        parts = {
            partition: CleanPartitionMetadata(
                partition_path=partition,
                policy=plan.policy,
                delete_path_patterns=tuple(names),
                success_delete_files=tuple(names),
            )
            for partition, names in files.items()
        }
        metadata = CleanMetadata(
            start_clean_time=instant,
            time_taken_in_millis=int((clock.steady() - began) * 1000),
            total_files_deleted=sum(map(len, files.values())),
            earliest_commit_to_retain=plan.earliest_instant_to_retain.timestamp
            if plan.earliest_instant_to_retain is not None
            else "",
            last_completed_commit_timestamp=plan.last_completed_commit_timestamp,
            partition_metadata=parts,
            extra_metadata=plan.extra_metadata,
        )
        with context.locked(chooses=True) as held:
            timeline = context.timeline()
            if not any(e.time == instant and e.action == "clean" and not e.done for e in timeline.entries):
                return ()  # another process carried it on, and ended it first
            notes = update(context, instant, MetadataChange("clean", deleted=files))
            completed = new_instant(config, timeline, instant)
            remove_strays(store, timeline, instant)
            complete_once(store, config, instant, completed, "clean", encode(metadata), held)
        return notes


def _planned(plan: CleanerPlan) -> dict[str, list[str]]:
    """The names of the files that a plan deletes, by partition. The table may have been moved since: the names count.
    What is no data file is left out."""
    names = {
        partition: [str(info.file_path or "").rpartition("/")[2] for info in infos]
        for partition, infos in (plan.file_paths_to_be_deleted_per_partition or {}).items()
    }
    for partition, paths in (plan.files_to_be_deleted_per_partition or {}).items():
        names.setdefault(partition, []).extend(path.rpartition("/")[2] for path in paths)
    return {p: [n for n in found if parse_base_name(n) or parse_log_name(n)] for p, found in names.items()}


def _unreadable(state: TableState, decision: CleanDecision) -> tuple[str, ...]:
    """The commits whose snapshots this clean makes unreadable, oldest first."""
    if decision.earliest is None or not decision.files:
        return ()
    last = next((e for e in reversed(state.timeline.entries) if e.action == "clean" and e.done), None)
    before = parse_clean(state.store.read(last.file)).earliest_retained if last is not None else ""
    earliest = decision.earliest.time
    saved = state.timeline.savepointed
    return tuple(e.time for e in state.timeline.commits if before <= e.time < earliest and e.time not in saved)


def _paths(files: Mapping[str, Mapping[str, int]]) -> list[str]:
    return [file_path(partition, name) for partition, names in sorted(files.items()) for name in sorted(names)]
