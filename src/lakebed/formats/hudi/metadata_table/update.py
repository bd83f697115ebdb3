"""Keep a table's metadata table right in the commit that changes the table's files.

Rules: Hudi's `HoodieBackedTableMetadataWriter.update`. Readers and writers use those partitions of the metadata table
that the property `hoodie.table.metadata.partitions` names. One that is not maintained is taken out of that property
before the commit completes, so no engine trusts what it says of a table that moved on.
"""

from __future__ import annotations

from typing import Protocol

from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.metadata_table.change import MetadataChange
from lakebed.formats.hudi.timeline.properties import update_properties
from lakebed.kernel.files import Store

PARTITIONS = "hoodie.table.metadata.partitions"
INFLIGHT = "hoodie.table.metadata.partitions.inflight"


class Indexed(Protocol):
    """What an update needs of the table that changes."""

    @property
    def store(self) -> Store:
        """The table's files."""

    @property
    def config(self) -> TableConfig:
        """The table's settings."""


def update(table: Indexed, instant: str, change: MetadataChange) -> tuple[str, ...]:
    """Bring the metadata table to the state after an instant. Notes about what is no longer maintained.

    Call it under the table's lock, before the completed file of the instant is put: readers take from the metadata
    table only what the table's own timeline completed.
    """
    named = partitions_of(table.config, PARTITIONS)
    if not named and not partitions_of(table.config, INFLIGHT):
        return ()
    update_properties(table.store, {PARTITIONS: "", INFLIGHT: ""})
    if not named:
        return ()
    return (
        f"the metadata table is no longer used ({', '.join(named)}): lakebed does not maintain it; Hudi's own writers "
        "build it again with hoodie.metadata.enable=true",
    )


def partitions_of(config: TableConfig, key: str) -> tuple[str, ...]:
    """The partitions of the metadata table that a property names."""
    return tuple(name.strip() for name in config.properties.get(key, "").split(",") if name.strip())
