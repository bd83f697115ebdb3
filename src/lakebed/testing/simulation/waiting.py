"""Rows that a table has and does not show yet: writers leave them in files of their own, and a compaction makes them
visible. Of several rows of a key the one counts whose file was created last, by the clock of its writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Event = tuple[str, int, int]
"""A row's kind, id and value."""
_GOES = ("-U", "-D")


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A file whose rows wait: its name, when it was created (milliseconds since 1970), and its rows in their order."""

    name: str
    created: int
    events: tuple[Event, ...]


def overlaid(shown: frozenset[tuple[int, int]], waiting: Sequence[WaitingFile]) -> frozenset[tuple[int, int]]:
    """The rows that a table will show once all that waits is compacted."""
    rows = dict(shown)
    for kind, key, value in _in_order(waiting):
        if kind in _GOES:
            rows.pop(key, None)
        else:
            rows[key] = value
    return frozenset(rows.items())


def covered(waiting: Sequence[WaitingFile]) -> frozenset[tuple[int, int]]:
    """The waiting rows that do not count, since another file with their key was created later."""
    last = {(key, value) for _, key, value in {event[1]: event for event in _in_order(waiting)}.values()}
    return frozenset((key, value) for _, key, value in _in_order(waiting)) - last


def outcomes(key: int, moved: Sequence[WaitingFile]) -> set[int | None]:
    """What files may make of the row of an id: its values, None where it goes. Empty where they have nothing of it. Of
    files that were created in the same millisecond each one may be the last."""
    having = [one for one in moved if any(event[1] == key for event in one.events)]
    newest = max((one.created for one in having), default=0)
    last = [[event for event in one.events if event[1] == key][-1] for one in having if one.created == newest]
    return {None if kind in _GOES else value for kind, _, value in last}


def _in_order(waiting: Sequence[WaitingFile]) -> Iterator[Event]:
    return (event for one in sorted(waiting, key=lambda one: one.created) for event in one.events)
