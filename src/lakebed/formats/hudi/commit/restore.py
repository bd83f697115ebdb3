"""A restore: instants are taken back, newest first, until an older commit is the newest one again.

    requested (the plan) -> inflight -> a rollback for each instant -> completed -> state files of the rollbacks go

The plan stands on the timeline before anything goes. A restore that was cut off is carried on by the next lakebed that
changes the table, and Hudi's own writers refuse to write until the same restore is run again. Each rollback is one
step, and between steps the table is as it was before the instants that went. The metadata table goes back with each
step; the restore records once more what went, since the rollbacks do not stay on the timeline.

Rules: Hudi's `RestorePlanActionExecutor` and `BaseRestoreActionExecutor`.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from lakebed.errors import CommitConflictError, UnsupportedError
from lakebed.formats.hudi.codec.plans import InstantInfo, RestoreMetadata, RestorePlan, RollbackMetadata, decode, encode
from lakebed.formats.hudi.commit.completion import complete_once
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.exclusive import Held
from lakebed.formats.hudi.commit.rollback import (
    carry_on,
    change_of,
    cut_off_rollbacks,
    entry_of,
    forget_unplanned,
    planned_rollback,
    roll_back,
)
from lakebed.formats.hudi.commit.undo import plan_undo
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import clock_time
from lakebed.formats.hudi.metadata_table.update import update
from lakebed.formats.hudi.timeline.active import Entry, Timeline
from lakebed.formats.hudi.timeline.writing import (
    inflight,
    inflight_file,
    new_instant,
    remove_strays,
    request,
    requested_file,
)
from lakebed.kernel import clock
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store

ACTION = "restore"


def request_restore(context: WriteContext, timeline: Timeline, to: Entry, going: Sequence[Entry]) -> str:
    """Put the plan of a restore on the timeline: `going` are the instants to take back, newest first.

    Returns the restore's instant. Call it under `exclusive`, with the timeline as it is now.
    """
    plan = RestorePlan(
        instants_to_rollback=tuple(InstantInfo(commit_time=entry.time, action=entry.action) for entry in going),
        savepoint_to_restore_timestamp=to.time,
    )
    instant = new_instant(context.config, timeline)
    request(context.store, context.config, instant, ACTION, encode(plan))
    return instant


def finish_restores(context: WriteContext, timeline: Timeline) -> bool:
    """End the restores on a timeline, and say whether there were any. Each step takes the lock of the table's writers
    again, so another process that comes between the steps continues the restore."""
    pending = bool(pending_restores(timeline))
    while pending:
        with context.locked(chooses=True) as held:
            if not _step(context, held):
                break
    return pending


def end_restores(context: WriteContext, timeline: Timeline, held: Held) -> Timeline:
    """End the restores on a timeline that were cut off. Call it under `exclusive`, whose `held` is asked before each
    step. The timeline that it leaves."""
    if not pending_restores(timeline):
        return timeline
    while _step(context, held):
        held()
    return context.timeline()


def refuse_restored(store: Store, seen: Timeline, now: Timeline, what: str) -> None:
    """CommitConflictError where a restore is under way, or came since something was planned by the timeline `seen`."""
    restores = [entry for entry in now.entries if entry.action == ACTION]
    if pending_restores(now) or restores != [entry for entry in seen.entries if entry.action == ACTION]:
        raise CommitConflictError(
            f"the table was restored while {what} was planned",
            table=store.location,
            instant=restores[-1].time if restores else "",
            todo="Nothing was changed: run it again",
        )


def pending_restores(timeline: Timeline) -> list[Entry]:
    """The restores that have not ended, oldest first."""
    return [entry for entry in timeline.entries if entry.action == ACTION and not entry.done]


def _step(context: WriteContext, held: Held) -> bool:
    """Take one instant back for the oldest restore on the timeline, or end that restore; False where there is none."""
    timeline = context.timeline()
    restores = pending_restores(timeline)
    if not restores:
        return False
    restore = restores[0]
    plan = _plan(context, restore)
    if plan is None:
        forget_unplanned(context.store, restore)
        return True
    if restore.state == "requested":
        inflight(context.store, context.config, restore.time, ACTION)
    begun = {_target(context, entry): entry for entry in cut_off_rollbacks(timeline)}
    going = {info.commit_time for info in plan.instants_to_rollback}
    for info in plan.instants_to_rollback:
        if info.commit_time in begun:
            carry_on(context, timeline, begun[info.commit_time], held)
            return True
        entry = entry_of(timeline.entries, info)
        if entry is not None:
            roll_back(context, entry, plan_undo(context, timeline, entry, going), held=held)
            return True
    _complete(context, timeline, restore, plan, held)
    return True


def _plan(context: WriteContext, restore: Entry) -> RestorePlan | None:
    """The plan of a restore; None if the process that began it died before it wrote the plan."""
    if not restore.requested:
        raise UnsupportedError(
            f"the restore {restore.time} was cut off, and its plan is gone",
            table=context.store.location,
            file=restore.file,
            todo="Run the same restore again with the engine that began it",
        )
    data = context.store.read(restore.requested)
    if not data:
        return None
    todo = "Run the same restore again with the engine that began it, or restore the file from a copy"
    with decoding(
        "the plan of a restore cannot be read",
        table=context.store.location,
        file=restore.requested,
        instant=restore.time,
        todo=todo,
    ):
        return decode(RestorePlan, data)


def _target(context: WriteContext, rollback: Entry) -> str:
    info = planned_rollback(context, rollback).instant_to_rollback
    return info.commit_time if info is not None else ""


def _complete(context: WriteContext, timeline: Timeline, restore: Entry, plan: RestorePlan, held: Held) -> None:
    """End a restore whose instants are gone. As Hudi does, take the rollbacks since that moment off the timeline."""
    store, config = context.store, context.config
    going = {info.commit_time for info in plan.instants_to_rollback}
    done = [entry for entry in timeline.entries if entry.action == "rollback" and entry.done]
    rollbacks: dict[str, tuple[RollbackMetadata | None, ...]] = {}
    ours = [entry for entry in done if entry.time > restore.time]
    for data in store.read_many([entry.file for entry in ours]):
        metadata = decode(RollbackMetadata, data)
        rollbacks.update({time: (metadata,) for time in metadata.commits_rollback if time in going})
    restored = RestoreMetadata(
        start_restore_time=restore.time,
        time_taken_in_millis=_since(config, restore.time),
        instants_to_rollback=tuple(info.commit_time for info in plan.instants_to_rollback),
        rollbacks=rollbacks,
        restore_instant_info=plan.instants_to_rollback,
    )
    undone = [each for steps in rollbacks.values() for each in steps if each is not None]
    update(context, restore.time, change_of(ACTION, undone))
    with held.going_on() as still:
        now = context.timeline()
        if any(entry.time == restore.time for entry in pending_restores(now)):
            remove_strays(store, now, restore.time)
            completed = new_instant(config, now, restore.time)
            complete_once(store, config, restore.time, completed, ACTION, encode(restored), still)
    for entry in done:
        if entry.time > (plan.savepoint_to_restore_timestamp or restore.time):
            files = (requested_file(config, entry.time, "rollback"), inflight_file(config, entry.time, "rollback"))
            store.delete_in_order([*files, entry.file])


def _since(config: TableConfig, instant: str) -> int:
    """The milliseconds since an instant, 0 where it is no clock time or lies ahead."""
    zone = datetime.UTC if config.timezone == "UTC" else None
    began = clock_time(instant)
    return 0 if began is None else max(0, int((clock.moment(zone) - began).total_seconds() * 1000))
