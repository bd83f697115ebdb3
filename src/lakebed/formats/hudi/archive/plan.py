"""Which instants may leave the active timeline, and what holds the others there.

Rules: Hudi's `HoodieTimelineArchiver` of 0.14 and 0.15 and `TimelineArchiverV1` for timeline layout 1 (table version 6
and older), `TimelineArchiverV2` for layout 2; `CompactionUtils` and `ClusteringUtils.getEarliestInstantToRetain...`,
`TimelineUtils.getEarliestInstantForMetadataArchival`. Planning reads nothing: `evidence.py` gathers what it needs.

The two differ in two ways. Layout 1 counts clean and rollback instants by themselves, as it counts commits; layout 2
lets those go that were requested before the newest commit that goes. And layout 1 holds every instant against the
metadata table's compaction, layout 2 commits alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakebed.formats.hudi.archive.active import ActiveInstant
from lakebed.formats.hudi.archive.settings import Kept
from lakebed.formats.hudi.options import (
    ARCHIVE_STRICT,
    BEYOND_SAVEPOINT,
    COMPACTION_TRIGGER,
    KEEP_MAX,
    LIMIT_INSTANTS,
    MAX_DELTA_COMMITS,
    MIN_INSTANTS,
)
from lakebed.kernel.options import Options
from lakebed.model.upkeep import Blocker

Key = tuple[str, str]
"""(requested time, comparable action): what makes an instant one."""

_SERVICES = ("clean", "rollback")
_REPLACING = "replacecommit"


@dataclass(frozen=True, slots=True)
class LastClean:
    """The newest completed clean: the earliest instant whose files its plan retained ("" when not by commits), and the
    savepoints that it spared."""

    time: str
    retained: str
    savepoints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """The table's own metadata table: the instant of its newest completed compaction, "" before the first."""

    compaction: str


