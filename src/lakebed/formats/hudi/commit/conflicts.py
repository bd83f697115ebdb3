"""Which changes of others a commit is in conflict with, by file group.

A commit since our begin that changed one of our file groups is a conflict, and so is a table service that was planned
for one of them since. A compaction is none where our rows lie in logs that belong to the next slice: in table version 8
and later by completion times, before that because the compaction was planned before us, so that it names our logs.
Commits since our begin are those that we did not see then, whatever their instants.

Rules: Hudi's `SimpleConcurrentFileWritesConflictResolutionStrategy`, `PreferWriterConflictResolutionStrategy`,
`BucketIndexConcurrentFileWritesConflictResolutionStrategy`; early, `SimpleDirectMarkerBasedDetectionStrategy`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lakebed.formats.hudi.codec.commit_metadata import COMPACTS
from lakebed.formats.hudi.codec.metadata import CommitMetadata, planned_updates
from lakebed.formats.hudi.commit.context import WriteContext
from lakebed.formats.hudi.commit.heartbeat import stopped
from lakebed.formats.hudi.commit.markers import marked_files
from lakebed.formats.hudi.commit.options import Strategy
from lakebed.formats.hudi.commit.rollback import cut_off_rollbacks, planned_rollback
from lakebed.formats.hudi.layout import parse_base_name, parse_log_name
from lakebed.formats.hudi.slices import by_older_base
from lakebed.formats.hudi.timeline.active import Entry, Timeline
from lakebed.formats.hudi.timeline.pending_services import Group, pending_services

_BUCKET = re.compile(r"\d{8}-")
"""How the file id of a bucket begins. Few random ids do, and such a group is in conflict with itself all the same."""


@dataclass(frozen=True, slots=True)
class Began:
    """What a writer saw when its instant was requested: the commits that were completed, and what was pending."""

    instant: str
    seen: frozenset[str] = field(default_factory=frozenset)
    pending: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Changed:
    """The file groups that a write changes or takes out of use. `based` are those of them in which it does more than
    append logs.

    `closed` are partitions whose rows it must know: it added keys there that it looked up before, or overwrites them.
    None are all of them. Hudi's rules know no such conflict: there two writers may both add a new key.

    `routed` are partitions where it appends to logs of file groups whose base files had its keys, None as before. Where
    a compaction has replaced such a base file meanwhile, a key may be new in its group: these are closed then too.
    """

    groups: frozenset[Group]
    based: frozenset[Group]
    closed: frozenset[str] | None = frozenset()
    routed: frozenset[str] | None = frozenset()


def changed_groups(context: WriteContext, entries: Iterable[Entry]) -> Mapping[str, set[Group]]:
    """The file groups that each commit wrote to or replaced, by instant."""
    commits = context.files.commits([*entries])
    return {
        time: {(stat.partition, stat.file_id) for stat in commit.stats}
        | {(partition, file_id) for partition, ids in commit.replaced.items() for file_id in ids}
        for time, commit in commits.items()
    }


def conflict_at_commit(context: WriteContext, timeline: Timeline, began: Began, mine: Changed) -> str:
    """What a write is in conflict with when it commits, "" for nothing."""
    time = _since(context, timeline, began, mine)
    if time:
        return f"the commit {time} changed the same file groups"
    if context.concurrency.strategy is Strategy.PREFER_WRITER:
        return ""
    services = pending_services(context.store, timeline)
    # Logs that complete after a compaction was planned are of the next slice, where completion times decide that.
    compacted = mine.based if context.config.completion_times else mine.groups
    for taken, groups in (
        (services.clustering, mine.groups),
        (services.compacting, compacted),
        (services.log_compacting, compacted),
    ):
        for group in groups & taken.keys():
            if taken[group] not in began.pending:
                return f"the table service {taken[group]} was planned for the same file groups"
    return ""


def second_of_bucket(context: WriteContext, timeline: Timeline, began: Began, groups: frozenset[Group]) -> str:
    """What a non-blocking write is in conflict with, "" for nothing: a commit since its begin that made another file
    group of one of its buckets, as a writer in another mode does. A key would be in both."""
    others = [entry for entry in timeline.commits if entry.time not in began.seen]
    for time, changed in changed_groups(context, others).items():
        if _buckets(groups) & _buckets(changed - groups):
            return f"the commit {time}, of a writer that is not a non-blocking one, began the same bucket"
    return ""


def slice_gone(timeline: Timeline, instant: str, logs: Iterable[str]) -> str:
    """Table version 6 and older: what a write is in conflict with whose log files, of these names, belong to the slice
    of a compaction whose plan was withdrawn since; "" for nothing. No base file would come below them."""
    for name in logs:
        parsed = parse_log_name(name)
        slice_of = parsed[1].instant if parsed is not None else instant
        if slice_of != instant and slice_of >= timeline.start and slice_of not in timeline.by_time:
            return f"the compaction {slice_of}, whose slice its log files belong to, was withdrawn"
    return ""


def conflict_early(context: WriteContext, timeline: Timeline, began: Began, groups: frozenset[Group]) -> str:
    """What a write that has made no file yet would lose to, "" for nothing: a pending write that began before it and
    whose heartbeat is young, and, where the options say so, a commit since."""
    rules = context.concurrency
    if rules.early_commits:
        time = _since(context, timeline, began, Changed(groups, groups))
        if time:
            return f"the commit {time} changed the same file groups"
    for entry in timeline.pending:
        if entry.time >= began.instant or entry.action not in ("commit", "deltacommit", "replacecommit"):
            continue
        if groups & pending_groups(context, entry) and not stopped(context.store, entry.time, rules.patience):
            return f"the pending write {entry.time} is changing the same file groups"
    return ""


def pending_groups(context: WriteContext, entry: Entry) -> frozenset[Group]:
    """The file groups that a pending write is changing, by its markers and by what its inflight state plans."""
    groups = set()
    for path in marked_files(context.store, entry.time) or ():
        partition, _, name = path.rpartition("/")
        parsed = parse_log_name(name) or parse_base_name(name)
        if parsed is not None:
            groups.add((partition, parsed[0]))
    if entry.state == "inflight" and entry.file:
        try:
            data = context.store.read(entry.file)
        except FileNotFoundError:  # it completed, or was taken back
            return frozenset()
        groups |= planned_updates(data) if data else set()
    return frozenset(groups)


def rollback_of(context: WriteContext, timeline: Timeline, instant: str) -> str:
    """The pending rollback that takes an instant back, "" for none."""
    for entry in cut_off_rollbacks(timeline):
        info = planned_rollback(context, entry).instant_to_rollback
        if info is not None and info.commit_time == instant:
            return entry.time
    return ""


def _since(context: WriteContext, timeline: Timeline, began: Began, mine: Changed) -> str:
    """The first commit since a writer's begin that changed one of its file groups, "" for none."""
    others = [entry for entry in timeline.commits if entry.time not in began.seen]
    commits = context.files.commits(others)
    closed = mine.closed
    if closed is not None and _replaces_a_base(commits.values(), mine.groups - mine.based):
        closed = None if mine.routed is None else closed | mine.routed
    added = _PartitionsWithNewKeys(context, timeline, began)
    for time, changed in changed_groups(context, others).items():
        commit, groups, theirs = commits[time], mine.groups, frozenset(changed)
        if commit.operation in COMPACTS and (context.config.completion_times or time < began.instant):
            groups = mine.based
        if _buckets(groups) & _buckets(theirs):
            return time
        if closed != frozenset() and any(_holds(closed, partition) for partition in added.of(time, commit)):
            return time
    return ""


