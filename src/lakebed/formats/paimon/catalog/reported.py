"""What a commit reports of the partitions that it changes.

Rules: Paimon's PartitionEntry and PartitionStatistics: sums over the files of the delta, in which a deleted file counts
negatively.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.manifest import DELETE, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.partition_text import is_blank, spellings


def statistics_of(schema: TableSchema, entries: Sequence[ManifestEntry]) -> list[Mapping[str, Any]]:
    """One document for each partition that the entries touch."""
    sums: dict[bytes, dict[str, Any]] = {}
    for entry in entries:
        if entry.partition not in sums:
            zeros = dict.fromkeys(("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime"), 0)
            sums[entry.partition] = {"spec": partition_texts(schema, entry.partition), **zeros}
        sums_of_partition, sign = sums[entry.partition], -1 if entry.kind == DELETE else 1
        sums_of_partition["recordCount"] += sign * entry.file.row_count
        sums_of_partition["fileSizeInBytes"] += sign * entry.file.file_size
        sums_of_partition["fileCount"] += sign
        sums_of_partition["lastFileCreationTime"] = max(
            sums_of_partition["lastFileCreationTime"], entry.file.creation_time or 0
        )
        sums_of_partition["totalBuckets"] = entry.total_buckets
    return list(sums.values())


def partition_texts(schema: TableSchema, partition: bytes) -> dict[str, str]:
    """The values of a partition, given as its bytes in manifests, as texts by column."""
    options, fields = opt.table_options(schema.options), schema.project(schema.partition_keys)
    default, legacy = options[opt.PARTITION_DEFAULT_NAME], options[opt.PARTITION_LEGACY_NAME]
    values = decode_row(without_arity(partition), [field.type for field in fields])
    texts = [
        default if value is None else spellings(value, field.type, legacy)[0]
        for field, value in zip(fields, values, strict=True)
    ]
    return {field.name: default if is_blank(text) else text for field, text in zip(fields, texts, strict=True)}
