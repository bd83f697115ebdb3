"""What a task hands to the commit, and what the commit hands to the caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from lakebed.model.notebooks import Shown

BATCH_IDENTIFIER = (1 << 63) - 1
"""The identifier of a commit that does not belong to a stream (Paimon: BatchWriteBuilder)."""


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """What one task wrote: small and picklable. Each format has its own message, which names the files.

    Nothing that a message names is visible before the commit.
    """


class Outcome(StrEnum):
    """How a commit ended."""

    COMMITTED = "committed"
    SKIPPED = "skipped"
    """There was nothing to commit: no data, or this user had committed this identifier before."""


@dataclass(frozen=True, slots=True, repr=False)
class CommitResult(Shown):
    """How one commit ended.

    `instant` is the instant time or snapshot id as text, "" when the commit was skipped. A conflict or an unknown
    outcome is an error (`CommitConflictError`, `CommitUnknownError`), never a result that could be overlooked.

    `rows` is how many rows the write was given, those that name the keys to delete included; Paimon counts rows of one
    key once where they came together. `files` is how many data and log files hold them. Both are 0 for a skipped one.

    `notes` are sentences for people: rows that were left out or stay invisible until a compaction, callbacks that are
    still to be called, and what failed after the commit was published (old snapshots that did not expire, files that
    were not removed).
    """

    instant: str
    outcome: Outcome
    notes: tuple[str, ...] = ()
    rows: int = 0
    files: int = 0

    @property
    def snapshot_id(self) -> int | None:
        """`instant` as a number: the snapshot id of Paimon and Iceberg. None when the commit was skipped."""
        return int(self.instant) if self.instant else None

    def with_notes(self, notes: Sequence[str]) -> CommitResult:
        """The same with more notes at the end. A skipped commit takes none: what they are about did not happen."""
        return replace(self, notes=(*self.notes, *notes)) if notes and self.outcome is Outcome.COMMITTED else self
