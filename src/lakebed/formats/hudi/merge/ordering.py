"""Ordering values compared: null is the lowest, NaN the highest, and several fields count one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Bools, Int64s, to_numpy

LOWEST = np.iinfo(np.int64).min
"""The order code of null, below that of every value."""


def order_codes(columns: Sequence[pa.Array], count: int) -> Int64s:
    """One number per entry that sorts as the entry's ordering values do; equal values have equal numbers.

    `columns` has one array of `count` values per ordering field; without fields all numbers are 0.
    """
    codes: Int64s | None = None
    for column in columns:
        field_codes = _field_codes(column)
        if codes is None:
            codes = field_codes
            continue
        first = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        second = np.unique(field_codes, return_inverse=True)[1].astype(np.int64)
        codes = first * (second.max(initial=0) + 1) + second
    return codes if codes is not None else np.zeros(count, np.int64)


def _field_codes(column: pa.Array) -> Int64s:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        width = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
        numbers = column.cast(width).cast(pa.int64())
        codes: Int64s = to_numpy(pc.fill_null(numbers, LOWEST))
        return codes
    if pa.types.is_floating(kind):
        # Adding 0.0 makes -0.0 equal to 0.0; then a double's bits, negative ones flipped, sort as the double does.
        values = to_numpy(pc.fill_null(column.cast(pa.float64()), 0.0)) + 0.0
        bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
        ordered = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
        ordered = np.where(np.isnan(values), np.iinfo(np.int64).max, ordered)
        return np.where(to_numpy(column.is_valid()), ordered, LOWEST)
    dense = pc.rank(column, sort_keys="ascending", tiebreaker="dense").cast(pa.int64())
    return np.where(to_numpy(column.is_valid()), to_numpy(dense), LOWEST)


def is_greater(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Bools:
    """Which rows have greater ordering values on the left than on the right; both have one array per ordering field."""
    greater: Bools | None = None
    equal: Bools | None = None
    for left_values, right_values in zip(left, right, strict=True):
        more, same = _compare(left_values, right_values)
        greater = more if greater is None or equal is None else greater | (equal & more)
        equal = same if equal is None else equal & same
    return greater if greater is not None else np.zeros(0, bool)


def _compare(left: pa.Array, right: pa.Array) -> tuple[Bools, Bools]:
    """Masks of the rows whose left value is greater, and whose values are equal."""
    left_valid, right_valid = left.is_valid(), right.is_valid()
    more, same = pc.greater(left, right), pc.equal(left, right)
    if pa.types.is_floating(left.type):
        left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
        more = pc.or_(more, pc.and_(left_nan, pc.invert(right_nan)))
        same = pc.or_(same, pc.and_(left_nan, right_nan))
    both_valid = pc.and_(left_valid, right_valid)
    more = pc.if_else(both_valid, more, pc.and_(left_valid, pc.invert(right_valid)))
    same = pc.if_else(both_valid, same, pc.and_(pc.invert(left_valid), pc.invert(right_valid)))
    return _bools(more), _bools(same)


def _bools(values: Any) -> Bools:
    flags: Bools = to_numpy(pc.fill_null(values, False))
    return flags
