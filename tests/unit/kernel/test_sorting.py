"""More rows than the memory given are sorted as few are, and no range holds much more than it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakebed.kernel.sort_keys import Direction, comparable
from lakebed.kernel.sorting import sorted_batches


class Keys:
    def keys(self, rows: pa.Table) -> pa.Table:
        return comparable([rows["a"], rows["b"]], [Direction(True, False), Direction(False, True)])


@pytest.mark.slow
@pytest.mark.parametrize("memory", [1 << 30, 100_000])
def test_rows_in_order_whatever_fits_into_memory(memory: int) -> None:
    chance = np.random.default_rng(3)
    count = 40_000
    a = pa.array(chance.integers(0, 5, count), mask=chance.random(count) < 0.1)
    b = pa.array(chance.random(count).round(3), mask=chance.random(count) < 0.1)
    rows = pa.table({"a": a, "b": b, "n": np.arange(count)})
    found = list(sorted_batches(iter(rows.to_batches(max_chunksize=3000)), Keys(), memory))
    expected = sorted(rows.to_pylist(), key=lambda row: (
        row["a"] is None, -(row["a"] or 0), row["b"] is not None, row["b"] or 0
    ))  # fmt: skip
    got = pa.Table.from_batches(found)
    assert got.select(["a", "b"]).to_pylist() == [{"a": row["a"], "b": row["b"]} for row in expected]
    assert sorted(got["n"].to_pylist()) == list(range(count))
    if memory < count:
        assert max(batch.num_rows for batch in found) < count // 2
