"""Decimals as bytes, beside Python's own integers."""

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.kernel.decimals import decimal_array, decimal_bytes, decimal_numbers

EXACT = Context(prec=40)
near_powers = st.builds(
    lambda sign, power, more: sign * (2**power + more),
    st.sampled_from([1, -1]),
    st.integers(0, 125),
    st.integers(-1, 1),
)
numbers = st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(2**64), 2**64) | near_powers


def column(values: list[int | None]) -> pa.Array:
    made = [None if value is None else Decimal(value) for value in values]
    return pa.array([None, *made], pa.decimal128(38, 0)).slice(1)


@given(st.lists(numbers, max_size=20))
@example([2**63 - 1, -(2**63), 0, -1, 127, 128, -128, -129])
@example([2**63, -(2**63) - 1, 2**64 - 1, 2**64, -(2**64), 10**38 - 1, 1 - 10**38])
def test_bytes_are_the_shortest_that_keep_the_sign(values: list[int]) -> None:
    data, lengths = decimal_bytes(column(values))
    for value, row, length in zip(values, data, lengths.tolist(), strict=True):
        assert length == (value if value >= 0 else ~value).bit_length() // 8 + 1
        assert row.tobytes() == value.to_bytes(length, "big", signed=True).ljust(16, b"\x00")


@given(st.lists(st.none() | numbers, max_size=20))
def test_numbers_there_and_back(values: list[int | None]) -> None:
    whole = column(values)
    found = decimal_numbers(whole)
    valid = np.array([value is not None for value in values], np.bool_)
    assert found[valid].tolist() == [value for value in values if value is not None]
    assert decimal_array(found, valid, whole.type).to_pylist() == whole.to_pylist()
    scaled = [None if value is None else Decimal(value).scaleb(-7, EXACT) for value in values]
    assert decimal_array(found, valid, pa.decimal128(38, 7)).to_pylist() == scaled
