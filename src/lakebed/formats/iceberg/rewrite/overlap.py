"""How deep the ranges of a column lie over each other from file to file: the figure that a sort brings down to 1."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import IcebergType

from lakebed.formats.iceberg.read.pruning import decoded_bounds, figures_of
from lakebed.kernel.arrays import Int32s, Int64s, one_chunk


def ranges_of(entries: pa.Table, column: int, kind: IcebergType) -> pa.Table:
    """The ranges of a column as `low` and `high`, null where a file does not tell. `entries` have the columns of
    bounds."""
    low, high = (decoded_bounds(figures_of(entries[name], column), kind) for name in ("lower_bounds", "upper_bounds"))
    return pa.table({"low": low, "high": high})


def overlap_depths(ranges: pa.Table, groups: Int64s) -> Int32s:
    """For each file the greatest number of files of its group whose ranges share a place inside its own range, itself
    among them. Ranges that only touch do not overlap; a file without bounds counts as 1.

    `ranges` are as `ranges_of` gives them; `groups` tells which files are compared.
    """
    low, high = (one_chunk(ranges[name]) for name in ("low", "high"))
    known = pc.and_(pc.is_valid(low), pc.is_valid(high)).to_numpy(zero_copy_only=False)
    depths = np.ones(len(ranges), np.int32)
    if not known.any():
        return depths
    ranks = _ranks(low, high)
    lows, highs = ranks[: len(low)], ranks[len(low) :]
    order = np.flatnonzero(known)
    order = order[np.argsort(groups[order], kind="stable")]
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        depths[rows] = _depths(lows[rows], highs[rows])
    return depths


def _depths(lows: Int64s, highs: Int64s) -> Int32s:
    """A sweep over the ends: the depth after each start, and of each range the greatest inside it."""
    places = np.unique(np.concatenate([lows, highs]))
    change = np.zeros(len(places) + 1, np.int64)
    start, end = np.searchsorted(places, lows), np.searchsorted(places, highs)
    end = np.maximum(end, start + (lows == highs))
    np.add.at(change, start, 1)
    np.add.at(change, end, -1)
    depth = np.maximum(np.cumsum(change)[:-1], 1).astype(np.int32)
    return _greatest(depth, start, end)


def _greatest(values: Int32s, starts: Int64s, ends: Int64s) -> Int32s:
    """The greatest value in each [start, end): that of the two stretches of a power of two that cover it."""
    power = np.frexp(np.maximum(ends - starts, 1))[1] - 1
    found = np.ones(len(starts), np.int32)
    width = 1
    for level in range(int(power.max(initial=0)) + 1):
        rows = np.flatnonzero(power == level)
        found[rows] = np.maximum(values[starts[rows]], values[np.maximum(ends[rows] - width, starts[rows])])
        values = np.maximum(values[:-width], values[width:])
        width *= 2
    return found


def _ranks(low: pa.Array, high: pa.Array) -> Int64s:
    """The values of both as numbers in their order."""
    both = pa.concat_arrays([low, high])
    if pa.types.is_fixed_size_binary(both.type):
        both = both.cast(pa.binary())
    found: Int64s = pc.rank(both, tiebreaker="dense").to_numpy().astype(np.int64)
    return found
