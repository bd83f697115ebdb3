"""The metadata table as a writer has it: a Hudi table in a folder of the table that it describes.

All of this happens under the lock of the table's writers, so nobody else changes the metadata table meanwhile.

Rules: Hudi's `HoodieBackedTableMetadataWriter`, `HoodieTableMetadataUtil` (names of parts, file groups and instants).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lakebed.formats.hudi.codec.commit_metadata import FileStat
from lakebed.formats.hudi.codec.properties import parse_properties
from lakebed.formats.hudi.config import PROPERTIES, TableConfig, config_from
from lakebed.formats.hudi.metadata_table.opened import FOLDER, MetadataTable
from lakebed.formats.hudi.slices import FileGroup, FileSlice, file_groups
from lakebed.formats.hudi.timeline.active import Timeline, timeline_from
from lakebed.formats.hudi.timeline.writing import list_timeline, new_instant
from lakebed.kernel.files import InnerStore, Listing, Store

BOOTSTRAP = "00000000000000"
"""How the instants begin that build a part of the metadata table of an empty table."""


@dataclass
class Target:
    """The metadata table at one moment. `store` holds its files, `config` are its own settings, `data` is the timeline
    of the table that it describes and `timeline` its own. `listed` are the files of its parts."""

    outer: Store
    store: Store
    described: TableConfig
    config: TableConfig
    data: Timeline
    timeline: Timeline
    listed: dict[str, Listing] = field(default_factory=dict)

    @classmethod
    def open(cls, store: Store, described: TableConfig, parts: Sequence[str]) -> Target:
        """The metadata table of the table in `store`, whose settings are `described`, with the files of these parts.

        FileNotFoundError where there is none.
        """

        inner = InnerStore(store, FOLDER)
        asked: list[Callable[[], Any]] = [
            lambda: parse_properties(inner.read(PROPERTIES)),
            lambda: store.list(described.timeline_folder),
            lambda: inner.list(described.timeline_folder),  # both tables have the same layout
            *(partial(store.list, f"{FOLDER}/{part}") for part in parts),
        ]
        properties, data, own, *folders = store.together(lambda act: act(), asked)
        config = own_config(properties, described, store.location)
        return cls(
            store,
            inner,
            described,
            config,
            timeline_from(data, described),
            timeline_from(own, config),
            dict(zip(parts, folders, strict=True)),
        )

    def again(self) -> None:
        """List its timeline again, after a change of it."""
        self.timeline = list_timeline(self.store, self.config)

    def list_again(self) -> None:
        """List its timeline and its parts again."""
        self.again()
        for part in self.listed:
            self.listed[part] = self.outer.list(f"{FOLDER}/{part}")

    def new_instant(self, after: str = "") -> str:
        """A new time for an instant of its own, or for the completion of one."""
        return new_instant(self.config, self.timeline, after)

    def groups(self, part: str) -> dict[str, FileGroup]:
        """The file groups of a part, by file id."""
        return dict(sorted(file_groups(self.listed[part].files).items()))

    def slices(self, part: str) -> list[FileSlice]:
        """The newest slice of each file group of a part."""
        return self.reader.slices(part)

    @property
    def reader(self) -> MetadataTable:
        """The metadata table as readers have it."""
        return MetadataTable(self.outer, self.described, self.data, self.timeline, self.listed)

    def completed(self, instant: str) -> str:
        """When the delta commit that a log file is named by completed; in table version 6 the instant of the slice that
        it names."""
        entry = self.timeline.by_time.get(instant)
        return entry.completed if entry is not None and entry.done and self.config.completion_times else instant

    def next_log(self, part: str, file_id: str, instant: str) -> tuple[str, str, int]:
        """The name of the log file that a delta commit writes, the instant of the slice that it follows, and its
        version."""
        group = self.groups(part).get(file_id)
        bases = [base.instant for base in group.bases] if group else []
        logs = [log for log in group.logs if not log.cdc] if group else []
        if self.config.completion_times:
            version = 1 + max((log.version for log in logs if log.instant == instant), default=0)
            name = f".{file_id}_{instant}.log.{version}_0-0-0"
            return name, max(bases, default=instant), version
        slice_instant = max([*bases, *(log.instant for log in logs)], default=instant)
        version = 1 + max((log.version for log in logs if log.instant == slice_instant), default=0)
        return f".{file_id}_{slice_instant}.log.{version}_0-0-0", slice_instant, version


def own_config(properties: dict[str, str], described: TableConfig, table: str) -> TableConfig:
    """Its settings. Its clock is in the time zone of the table that it describes."""
    return replace(config_from(properties, table=table), timezone=described.timezone)


def stat_of(part: str, file_id: str, name: str, size: int, previous: str, count: int, **more: Any) -> FileStat:
    """The write stat of one file of the metadata table, for a commit's metadata."""
    return FileStat(part, file_id, f"{part}/{name}", size, previous, writes=count, **more)
