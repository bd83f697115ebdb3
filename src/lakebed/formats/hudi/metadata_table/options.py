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
COLUMN_STATS_ENABLE: Option[bool] = Option(
    "hoodie.metadata.index.column.stats.enable", boolean, False, "Whether the metadata table has statistics of columns"
)
COLUMN_STATS_LIST: Option[str] = Option(
    "hoodie.metadata.index.column.stats.column.list",
    str,
    "",
    "The columns with statistics, comma-separated; empty for all, as far as they have some",
)
COLUMN_STATS_GROUPS: Option[int] = Option(
    "hoodie.metadata.index.column.stats.file.group.count", at_least(1), 2, "File groups that the statistics begin with"
)
PARTITION_STATS_ENABLE: Option[bool] = Option(
    "hoodie.metadata.index.partition.stats.enable",
    boolean,
    True,
    "Whether the metadata table has statistics of partitions beside those of columns; from table version 8 on",
)
BLOOM_ENABLE: Option[bool] = Option(
    "hoodie.metadata.index.bloom.filter.enable", boolean, False, "Whether the metadata table has bloom filters"
)
BLOOM_GROUPS: Option[int] = Option(
    "hoodie.metadata.index.bloom.filter.file.group.count", at_least(1), 4, "File groups that the filters begin with"
)
RECORD_INDEX_ENABLE: Option[bool] = Option(
    "hoodie.metadata.record.index.enable",
    boolean,
    False,
    "Whether the metadata table has the record index",
    aliases=("hoodie.metadata.global.record.level.index.enable",),
)
RECORD_INDEX_GROUPS: Option[int] = Option(
    "hoodie.metadata.record.index.min.filegroup.count",
    at_least(1),
    10,
    "File groups that the record index begins with",
    aliases=("hoodie.metadata.global.record.level.index.min.filegroup.count",),
)
METADATA_OPTIONS = (
    METADATA_ENABLE,
    COMPACT_AFTER,
    COLUMN_STATS_ENABLE,
    COLUMN_STATS_LIST,
    COLUMN_STATS_GROUPS,
    PARTITION_STATS_ENABLE,
    BLOOM_ENABLE,
    BLOOM_GROUPS,
    RECORD_INDEX_ENABLE,
    RECORD_INDEX_GROUPS,
)
