"""What a task tells the commit, and what the commit tells the caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

BATCH_IDENTIFIER = (1 << 63) - 1
"""The identifier of a commit that no stream numbers, as Paimon's BatchWriteBuilder has it."""


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """What one task wrote, small and picklable; a format's own message adds the files. Invisible before commit."""


class Outcome(StrEnum):
    """How a commit ended."""

    COMMITTED = "committed"
    SKIPPED = "skipped"
    """Nothing to do: no data, or this identifier was committed before."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The outcome of one commit.

    `instant` is the instant time or snapshot id as text, "" when skipped. A conflict or an unknown outcome is an error
    (`CommitConflictError`, `CommitUnknownError`), never a result that could be overlooked. `notes` are sentences for
    people: what was left out, what will be invisible until compaction, which callback is still owed, and whatever
    failed after the commit stood (old snapshots that were not expired, leftovers that were not removed).
    """

    instant: str
    outcome: Outcome
    notes: tuple[str, ...] = ()

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot id, None when skipped or when the format counts in instants wider than a snapshot id."""
        return int(self.instant) if self.instant else None

    def with_notes(self, notes: Sequence[str]) -> CommitResult:
        """The same with more notes at the end. A skipped commit takes none: what they are about did not happen."""
        return replace(self, notes=(*self.notes, *notes)) if notes and self.outcome is Outcome.COMMITTED else self