def _replaces_a_base(commits: Iterable[CommitMetadata], appended: frozenset[Group]) -> bool:
    """Whether a compaction is among the commits that replaced the base file of a group to whose logs a write has
    appended."""
    compacted = (stat for commit in commits if commit.operation == "COMPACT" for stat in commit.stats)
    return any((stat.partition, stat.file_id) in appended for stat in compacted)


class _PartitionsWithNewKeys:
    """In which partitions others may have added keys that a write did not find when it began.

    They are new there, or the write saw the base file of a compaction, and the other writer went by the one before it:
    its keys may not be in the newer one.
    """

    def __init__(self, context: WriteContext, timeline: Timeline, began: Began) -> None:
        self._context, self._timeline, self._began = context, timeline, began

    def of(self, time: str, commit: CommitMetadata) -> Iterator[str]:
        """The partitions of one commit, some perhaps more than once."""
        if commit.is_service:
            return
        yield from (stat.partition for stat in commit.stats if stat.inserts)
        for stat in commit.stats:
            replaced = self._replaced.get((stat.partition, stat.file_id), ()) if stat.is_log else ()
            if any(by_older_base(stat, time, base, completed) for base, completed in replaced):
                yield stat.partition

    @cached_property
    def _replaced(self) -> Mapping[Group, list[tuple[str, str | None]]]:
        """The base files that compactions had made when the write began, by instant and time of completion."""
        timed, made = self._context.config.completion_times, defaultdict[Group, list[tuple[str, str | None]]](list)
        done = {e.time: e for e in self._timeline.commits if e.action == "commit" and e.time in self._began.seen}
        if not self._context.config.merge_on_read:
            return made
        for time, commit in self._context.files.commits(done.values()).items():
            for stat in commit.stats if commit.operation == "COMPACT" else ():
                made[stat.partition, stat.file_id].append((time, done[time].completed if timed else None))
        return made


def _holds(closed: frozenset[str] | None, partition: str) -> bool:
    return closed is None or partition in closed


def _buckets(groups: Iterable[Group]) -> frozenset[Group]:
    """The file groups, each of a bucket index by the number of its bucket: two writers may both make its first one."""
    return frozenset((path, file_id[:8] if _BUCKET.match(file_id) else file_id) for path, file_id in groups)
