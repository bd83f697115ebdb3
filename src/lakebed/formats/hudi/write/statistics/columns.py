"""The range of each column: from the footer of a base file, and from the rows of a log block.

A footer may leave a range out. Then the range is that of everything that can be there: readers take a column without
statistics for one that has nothing but nulls. Footers leave NaN out of a range too. Where it may be there, the file has
no statistics: readers that find NaN leave the file out, as they do where one column alone has none.

Rules: Hudi's `ParquetUtils.readColumnStatsFromMetadata` and `HoodieTableMetadataUtil.collectColumnRangeMetadata`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.formats.hudi.codec.wrapped_values import unbounded
from lakebed.formats.hudi.metadata_table.change import ColumnRange
from lakebed.kernel.arrays import one_chunk


def column_ranges(
    footer: pq.FileMetaData, schema: pa.Schema, columns: Sequence[str], without_nan: Collection[str] = ()
) -> tuple[ColumnRange, ...]:
    """The ranges of some columns of a base file (none named: all), by its footer.

    Columns of nested types have none. There are none at all where one is not certain: floats with which NaN may be, and
    values other than texts and bytes of which a row group says nothing. `without_nan` are columns of floats that are
    known to have no NaN.
    """
    wanted = [
        field for field in schema if (not columns or field.name in columns) and not pa.types.is_nested(field.type)
    ]
    leaves = {footer.schema.column(leaf).path: leaf for leaf in range(footer.num_columns)}
    free = {*without_nan} if not _of_java(footer) else {field.name for field in wanted}
    ranges = [_of_footer(footer, leaves[f.name], f, f.name in free) for f in wanted if f.name in leaves]
    return () if None in ranges else tuple(each for each in ranges if each is not None)


def _of_java(footer: pq.FileMetaData) -> bool:
    """Whether Java's library wrote a file: it gives columns with NaN no range."""
    return str(footer.created_by).startswith("parquet-mr")


def _of_footer(footer: pq.FileMetaData, leaf: int, field: pa.Field, without_nan: bool) -> ColumnRange | None:
    least: list[Any] = []
    greatest: list[Any] = []
    nulls = values = size = uncompressed = 0
    anything = unbounded(field.type)
    if pa.types.is_floating(field.type) and not without_nan:
        return None
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(leaf)
        size += chunk.total_compressed_size
        uncompressed += chunk.total_uncompressed_size
        rows = footer.row_group(group).num_rows
        values += rows
        statistics = chunk.statistics
        counted = statistics is not None and statistics.has_null_count
        nulls += statistics.null_count if counted else 0
        if counted and not statistics.has_min_max and statistics.null_count == rows:
            continue
        if counted and statistics.has_min_max:
            least.append(_value(statistics.min, field))
            greatest.append(_value(statistics.max, field))
        elif anything is None:
            return None
        else:
            nulls += 0 if counted else 1  # there may be some
            least.append(anything[0])
            greatest.append(anything[1])
    return ColumnRange(
        field.name,
        min(least, default=None),
        max(greatest, default=None),
        min(nulls, values),
        values,
        size,
        uncompressed,
    )


def _value(value: Any, field: pa.Field) -> Any:
    if pa.types.is_string(field.type) and isinstance(value, bytes):
        return value.decode()
    return value


def ranges_of_rows(rows: pa.Table, columns: Sequence[str]) -> tuple[ColumnRange, ...]:
    """The ranges of some columns of rows (none named: all); there are none where a column has NaN."""
    ranges = []
    for field in rows.schema:
        if (columns and field.name not in columns) or pa.types.is_nested(field.type):
            continue
        column = one_chunk(rows.column(field.name))
        bounds = pc.min_max(column).as_py() if _is_ordered(field.type) else {"min": None, "max": None}
        if has_nan(column):
            return ()
        size = column.nbytes
        ranges.append(ColumnRange(field.name, bounds["min"], bounds["max"], column.null_count, len(column), size, size))
    return tuple(ranges)


def columns_without_nan(file: pq.ParquetFile, columns: Sequence[str]) -> frozenset[str]:
    """Those of some columns of a base file that have no NaN. Columns of floats are read for it, unless Java's library
    wrote the file."""
    schema = file.schema_arrow
    floats = [name for name in columns if name in schema.names and pa.types.is_floating(schema.field(name).type)]
    free = {*floats}
    if floats and not _of_java(file.metadata):
        for batch in file.iter_batches(columns=floats, use_threads=False):
            free -= {name for name in free if has_nan(batch.column(name))}
    return frozenset(free)


def has_nan(column: pa.Array) -> bool:
    """Whether a column has NaN."""
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())


def _is_ordered(kind: pa.DataType) -> bool:
    return not pa.types.is_null(kind)
