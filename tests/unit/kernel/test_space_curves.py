"""Sort keys along space-filling curves."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.kernel.space_curves import hilbert, interleaved, ordered_bytes

BITS = 4


def grid(dimensions: int) -> list[tuple[int, ...]]:
    points = list(itertools.product(range(1 << BITS), repeat=dimensions))
    order = np.random.default_rng(dimensions).permutation(len(points))
    return [points[at] for at in order]


def along(curve: object, points: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    # The highest bit of an int64 is its sign: shifted by 59, the grid lies in the four bits below it.
    columns = [ordered_bytes(pa.array([point[axis] << 59 for point in points], pa.int64()), 8) for axis in (0, 1)]
    keys = curve(columns)  # type: ignore[operator]
    return [points[at] for at in pc.sort_indices(keys).to_pylist()]


def test_each_step_on_a_hilbert_curve_goes_to_a_neighbour() -> None:
    path = np.array(along(hilbert, grid(2)))
    assert np.abs(np.diff(path, axis=0)).sum(axis=1).tolist() == [1] * (len(path) - 1)


def test_each_step_goes_to_a_neighbour_in_three_dimensions() -> None:
    points = grid(3)
    columns = [ordered_bytes(pa.array([point[axis] << 59 for point in points], pa.int64()), 8) for axis in range(3)]
    path = np.array([points[at] for at in pc.sort_indices(hilbert(columns)).to_pylist()])
    assert np.abs(np.diff(path, axis=0)).sum(axis=1).tolist() == [1] * (len(path) - 1)


def test_a_z_order_visits_quadrant_by_quadrant() -> None:
    path = along(interleaved, grid(2))
    quadrants = [(x >> BITS - 1, y >> BITS - 1) for x, y in path]
    assert [key for key, _ in itertools.groupby(quadrants)] == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("rows", [0, 1, (1 << 14) + 1])
def test_any_number_of_rows_has_keys(rows: int) -> None:
    column = ordered_bytes(pa.array(np.arange(rows)), 8)
    assert len(hilbert([column, column])) == rows


def test_texts_count_by_their_beginning() -> None:
    column = ordered_bytes(pa.array(["a", None, "abcdefghijk"]), 8)
    short = ordered_bytes(pa.array(["a", None, "b"]), 1)
    keys = hilbert([column, short])
    assert len(set(keys.to_pylist())) == 3
