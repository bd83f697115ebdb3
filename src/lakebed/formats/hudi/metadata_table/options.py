"""Options of the metadata table that a writer keeps. Rule: Hudi's `HoodieMetadataConfig`, with its defaults."""

from __future__ import annotations

from lakebed.kernel.options import Option, at_least, boolean

METADATA_ENABLE: Option[bool] = Option(
    "hoodie.metadata.enable",
    boolean,
    True,
    "Whether writes keep the table's metadata table, and archival what it holds; with false it is used no longer",
)
COMPACT_AFTER: Option[int] = Option(
    "hoodie.metadata.compact.max.delta.commits",
    at_least(1),
    10,
    "After how many of its delta commits the metadata table is compacted",
)
METADATA_OPTIONS = (METADATA_ENABLE, COMPACT_AFTER)
