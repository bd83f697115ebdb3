"""The pictures of a health report, as data: what is drawn, and not how (`drawing.py`).

A picture has a `title`, a `note` that says how to read it, and at most some hundred entries, however large the table
is. Times are milliseconds since 1970.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakebed.errors import counted
from lakebed.model.units import moment_text, short_size, size_text


class Unit(StrEnum):
    """The unit of a picture's values."""

    BYTES = "bytes"
    FILES = "files"
    ROWS = "rows"


class Look(StrEnum):
    """How an entry is drawn: as it should be, or as one to look at. Shapes tell them apart, not colours alone."""

    PLAIN = "plain"
    FLAGGED = "flagged"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a chart. `told` is the text that appears when you point at it."""

    label: str
    value: int
    look: Look = Look.PLAIN
    told: str = ""


@dataclass(frozen=True, slots=True)
class Columns:
    """Bars side by side in a given order.

    With `edges` a label belongs to the left edge of its bar. `line` is a position on that axis, in bars from the left,
    and what is there.
    """

    title: str
    note: str
    unit: Unit
    bars: tuple[Bar, ...]
    edges: bool = False
    line: tuple[float, str] | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars one below the other, the largest first."""

    title: str
    note: str
    unit: Unit
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """A value over time, which holds until the next point. Points are in the order of time."""

    title: str
    note: str
    unit: Unit
    points: tuple[tuple[int, int], ...]


