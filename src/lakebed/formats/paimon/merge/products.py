"""The aggregate function product, with rows that are taken back.

Rule: Paimon's FieldProductAgg (release 1.3.1): -U and -D rows divide, in the order of the rows, and the first value of
a key stands whatever its kind. Integers are divided as Java does; a decimal quotient must end, and is rounded half up
to the column's scale; what outgrows a decimal column becomes null.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UsageError
from lakebed.formats.paimon.merge.ordering import Runs, by_rank
from lakebed.kernel.arrays import AnyArray, Bools
from lakebed.kernel.decimals import decimal_array, decimal_numbers

_LONGEST_FRACTION = 127
"""Digits after which a quotient of two decimals of 38 digits has ended, if it ends: they are less than 2 to this."""


def divided_product(values: pa.Array, retracts: Bools, runs: Runs, column: str) -> pa.Array:
    """The product of each run of integers or floats, some of which are taken back; null where all are null."""
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    found, given = np.ones(len(runs), numbers.dtype), np.zeros(len(runs), np.bool_)
    for owner, rows in by_rank(values, runs):
        before, now = found[owner], numbers[rows]
        back = retracts[rows] & given[owner]
        if (back & (now == 0)).any() and np.issubdtype(numbers.dtype, np.integer):
            raise _by_zero(column)
        divisor = np.where(back, now, 1)
        quotient = before / divisor if numbers.dtype.kind == "f" else _towards_zero(before, divisor)
        found[owner] = np.where(back, quotient, np.where(given[owner], before, 1) * now)
        given[owner] = True
    return pa.array(found, values.type, mask=~given)


def decimal_product(values: pa.Array, retracts: Bools, runs: Runs, column: str) -> pa.Array:
    """The product of each run of decimals. A product of two has up to 76 digits, so it is taken of Python's integers.

    Raises UsageError when a factor is taken back by which the product cannot be divided to an end.
    """
    kind = values.type
    one, most = 10**kind.scale, 10**kind.precision
    numbers = decimal_numbers(values)
    found: AnyArray = np.zeros(len(runs), object)
    given = np.zeros(len(runs), np.bool_)
    for owner, rows in by_rank(values, runs):
        before, made, known = found[owner], numbers[rows], given[owner]
        times, back = known & ~retracts[rows], known & retracts[rows]
        made[times] = _half_up(before[times] * made[times], one)
        made[back] = _quotient(before[back], made[back], one, column)
        found[owner], given[owner] = made, (abs(made) < most).astype(np.bool_)
    return decimal_array(np.where(given, found, 0), given, kind)


def _quotient(dividend: AnyArray, divisor: AnyArray, one: int, column: str) -> AnyArray:
    if (divisor == 0).any():
        raise _by_zero(column)
    endless = np.flatnonzero((dividend * 10**_LONGEST_FRACTION) % divisor != 0)
    if len(endless):
        raise UsageError(
            f"a -U or -D row takes a factor back from the product of column {column!r}, and the quotient has no end",
            why=f"{dividend[endless[0]]} / {divisor[endless[0]]}, which Paimon's own engine refuses too",
            todo=f"Set fields.{column}.ignore-retract=true, or filter such rows",
        )
    sign = np.where(divisor < 0, -1, 1).astype(object)
    return _half_up(dividend * sign * one, divisor * sign)


def _half_up(numbers: AnyArray, divisor: Any) -> AnyArray:
    """AnyArray divided by positive ones, rounded to the nearest and half away from zero."""
    sizes = (2 * abs(numbers) + divisor) // (2 * divisor)
    rounded: AnyArray = np.where(numbers < 0, -sizes, sizes)
    return rounded


def _by_zero(column: str) -> UsageError:
    return UsageError(
        f"a -U or -D row takes the factor 0 back from the product of column {column!r}",
        todo=f"Set fields.{column}.ignore-retract=true, or filter such rows",
    )


def _towards_zero(dividend: AnyArray, divisor: AnyArray) -> AnyArray:
    """Java's division of integers."""
    floor = dividend // divisor
    rounded: AnyArray = floor + ((dividend % divisor != 0) & ((dividend < 0) != (divisor < 0))).astype(floor.dtype)
    return rounded
