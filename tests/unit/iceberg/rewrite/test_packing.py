"""Bin packing against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.formats.iceberg.rewrite.packing import even_runs, next_fit

_ITEMS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=60)


@pytest.mark.slow
@given(_ITEMS, st.integers(1, 80), st.integers(1, 9))
def test_a_bin_closes_at_the_first_item_that_does_not_fit(
    items: list[tuple[int, int]], max_bytes: int, max_items: int
) -> None:
    items = sorted(items, key=lambda item: item[0])
    starts, filled, taken, last = [], 0, 0, None
    for place, (key, size) in enumerate(items):
        if key != last or filled + size > max_bytes or taken == max_items:
            starts.append(place)
            filled = taken = 0
        filled, taken, last = filled + size, taken + 1, key
    keys = np.array([key for key, _ in items], np.int64)
    sizes = np.array([size for _, size in items], np.int64)
    assert next_fit(keys, sizes, max_bytes, max_items).tolist() == starts


def test_limits_beyond_all_sizes_do_not_overflow() -> None:
    keys, sizes = np.zeros(3, np.int64), np.full(3, 1 << 60, np.int64)
    assert next_fit(keys, sizes, 2**63 - 1, 2**63 - 1).tolist() == [0]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=40), st.integers(1, 12))
def test_runs_are_as_even_as_items_allow(sizes: list[int], parts: int) -> None:
    starts = even_runs(np.array(sizes, np.int64), parts).tolist()
    assert starts[0] == 0 and starts == sorted(set(starts)) and len(starts) <= parts
    runs = [sum(sizes[a:b]) for a, b in zip(starts, [*starts[1:], len(sizes)], strict=True)]
    assert min(runs) > 0 and sum(runs) == sum(sizes)
    assert max(runs) <= sum(sizes) / min(parts, len(sizes)) + 2 * max(sizes)
