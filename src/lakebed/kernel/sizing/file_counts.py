"""How many files each bucket gets, and which task writes which of them.

A bucket is a set of rows that may not share a file with other rows: a partition of an Iceberg table, or the whole table
when it has no partitions. Every write keeps one rule, at any parallelism: a bucket of b bytes on disk has between
ceil(b / greatest) and ceil(b / target) files, and at least 1. So n files are right for
(n - 1) * target < b <= n * greatest. These ranges overlap. Since b is only an estimate before the files are written, we
choose the n that leaves the most margin.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from lakebed.kernel.arrays import Int64s


def file_count(size: float, target: int, greatest: int) -> int:
    """The number of files for about `size` bytes, at least 1.

    With `greatest` at 1.4 times the target, the number is right even when the real size differs by a sixth.
    """
    exact = (1 + (1 + 4 * size * size / (target * greatest)) ** 0.5) / 2
    low = max(1, int(exact))
    return max((low, low + 1), key=lambda count: _margin(count, size, target, greatest))


def _margin(count: int, size: float, target: int, greatest: int) -> float:
    """The factor by which the size may be wrong, up or down, before `count` is the wrong number of files."""
    if size <= 0:
        return 1.0 / count
    above = count * greatest / size
    return above if count == 1 else min(above, size / ((count - 1) * target))


def in_bounds(count: int, size: int, target: int, greatest: int) -> bool:
    """Whether `count` files of `size` bytes in total keep the rule."""
    return max(1, -(-size // greatest)) <= count <= max(1, -(-size // target))


def share_out(weights: Sequence[float], parts: int) -> list[list[int]]:
    """Share items out over at most `parts` tasks: the heaviest item first, each to the lightest task so far.

    Returns the items of each task, in ascending order. Empty tasks are left out. The heaviest task comes first, so that
    it starts first.
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
    """Cut rows into `parts` runs of equal length: the `parts + 1` numbers at which runs begin and the last one ends."""
    cuts: Int64s = rows * np.arange(parts + 1, dtype=np.int64) // max(parts, 1)
    return cuts