class State(StrEnum):
    """The state of an instant or snapshot in a picture."""

    DONE = "done"
    PENDING = "pending"
    """Begun, and not complete yet."""
    HELD = "held"
    """Complete, and maintenance cannot remove it yet."""
    KEPT = "kept"
    """A tag, a branch or a savepoint keeps it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One instant or snapshot on a timeline."""

    time: int
    lane: str
    state: State
    told: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Instants or snapshots over time, in one lane per action."""

    title: str
    note: str
    marks: tuple[Mark, ...]


Picture = Columns | Bars | Steps | Timeline

_MOST_BARS, _MOST_BINS, _MOST_POINTS, _MOST_ROWS = 12, 18, 400, 60
_AGES = (("under 1 hour", 3_600_000), ("1 day", 86_400_000), ("1 week", 604_800_000), ("30 days", 2_592_000_000))


def file_sizes(exponents: Mapping[int, int], target: int, least: int, what: str = "files") -> Columns | None:
    """How many files have which size, from counts by the power of two below their sizes. None where there is none.

    `target` is the size that files should have, and files below `least` bytes are small.
    """
    counts = {power: count for power, count in exponents.items() if count}
    if not counts:
        return None
    aim = math.log2(max(target, 1))
    high = max(*counts, math.floor(aim))
    low = max(min(*counts, math.floor(aim)), high - _MOST_BINS + 1)
    bars, singular = [], what.removesuffix("s")
    for power in range(low, high + 1):
        count = sum(n for p, n in counts.items() if p == power or (power == low and p < low))
        small = 2 ** (power + 1) <= least
        label = f"{counted(count, singular, grouped=True)} of {size_text(2**power)} to {size_text(2 ** (power + 1))}"
        bars.append(Bar(short_size(2**power), count, Look.FLAGGED if small else Look.PLAIN, label))
    total = sum(counts.values())
    small_files = sum(count for power, count in counts.items() if 2 ** (power + 1) <= least)
    note = f"{counted(total, singular, grouped=True)}, {small_files:,} of them much smaller than the target (dashed)"
    return Columns(
        "File sizes against the target",
        note,
        Unit.FILES,
        tuple(bars),
        True,
        (aim - low, f"target {short_size(target)}"),
    )


def largest(title: str, sizes: Mapping[str, int], files: Mapping[str, int], what: str) -> Bars | None:
    """The largest of some places of a table, by their bytes. None where there are fewer than two."""
    if len(sizes) < 2:
        return None
    names = sorted(sizes, key=lambda name: (-sizes[name], name))[:_MOST_BARS]
    bars = tuple(
        Bar(name, sizes[name], told=f"{name}: {size_text(sizes[name])} in {counted(files[name], 'file', grouped=True)}")
        for name in names
    )
    middle = sorted(sizes.values())[len(sizes) // 2]
    note = f"{len(sizes):,} {what}, the middle one has {size_text(middle)}"
    if len(sizes) > len(names):
        note += f"; the {len(names)} largest are shown"
    return Bars(title, note, Unit.BYTES, bars)


def by_age(title: str, note: str, unit: Unit, aged: Iterable[tuple[int, int]]) -> Columns | None:
    """How much there is of each age, from pairs of an age (milliseconds) and a number. None where there is nothing."""
    counts: Counter[int] = Counter()
    for age, number in aged:
        counts[next((n for n, (_, limit) in enumerate(_AGES) if age < limit), len(_AGES))] += number
    if not sum(counts.values()):
        return None
    labels = [*(label for label, _ in _AGES), "older"]
    bars = tuple(
        Bar(label, counts[n], Look.PLAIN if n < 2 else Look.FLAGGED, f"{counts[n]:,} {unit}, {_age_told(n)}")
        for n, label in enumerate(labels)
    )
    return Columns(title, note, unit, bars)


def _age_told(place: int) -> str:
    if place == len(_AGES):
        return f"{_AGES[-1][0]} old or older"
    return _AGES[0][0] + " old" if not place else f"under {_AGES[place][0]} old"


def growth(title: str, note: str, unit: Unit, points: Iterable[tuple[int, int]]) -> Steps | None:
    """A value over time. None where there are fewer than two points; of very many, some are left out."""
    ordered = sorted(points)
    if len(ordered) < 2:
        return None
    stride = -(-len(ordered) // _MOST_POINTS)
    kept = [*ordered[::stride], *([ordered[-1]] if (len(ordered) - 1) % stride else [])]
    return Steps(title, note, unit, tuple(kept))


def timeline(title: str, marks: Iterable[Mark], holding: Sequence[str] = ()) -> Timeline | None:
    """A timeline. `holding` are the reasons why maintenance cannot go on. None where there are no marks.

    Of marks of one kind that would lie on each other, one is drawn.
    """
    ordered = sorted(marks, key=lambda mark: (mark.time, mark.lane))
    if not ordered:
        return None
    first, width = ordered[0].time, max(ordered[-1].time - ordered[0].time, 1)
    kept = {(mark.lane, mark.state, (mark.time - first) * _MOST_POINTS // width): mark for mark in ordered}
    counts = Counter(mark.state for mark in ordered)
    parts = [f"{len(ordered):,} in all"]
    words = {State.PENDING: "pending (rings)", State.HELD: "held (diamonds)", State.KEPT: "kept by name (triangles)"}
    parts += [f"{counts[state]:,} {word}" for state, word in words.items() if counts[state]]
    note = ", ".join(parts)
    if holding:
        note += f". Held: {holding[0]}" + (f", and {len(holding) - 1} more reasons" if len(holding) > 1 else "")
    return Timeline(title, note, tuple(sorted(kept.values(), key=lambda mark: mark.time)))


def numbers(picture: Picture) -> tuple[tuple[str, str], Sequence[tuple[str, str]]]:
    """The numbers of a picture as headings and rows, for those who do not see it; of a timeline what is not done
    first, and the newest."""
    if isinstance(picture, Timeline):
        marks = sorted(picture.marks, key=lambda mark: (mark.state is State.DONE, -mark.time))[:_MOST_ROWS]
        return ("time", "what"), [(moment_text(mark.time, True), mark.told) for mark in marks]
    if isinstance(picture, Steps):
        points = picture.points[-_MOST_ROWS:]
        return ("time", picture.unit), [(moment_text(at, True), f"{value:,}") for at, value in points]
    heading = "from" if isinstance(picture, Columns) and picture.edges else ""
    return (heading, picture.unit), [(bar.label, f"{bar.value:,}") for bar in picture.bars]
