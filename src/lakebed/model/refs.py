"""The names that a table's snapshots have: tags and branches, the same value for every format."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.model.notebooks import Shown


@dataclass(frozen=True, slots=True, repr=False)
class Ref(Shown):
    """A tag, or a branch. A Hudi savepoint is a tag.

    `instant` is the snapshot or instant that it names, "" where it has none or cannot be read. `ends` is the ISO time
    after which an expiry may remove it, "" for never; a Paimon tag's is a wall clock time without a zone.
    """

    name: str
    kind: str
    instant: str
    ends: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class RefResult(Shown):
    """What became of a branch or tag (`kind`) of that `name`.

    `before` and `to` are the snapshots that it named before and names now, "" for none; after a dry run that would make
    a new snapshot, `to` is "" too. `added` are the snapshots that came into its line of history and `removed` those
    that left it, newest first: none of a new branch or tag, and of a deleted one those that no other has. `notes` say
    what else changed, or stays. After a dry run nothing is changed, and all of it is what would be.
    """

    name: str
    kind: str
    before: str
    to: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = ()
