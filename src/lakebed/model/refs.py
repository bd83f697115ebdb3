"""The names that a table's snapshots have: tags and branches, the same value for every format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ref:
    """A tag, or a branch. A Hudi savepoint is a tag.

    `instant` is the snapshot or instant that it names, "" where it has none or cannot be read. `ends` is the ISO time
    after which an expiry may remove it, "" for never; a Paimon tag's is a wall clock time without a zone.
    """

    name: str
    kind: str
    instant: str
    ends: str = ""
