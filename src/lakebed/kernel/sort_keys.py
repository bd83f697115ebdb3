"""Ranges of sort keys: boundaries from a sample, and the range of each row, on whole columns.

Keys are a table whose columns are compared one after the other, each ascending or descending, with no nulls that need
a place of their own: `comparable` gives a column of flags to each nullable key. Rows of equal keys are told apart by
one more column of even numbers, so that a key that most rows have does not fill one range alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Int64s

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Direction:
    """How one key is compared."""

    descending: bool = False
    nulls_first: bool = True


def comparable(keys: Sequence[pa.Array], directions: Sequence[Direction]) -> pa.Table:
    """Keys with their nulls spelled out as flags; columns are named so that `sort_order` knows them."""
    columns: dict[str, pa.Array] = {}
    for at, (key, direction) in enumerate(zip(keys, directions, strict=True)):
        flag = pc.is_valid(key) if direction.nulls_first else pc.is_null(key)
        columns[f"f{at}"] = flag.cast(pa.int8())
        columns[f"{'d' if direction.descending else 'a'}{at}"] = _plain(key)
    return pa.table(columns)


def sort_order(keys: pa.Table) -> Int64s:
    """The order of the rows of comparable keys; equal ones stay in theirs."""
    order = [(name, "descending" if name.startswith("d") else "ascending") for name in keys.column_names]
    found: Int64s = pc.sort_indices(keys, sort_keys=order).to_numpy().astype(np.int64)
    return found


def with_ties(keys: pa.Table, first: int = 0) -> pa.Table:
    """Keys with the column that tells equal ones apart; `first` is the number of the first row."""
    numbers = np.arange(first, first + len(keys), dtype=np.float64) * _GOLDEN % 1.0
    return keys.append_column("tie", pa.array(numbers))


def thinned(keys: pa.Table, most: int) -> pa.Table:
    """At most so many keys, sorted and lying evenly among those given."""
    ordered = keys.take(pa.array(sort_order(keys)))
    if len(ordered) <= most:
        return ordered
    return ordered.take(pa.array((np.arange(most) * len(ordered) + len(ordered) // 2) // most))


def boundaries(sample: pa.Table, parts: int) -> pa.Table:
    """The first key of each range but the first one: `parts - 1` rows of a sample, which needs no order."""
    ordered = sample.take(pa.array(sort_order(sample)))
    return ordered.take(pa.array(np.arange(1, parts) * len(ordered) // parts))


def range_codes(keys: pa.Table, bounds: pa.Table) -> Int64s:
    """The range of each row: how many boundaries are not above its key."""
    together = pa.concat_tables([bounds, keys.select(bounds.column_names)]).combine_chunks()
    order = sort_order(together)
    is_bound = order < len(bounds)
    codes = np.empty(len(together), np.int64)
    codes[order] = np.cumsum(is_bound)
    return codes[len(bounds) :]


def _plain(key: pa.Array) -> pa.Array:
    """A form that sorts: extension types by their storage, booleans and times as numbers."""
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
