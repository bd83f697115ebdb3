"""Checks what writers and readers of one table have seen against what the table holds, in the manner of Jepsen.

Each writer notes an append before it begins and once it knows the outcome, each reader what it found. All notes bear
the seconds of one clock that the processes share. `problems` says what contradicts these promises:

- an append that was acknowledged is there once, whole;
- one that was refused is not there; one whose outcome nobody knows is there whole, or not at all;
- a read sees each append whole, all that were acknowledged before it began, and none that began after it ended;
- reads are monotone: what one saw, each that begins after its end sees, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How an append ended, as its writer knows."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """The writer was killed, or was told that the outcome is unknown."""


@dataclass(frozen=True, slots=True)
class Append:
    """Rows that a writer appended under one name, which no other append has. Times are in seconds; `ended` is when the
    outcome was known, None where it never was."""

    name: str
    began: float
    ended: float | None = None
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(frozen=True, slots=True)
class Read:
    """A read: how many rows it found of each append."""

    began: float
    ended: float
    rows: Mapping[str, int]


def problems(appends: Iterable[Append], reads: Sequence[Read], end: Mapping[str, int], rows: int) -> Iterator[str]:
    """What contradicts the promises, as texts. `end` has the rows of each append in the table at the end, `rows` is how
    many an append has."""
    by_name: dict[str, Append] = {}
    for append in appends:
        if append.name in by_name:
            yield f"two appends have the name {append.name}"
        by_name[append.name] = append
    for name, append in by_name.items():
        copies = end.get(name, 0)
        if append.outcome is Outcome.ACKNOWLEDGED and copies != rows:
            yield f"{name} was acknowledged, and the table has {copies} of its {rows} rows"
        elif append.outcome is Outcome.REFUSED and copies:
            yield f"{name} was refused, and the table has {copies} rows of it"
        elif copies not in (0, rows):
            yield f"of {name}, whose outcome is unknown, the table has {copies} of {rows} rows"
    for name in end:
        if name not in by_name:
            yield f"nobody wrote {name}, and the table has {end[name]} rows of it"
    yield from _of_reads(by_name, sorted(reads, key=lambda read: read.ended), end, rows)


def _of_reads(appends: Mapping[str, Append], reads: Sequence[Read], end: Mapping[str, int], rows: int) -> Iterator[str]:
    acknowledged = sorted(
        (append.ended, append.name)
        for append in appends.values()
        if append.outcome is Outcome.ACKNOWLEDGED and append.ended is not None
    )
    seen: list[tuple[float, frozenset[str]]] = []
    for read in reads:
        where = f"the read from {read.began:.3f} to {read.ended:.3f}"
        for name, count in read.rows.items():
            if count != rows:
                yield f"{where} sees {count} of the {rows} rows of {name}"
            if name not in appends or appends[name].began > read.ended:
                yield f"{where} sees {name}, which nobody had begun to write"
            elif not end.get(name):
                yield f"{where} sees {name}, which is not there at the end"
        for ended, name in acknowledged:
            if ended > read.began:
                break
            if name not in read.rows:
                yield f"{where} does not see {name}, which was acknowledged at {ended:.3f}"
        before = [names for ended, names in seen if ended < read.began]
        if before and (lost := before[-1] - set(read.rows)):
            yield f"{where} does not see what an earlier one saw: {', '.join(sorted(lost)[:3])}"
        names = frozenset(read.rows) | (seen[-1][1] if seen else frozenset())
        seen.append((read.ended, names))


def line_problems(snapshots: Sequence[tuple[str, str | None]], names: Sequence[str] = ()) -> Iterator[str]:
    """What keeps snapshots, oldest first, from being one line. Each is its id and that of its parent, None where the
    format has no parents or for the first one. `names` are those of the commits: each may be there once."""
    ids = [snapshot for snapshot, _ in snapshots]
    for snapshot, count in Counter(ids).items():
        if count > 1:
            yield f"the history has snapshot {snapshot} {count} times"
    for before, (snapshot, parent) in zip(ids, snapshots[1:], strict=False):
        if parent is not None and parent != before:
            yield f"snapshot {snapshot} follows {parent}, and not {before}, which is before it"
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{name} was committed {count} times"
