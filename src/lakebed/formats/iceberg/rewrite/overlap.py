"""How deeply the ranges of a column overlap from file to file. A sort brings the depth down to 1."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import IcebergType

from lakebed.formats.iceberg.codec.bounds import decoded_bounds, values_of_field
from lakebed.kernel.arrays import Int32s, Int64s, one_chunk, to_numpy


def ranges_of(entries: pa.Table, column: int, kind: IcebergType) -> pa.Table:
    """The ranges of a column as columns `low` and `high`, null where a file has no bounds.

    `entries` have the columns `lower_bounds` and `upper_bounds`; `column` is a field id.
    """
    low, high = (
        decoded_bounds(values_of_field(entries[name], column), kind) for name in ("lower_bounds", "upper_bounds")
    )
    return pa.table({"low": low, "high": high})


def overlap_depths(ranges: pa.Table, groups: Int64s) -> Int32s:
    """For each file the greatest number of files of its group, itself included, that overlap at one point of its range.

    Ranges that only touch do not overlap. A file without bounds counts as 1. `ranges` are as `ranges_of` returns them;
    files with the same number in `groups` are compared.
    """
    low, high = (one_chunk(ranges[name]) for name in ("low", "high"))
    has_range = to_numpy(pc.and_(pc.is_valid(low), pc.is_valid(high)))
    depths = np.ones(len(ranges), np.int32)
    if not has_range.any():
        return depths
    codes = _order_codes(low, high)
    lows, highs = codes[: len(low)], codes[len(low) :]
    order = np.flatnonzero(has_range)
    order = order[np.argsort(groups[order], kind="stable")]
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        depths[rows] = _depths(lows[rows], highs[rows])
    return depths


def _depths(lows: Int64s, highs: Int64s) -> Int32s:
    """Sweep over the ends of the ranges: count the depth after each end, then take the greatest inside each range."""
    places = np.unique(np.concatenate([lows, highs]))
    change = np.zeros(len(places) + 1, np.int64)
    start, end = np.searchsorted(places, lows), np.searchsorted(places, highs)
    end = np.maximum(end, start + (lows == highs))
    np.add.at(change, start, 1)
    np.add.at(change, end, -1)
    depth = np.maximum(np.cumsum(change)[:-1], 1).astype(np.int32)
    return _greatest(depth, start, end)


def _greatest(values: Int32s, starts: Int64s, ends: Int64s) -> Int32s:
    """The greatest value in each [start, end): the greater one of the two power-of-two stretches that cover it."""
    power = np.frexp(np.maximum(ends - starts, 1))[1] - 1
    greatest = np.ones(len(starts), np.int32)
    width = 1
    for level in range(int(power.max(initial=0)) + 1):
        rows = np.flatnonzero(power == level)
        greatest[rows] = np.maximum(values[starts[rows]], values[np.maximum(ends[rows] - width, starts[rows])])
        values = np.maximum(values[:-width], values[width:])
        width *= 2
    return greatest


def _order_codes(low: pa.Array, high: pa.Array) -> Int64s:
    """The values of both columns as numbers in the same order."""
    both = pa.concat_arrays([low, high])
    if pa.types.is_fixed_size_binary(both.type):
        both = both.cast(pa.binary())
    codes: Int64s = to_numpy(pc.rank(both, tiebreaker="dense")).astype(np.int64)
    return codes
