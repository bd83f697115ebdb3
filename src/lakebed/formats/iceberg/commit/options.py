"""How a snapshot is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.formats.iceberg.codec.metadata import MAIN, Document, TableMetadata
from lakebed.formats.iceberg.codec.updates import TableUpdate

FurtherUpdates = Callable[[TableMetadata, Document], Sequence[TableUpdate]]
"""More updates for the same commit, from the metadata that a snapshot is added to, and the snapshot."""


def _no_updates(metadata: TableMetadata, snapshot: Document) -> Sequence[TableUpdate]:
    return ()


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """How a snapshot is committed.

    The snapshot becomes the head of `branch`. Where there is no such branch (and it is not `main`), it is created on
    the head of the branch `start`; without a `start` that is a conflict. With `staged` the snapshot is added to the
    table and becomes the head of nothing. `summary` goes into the snapshot's summary. `properties` take precedence over
    the table's properties. The updates of `also` are published with the snapshot, or not at all.
    """

    branch: str = MAIN
    summary: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    also: FurtherUpdates = _no_updates
    start: str = ""
    staged: bool = False
