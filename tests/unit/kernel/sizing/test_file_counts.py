"""The number of files a bucket gets is right for every size near the estimate, and tasks share the work."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.kernel.sizing.file_counts import even_cuts, file_count, in_bounds, share_out

TARGET, GREATEST = 1000, 1400


@given(st.integers(0, 60_000), st.floats(0.86, 1.16))
def test_an_estimate_may_be_off_by_a_seventh(estimate: int, factor: float) -> None:
    real = round(estimate * factor)
    count = file_count(estimate, TARGET, GREATEST)
    # What one file takes too much, its writer sees: it rolls, and two files are right for what is above the greatest.
    assert in_bounds(count, real, TARGET, GREATEST)


@pytest.mark.parametrize(
    ("size", "count"), [(0, 1), (1, 1), (1000, 1), (1180, 1), (1190, 2), (2360, 2), (2400, 3), (2800, 3), (11_800, 10)]
)
def test_known_counts(size: int, count: int) -> None:
    assert file_count(size, TARGET, GREATEST) == count
    assert in_bounds(count, size, TARGET, GREATEST)


def test_bounds() -> None:
    assert in_bounds(1, 0, TARGET, GREATEST) and not in_bounds(0, 0, TARGET, GREATEST)
    assert in_bounds(1, 1400, TARGET, GREATEST) and not in_bounds(1, 1401, TARGET, GREATEST)
    assert in_bounds(2, 1001, TARGET, GREATEST) and not in_bounds(2, 1000, TARGET, GREATEST)


def test_a_large_item_has_a_task_of_its_own_and_small_ones_share() -> None:
    assert share_out([900, 10, 10, 10, 10, 10], 3) == [[0], [1, 3, 5], [2, 4]]
    assert share_out([5, 5], 8) == [[0], [1]]
    assert share_out([], 4) == []


@given(st.lists(st.floats(0, 1e6), max_size=60), st.integers(1, 20))
def test_each_item_has_one_task_and_none_is_much_above_the_mean(weights: list[float], parts: int) -> None:
    tasks = share_out(weights, parts)
    assert sorted(item for task in tasks for item in task) == list(range(len(weights)))
    if weights:
        heaviest = max(sum(weights[item] for item in task) for task in tasks)
        assert heaviest <= sum(weights) / min(parts, len(weights)) + max(weights) + 1e-6


@given(st.integers(0, 10_000), st.integers(1, 50))
def test_even_cuts(rows: int, parts: int) -> None:
    cuts = even_cuts(rows, parts)
    runs = [after - before for before, after in itertools.pairwise(cuts.tolist())]
    assert (cuts[0], cuts[-1], len(runs)) == (0, rows, parts)
    assert max(runs) - min(runs) <= 1
