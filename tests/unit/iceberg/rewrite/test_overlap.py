"""How deeply ranges overlap, compared with a count at every point."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from lakebed.formats.iceberg.rewrite.overlap import overlap_depths


def counted(ranges: list[tuple[int, int]]) -> list[int]:
    """The depth at the middle of each unit and at each point range, by brute force."""
    found = []
    for low, high in ranges:
        places = [low] if low == high else [at + 0.5 for at in range(low, high)]
        found.append(max(sum(a < at < b or a == at == b for a, b in ranges) for at in places))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_depths_are_those_of_a_count(seed: int) -> None:
    chance = random.Random(seed)
    starts = [chance.randrange(50) for _ in range(60)]
    ranges = [(start, start + chance.choice((1, 2, 5, 40))) for start in starts]
    groups = np.array([number % 3 for number in range(60)])
    table = pa.table({"low": [a for a, _ in ranges], "high": [b for _, b in ranges]})
    depths = overlap_depths(table, groups)
    for group in range(3):
        mine = np.flatnonzero(groups == group)
        assert depths[mine].tolist() == counted([ranges[row] for row in mine])


def test_a_file_without_a_range_lies_alone() -> None:
    table = pa.table({"low": pa.array([1, None, 1]), "high": pa.array([5, 9, None], pa.int64())})
    assert overlap_depths(table, np.zeros(3, np.int64)).tolist() == [1, 1, 1]
