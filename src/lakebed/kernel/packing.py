"""Bin packing of very many files on whole columns: no Python object a file."""

from __future__ import annotations

import numpy as np

from lakebed.kernel.arrays import Int64s


def next_fit(keys: Int64s, sizes: Int64s, max_bytes: int, max_items: int) -> Int64s:
    """Where each bin starts when items are put into bins in their order.

    `keys` tells which items may share a bin; equal keys stand together. An item that would make its bin larger than
    `max_bytes` or longer than `max_items` opens the next one, so an item above `max_bytes` is alone. Both limits are at
    least 1.
    """
    count = len(keys)
    if not count:
        return np.empty(0, np.int64)
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))).astype(np.int64)
    ends = np.append(starts[1:], count)
    below = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    max_bytes = min(max_bytes, int(below[-1]) + 1)
    crowded = (below[ends] - below[starts] > max_bytes) | (ends - starts > max_items)
    if not crowded.any():
        return starts
    more = [starts]
    for start, end in zip(starts[crowded].tolist(), ends[crowded].tolist(), strict=True):
        more.append(_cuts(below, start, end, max_bytes, max_items))
    return np.sort(np.concatenate(more))


def _cuts(below: Int64s, start: int, end: int, max_bytes: int, max_items: int) -> Int64s:
    """The starts of the second and later bins of one run of items; `below` is the bytes before each item."""
    found: list[int] = []
    at = start
    while True:
        fits = int(np.searchsorted(below, below[at] + max_bytes, side="right")) - 1
        at = min(max(fits, at + 1), at + max_items)
        if at >= end:
            return np.array(found, np.int64)
        found.append(at)


def even_runs(sizes: Int64s, parts: int) -> Int64s:
    """Where each of at most `parts` runs of consecutive items starts, all about equally large and none empty."""
    count = len(sizes)
    parts = max(1, min(parts, count))
    below = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    wanted = below[-1] * np.arange(1, parts) / parts
    middle = (below[:-1] + below[1:]) / 2
    cuts = np.searchsorted(middle, wanted)
    return np.unique(np.concatenate(([0], cuts[(cuts > 0) & (cuts < count)]))).astype(np.int64)
