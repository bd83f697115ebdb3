"""The order of versions, by each of the ways that find it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakebed.formats.paimon.merge import key_runs, sort_order


def _runs(lengths: list[int], distinct: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Keys of sorted runs, one run after the other, and the number of each row's run."""
    random = np.random.default_rng(len(lengths))
    keys = [np.sort(random.integers(-distinct, distinct, length)) for length in lengths]
    return np.concatenate(keys), np.repeat(np.arange(len(lengths)), lengths)


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.timestamp("us"), pa.date32()])
@pytest.mark.parametrize("lengths", [[9000, 3, 9000], [20000], [1] * 300, [5000, 0, 7000, 6000], []])
@pytest.mark.parametrize("newer", ["later", "earlier", "mixed"])
def test_rows_of_a_key_are_in_the_order_of_their_sequence_numbers(
    kind: pa.DataType, lengths: list[int], newer: str
) -> None:
    keys, number = _runs(lengths or [0], 4000)
    sequence = {"later": number, "earlier": -number, "mixed": (np.arange(len(keys)) * 7919) % 101}[newer]
    numbers = pa.array(keys.astype(np.int32 if kind.bit_width == 32 else np.int64)).view(kind)
    order = sort_order([numbers], [(pa.array(sequence.astype(np.int64)), False)])
    expected = np.lexsort([np.arange(len(keys)), sequence, keys])
    assert (order == expected).all()
    assert (sort_order([numbers]) == np.lexsort([np.arange(len(keys)), keys])).all()
    assert len(key_runs([numbers.take(pa.array(order))])) == len(np.unique(keys))
