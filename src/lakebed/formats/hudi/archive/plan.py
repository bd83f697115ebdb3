"""Decide which instants leave the active timeline, and say what holds the others.

Planning reads nothing: `evidence.py` gathers what it needs, and `guards.py` says what holds an instant. Layout 1 counts
clean and rollback instants by themselves, as it counts commits. Layout 2 archives those that were requested before the
newest commit that is archived.

Rules: Hudi's `HoodieTimelineArchiver` of 0.14 and 0.15 and `TimelineArchiverV1` for timeline layout 1 (table version 6
and older), `TimelineArchiverV2` for layout 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakebed.errors import counted
from lakebed.formats.hudi.archive.bounds import Bounds
from lakebed.formats.hudi.archive.evidence import Evidence
from lakebed.formats.hudi.archive.guards import Guard, guards_of
from lakebed.formats.hudi.archive.options import KEEP_MAX, LIMIT_INSTANTS, MIN_INSTANTS
from lakebed.formats.hudi.archive.pending import how_to_end, never_ended
from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.kernel.options import Options
from lakebed.model.upkeep import Blocker

Key = tuple[str, str]
"""(requested time, comparable action): the identity of an instant."""

_SERVICES = ("clean", "rollback")


@dataclass(frozen=True, slots=True)
class Plan:
    """Which instants are archived, and which are kept.

    `archived` are in the order in which they are written: in layout 1 clean and rollback instants first, then commits;
    in layout 2 by time. `blockers` name every instant that stays although it is older than those that are meant to.
    """

    archived: tuple[ActiveInstant, ...]
    kept: tuple[ActiveInstant, ...]
    blockers: tuple[Blocker, ...]


def plan_archival(evidence: Evidence, options: Options, bounds: Bounds, already: frozenset[Key] = frozenset()) -> Plan:
    """The instants to archive, oldest first, so that `bounds.least` commits stay; and why the others stay.

    `already` are active instants that the archive holds: a run died before it deleted them, so this one deletes them,
    whatever their number.
    """
    commits = [instant for instant in evidence.instants if instant.done and instant.writes]
    services = [instant for instant in evidence.instants if instant.done and instant.action in _SERVICES]
    guards = guards_of(evidence, options, commits)
    going, blockers = _counted(commits, guards, bounds, already)
    if evidence.layout < 2:
        held_services = [guard for guard in guards if guard.services]
        archived: list[ActiveInstant] = []
        for action in _SERVICES:
            gone, held = _counted([i for i in services if i.action == action], held_services, bounds, already)
            archived += gone
            blockers += held
        archived = [*sorted(archived, key=_by_time), *going]
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
        blockers += _left_services(left, border, commits, bounds, tuple(blockers))
    archived, cut = _limited(archived, options)
    blockers += cut
    new = [instant for instant in archived if _key(instant) not in already]
    if 0 < len(new) < options[MIN_INSTANTS]:
        blockers += [_too_few(instant, len(new), options) for instant in new]
        archived = [instant for instant in archived if _key(instant) in already]
    blockers += _leftovers(evidence, commits, bounds)
    gone_keys = {_key(instant) for instant in archived}
    stay = tuple(i for i in evidence.instants if _key(i) not in gone_keys)
    return Plan(tuple(archived), stay, tuple(sorted(blockers, key=lambda blocker: blocker.instant)))


def _counted(
    instants: Sequence[ActiveInstant], guards: Sequence[Guard], bounds: Bounds, already: frozenset[Key]
) -> tuple[list[ActiveInstant], list[Blocker]]:
    """Of instants that are counted together, those to archive, and why others beyond the minimum stay."""
    past = max(len(instants) - bounds.least, 0)
    asked = max(len(instants) - bounds.least + bounds.raised, 0)
    free = [instant for instant in instants if not any(guard.holds(instant.time) for guard in guards)]
    ended = [instant for instant in free if _key(instant) in already]
    if len(instants) <= bounds.most:
        left = [instant for instant in instants[:asked] if _key(instant) not in already]
        most = bounds.most - bounds.raised
        if len(instants) > most:
            return ended, [Blocker(instant.time, bounds.reason, bounds.remedy) for instant in left]
        return ended, [
            Blocker(
                instant.time,
                f"{len(instants)} completed {_noun(instants)} are not more than {KEEP_MAX.key}={most}",
                f"Nothing to do: archival begins above that number; lower {KEEP_MAX.key} to archive sooner",
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
    raised = [instant for instant in instants[past:asked] if instant.time not in gone]
    return going, [*blockers, *(Blocker(instant.time, bounds.reason, bounds.remedy) for instant in raised)]


def _left_services(
    services: Sequence[ActiveInstant],
    border: str,
    commits: Sequence[ActiveInstant],
    bounds: Bounds,
    held: Sequence[Blocker],
) -> Iterable[Blocker]:
    """Layout 2: why clean and rollback instants stay. They go with the commits around them; `held` are the blockers of
    those."""
    past = max(len(commits) - bounds.least + bounds.raised, 0)
    limit = commits[past - 1].time if past else ""
    for instant in services:
        if instant.time < border:
            yield Blocker(
                instant.time,
                f"the completed file of this {instant.action} is empty",
                "Restore the file from a copy, or remove the instant's files",
            )
        elif instant.time < limit:
            after = next((blocker for blocker in held if blocker.instant > instant.time), None)
            stays = f"a {instant.action} goes with the commits after it, which stay"
            if after is None:
                yield Blocker(instant.time, stays, "Free the commits after it")
            else:
                yield Blocker(instant.time, f"{stays}: {after.reason}", after.remedy)


def _limited(archived: list[ActiveInstant], options: Options) -> tuple[list[ActiveInstant], list[Blocker]]:
    limit = options[LIMIT_INSTANTS]
    if limit is None or len(archived) <= limit:
        return archived, []
    first = sorted(archived, key=_by_time)[:limit]
    going = {(instant.time, instant.action) for instant in first}
    cut = [instant for instant in archived if (instant.time, instant.action) not in going]
    remedy = f"Run the archival again, or raise {LIMIT_INSTANTS.key}"
    return [i for i in archived if (i.time, i.action) in going], [
        Blocker(instant.time, f"a run archives at most {counted(limit, 'instant')} ({LIMIT_INSTANTS.key})", remedy)
        for instant in cut
    ]


def _too_few(instant: ActiveInstant, count: int, options: Options) -> Blocker:
    least = options[MIN_INSTANTS]
    return Blocker(
        instant.time,
        f"{counted(count, 'instant could', 'instants could')} go, fewer than {MIN_INSTANTS.key}={least}",
        f"Nothing to do: they go when there are more; lower {MIN_INSTANTS.key} to archive sooner",
    )


def _leftovers(evidence: Evidence, commits: Sequence[ActiveInstant], bounds: Bounds) -> Iterable[Blocker]:
    """Blockers for pending instants that are older than the commits to keep: these are never archived by themselves."""
    asked = bounds.least - bounds.raised
    limit = commits[-asked].time if len(commits) >= asked else ""
    for instant in evidence.instants:
        if instant.done or not instant.time < limit:
            continue
        yield Blocker(instant.time, never_ended(instant, evidence.timezone), how_to_end(instant))


def _noun(instants: Sequence[ActiveInstant]) -> str:
    actions = {instant.action for instant in instants}
    return f"{actions.pop()} instants" if len(actions) == 1 and actions <= set(_SERVICES) else "commits"


def _key(instant: ActiveInstant) -> Key:
    return instant.time, instant.action


def _by_time(instant: ActiveInstant) -> tuple[str, str]:
    return instant.time, instant.action
