"""What every verb that changes a Hudi table has of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.timeline.active import MetadataFiles, Timeline
from lakebed.formats.hudi.timeline.writing import list_timeline
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options
from lakebed.kernel.scratch import Scratch


@dataclass
class WriteContext:
    """A table for a writer: its files, its settings, and the write options, in which the table's properties stand below
    what the caller gave."""

    store: Store
    config: TableConfig
    options: Options
    files: MetadataFiles
    scratch: Scratch
    storage: Mapping[str, str] = field(default_factory=dict)

    def location_of(self, path: str) -> str:
        """The full location of a file or folder in the table, as Hudi's plans and records spell it."""
        local = self.store.local_path(path)
        return f"file:{local}" if local is not None else self.store.url(path)

    def timeline(self) -> Timeline:
        """The active timeline, listed now."""
        return list_timeline(self.store, self.config)
