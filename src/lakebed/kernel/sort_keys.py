"""Ranges of sort keys, on whole columns: boundaries from a sample, and the range of each row.

Keys are a table whose columns are compared one after the other, each ascending or descending. Nulls need no special
case, since `comparable` adds a column of flags to each key. `with_ties` adds a column of evenly spread numbers that
distinguishes rows of equal keys, so that a key that most rows have is spread over several ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Int64s, from_numpy, to_numpy

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Direction:
    """How one key is compared."""

    descending: bool = False
    nulls_first: bool = True


def comparable(keys: Sequence[pa.Array], directions: Sequence[Direction]) -> pa.Table:
    """Keys with a column of flags for the nulls of each. `sort_order` reads the directions from the columns' names."""
    columns: dict[str, pa.Array] = {}
    for at, (key, direction) in enumerate(zip(keys, directions, strict=True)):
        flag = pc.is_valid(key) if direction.nulls_first else pc.is_null(key)
        columns[f"f{at}"] = flag.cast(pa.int8())
        columns[f"{'d' if direction.descending else 'a'}{at}"] = _plain(key)
    return pa.table(columns)


def sort_order(keys: pa.Table) -> Int64s:
    """The row numbers of comparable keys in sorted order. Equal keys keep their order."""
    order = [(name, "descending" if name.startswith("d") else "ascending") for name in keys.column_names]
    rows: Int64s = to_numpy(pc.sort_indices(keys, sort_keys=order)).astype(np.int64)
    return rows


def with_ties(keys: pa.Table, first: int = 0) -> pa.Table:
    """Keys with one more column that distinguishes equal keys. `first` is the number of the first row."""
    numbers = np.arange(first, first + len(keys), dtype=np.float64) * _GOLDEN % 1.0
    return keys.append_column("tie", from_numpy(numbers))


def thinned(keys: pa.Table, most: int) -> pa.Table:
    """At most `most` of the keys, evenly chosen from their sorted order, and sorted."""
    ordered = keys.take(from_numpy(sort_order(keys)))
    if len(ordered) <= most:
        return ordered
    return ordered.take(from_numpy((np.arange(most) * len(ordered) + len(ordered) // 2) // most))


def boundaries(sample: pa.Table, parts: int) -> pa.Table:
    """The first key of each range but the first: `parts - 1` rows of a sample, which need not be sorted."""
    ordered = sample.take(from_numpy(sort_order(sample)))
    return ordered.take(from_numpy(np.arange(1, parts) * len(ordered) // parts))


def range_codes(keys: pa.Table, bounds: pa.Table) -> Int64s:
    """The range of each row: the number of boundaries that are not greater than its key."""
    together = pa.concat_tables([bounds, keys.select(bounds.column_names)]).combine_chunks()
    order = sort_order(together)
    is_bound = order < len(bounds)
    codes = np.empty(len(together), np.int64)
    codes[order] = np.cumsum(is_bound)
    return codes[len(bounds) :]


def _plain(key: pa.Array) -> pa.Array:
    """The column in a type that Arrow sorts: extension types as their storage, booleans as numbers."""
    if isinstance(key, pa.ChunkedArray):
        key = key.combine_chunks()
    if isinstance(key, pa.ExtensionArray):
        key = key.storage
    kind = key.type
    if pa.types.is_boolean(kind):
        return key.cast(pa.int8())
    if pa.types.is_fixed_size_binary(kind):
        return key.cast(pa.binary())
    return key
