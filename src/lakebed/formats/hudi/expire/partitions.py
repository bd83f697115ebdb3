"""Partition TTL: whole partitions that nobody has written to for long are deleted.

A partition goes as by the operation `delete_partition`: one replace commit takes its file groups out of use, and a
clean deletes the files once nothing retained needs them.

Rules: Hudi's `KeepByTimeStrategy` and `KeepByCreationTimeStrategy`. Hudi takes the base instant of the newest file
slice for the last write of a partition. Here a commit that only appended log files counts too, so a partition that is
written to never goes, also when it is written to while the run is at work.
"""

from __future__ import annotations

import datetime
import glob
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lakebed.errors import CommitConflictError, OptionError, counted
from lakebed.formats.hudi.codec.properties import parse_properties
from lakebed.formats.hudi.expire.options import TTL_DAYS, TTL_LIMIT, TTL_PARTITIONS, TTL_STRATEGY
from lakebed.formats.hudi.expire.unused import slices_of
from lakebed.formats.hudi.layout import PARTITION_METADATA, clock_time
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import file_groups
from lakebed.formats.hudi.timeline.pending_services import pending_services
from lakebed.kernel import clock
from lakebed.kernel.options import Options, is_number
from lakebed.model.commit import CommitResult
from lakebed.model.upkeep import ExpireResult, Skipped

_CLOCK_DIGITS = 14
"""An instant of fewer digits is no clock time."""
_LOOKS = 5
"""How often a run plans when others write to the partitions meanwhile."""

Delete = Callable[[str, Callable[[TableState], None]], CommitResult]
"""Deletes the partitions that patterns name, which are separated by commas, unless the check raises for the table as
the commit finds it."""


@dataclass(frozen=True, slots=True)
class PartitionDecision:
    """The paths of the partitions that are too old, oldest first, and why each of the others stays."""

    expired: tuple[str, ...]
    kept: tuple[Skipped, ...]


def expire_partitions(look: Callable[[], TableState], options: Options, delete: Delete, dry_run: bool) -> ExpireResult:
    """Delete the partitions that are too old, in one commit. One that was written to meanwhile is judged again.

    OptionError without a number of days, CommitConflictError where others keep writing to these partitions.
    """
    for left in reversed(range(_LOOKS)):
        decision = plan_partitions(look(), options)
        if dry_run or not decision.expired:
            break
        try:
            done = delete(",".join(map(glob.escape, decision.expired)), partial(_refuse_younger, options, decision))
        except CommitConflictError:
            if not left:
                raise
        else:
            note = f"{done.instant} took these partitions out of use; a clean deletes their files"
            return ExpireResult(decision.expired, (), decision.kept, False, (note, *done.notes))
    return ExpireResult(decision.expired, (), decision.kept, dry_run)


def _refuse_younger(options: Options, decision: PartitionDecision, state: TableState) -> None:
    """CommitConflictError where a partition that is to go is not too old, as the table is now."""
    younger = {*decision.expired} - {*plan_partitions(state, options).expired}
    if younger:
        raise CommitConflictError(
            f"partition {min(younger)!r} was written to meanwhile",
            table=state.store.location,
            why="it is not too old any more",
            todo="Run the expiry again",
        )


def plan_partitions(state: TableState, options: Options) -> PartitionDecision:
    """Which partitions are too old now. `kept` names those that stay although they are asked for."""
    days = options[TTL_DAYS]
    if days < 1:
        raise OptionError(
            f"{TTL_DAYS.key} is {days}",
            key=TTL_DAYS.key,
            why="partitions expire by their age in days",
            todo="Give the number of days that a partition is kept",
        )
    if not state.config.partition_fields:
        return PartitionDecision((), (Skipped("the whole table", "it has no partitions"),))
    ages = _creations(state) if options[TTL_STRATEGY] == "KEEP_BY_CREATION_TIME" else _last_writes(state)
    chosen = tuple(filter(None, (text.strip() for text in options[TTL_PARTITIONS].split(","))))
    services = pending_services(state.store, state.timeline)
    taken = (*services.compacting, *services.log_compacting, *services.clustering)
    busy = {partition for partition, _ in taken}
    zone = datetime.UTC if state.config.timezone == "UTC" else None
    bound = clock.earlier(clock.moment(zone), days=days)
    expired: list[str] = []
    kept: list[Skipped] = []
    for partition, time in sorted(ages.items(), key=lambda item: (item[1], item[0])):
        if chosen and partition not in chosen:
            continue
        moment = _moment(time)
        if moment is None:
            kept.append(Skipped(partition, f"its instant {time!r} is not a time"))
        elif moment >= bound:
            kept.append(Skipped(partition, f"its time is {time}, and {counted(days, 'day is', 'days are')} kept"))
        elif partition in busy:
            kept.append(Skipped(partition, "a pending compaction or clustering takes its file groups"))
        elif "," in partition:
            kept.append(Skipped(partition, "its path has a comma: delete it by its rows"))
        elif len(expired) >= options[TTL_LIMIT]:
            kept.append(
                Skipped(partition, f"a run deletes {counted(options[TTL_LIMIT], 'partition')} ({TTL_LIMIT.key})")
            )
        else:
            expired.append(partition)
    return PartitionDecision(tuple(expired), tuple(kept))


def _last_writes(state: TableState) -> Mapping[str, str]:
    """The newest instant that wrote to each partition that has rows."""
    view = state.view()
    commits = state.commits(view)
    written = state.written(view)
    named = {stat.partition for commit in commits.values() for stat in commit.stats}
    touched: dict[str, str] = {}
    for time, commit in commits.items():
        for stat in commit.stats:
            touched[stat.partition] = max(time, touched.get(stat.partition, ""))
    times: dict[str, str] = {}
    for partition, listed in state.list_partitions(named).items():
        for group in file_groups(listed).values():
            gone = group.file_id in written.replaced.get(partition, ()) or state.was_replaced(partition, group, view)
            slices = [] if gone else slices_of(group, view, written)
            if slices:
                newest = max(slices[0].instant, touched.get(partition, ""))
                times[partition] = max(newest, times.get(partition, ""))
    return times


def _creations(state: TableState) -> Mapping[str, str]:
    """The instant that made each partition that has rows, as its metadata file says."""
    partitions: Sequence[str] = [*_last_writes(state)]
    contents = state.store.read_many([f"{partition}/{PARTITION_METADATA}" for partition in partitions])
    return {
        partition: parse_properties(content).get("commitTime", "")
        for partition, content in zip(partitions, contents, strict=True)
    }


def _moment(time: str) -> datetime.datetime | None:
    """The clock time of an instant, None for one that is none."""
    return clock_time(time) if len(time) >= _CLOCK_DIGITS and is_number(time) else None
