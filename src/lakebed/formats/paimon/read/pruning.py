"""Files that a predicate rules out, by partition values and by the statistics in the manifests.

The predicate is simplified by Arrow against what is known of each file; where it becomes false, the file is left out.
In a table with a primary key only key statistics count, since a file's older value of a row may be what hides a newer
one's neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.manifest import ManifestEntry, SimpleStats
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, arrow_schema, arrow_type

_FORMAT = ds.ParquetFileFormat()


def kept_entries(
    entries: Sequence[ManifestEntry], predicate: pc.Expression | None, schema: TableSchema
) -> list[ManifestEntry]:
    """The entries whose files may hold a row that the predicate keeps. `schema` is the one that is read."""
    if predicate is None or not entries:
        return list(entries)
    filesystem = pyarrow.fs.LocalFileSystem()
    fragments = [
        _FORMAT.make_fragment(str(place), filesystem, partition_expression=_known(entry, schema))
        for place, entry in enumerate(entries)
    ]
    dataset = ds.FileSystemDataset(fragments, arrow_schema(schema.fields), _FORMAT, filesystem)
    return [entries[int(fragment.path)] for fragment in dataset.get_fragments(filter=predicate)]


def _known(entry: ManifestEntry, schema: TableSchema) -> pc.Expression:
    """What the manifest says of the rows of a file, as an expression that is true for all of them."""
    known = pc.scalar(True)
    partition = schema.project(schema.partition_keys)
    values = decode_row(without_arity(entry.partition), [field.type for field in partition])
    for field, value in zip(partition, values, strict=True):
        column = pc.field(field.name)
        known = known & (column.is_null() if value is None else column == _scalar(value, field))
    if schema.primary_keys:
        fields = schema.project(schema.trimmed_primary_keys)
        return (
            known & _ranges(entry.file.key_stats, fields)
            if len(without_arity(entry.file.key_stats.min_values))
            else known
        )
    if entry.file.schema_id != schema.id or entry.file.value_stats_cols == ():
        return known
    names = entry.file.value_stats_cols or schema.names
    return known & _ranges(entry.file.value_stats, schema.project(tuple(names)))


def _ranges(stats: SimpleStats, fields: Sequence[DataField]) -> pc.Expression:
    known = pc.scalar(True)
    types = [field.type for field in fields]
    if len(without_arity(stats.min_values)) <= 8 and types:
        return known
    lows = decode_row(without_arity(stats.min_values), types)
    highs = decode_row(without_arity(stats.max_values), types)
    counts = stats.null_counts or (None,) * len(fields)
    for field, low, high, nulls in zip(fields, lows, highs, counts, strict=True):
        if low is None or high is None or low != low or high != high:  # some formats give NaN as a bound
            continue
        column = pc.field(field.name)
        within = (column >= _scalar(low, field)) & (column <= _scalar(high, field))
        known = known & (within if nulls == 0 else within | column.is_null())
    return known


def _scalar(value: Any, field: DataField) -> pa.Scalar:
    kind = arrow_type(field.type)
    if pa.types.is_temporal(kind):
        return pa.scalar(value, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.scalar(value, kind)
