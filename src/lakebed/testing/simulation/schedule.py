"""A schedule says all that happens in one simulated run, as frozen values: it is drawn from a seed, runs the same way
each time, and gets shorter by leaving parts of it out.

An actor runs one step after the other. Its storage calls are numbered from 1, over all its steps, and so are its
commits. Before the call that a `Switch` names another actor goes on, before the commit that a `Hold` names others
publish, and the call that a `Fault` names fails. So a part that is left out changes no other part.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum


class StoreKind(StrEnum):
    """What the simulated store is like."""

    OBJECTS = "objects"
    """A file exists when it is whole. S3, Google Cloud Storage and Azure are so."""
    DISK = "disk"
    """A data file exists from its opening on, and a writer that dies leaves a part of it."""
    LATE = "late"
    """As objects, but a new name is listed only after a while. No store that lakebed serves is so: a network disk may
    be."""


class Kind(StrEnum):
    """How a call fails. One that reads fails without an effect in any case."""

    ERROR_BEFORE = "error before"
    ERROR_AFTER = "error after"
    UNKNOWN_BEFORE = "unknown before"
    UNKNOWN_AFTER = "unknown after"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    CRASH_TORN = "crash torn"
    DELAY = "delay"
    """The call takes minutes, during which the others go on."""
    JUMP = "clock jump"
    """The actor's clock is set: to one that differs by up to hours."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that an actor does: a verb of the format, and a number from which its arguments are drawn."""

    verb: str
    number: int


@dataclass(frozen=True, slots=True)
class Actor:
    """A process with a clock of its own: its steps, how far its clock is ahead (seconds), and how much faster it is."""

    name: str
    steps: tuple[Step, ...]
    ahead: float = 0.0
    drift: float = 0.0


