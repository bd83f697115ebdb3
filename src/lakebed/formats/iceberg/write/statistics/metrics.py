"""The metrics of a data file's columns for its manifest entry, as the reference engine computes them.

Rule: the reference engine's ParquetMetrics. `modes.py` says which metrics a column has, `bounds.py` encodes its bounds.
Columns inside lists and maps have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.types import PrimitiveType

from lakebed.formats.iceberg.data_files import Metrics
from lakebed.formats.iceberg.write.statistics.bounds import Bounds, comparable, encoded
from lakebed.formats.iceberg.write.statistics.leaves import Leaf, leaf_column
from lakebed.formats.iceberg.write.statistics.modes import MetricsMode
from lakebed.kernel.decimals import decimal_numbers

# ---- Parquet: from the footer ----------------------------------------------------------------------------------------


def parquet_metrics(
    footer: pq.FileMetaData, leaves: Sequence[Leaf], modes: Mapping[int, MetricsMode], nans: Mapping[int, int],
    places: Sequence[int] | None = None,
) -> Metrics:  # fmt: skip
    """The metrics of a file from its footer. `nans` are the counts of NaN, which a footer does not have. `places` are
    the numbers of the leaves among the file's columns, by default they are all of them, in order."""
    sizes: dict[int, int] = {}
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    bounds = Bounds(leaves, modes)
    uncounted: set[int] = set()
    if places is None:
        places = list(accumulate([leaf.width for leaf in leaves], initial=0))[:-1]
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place, leaf in zip(places, leaves, strict=True):
            chunk = group.column(place)
            taken = chunk.total_compressed_size
            if leaf.width > 1:
                taken = sum(group.column(n).total_compressed_size for n in range(place, place + leaf.width))
            sizes[leaf.id] = sizes.get(leaf.id, 0) + taken
            if leaf.repeated or not modes[leaf.id].counts:
                continue
            stats = chunk.statistics
            values[leaf.id] = values.get(leaf.id, 0) + chunk.num_values
            if stats is None or not stats.has_null_count:
                bounds.drop(leaf.id)
                uncounted.add(leaf.id)
                continue
            nulls[leaf.id] = nulls.get(leaf.id, 0) + stats.null_count
            if stats.has_min_max:
                bounds.add(leaf, encoded(stats.min_raw, leaf.type), encoded(stats.max_raw, leaf.type))
            elif stats.null_count < chunk.num_values and not leaf.is_float:
                bounds.drop(leaf.id)  # values too long for the footer
    lower, upper = bounds.cut()
    nulls = {id: count for id, count in nulls.items() if id not in uncounted}
    counted = {leaf.id for leaf in leaves if modes[leaf.id].counts}
    return Metrics(sizes, values, nulls, {id: count for id, count in nans.items() if id in counted}, lower, upper)


def split_offsets(footer: pq.FileMetaData) -> tuple[int, ...]:
    """The offset of each row group."""
    offsets = []
    for number in range(footer.num_row_groups):
        first = footer.row_group(number).column(0)
        dictionary, data = first.dictionary_page_offset, first.data_page_offset
        offsets.append(data if not dictionary or dictionary > data else dictionary)
    return tuple(offsets)


def nan_counts(batch: pa.RecordBatch | pa.Table, leaves: Sequence[Leaf], counts: dict[int, int]) -> None:
    """Add the number of NaN values in a batch to `counts`, for float columns outside lists and maps."""
    for leaf in leaves:
        if leaf.is_float and not leaf.repeated:
            column = leaf_column(batch, leaf)
            counts[leaf.id] = counts.get(leaf.id, 0) + (pc.sum(pc.is_nan(column)).as_py() or 0)


# ---- other formats: from the columns ---------------------------------------------------------------------------------


