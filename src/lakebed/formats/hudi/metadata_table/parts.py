"""The parts of the metadata table that lakebed keeps: what a change of the table means for each, and how the records of
a file slice become a base file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakebed.formats.hudi.metadata_table.change import MetadataChange
from lakebed.formats.hudi.metadata_table.grouped import merge_newest
from lakebed.formats.hudi.metadata_table.keys_written import BLOOM_FILTERS, bloom_filters_of, record_index_of
from lakebed.formats.hudi.metadata_table.opened import Image
from lakebed.formats.hudi.metadata_table.partition_stats import merge_partition_stats, partition_stats_of
from lakebed.formats.hudi.metadata_table.record_index import RECORD_INDEX
from lakebed.formats.hudi.metadata_table.records import FILES, GroupRecords, change_records, merge_files
from lakebed.formats.hudi.metadata_table.statistics import COLUMN_STATS, PARTITION_STATS
from lakebed.formats.hudi.metadata_table.statistics_written import column_stats_of
from lakebed.formats.hudi.metadata_table.target import Target


@dataclass(frozen=True, slots=True)
class Part:
    """One part. `records` are those of a change at an instant, by file group. `merge` makes the keys and datums of a
    base file from the records of a slice, oldest first; it is given the version of the table."""

    name: str
    records: Callable[[Target, str, MetadataChange], Sequence[GroupRecords]]
    merge: Callable[[int, Sequence[Image]], tuple[pa.Array, pa.Array]]


def _files(target: Target, instant: str, change: MetadataChange) -> Sequence[GroupRecords]:
    records = change_records(target.described.version, change)
    return [records]


_PARTS = (
    Part(FILES, _files, merge_files),
    Part(COLUMN_STATS, column_stats_of, partial(merge_newest, "ColumnStatsMetadata")),
    Part(PARTITION_STATS, partition_stats_of, merge_partition_stats),
    Part(BLOOM_FILTERS, bloom_filters_of, partial(merge_newest, "BloomFilterMetadata")),
    Part(RECORD_INDEX, record_index_of, partial(merge_newest, "recordIndexMetadata")),
)
PARTS: Mapping[str, Part] = {part.name: part for part in _PARTS}
"""The parts that are kept, by name. Others are named in the table's properties no longer once the table changes."""
