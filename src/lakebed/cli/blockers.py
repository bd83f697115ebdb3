"""Blockers for people: instants that stay for the same reason on one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakebed.model.upkeep import Blocker

HEADINGS: Sequence[str] = ("stay", "from", "to", "because", "what frees them")


def grouped(blockers: Iterable[Blocker]) -> list[list[object]]:
    """How many, the first, the last, the reason, the remedy: one row a reason, in the order of the first instants."""
    found: dict[tuple[str, str], list[str]] = {}
    for blocker in blockers:
        found.setdefault((blocker.reason, blocker.remedy), []).append(blocker.instant)
    return [[len(times), times[0], times[-1], reason, remedy] for (reason, remedy), times in found.items()]