@dataclass(slots=True)
class ColumnMetrics:
    """Metrics from the batches themselves, for files whose footer does not have them."""

    leaves: Sequence[Leaf]
    modes: Mapping[int, MetricsMode]
    _values: dict[int, int] = field(default_factory=dict)
    _nulls: dict[int, int] = field(default_factory=dict)
    _nans: dict[int, int] = field(default_factory=dict)
    _bounds: Bounds | None = None

    def add(self, batch: pa.Table) -> None:
        """Add the rows of a batch."""
        bounds = self._bounds = self._bounds or Bounds(self.leaves, self.modes)
        for leaf in self.leaves:
            if leaf.repeated or not self.modes[leaf.id].counts:
                continue
            column = leaf_column(batch, leaf)
            self._values[leaf.id] = self._values.get(leaf.id, 0) + len(column)
            self._nulls[leaf.id] = self._nulls.get(leaf.id, 0) + column.null_count
            if leaf.is_float:
                column = column.filter(pc.invert(pc.is_nan(column)))
            if self.modes[leaf.id].length and column.null_count < len(column):
                low, high = _extremes(column)
                bounds.add(leaf, encoded(low, leaf.type), encoded(high, leaf.type))
        nan_counts(batch, [leaf for leaf in self.leaves if self.modes[leaf.id].counts], self._nans)

    def finish(self) -> Metrics:
        """The metrics of all batches."""
        lower, upper = self._bounds.cut() if self._bounds else ({}, {})
        return Metrics({}, self._values, self._nulls, self._nans, lower, upper)


def _extremes(column: pa.ChunkedArray | pa.Array) -> tuple[Any, Any]:
    """The least and the greatest value, in the raw form of a Parquet footer."""
    if isinstance(column.type, pa.BaseExtensionType):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        column = pa.chunked_array([chunk.storage for chunk in chunks])
    low, high = pc.min_max(column).values()
    if pa.types.is_decimal(column.type):
        least, greatest = decimal_numbers(pa.array([low, high], column.type))
        return least, greatest
    if pa.types.is_date(column.type):
        return low.cast(pa.int32()).as_py(), high.cast(pa.int32()).as_py()
    if pa.types.is_timestamp(column.type) or pa.types.is_time(column.type):
        return low.value, high.value
    if pa.types.is_string(column.type):
        return low.as_py().encode(), high.as_py().encode()
    return low.as_py(), high.as_py()


# ---- files that are joined -----------------------------------------------------------------------------------------


def merged(metrics: Sequence[Metrics], types: Mapping[int, PrimitiveType]) -> Metrics:
    """The exact metrics of a file with the rows of several files. A metric that one file lacks is left out.

    `types` has the table's columns by id. Bounds of other columns are left out.
    """
    return Metrics(
        _summed([m.column_sizes for m in metrics]),
        _summed([m.value_counts for m in metrics]),
        _summed([m.null_value_counts for m in metrics]),
        _summed([m.nan_value_counts for m in metrics]),
        _outer(metrics, types, upper=False),
        _outer(metrics, types, upper=True),
    )


def _summed(counts: Sequence[Mapping[int, int]]) -> dict[int, int]:
    return {id: sum(of_file[id] for of_file in counts) for id in counts[0] if all(id in of_file for of_file in counts)}


def _outer(metrics: Sequence[Metrics], types: Mapping[int, PrimitiveType], upper: bool) -> dict[int, bytes]:
    """The least lower or the greatest upper bounds. A file without any value of a column is ignored for that column."""
    outer: dict[int, bytes] = {}
    for id, kind in types.items():
        bounds = []
        for of_file in metrics:
            bound = (of_file.upper_bounds if upper else of_file.lower_bounds).get(id)
            if bound is not None:
                bounds.append(bound)
            elif not _is_void(of_file, id):
                break
        else:
            if bounds:
                pick = max if upper else min
                outer[id] = pick(bounds, key=lambda bound: comparable(kind, bound))
    return outer


def _is_void(metrics: Metrics, id: int) -> bool:
    """Whether a column has only nulls and NaN."""
    values = metrics.value_counts.get(id)
    empty = metrics.null_value_counts.get(id, 0) + metrics.nan_value_counts.get(id, 0)
    return values is not None and values == empty
