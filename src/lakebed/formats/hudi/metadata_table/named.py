"""The parts of the metadata table that a table's properties name as maintained."""

from __future__ import annotations

from lakebed.formats.hudi.config import TableConfig

PARTITIONS = "hoodie.table.metadata.partitions"
INFLIGHT = "hoodie.table.metadata.partitions.inflight"
"""The parts that are being built."""
REBUILD = (
    "Write once with hoodie.metadata.enable=false: that removes the metadata table, and the next write builds it again"
)
"""What to do about a metadata table that cannot be relied on."""


def partitions_of(config: TableConfig, key: str) -> tuple[str, ...]:
    """The parts of the metadata table that a property names."""
    return tuple(name.strip() for name in config.properties.get(key, "").split(",") if name.strip())
