"""Bin packing of very many files, on whole columns: there is no Python object per file."""

from __future__ import annotations

import numpy as np

from lakebed.kernel.arrays import Int64s


def next_fit(keys: Int64s, sizes: Int64s, max_bytes: int, max_items: int) -> Int64s:
    """Put items into bins in their order, and return the index at which each bin starts.

    Items of equal `keys` stand next to each other, and only they may share a bin. An item that would make its bin
    larger than `max_bytes` or longer than `max_items` opens the next bin, so an item above `max_bytes` is alone. Both
    limits are at least 1.
    """
    count = len(keys)
    if not count:
        return np.empty(0, np.int64)
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))).astype(np.int64)
    ends = np.append(starts[1:], count)
    below = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    max_bytes = min(max_bytes, int(below[-1]) + 1)
    over_full = (below[ends] - below[starts] > max_bytes) | (ends - starts > max_items)
    if not over_full.any():
        return starts
    cuts = [starts]
    for start, end in zip(starts[over_full].tolist(), ends[over_full].tolist(), strict=True):
        cuts.append(_cuts(below, start, end, max_bytes, max_items))
    return np.sort(np.concatenate(cuts))


def _cuts(below: Int64s, start: int, end: int, max_bytes: int, max_items: int) -> Int64s:
    """Where the second and later bins of the items [start, end) start. `below` is the bytes before each item."""
    cuts: list[int] = []
    at = start
    while True:
        fits = int(np.searchsorted(below, below[at] + max_bytes, side="right")) - 1
        at = min(max(fits, at + 1), at + max_items)
        if at >= end:
            return np.array(cuts, np.int64)
        cuts.append(at)


def even_runs(sizes: Int64s, parts: int) -> Int64s:
    """Cut items into at most `parts` runs of about equal size, none empty, and return where each run starts."""
    count = len(sizes)
    parts = max(1, min(parts, count))
    below = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    wanted = below[-1] * np.arange(1, parts) / parts
    middle = (below[:-1] + below[1:]) / 2
    cuts = np.searchsorted(middle, wanted)
    return np.unique(np.concatenate(([0], cuts[(cuts > 0) & (cuts < count)]))).astype(np.int64)
