"""The archived timeline: instants that left the active one, from whichever folder and form they lie in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.formats.hudi.codec.metadata import CleanMetadata, CommitMetadata
from lakebed.formats.hudi.config import TableConfig
from lakebed.kernel.files import Store


class ArchivedCommit(NamedTuple):
    """An archived completed commit: `order` is what ranges count in."""

    time: str
    order: str
    action: str
    commit: CommitMetadata


@dataclass
class ArchivedTimeline:
    """What was archived, read when first asked for and each file once."""

    store: Store
    config: TableConfig

    def completions(self) -> Mapping[str, str] | None:
        """Completion times of archived writing instants by requested time, None where the archive holds none."""
        return None

    def commits(self, low: str, high: str) -> list[ArchivedCommit]:
        """Archived completed writing instants in (low, high], "" for no bound."""
        return []

    def cleans(self) -> list[CleanMetadata]:
        """Archived completed cleans."""
        return []

    def newest_schema(self) -> str:
        """The schema of the newest archived commit that names one, as Avro JSON text, "" without one."""
        return ""
