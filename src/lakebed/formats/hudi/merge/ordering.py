"""Ordering values in the order that they compare in: null is the lowest, NaN the highest, several fields one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Bools, Int64s

LOWEST = np.iinfo(np.int64).min
"""A number below those of all ordering values but null."""


def ranks(columns: Sequence[pa.Array], count: int) -> Int64s:
    """Numbers that order entries as their ordering values do, field by field; equal values have equal numbers."""
    rank: Int64s | None = None
    for column in columns:
        mine = _rank(column)
        if rank is None:
            rank = mine
            continue
        first = np.unique(rank, return_inverse=True)[1].astype(np.int64)
        second = np.unique(mine, return_inverse=True)[1].astype(np.int64)
        rank = first * (second.max(initial=0) + 1) + second
    return rank if rank is not None else np.zeros(count, np.int64)


def _rank(column: pa.Array) -> Int64s:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        width = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
        numbers = column.cast(width).cast(pa.int64())
        found: Int64s = pc.fill_null(numbers, LOWEST).to_numpy(zero_copy_only=False)
        return found
    if pa.types.is_floating(kind):
        bits = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        plain = np.where(np.isnan(bits), np.nan, bits).view(np.int64)
        ordered = np.where(plain < 0, plain ^ np.iinfo(np.int64).max, plain)
        ordered = np.where(np.isnan(bits), np.iinfo(np.int64).max, ordered)
        return np.where(column.is_valid().to_numpy(zero_copy_only=False), ordered, LOWEST)
    dense = pc.rank(column, sort_keys="ascending", tiebreaker="dense").cast(pa.int64())
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), dense.to_numpy(), LOWEST)


def is_greater(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Bools:
    """Whether the ordering values of the left rows are greater, field by field; null is lowest, NaN highest."""
    greater: Bools | None = None
    equal: Bools | None = None
    for one, other in zip(left, right, strict=True):
        more, same = _compare(one, other)
        greater = more if greater is None or equal is None else greater | (equal & more)
        equal = same if equal is None else equal & same
    return greater if greater is not None else np.zeros(0, bool)


def _compare(one: pa.Array, other: pa.Array) -> tuple[Bools, Bools]:
    valid, other_valid = one.is_valid(), other.is_valid()
    more, same = pc.greater(one, other), pc.equal(one, other)
    if pa.types.is_floating(one.type):
        nan, other_nan = pc.is_nan(one), pc.is_nan(other)
        more = pc.or_(more, pc.and_(nan, pc.invert(other_nan)))
        same = pc.or_(same, pc.and_(nan, other_nan))
    more = pc.if_else(pc.and_(valid, other_valid), more, pc.and_(valid, pc.invert(other_valid)))
    same = pc.if_else(pc.and_(valid, other_valid), same, pc.and_(pc.invert(valid), pc.invert(other_valid)))
    return _bools(more), _bools(same)


def _bools(values: Any) -> Bools:
    found: Bools = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return found
