"""The aggregate function product with retractions, and of decimals.

Rule: Paimon's FieldProductAgg (release 1.3.1). -U and -D rows divide, in the order of the rows, and the first value of
a key counts whatever its kind. Integers are divided as in Java. The quotient of two decimals must have an end, and is
rounded half up to the column's scale. A product that is too large for its decimal column becomes null.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UsageError
from lakebed.formats.paimon.merge.ordering import Runs, nth_rows
from lakebed.kernel.arrays import AnyArray, Bools, to_numpy
from lakebed.kernel.decimals import decimal_array, decimal_numbers

_LONGEST_FRACTION = 127
"""The most digits of a quotient of two decimals of 38 digits that has an end: such decimals are below 2 to this."""


def divided_product(values: pa.Array, retracts: Bools, runs: Runs, column: str) -> pa.Array:
    """The product of each run of integers or floats, divided by the retracted ones. Null for a run of nulls."""
    numbers = to_numpy(pc.fill_null(values, 0))
    products, given = np.ones(len(runs), numbers.dtype), np.zeros(len(runs), np.bool_)
    for owner, rows in nth_rows(values, runs):
        before, now = products[owner], numbers[rows]
        back = retracts[rows] & given[owner]
        if (back & (now == 0)).any() and np.issubdtype(numbers.dtype, np.integer):
            raise _by_zero(column)
        divisor = np.where(back, now, 1)
        quotient = before / divisor if numbers.dtype.kind == "f" else _towards_zero(before, divisor)
        products[owner] = np.where(back, quotient, np.where(given[owner], before, 1) * now)
        given[owner] = True
    return pa.array(products, values.type, mask=~given)


def decimal_product(values: pa.Array, retracts: Bools, runs: Runs, column: str) -> pa.Array:
    """The product of each run of decimals, divided by the retracted ones.

    A product of two decimals has up to 76 digits, so this works on Python's integers. Raises UsageError for a retracted
    factor where the quotient has no end.
    """
    kind = values.type
    unit, bound = 10**kind.scale, 10**kind.precision
    numbers = decimal_numbers(values)
    products: AnyArray = np.zeros(len(runs), object)
    given = np.zeros(len(runs), np.bool_)
    for owner, rows in nth_rows(values, runs):
        before, after, has_product = products[owner], numbers[rows], given[owner]
        times, back = has_product & ~retracts[rows], has_product & retracts[rows]
        after[times] = _half_up(before[times] * after[times], unit)
        after[back] = _quotient(before[back], after[back], unit, column)
        products[owner], given[owner] = after, (abs(after) < bound).astype(np.bool_)
    return decimal_array(np.where(given, products, 0), given, kind)


def _quotient(dividend: AnyArray, divisor: AnyArray, unit: int, column: str) -> AnyArray:
    if (divisor == 0).any():
        raise _by_zero(column)
    endless = np.flatnonzero((dividend * 10**_LONGEST_FRACTION) % divisor != 0)
    if len(endless):
        raise UsageError(
            f"a -U or -D row divides the product of column {column!r}, and the quotient has no end",
            why=f"{dividend[endless[0]]} / {divisor[endless[0]]}, which Paimon's own engine refuses too",
            todo=f"Set fields.{column}.ignore-retract=true, or filter out such rows",
        )
    sign = np.where(divisor < 0, -1, 1).astype(object)
    return _half_up(dividend * sign * unit, divisor * sign)


def _half_up(numbers: AnyArray, divisor: Any) -> AnyArray:
    """Numbers divided by positive numbers, rounded to the nearest, halves away from zero."""
    sizes = (2 * abs(numbers) + divisor) // (2 * divisor)
    rounded: AnyArray = np.where(numbers < 0, -sizes, sizes)
    return rounded


def _by_zero(column: str) -> UsageError:
    return UsageError(
        f"a -U or -D row divides the product of column {column!r} by 0",
        todo=f"Set fields.{column}.ignore-retract=true, or filter out such rows",
    )


def _towards_zero(dividend: AnyArray, divisor: AnyArray) -> AnyArray:
    """Integer division as in Java, which rounds towards zero."""
    floor = dividend // divisor
    rounded: AnyArray = floor + ((dividend % divisor != 0) & ((dividend < 0) != (divisor < 0))).astype(floor.dtype)
    return rounded
