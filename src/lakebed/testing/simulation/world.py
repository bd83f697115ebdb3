"""The world of a simulated run: its time, who runs, and what was called. One actor runs at a time.

Each actor is a thread that waits for the baton at each storage call and at each pause. Whoever has it decides by the
schedule who gets it next, so a run has no chance of its own.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lakebed.testing.faults import Crash
from lakebed.testing.simulation.schedule import Actor, Fault, Hold, Kind, Schedule, Switch

START = 1_800_000_000.0
"""When every run begins, in seconds since 1970."""
_LOOK_SECONDS, _LOOKS = 5.0, 12
"""How often the caller of a run looks whether its actors go on, and after how many looks without any progress they are
stuck. On a loaded machine they go on slowly, and on one that was halted all looks but one come after it."""
_IDLE_SECONDS = 0.01
"""Less of the processor than that between two looks is nothing."""
_ENDLESS_SECONDS = 300.0
"""For how many seconds of the processor actors may compute without a storage call or a pause."""
_FAST, _SLOW = 0.004, 240.0
_STALE = 7200.0
_LEAST_PAUSE = 0.15
"""No pause is shorter (seconds): looks at a lock that is held would be half of the calls of a run."""


class Stuck(Exception):
    """No actor goes on: one waits for something outside the simulation, or they wait for each other."""


@dataclass(eq=False)
class Running:
    """An actor that runs: its thread's baton, how many calls it has made, and when it goes on (world's time)."""

    actor: Actor
    act: Callable[[], None]
    switches: dict[int, Switch]
    faults: dict[tuple[int, bool], Fault]
    """The faults by the number of the call, and whether that number counts publishing calls."""
    holds: dict[int, Hold]
    baton: threading.Lock = field(default_factory=lambda: _taken())
    """Held, but for the moment when the actor is told to go on."""
    calls: int = 0
    publishing: int = 0
    """How many of the calls tried to publish."""
    planned: int = 0
    """How many of the calls were the last before others may not come between: where a hold may strike."""
    overtaken: int = 0
    """How many states others have published since its step began."""
    held: int = 0
    """The number of states that others publish before this actor goes on."""
    wakes: float = 0.0
    ended: bool = False
    ahead: float = 0.0
    busy: bool = False
    """Whether it is in a step."""
    alone: bool = False
    """Whether the actor runs without interruption."""
    hit: list[str] = field(default_factory=list)
    """The faults that have struck it since it was last emptied."""


class World:
    """Everything that a run shares. `trace` has a line for each storage call, in order."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.chance = random.Random(f"world {schedule.format} {schedule.seed}")
        self.names = random.Random(f"names {schedule.format} {schedule.seed}")
        self.time = START
        self.trace: list[str] = []
        self.faults = 0
        self.running: list[Running] = []
        self.current: Running | None = None
        self._over = _taken()
        self._turns = 0
        self.broken: BaseException | None = None
        """The error that ends the run. It is raised when all actors have stopped."""
        self._failure: BaseException | None = None

    @property
    def clocks_agree(self) -> bool:
        """Whether no actor's clock is ahead, drifts or may be set."""
        off = any(one.ahead or one.drift for one in self.schedule.actors)
        return not off and not any(one.kind is Kind.JUMP for one in self.schedule.faults)

    # ---- what the code under test asks instead of the machine ----

    def now(self) -> float:
        """Seconds since 1970 by the clock of whoever runs."""
        if self.current is None:
            return self.time
        about = self.current
        return self.time + about.actor.ahead + about.ahead + (self.time - START) * about.actor.drift

    @property
    def clocks_differ(self) -> bool:
        """Whether some actor's clock is not that of the others."""
        return any(one.actor.ahead or one.actor.drift or one.ahead for one in self.running)

    def steady(self) -> float:
        """Seconds that never go back."""
        return self.time - START

    def pause(self, seconds: float) -> None:
        """Whoever runs waits; others go on meanwhile. A wait may last longer than it was asked for."""
        longer = self.chance.choice([1.0, 1.0, 1.5, 20.0])
        self._rest(max(seconds, _LEAST_PAUSE) * longer)

    def random_bytes(self, count: int) -> bytes:
        """Bytes for names and tokens."""
        return self.names.randbytes(count)

    # ---- the baton ----

    def run(self, acts: dict[str, Callable[[], None]]) -> None:
        """Run all actors of the schedule to their end, each with its function. Raises what one of them raised."""
        schedule = self.schedule
        for actor in schedule.actors:
            switches = {one.call: one for one in schedule.switches if one.actor == actor.name}
            faults = {(one.call, one.publishing): one for one in schedule.faults if one.actor == actor.name}
            holds = {one.commit: one for one in schedule.holds if one.actor == actor.name}
            self.running.append(Running(actor, acts[actor.name], switches, faults, holds))
        if not self.running:
            return
        threads = [
            threading.Thread(target=self._begin, args=(one,), name=f"lakebed {one.actor.name}", daemon=True)
            for one in self.running
        ]
        for thread in threads:
            thread.start()
        self._pass_to(self.running[0])
        self._wait_for_the_end()
        self.current = None
        if self.broken is not None:
            raise self.broken
        if self._failure is not None:
            raise self._failure

    def call(self, who: Running, verb: str, path: str, publishing: bool = False, planned: bool = False) -> Fault | None:
        """An actor is about to make a storage call: others may go first. The fault of this call, if it has one.

        `publishing`: the call tries to publish. `planned`: the actor has planned, and its commit comes next.
        """
        if self.broken is not None:
            raise Crash("the run is over")
        who.calls += 1
        who.publishing += publishing
        who.planned += planned
        number, hold = who.calls, who.holds.get(who.planned) if planned else None
        if hold is not None and not who.alone:
            who.held = hold.others
            self._next(who)
            who.held = 0
        elif (switch := who.switches.get(number)) is not None and not who.alone:
            others = [one for one in self.running if not one.ended and not one.held and one.wakes <= self.time]
            self._hand_over(who, others[switch.to % len(others)] if others else who)
        self.time += self.chance.expovariate(1 / _FAST)
        fault = who.faults.get((number, False)) or (who.faults.get((who.publishing, True)) if publishing else None)
        if fault is not None:
            self.faults += 1
            who.hit.append(fault.kind)
            if fault.kind is Kind.JUMP:
                who.ahead = self.chance.choice([-1, 1]) * self.chance.uniform(0, _STALE)
            elif fault.kind is Kind.DELAY:
                self._rest(self.chance.uniform(1, _SLOW))
        self.trace.append(f"{len(self.trace) + 1} {who.actor.name} {verb} {path}{f' [{fault.kind}]' if fault else ''}")
        return fault

    def published(self, who: Running) -> None:
        """An actor has published a state of the table."""
        for actor in self.running:
            actor.overtaken += actor is not who
            if actor is not who and actor.held:
                actor.held -= 1
                if not actor.held:
                    actor.wakes = self.time

    def _begin(self, who: Running) -> None:
        try:
            self._wait_for_baton(who)
            if self._failure is None:
                who.act()
        except BaseException as failure:  # noqa: BLE001 - the caller of `run` gets it
            self._failure = self._failure or failure
        who.ended = True
        self._next(who)

    def _rest(self, seconds: float) -> None:
        who = self.current
        if who is None:
            self.time += seconds
            return
        who.wakes = self.time + seconds
        self._next(who)

    def _next(self, who: Running) -> None:
        """Give the baton to the first who can go on; time passes where nobody can yet."""
        alive = [one for one in self.running if not one.ended]
        if who.alone and not who.ended:
            alive = [who]
        if not alive:
            self._over.release()
            return
        free = [one for one in alive if not one.held] or alive
        first = min(free, key=lambda one: max(one.wakes, self.time))
        first.held = 0
        self.time = max(self.time, first.wakes)
        self._hand_over(who, first)

    def _hand_over(self, who: Running, to: Running) -> None:
        if who is to:
            self.current = who
            return
        self._pass_to(to)
        if not who.ended:
            self._wait_for_baton(who)

    def _pass_to(self, to: Running) -> None:
        self._turns += 1
        self.current = to
        to.baton.release()

    def _wait_for_baton(self, who: Running) -> None:
        who.baton.acquire()
        if self._failure is not None:
            raise self._failure

    def _wait_for_the_end(self) -> None:
        """Stuck when nobody goes on: by the calls that were made and by what the processor did, since the clock on the
        wall says nothing about a machine that has other things to do."""
        looks, seen, spent, since = 0, (-1, -1), 0.0, time.process_time()
        while not self._over.acquire(timeout=_LOOK_SECONDS):
            now, calls = time.process_time(), (len(self.trace), self._turns)
            if calls != seen:
                looks, seen, since = 0, calls, now
            looks = looks + 1 if now - spent < _IDLE_SECONDS else 0
            spent = now
            if looks >= _LOOKS or now - since > _ENDLESS_SECONDS:
                name = self.current.actor.name if self.current else "nobody"
                raise Stuck(f"{name} does not go on: it waits in vain, or computes without an end")


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock
