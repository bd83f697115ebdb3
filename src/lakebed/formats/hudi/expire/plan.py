"""Plan a clean: which files nothing retained needs any more. Pure, and the dry run.

Rules: Hudi's `CleanPlanner` and `CleanPlanActionExecutor`. Retained are the newest commits of a number, those of the
last hours, or the newest file slices of each file group. A pending write holds the earliest retained commit at the one
before it. Files of savepoints stay, and slices that a pending compaction or clustering reads.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebed.errors import counted
from lakebed.formats.hudi.archive.options import CLEANER_POLICY, COMMITS_RETAINED, HOURS_RETAINED
from lakebed.formats.hudi.codec.metadata import parse_clean_plan, parse_savepoint
from lakebed.formats.hudi.expire.options import INCREMENTAL, VERSIONS_RETAINED
from lakebed.formats.hudi.expire.unused import Retained, slices_of, unused_slices
from lakebed.formats.hudi.layout import INSTANT_FORMAT
from lakebed.formats.hudi.read.partitions import list_named
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import WrittenFiles, file_groups
from lakebed.formats.hudi.timeline.active import Entry, View
from lakebed.formats.hudi.timeline.pending_services import PendingServices, pending_services
from lakebed.kernel import clock
from lakebed.kernel.options import Options
from lakebed.model.upkeep import Skipped


@dataclass(frozen=True, slots=True)
class CleanDecision:
    """What a clean would do. `files` are names by partition with their bytes, `earliest` the earliest retained commit,
    None where the policy does not count commits or there are too few; `kept` says what holds the rest."""

    policy: str
    files: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    earliest: Entry | None = None
    kept: tuple[Skipped, ...] = ()
    savepoints: tuple[str, ...] = ()


def plan_clean(state: TableState, options: Options) -> CleanDecision:
    """Decide what a clean deletes now. Lists the partitions only where the policy lets anything go."""
    policy, view = options[CLEANER_POLICY], state.view()
    savepoints = tuple(sorted(state.timeline.savepointed))
    kept = [Skipped(time, "a savepoint keeps its files: delete its tag to let them go") for time in savepoints]
    earliest: Entry | None = None
    if policy == "KEEP_LATEST_FILE_VERSIONS":
        retained = Retained("", "", options[VERSIONS_RETAINED])
        kept.append(Skipped("every file group", f"its newest {retained.versions} file slices are retained"))
    else:
        earliest, reason = _earliest_retained(state, options)
        kept.append(reason)
        if earliest is None:
            return CleanDecision(policy, {}, None, tuple(kept), savepoints)
        since = [state.timeline.order(entry) for entry in state.timeline.commits if entry.time >= earliest.time]
        retained = Retained(earliest.time, min(since))
    services = pending_services(state.store, state.timeline)
    files: dict[str, dict[str, int]] = {}
    saved = savepointed_files(state)
    commits = state.commits(view)
    written = WrittenFiles.of(commits)
    replaced = _replaced_before(state, retained)
    touched = _touched(state, retained) if options[INCREMENTAL] else None
    if touched is None:
        named = {stat.partition for commit in commits.values() for stat in commit.stats}
        listings = state.list_partitions(named | {*saved})
    else:
        listings = list_named(state.store, touched)
    for partition, listed in listings.items():
        sizes = {info.name: info.size for info in listed}
        for group in file_groups(listed).values():
            slices = slices_of(group, view, written)
            spared = saved.get(partition, frozenset())
            taken = services.taken((partition, group.file_id))
            if group.file_id in replaced.get(partition, ()) or (
                group.file_id not in written.replaced.get(partition, ()) and state.was_replaced(partition, group, view)
            ):
                going = [part for part in slices if not set(part.names) & spared]
            else:
                going = unused_slices(slices, retained, bool(taken), spared)
            if taken and len(going) < len(slices) - 1:
                kept.append(Skipped(f"file group {group.file_id}", f"the pending service {taken} reads its slices"))
            for part in going:
                files.setdefault(partition, {}).update({name: sizes[name] for name in part.names})
    return CleanDecision(policy, files, earliest, tuple(kept), savepoints)


def _touched(state: TableState, retained: Retained) -> set[str] | None:
    """The partitions where files can have become unused since the last clean, None where all may have some.

    A slice is let go by a later slice, and a file group by the commit that replaces it. The last clean has dealt with
    all that came before what it retained. Rule: Hudi's `CleanPlanner.getPartitionPathsForIncrementalCleaning`.
    """
    timeline = state.timeline
    last = next((e for e in reversed(timeline.entries) if e.action == "clean" and e.done and e.requested), None)
    if last is None or retained.versions:
        return None
    plan = parse_clean_plan(state.store.read(last.requested))
    before = plan.earliest_to_retain
    if not before or before < timeline.start or not timeline.savepointed >= {*plan.savepoints}:
        return None
    position = min((timeline.order(e) for e in timeline.commits if e.time >= before), default="")
    since = [
        e
        for e in timeline.commits
        if (e.time >= before or timeline.order(e) >= position) and timeline.order(e) <= retained.position
    ]
    commits = state.files.commits(since).values()
    written = {stat.partition for commit in commits for stat in commit.stats}
    return written | {partition for commit in commits for partition in commit.replaced}


def savepointed_files(state: TableState) -> dict[str, frozenset[str]]:
    """The names of the files that completed savepoints keep, by partition."""
    entries = [entry for entry in state.timeline.entries if entry.action == "savepoint" and entry.done]
    saved: dict[str, set[str]] = {}
    for content in state.store.read_many([entry.file for entry in entries]):
        for partition, names in parse_savepoint(content).items():
            saved.setdefault(partition, set()).update(names)
    return {partition: frozenset(names) for partition, names in saved.items()}


def live_files(state: TableState, services: PendingServices, partitions: Mapping[str, object]) -> dict[str, set[str]]:
    """The names of files that the newest snapshot or a pending service needs, in some partitions."""
    view: View = state.view()
    written = state.written(view)
    live: dict[str, set[str]] = {}
    for partition in partitions:
        replaced = written.replaced.get(partition, frozenset())
        for group in file_groups(state.store.list(partition).files).values():
            if group.file_id in replaced:
                continue
            slices = slices_of(group, view, written)
            kept = slices[: 2 if services.taken((partition, group.file_id)) else 1]
            live.setdefault(partition, set()).update(name for part in kept for name in part.names)
    return live


def _earliest_retained(state: TableState, options: Options) -> tuple[Entry | None, Skipped]:
    """The earliest commit that stays, None where all of them do; and why."""
    commits, pending = state.timeline.commits, state.timeline.pending
    if options[CLEANER_POLICY] == "KEEP_LATEST_COMMITS":
        count = options[COMMITS_RETAINED]
        if len(commits) <= count:
            return None, Skipped("all commits", f"there are {len(commits)}, and {count} are retained")
        earliest, why = commits[-count], f"the newest {counted(count, 'commit is', 'commits are')} retained"
    else:
        hours = options[HOURS_RETAINED]
        zone = datetime.UTC if state.config.timezone == "UTC" else None
        since = clock.earlier(clock.moment(zone), hours=hours).strftime(INSTANT_FORMAT)
        recent = [entry for entry in commits if entry.time >= since[: len(entry.time)]]
        if not recent:
            return None, Skipped(
                "all commits", f"none is of the last {counted(hours, 'hour')}, and the newest ones stay"
            )
        earliest, why = recent[0], f"commits of the last {counted(hours, 'hour is', 'hours are')} retained"
    held = next((entry for entry in pending if entry.time < earliest.time), None)
    if held is not None:
        older = [entry for entry in commits if entry.time < held.time]
        why = f"{held.action} {held.time} is {held.state}: what it may still read stays"
        if not older:
            return None, Skipped("all commits", why)
        earliest = older[-1]
    return earliest, Skipped(f"{earliest.time} and later commits", why)


def _replaced_before(state: TableState, retained: Retained) -> dict[str, set[str]]:
    """File ids that replace commits took out of use before everything that is retained, by partition."""
    timeline, replaced = state.timeline, dict[str, set[str]]()
    entries = [
        entry
        for entry in timeline.commits
        if entry.action == "replacecommit"
        and (retained.versions or (entry.time < retained.earliest and timeline.order(entry) <= retained.position))
    ]
    for commit in state.files.commits(entries).values():
        for partition, ids in commit.replaced.items():
            replaced.setdefault(partition, set()).update(ids)
    return replaced
