"""Pending writes whose writers have died are rolled back, and marker folders removed that no pending instant needs.

The next write does the same to all pending writes. This is for tables that nobody writes to now, where they hold
archival and cleaning, and it leaves those alone whose writer may be at work.
"""

from __future__ import annotations

import datetime

from lakebed.errors import counted
from lakebed.formats.hudi.archive.delete import MARKERS
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.exclusive import Held
from lakebed.formats.hudi.commit.heartbeat import has_ended, stopped
from lakebed.formats.hudi.commit.markers import marker_folder, remove_markers
from lakebed.formats.hudi.commit.restore import finish_restores, pending_restores
from lakebed.formats.hudi.commit.rollback import carry_on, cut_off_rollbacks, failed_writes, plan_rollback, roll_back
from lakebed.formats.hudi.expire.options import FAILED_AFTER
from lakebed.formats.hudi.layout import clock_time
from lakebed.formats.hudi.timeline.active import Entry, Timeline
from lakebed.kernel import clock
from lakebed.kernel.options import Options, is_number
from lakebed.model.upkeep import ExpireResult, Skipped


def end_failed_writes(context: WriteContext, options: Options, dry_run: bool) -> ExpireResult:
    """Roll back pending writes that are old enough, newest first, each with Hudi's plan and record."""
    if dry_run:
        return _end(context, options, None)
    finish_restores(context, context.timeline())
    with context.locked(chooses=True) as held:
        return _end(context, options, held)


def end_silent_writes(context: WriteContext, held: Held | None) -> tuple[str, ...]:
    """What a clean does first under the lazy policy: roll back the pending writes whose heartbeats have stopped, and
    carry on rollbacks that are as old. Returns notes. Without the lock, which is `held`, nothing is done.

    Rule: Hudi's `BaseHoodieTableServiceClient.rollbackFailedWrites` with `HoodieFailedWritesCleaningPolicy.LAZY`.
    """
    patience, zone = context.concurrency.patience, datetime.UTC if context.config.timezone == "UTC" else None
    now = clock.now() if held is None else None  # a dry run writes nothing, so it cannot ask the store for its time
    timeline, notes = context.timeline(), list[str]()
    for entry in timeline.entries:
        began = clock_time(entry.time)
        young = began is not None and began > clock.earlier(clock.moment(zone), seconds=patience)
        if entry.action == "rollback" and not entry.done and entry.requested and not young:
            notes.append(f"rollback {entry.time} was cut off: it is carried on")
            if held is not None:
                carry_on(context, timeline, entry, held)
    timeline = context.timeline() if notes and held is not None else timeline
    for entry in failed_writes(context, timeline):
        if why := stopped(context.store, entry.time, patience, now):
            notes.append(f"the write {entry.time} is rolled back: {why}")
            if held is not None:
                roll_back(context, entry, held=held)
    return tuple(notes)


def _end(context: WriteContext, options: Options, held: Held | None) -> ExpireResult:
    """Without the lock, which is `held`, only what would be done."""
    timeline = context.timeline()
    ended: list[str] = []
    deleted: list[str] = []
    kept: list[Skipped] = []
    notes = [f"restore {entry.time} was cut off: it is carried on" for entry in pending_restores(timeline)]
    cut_off = cut_off_rollbacks(timeline)
    for entry in cut_off:
        reason = _may_be_at_work(context, entry, options[FAILED_AFTER])
        if reason:
            kept.append(Skipped(entry.time, reason))
        else:
            notes.append(f"rollback {entry.time} was cut off: it is carried on")
            if held is not None:
                ended.append(carry_on(context, timeline, entry, held))
    if cut_off and held is not None:
        timeline = context.timeline()
    for entry in reversed(failed_writes(context, timeline)):
        reason = _may_be_at_work(context, entry, options[FAILED_AFTER])
        if reason:
            kept.append(Skipped(entry.time, reason))
            continue
        for request in plan_rollback(context, entry).requests or ():
            names = [location.rpartition("/")[2] for location in request.files_to_be_deleted]
            deleted += [f"{request.partition_path}/{name}".lstrip("/") for name in names]
        ended.append(entry.time)
        if held is not None:
            roll_back(context, entry, held=held)
    left = _markers_left(context, timeline)
    if held is not None:
        for instant in left:
            remove_markers(context.store, instant)
    notes += [f"markers of {instant}, which is not pending, go: {marker_folder(instant)}" for instant in left]
    return ExpireResult(tuple(filter(None, ended)), tuple(deleted), tuple(kept), held is None, tuple(notes))


def _may_be_at_work(context: WriteContext, entry: Entry, after_ms: int) -> str:
    """Why the writer of a pending instant may be at work, "" when it has died."""
    if has_ended(context.store, entry.time):
        return ""
    zone = datetime.UTC if context.config.timezone == "UTC" else None
    began = clock_time(entry.time)
    hours = f"{counted(after_ms / 3_600_000, 'hour')} ({FAILED_AFTER.key})"
    if began is not None and began > clock.earlier(clock.moment(zone), milliseconds=after_ms):
        return f"it was requested less than {hours} ago, so its writer may be at work"
    if not stopped(context.store, entry.time, after_ms / 1000, clock.now()):
        return f"its heartbeat is younger than {hours}"
    return ""


def _markers_left(context: WriteContext, timeline: Timeline) -> list[str]:
    known = {entry.time for entry in timeline.pending}
    newest = max((entry.time for entry in timeline.entries), default="")
    folders = context.store.list(MARKERS).folders
    return [time for time in folders if is_number(time) and time not in known and time <= newest]
