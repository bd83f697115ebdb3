"""Blockers as a table: one line for all instants that stay for the same reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakebed.model.fixes import with_table
from lakebed.model.upkeep import Blocker

HEADINGS: Sequence[str] = ("stay", "from", "to", "because", "what to do")


def grouped(blockers: Iterable[Blocker], table: str = "TABLE") -> list[list[object]]:
    """One row per reason, in order of the first instants: the count, the first, the last, the reason, the remedy. The
    commands of remedies name the table."""
    instants: dict[tuple[str, str], list[str]] = {}
    for blocker in blockers:
        instants.setdefault((blocker.reason, blocker.remedy), []).append(blocker.instant)
    return [
        [len(times), times[0], times[-1], reason, with_table(remedy, table)]
        for (reason, remedy), times in instants.items()
    ]