@dataclass(frozen=True, slots=True)
class Switch:
    """Before this call of an actor another one goes on: the `to`-th of those that can."""

    actor: str
    call: int
    to: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Between a plan of an actor and its commit, the one of this number, others go on until they have published
    `others` states or cannot go on: what was planned then meets a table that is no longer so."""

    actor: str
    commit: int
    others: int


@dataclass(frozen=True, slots=True)
class Fault:
    """This call of an actor fails: of its publishing calls where `publishing`, else of all."""

    actor: str
    call: int
    kind: Kind
    publishing: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """One run. `seed` decides what is still open: names, the time that calls take, the table's options, arguments."""

    format: str
    seed: int
    store: StoreKind
    apart: bool
    """Whether each actor is a machine of its own, so that none can look for another's process."""
    actors: tuple[Actor, ...]
    switches: tuple[Switch, ...] = ()
    faults: tuple[Fault, ...] = ()
    holds: tuple[Hold, ...] = ()

    @property
    def length(self) -> tuple[int, int, int, int]:
        """What a shorter schedule has less of: actors, steps, faults, switches and holds."""
        steps = sum(len(actor.steps) for actor in self.actors)
        return len(self.actors), steps, len(self.faults), len(self.switches) + len(self.holds)

    def to_json(self) -> str:
        """The schedule as one line of JSON, for `from_json`."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Schedule:
        """The schedule that `to_json` wrote. Keys that are missing raise KeyError, bad JSON a ValueError."""
        given = json.loads(text)
        actors = [
            Actor(a["name"], tuple(Step(**s) for s in a["steps"]), a["ahead"], a["drift"]) for a in given["actors"]
        ]
        switches = tuple(Switch(**one) for one in given["switches"])
        faults = tuple(Fault(**{**one, "kind": Kind(one["kind"])}) for one in given["faults"])
        holds = tuple(Hold(**one) for one in given.get("holds", ()))
        store = StoreKind(given["store"])
        return cls(given["format"], given["seed"], store, given["apart"], tuple(actors), switches, faults, holds)

    def __str__(self) -> str:
        where = "each on a machine of its own" if self.apart else "on one machine"
        lines = [f"{self.format}, seed {self.seed}, store {self.store}, {where}"]
        for actor in self.actors:
            steps = ", ".join(f"{step.verb}:{step.number}" for step in actor.steps)
            clock = f" (clock {actor.ahead:+.1f} s, drift {actor.drift:+.4f})" if actor.ahead or actor.drift else ""
            lines.append(f"  {actor.name}{clock}: {steps or 'nothing'}")
        for fault in self.faults:
            call = "publishing call" if fault.publishing else "call"
            lines.append(f"  fault: {call} {fault.call} of {fault.actor}: {fault.kind}")
        lines += [f"  hold: commit {one.commit} of {one.actor} waits for {one.others} of others" for one in self.holds]
        lines += [f"  switch: before call {one.call} of {one.actor} to number {one.to}" for one in self.switches]
        return "\n".join(lines)


_THEMED = 0.3
"""How many of the seeds have a theme: few verbs and long lives, for what needs a history of certain steps."""
_CALLS = 400
_PUBLISHING = 12
"""Up to which call, and which publishing call, of an actor switches, holds and faults are drawn."""
_FAULTS = (
    Kind.ERROR_BEFORE, Kind.ERROR_AFTER, Kind.UNKNOWN_BEFORE, Kind.UNKNOWN_AFTER, Kind.UNKNOWN_AFTER,
    Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.CRASH_AFTER, Kind.CRASH_TORN, Kind.DELAY, Kind.JUMP,
)  # fmt: skip


Verbs = Mapping[str, Sequence[tuple[str, int]]]
"""The verbs of each role, each with its weight."""


def draw(
    format: str, verbs: Verbs, seed: int, late: bool = False, themes: Sequence[Verbs] = (),
    later_themes: Sequence[Verbs] = (), newest_themes: Sequence[Verbs] = (),
) -> Schedule:  # fmt: skip
    """The schedule of a seed. An actor has one role, and its verbs; some seeds have a theme, with other verbs."""
    chance = random.Random(f"{format} {seed}")
    skewed, often = chance.random() < 0.5, chance.choice([0.0, 0.03, 0.15, 0.5])
    faulty = chance.choice([0.0, 0.0, 0.01, 0.03])
    holding, at_commit = chance.choice([0.0, 0.3, 0.7]), chance.choice([0.0, 0.0, 0.1, 0.3])
    actors: list[Actor] = []
    switches: list[Switch] = []
    faults: list[Fault] = []
    holds: list[Hold] = []
    roles, few, theme = [*verbs], chance.random() < 0.5, _theme(format, (themes, later_themes, newest_themes), seed)
    used = {role: _fewer(chance, choices) if few else choices for role, choices in verbs.items()}
    used |= theme or {}
    for number in range(chance.choice([1, 2, 2, 3, 3, 4])):
        role = roles[0] if number == 0 else chance.choice(roles)
        names, weights = zip(*used[role], strict=True)
        chosen = chance.choices(names, weights, k=chance.randrange(1, 6) if theme is None else chance.randrange(5, 11))
        steps = tuple(Step(verb, chance.randrange(1000)) for verb in chosen)
        name = f"{role}-{number + 1}"
        ahead = chance.choice([0.0, chance.uniform(-2, 2), chance.uniform(-600, 600)]) if skewed else 0.0
        drift = chance.uniform(-0.01, 0.01) if skewed else 0.0
        actors.append(Actor(name, steps, round(ahead, 1), round(drift, 4)))
        switches += [Switch(name, call, chance.randrange(6)) for call in range(1, _CALLS) if chance.random() < often]
        hit = [call for call in range(1, _CALLS) if chance.random() < faulty]
        faults += [Fault(name, call, chance.choice(_FAULTS)) for call in hit]
        hit = [call for call in range(1, _PUBLISHING) if chance.random() < at_commit]
        faults += [Fault(name, call, chance.choice(_FAULTS), True) for call in hit]
        held = [call for call in range(1, _PUBLISHING) if chance.random() < holding]
        holds += [Hold(name, call, chance.choice([1, 1, 2, 4])) for call in held]
    store = StoreKind.LATE if late else chance.choice([StoreKind.OBJECTS, StoreKind.DISK])
    parts = (tuple(actors), tuple(switches), tuple(faults), tuple(holds))
    return Schedule(format, seed, store, chance.random() < 0.5, *parts)


def _theme(format: str, groups: Sequence[Sequence[Verbs]], seed: int) -> Verbs | None:
    """The theme of a seed, out of the first group that it has one of. It is drawn apart, so that it changes no other
    seed; nor does a theme of a later group change seeds of an earlier one."""
    chance = random.Random(f"theme {format} {seed}")
    for themes in groups:
        if themes and chance.random() < _THEMED:
            return chance.choice(themes)
    return None


def _fewer(chance: random.Random, verbs: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    """About half of the verbs, so that the same ones meet more often. At least one: the heaviest."""
    return [one for one in verbs if chance.random() < 0.5] or [max(verbs, key=lambda one: one[1])]
