"""Routing that knows sizes: how many files each bucket gets, and which task writes which.

A bucket is whatever may not share a file with others: a partition of an Iceberg table, or the whole of a table that has
none. The rule that a write shall keep: a bucket of b bytes on disk has between ceil(b / greatest) and ceil(b / target)
files, at least 1, at any parallelism. So n files are right for (n - 1) * target < b <= n * greatest; these ranges
overlap, and the n chosen is the one in whose range b lies farthest from both ends, since b is only estimated before the
files are there.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from lakebed.kernel.arrays import Int64s


def file_count(size: float, target: int, greatest: int) -> int:
    """Into how many files about `size` bytes go, at least 1; right for every real size within a sixth of it when
    `greatest` is 1.4 times the target."""
    exact = (1 + (1 + 4 * size * size / (target * greatest)) ** 0.5) / 2
    low = max(1, int(exact))
    return max((low, low + 1), key=lambda count: _margin(count, size, target, greatest))


def _margin(count: int, size: float, target: int, greatest: int) -> float:
    """The factor by which the size may be wrong, up or down, before so many files are the wrong number."""
    if size <= 0:
        return 1.0 / count
    above = count * greatest / size
    return above if count == 1 else min(above, size / ((count - 1) * target))


def in_bounds(count: int, size: int, target: int, greatest: int) -> bool:
    """Whether so many files of together `size` bytes keep the rule."""
    return max(1, -(-size // greatest)) <= count <= max(1, -(-size // target))


def share_out(weights: Sequence[float], parts: int) -> list[list[int]]:
    """Items on at most `parts` tasks, the heaviest first and each to the lightest task; empty tasks are left out.

    Inside a task items keep their order, and the heaviest task comes first, so that it starts first.
    """
    parts = max(1, min(parts, len(weights)))
    heap = [(0.0, part) for part in range(parts)]
    tasks: list[list[int]] = [[] for _ in range(parts)]
    for item in sorted(range(len(weights)), key=lambda item: (-weights[item], item)):
        load, part = heapq.heappop(heap)
        tasks[part].append(item)
        heapq.heappush(heap, (load + weights[item], part))
    loads = {part: load for load, part in heap}
    heaviest_first = sorted((part for part in range(parts) if tasks[part]), key=lambda part: (-loads[part], part))
    return [sorted(tasks[part]) for part in heaviest_first]


def even_cuts(rows: int, parts: int) -> Int64s:
    """Where each of `parts` runs of consecutive rows begins, and the end: `parts + 1` numbers, runs equally long."""
    cuts: Int64s = rows * np.arange(parts + 1, dtype=np.int64) // max(parts, 1)
    return cuts
