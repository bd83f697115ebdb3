"""How deep the ranges of a column lie over each other from file to file: the figure that a sort brings down to 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import IcebergType

from lakebed.formats.iceberg.read.pruning import decoded_bounds
from lakebed.kernel.packing import Numbers

Depths = npt.NDArray[np.int32]


def overlap_depths(entries: pa.Table, groups: Numbers, column: int, kind: IcebergType) -> Depths:
    """For each file the greatest number of files of its group whose ranges share a place inside its own range, itself
    among them. Ranges that only touch do not overlap; a file without bounds counts as 1.

    `entries` have the columns of bounds; `groups` tells which files are compared.
    """
    low, high = (decoded_bounds(_looked_up(entries[name], column), kind) for name in ("lower_bounds", "upper_bounds"))
    known = pc.and_(pc.is_valid(low), pc.is_valid(high)).to_numpy(zero_copy_only=False)
    depths = np.ones(len(entries), np.int32)
    if not known.any():
        return depths
    ranks = _ranks(low, high)
    lows, highs = ranks[: len(low)], ranks[len(low) :]
    order = np.flatnonzero(known)
    order = order[np.argsort(groups[order], kind="stable")]
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        depths[rows] = _depths(lows[rows], highs[rows])
    return depths


def _depths(lows: Numbers, highs: Numbers) -> Depths:
    """A sweep over the ends: the depth after each start, and of each range the greatest inside it."""
    places = np.unique(np.concatenate([lows, highs]))
    change = np.zeros(len(places) + 1, np.int64)
    start, end = np.searchsorted(places, lows), np.searchsorted(places, highs)
    end = np.maximum(end, start + (lows == highs))
    np.add.at(change, start, 1)
    np.add.at(change, end, -1)
    depth = np.cumsum(change)[:-1]
    found = np.empty(len(lows), np.int32)
    for row, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        found[row] = depth[first:last].max(initial=1)
    return found


def _ranks(low: pa.Array, high: pa.Array) -> Numbers:
    """The values of both as numbers in their order."""
    both = pa.concat_arrays([low, high])
    if pa.types.is_fixed_size_binary(both.type):
        both = both.cast(pa.binary())
    found: Numbers = pc.rank(both, tiebreaker="dense").to_numpy().astype(np.int64)
    return found


def _looked_up(maps: pa.ChunkedArray, id: int) -> pa.Array:
    found = pc.map_lookup(maps, query_key=pa.scalar(id, pa.int32()), occurrence="first")
    return pa.concat_arrays(found.chunks) if found.num_chunks != 1 else found.chunk(0)