@dataclass(frozen=True, slots=True)
class DataTable:
    """Where the table *is* a metadata table: what the data table that it serves holds back. Both "" for none."""

    earliest_commit: str
    earliest_pending: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a plan rests on: the timeline and the facts outside it. Times compare as text."""

    instants: tuple[ActiveInstant, ...]
    layout: int
    merge_on_read: bool
    clean: LastClean | None = None
    metadata: MetadataTable | None = None
    serves: DataTable | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """`archived` in the order that they are written: layout 1 first clean and rollback instants, then commits; layout 2
    by time. `blockers` name every instant that stays although it is older than what shall stay."""

    archived: tuple[ActiveInstant, ...]
    kept: tuple[ActiveInstant, ...]
    blockers: tuple[Blocker, ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """Holds instants from `bound` on, or just those in `only`; `services`: clean and rollback instants too."""

    reason: str
    remedy: str
    bound: str = ""
    only: frozenset[str] | None = None
    services: bool = False

    def holds(self, time: str) -> bool:
        """Whether an instant of that time must stay."""
        return time in self.only if self.only is not None else time >= self.bound


def plan_archival(evidence: Evidence, options: Options, kept: Kept, already: frozenset[Key] = frozenset()) -> Plan:
    """The instants to archive, oldest first and no more than leaves `kept.least` commits, and why the rest stays.

    `already` are those that the archive holds: a run died before it deleted them, and this one shall, whatever their
    number.
    """
    commits = [instant for instant in evidence.instants if instant.done and instant.writes]
    services = [instant for instant in evidence.instants if instant.done and instant.action in _SERVICES]
    guards = _guards(evidence, options, commits)
    going, blockers = _counted(commits, guards, kept, already)
    if evidence.layout < 2:
        held_services = [guard for guard in guards if guard.services]
        archived: list[ActiveInstant] = []
        for action in _SERVICES:
            gone, held = _counted([i for i in services if i.action == action], held_services, kept, already)
            archived += gone
            blockers += held
        archived = [*sorted(archived, key=_by_time), *going]
        archived, cut = _limited(archived, options)
        blockers += cut
    else:
        border = max((instant.time for instant in going), default="")
        empty = [guard for guard in guards if guard.only and guard.services]
        around = [
            i
            for i in services
            if (i.time < border or _key(i) in already) and not any(guard.holds(i.time) for guard in empty)
        ]
        archived = sorted([*going, *around], key=_by_time)
        moved = {id(instant) for instant in archived}
        left = [i for i in services if id(i) not in moved]
        blockers += _left_services(left, border, commits, kept)
    new = [instant for instant in archived if _key(instant) not in already]
    if 0 < len(new) < options[MIN_INSTANTS]:
        blockers += [_too_few(instant, len(new), options) for instant in new]
        archived = [instant for instant in archived if _key(instant) in already]
    blockers += _leftovers(evidence, commits, kept)
    gone_keys = {_key(instant) for instant in archived}
    stay = tuple(i for i in evidence.instants if _key(i) not in gone_keys)
    return Plan(tuple(archived), stay, tuple(sorted(blockers, key=lambda blocker: blocker.instant)))


def _counted(
    instants: Sequence[ActiveInstant], guards: Sequence[Guard], kept: Kept, already: frozenset[Key]
) -> tuple[list[ActiveInstant], list[Blocker]]:
    """Those that go among instants that are counted together, and why others past the minimum stay."""
    past = max(len(instants) - kept.least, 0)
    free = [instant for instant in instants if not any(guard.holds(instant.time) for guard in guards)]
    ended = [instant for instant in free if _key(instant) in already]
    if len(instants) <= kept.most:
        left = [instant for instant in instants[:past] if _key(instant) not in already]
        return ended, [
            Blocker(
                instant.time,
                f"{len(instants)} completed {_words(instants)} are not more than {KEEP_MAX.key}={kept.most}",
                f"None is needed: archival begins above that number; lower {KEEP_MAX.key} to archive sooner",
            )
            for instant in left
        ]
    going = [instant for place, instant in enumerate(free) if place < past or _key(instant) in already]
    gone = {instant.time for instant in going}
    blockers = []
    for instant in instants[:past]:
        if instant.time not in gone:
            held = [guard for guard in guards if guard.holds(instant.time)]
            reasons, remedies = [guard.reason for guard in held], dict.fromkeys(guard.remedy for guard in held)
            blockers.append(Blocker(instant.time, "; and ".join(reasons), "; and ".join(remedies)))
    return going, blockers


def _guards(evidence: Evidence, options: Options, commits: Sequence[ActiveInstant]) -> list[Guard]:
    found = (
        _savepoint_guard(evidence, options),
        _pending_guard(evidence, commits),
        _compaction_guard(evidence, options, commits),
        _replace_guard(evidence),
        _metadata_guard(evidence, commits),
        _data_table_guard(evidence),
        _empty_guard(evidence, options),
    )
    return [guard for guard in found if guard is not None]


def _savepoint_guard(evidence: Evidence, options: Options) -> Guard | None:
    savepoints = sorted(i.time for i in evidence.instants if i.action == "savepoint" and i.done)
    if not savepoints:
        return None
    if options[BEYOND_SAVEPOINT]:
        return Guard(
            "a savepoint keeps this instant",
            "Delete the savepoint when nobody will restore to it (Hudi: call delete_savepoint)",
            only=frozenset(savepoints),
        )
    return Guard(
        f"the savepoint of {savepoints[0]} holds every commit from there on",
        f"Delete the savepoint of {savepoints[0]} when nobody will restore to it (Hudi: call delete_savepoint), or set "
        f"{BEYOND_SAVEPOINT.key}=true",
        bound=savepoints[0],
    )


def _pending_guard(evidence: Evidence, commits: Sequence[ActiveInstant]) -> Guard | None:
    """One completed commit before the oldest pending write stays too: without it readers would take what lies before
    the timeline's start, the pending write's files among it, for committed."""
    pending = next((i for i in evidence.instants if i.writes and not i.done), None)
    if pending is None:
        return None
    before = max((commit.time for commit in commits if commit.time < pending.time), default="")
    what = f"{pending.kind} {pending.time} is {pending.last.state}"
    reason = f"{what}: every commit from {before or pending.time} on stays until it ends"
    return Guard(reason, _how_to_end(pending), bound=before or pending.time)


def _how_to_end(pending: ActiveInstant) -> str:
    if pending.kind in ("compaction", "logcompaction"):
        return f"Run {pending.kind} {pending.time} (Hudi: call run_compaction) or unschedule it (hudi-cli)"
    if pending.kind == "clustering" or pending.action == _REPLACING:
        return f"Run the pending {pending.kind} {pending.time} (Hudi: call run_clustering), or roll it back"
    return f"Let the writer of {pending.time} finish; if it is dead, roll {pending.time} back"


def _compaction_guard(evidence: Evidence, options: Options, commits: Sequence[ActiveInstant]) -> Guard | None:
    if not evidence.merge_on_read or options[COMPACTION_TRIGGER] not in ("NUM_COMMITS", "NUM_AND_TIME"):
        return None
    compaction = next((i for i in reversed(commits) if i.action == "commit"), None)
    deltas = [i for i in commits if i.action == "deltacommit" and _after(i, compaction, evidence.layout)]
    wanted = options[MAX_DELTA_COMMITS]
    if len(deltas) >= wanted:
        bound = deltas[len(deltas) - wanted].time
    elif compaction is not None:
        bound = compaction.time
    elif deltas:
        bound = deltas[0].time
    else:
        return None
    since = f"since the compaction {compaction.time}" if compaction else "and no compaction yet"
    return Guard(
        f"the next compaction counts delta commits: {len(deltas)} {since}, {MAX_DELTA_COMMITS.key}={wanted}",
        f"Compact the table, or set {MAX_DELTA_COMMITS.key} to what its writer uses",
        bound=bound,
    )


def _after(delta: ActiveInstant, compaction: ActiveInstant | None, layout: int) -> bool:
    if compaction is None:
        return True
    return (delta.completed if layout >= 2 else delta.time) > compaction.time


def _replace_guard(evidence: Evidence) -> Guard | None:
    replacing = [instant.time for instant in evidence.instants if instant.action == _REPLACING]
    if not replacing:
        return None
    remedy = "Run a clean, so that the files it replaced are removed (Hudi: call run_clean)"
    clean = evidence.clean
    if clean is None:
        return Guard(f"replace commit {replacing[0]} hides files that no clean has removed", remedy, bound=replacing[0])
    bound = clean.retained or clean.time
    saved = min(clean.savepoints, default="")
    if saved and bound > saved and any(saved <= time < bound for time in replacing):
        bound = saved
    first = next((time for time in replacing if time >= bound), None)
    if first is None:
        return None
    return Guard(
        f"replace commit {first} hides files that the clean {clean.time} left, which retained all from {bound} on",
        remedy,
        bound=first,
    )


def _metadata_guard(evidence: Evidence, commits: Sequence[ActiveInstant]) -> Guard | None:
    if evidence.metadata is None:
        return None
    compaction = evidence.metadata.compaction
    remedy = (
        "Let a writer compact the metadata table (hoodie.metadata.compact.max.delta.commits), or, where no writer "
        "keeps the metadata table any more, set hoodie.metadata.enable=false"
    )
    if not compaction:
        return Guard("the metadata table was never compacted", remedy, services=evidence.layout < 2)
    if evidence.layout < 2:
        return Guard(f"the metadata table was last compacted at {compaction}", remedy, bound=compaction, services=True)
    first = next((commit.time for commit in commits if commit.completed > compaction), None)
    if first is None:
        return None
    return Guard(f"commit {first} completed after the metadata table's compaction {compaction}", remedy, bound=first)


def _data_table_guard(evidence: Evidence) -> Guard | None:
    serves = evidence.serves
    if serves is None:
        return None
    bounds = [time for time in (serves.earliest_commit, serves.earliest_pending) if time]
    if not bounds:
        return None
    first = min(bounds)
    what = "pending instant" if first == serves.earliest_pending else "earliest commit"
    return Guard(
        f"the data table's {what} {first} needs the metadata table's instants from there on",
        f"End or roll back {first} of the data table" if what.startswith("pending") else "Archive the data table first",
        bound=first,
        services=evidence.layout < 2,
    )


def _empty_guard(evidence: Evidence, options: Options) -> Guard | None:
    """Lenient mode leaves an instant whose completed file is empty; strict mode lets the run stop at it."""
    empty = frozenset(i.time for i in evidence.instants if i.empty)
    if not empty or options[ARCHIVE_STRICT]:
        return None
    return Guard(
        "its completed file is empty, as a crash leaves it",
        "Restore the file from a copy, or roll the instant back (Hudi: call rollback_to_instant)",
        only=empty,
        services=True,
    )


def _left_services(
    services: Sequence[ActiveInstant], border: str, commits: Sequence[ActiveInstant], kept: Kept
) -> Iterable[Blocker]:
    """Layout 2: clean and rollback instants go with the commits around them."""
    past = max(len(commits) - kept.least, 0)
    limit = commits[past - 1].time if past else ""
    for instant in services:
        if instant.time < border:
            yield Blocker(
                instant.time,
                f"the completed file of this {instant.action} is empty",
                "Restore the file from a copy, or remove the instant's files",
            )
        elif instant.time < limit:
            yield Blocker(
                instant.time,
                f"a {instant.action} goes with the commits after it, which stay",
                "Free the commits after it",
            )


def _limited(archived: list[ActiveInstant], options: Options) -> tuple[list[ActiveInstant], list[Blocker]]:
    limit = options[LIMIT_INSTANTS]
    if limit is None or len(archived) <= limit:
        return archived, []
    first = sorted(archived, key=_by_time)[:limit]
    going = {(instant.time, instant.action) for instant in first}
    cut = [instant for instant in archived if (instant.time, instant.action) not in going]
    remedy = f"Run the archival again, or raise {LIMIT_INSTANTS.key}"
    return [i for i in archived if (i.time, i.action) in going], [
        Blocker(instant.time, f"a run archives at most {limit} instants ({LIMIT_INSTANTS.key})", remedy)
        for instant in cut
    ]


def _too_few(instant: ActiveInstant, count: int, options: Options) -> Blocker:
    least = options[MIN_INSTANTS]
    return Blocker(
        instant.time,
        f"{count} instants could go, fewer than {MIN_INSTANTS.key}={least}",
        f"None is needed: they go when more have gathered; lower {MIN_INSTANTS.key} to archive sooner",
    )


def _leftovers(evidence: Evidence, commits: Sequence[ActiveInstant], kept: Kept) -> Iterable[Blocker]:
    """Pending instants older than the commits that shall stay: they are never archived by themselves."""
    limit = commits[-kept.least].time if len(commits) >= kept.least else ""
    for instant in evidence.instants:
        if instant.done or not instant.time < limit:
            continue
        yield Blocker(
            instant.time,
            f"{instant.kind} {instant.time} is {instant.last.state} and was never completed",
            _how_to_end(instant)
            if instant.writes
            else f"Let the next {instant.kind} finish it, or roll it back or remove its files by Hudi's own tools",
        )


def _words(instants: Sequence[ActiveInstant]) -> str:
    actions = {instant.action for instant in instants}
    return f"{actions.pop()} instants" if len(actions) == 1 and actions <= set(_SERVICES) else "commits"


def _key(instant: ActiveInstant) -> Key:
    return instant.time, instant.action


def _by_time(instant: ActiveInstant) -> tuple[str, str]:
    return instant.time, instant.action
