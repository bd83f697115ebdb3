"""The range of each column: from the footer of a base file, and from the rows of a log block.

Rules: Hudi's `ParquetUtils.readColumnStatsFromMetadata` and `HoodieTableMetadataUtil.collectColumnRangeMetadata`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.formats.hudi.metadata_table.change import ColumnRange
from lakebed.kernel.arrays import one_chunk


def column_ranges(footer: pq.FileMetaData, schema: pa.Schema, columns: Sequence[str]) -> tuple[ColumnRange, ...]:
    """The ranges of some columns of a base file (none named: all), by its footer.

    Columns of nested types have none, and those of which a row group says nothing: footers leave long texts out.
    """
    wanted = [
        field for field in schema if (not columns or field.name in columns) and not pa.types.is_nested(field.type)
    ]
    leaves = {footer.schema.column(leaf).path: leaf for leaf in range(footer.num_columns)}
    ranges = (_of_footer(footer, leaves[field.name], field) for field in wanted if field.name in leaves)
    return tuple(each for each in ranges if each is not None)


def _of_footer(footer: pq.FileMetaData, leaf: int, field: pa.Field) -> ColumnRange | None:
    least: list[Any] = []
    greatest: list[Any] = []
    nulls = values = size = uncompressed = 0
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(leaf)
        size += chunk.total_compressed_size
        uncompressed += chunk.total_uncompressed_size
        rows = footer.row_group(group).num_rows
        values += rows
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
        if not statistics.has_min_max and statistics.null_count < rows:
            return None
        if statistics.has_min_max:
            least.append(_value(statistics.min, field))
            greatest.append(_value(statistics.max, field))
    return ColumnRange(
        field.name, min(least, default=None), max(greatest, default=None), nulls, values, size, uncompressed
    )


def _value(value: Any, field: pa.Field) -> Any:
    if pa.types.is_string(field.type) and isinstance(value, bytes):
        return value.decode()
    return value


def ranges_of_rows(rows: pa.Table, columns: Sequence[str]) -> tuple[ColumnRange, ...]:
    """The ranges of some columns of rows (none named: all)."""
    ranges = []
    for field in rows.schema:
        if (columns and field.name not in columns) or pa.types.is_nested(field.type):
            continue
        column = one_chunk(rows.column(field.name))
        bounds = pc.min_max(column).as_py() if _is_ordered(field.type) else {"min": None, "max": None}
        size = column.nbytes
        ranges.append(ColumnRange(field.name, bounds["min"], bounds["max"], column.null_count, len(column), size, size))
    return tuple(ranges)


def _is_ordered(kind: pa.DataType) -> bool:
    return not pa.types.is_null(kind)
