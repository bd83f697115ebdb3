"""Make a schedule that fails shorter: leave out actors, steps, faults and switches for as long as it still fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from lakebed.testing.simulation.run import Report, simulate
from lakebed.testing.simulation.schedule import Schedule

T = TypeVar("T")


def shrunk(report: Report, tries: int = 300, run: Callable[[Schedule], Report] = simulate) -> Report:
    """The report of the shortest schedule that was found to fail, within so many runs.

    It may fail in another way than the first one. Each run that fails is the next to be made shorter.
    """
    best, left = report, tries
    if report.failure and (again := run(_reached(report))).failure:
        best = again
    progress = bool(report.failure)
    while progress:
        progress = False
        for shorter in _shorter(best.schedule):
            if left <= 0:
                return best
            left -= 1
            found = run(shorter)
            if found.failure:
                best, progress = found, True
                break
    return best


def _shorter(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules that have less of a kind, the largest cuts first."""
    for actors in _without(schedule.actors):
        yield _only_of(replace(schedule, actors=actors))
    for place, actor in enumerate(schedule.actors):
        for steps in _without(actor.steps):
            others = schedule.actors[place + 1 :]
            yield replace(schedule, actors=(*schedule.actors[:place], replace(actor, steps=steps), *others))
    for faults in _without(schedule.faults):
        yield replace(schedule, faults=faults)
    for holds in _without(schedule.holds):
        yield replace(schedule, holds=holds)
    for switches in _without(schedule.switches):
        yield replace(schedule, switches=switches)
    if any(actor.ahead or actor.drift for actor in schedule.actors):
        yield replace(schedule, actors=tuple(replace(actor, ahead=0.0, drift=0.0) for actor in schedule.actors))


def _reached(report: Report) -> Schedule:
    """The schedule without what was never reached."""
    calls = Counter(line.split(" ", 2)[1] for line in report.trace)
    schedule = report.schedule
    switches = tuple(one for one in schedule.switches if one.call <= calls[one.actor])
    faults = tuple(one for one in schedule.faults if one.publishing or one.call <= calls[one.actor])
    return replace(schedule, switches=switches, faults=faults)


def _only_of(schedule: Schedule) -> Schedule:
    """A schedule without faults and switches of actors that are gone."""
    names = {actor.name for actor in schedule.actors}
    faults = tuple(one for one in schedule.faults if one.actor in names)
    holds = tuple(one for one in schedule.holds if one.actor in names)
    switches = tuple(one for one in schedule.switches if one.actor in names)
    return replace(schedule, faults=faults, switches=switches, holds=holds)


def _without(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """The items less a half, a quarter, ... and each single one."""
    size = len(items)
    while size:
        for start in range(0, len(items), size):
            yield items[:start] + items[start + size :]
        size //= 2
