"""Casts between numbers, which narrow and widen as in Java, and between numbers and booleans.

Rules: Paimon's NumericPrimitiveCastRule (Java's Number.byteValue and the like), BooleanToNumericCastRule,
NumericToBooleanCastRule.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.formats.paimon.casts.columns import column_of, longs, present
from lakebed.kernel.arrays import Int64s, to_numpy

BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
FLOATS = ("FLOAT", "DOUBLE")
_WHOLE = {"TINYINT": np.int8, "SMALLINT": np.int16, "INT": np.int32, "BIGINT": np.int64}


def narrowed(numbers: Int64s, column: pa.Array, root: str) -> pa.Array:
    """Whole numbers in another width. The lower bits stay."""
    values = numbers.astype(_WHOLE[root])
    return pa.array(values, mask=~present(column))


def floats_of(numbers: npt.NDArray[np.generic], column: pa.Array, root: str) -> pa.Array:
    """Numbers as floats, rounded once. Numbers that are too large become infinite."""
    with np.errstate(over="ignore"):
        values = numbers.astype(np.float32 if root == "FLOAT" else np.float64)
    return pa.array(values, mask=~present(column))


def float_values(column: pa.Array) -> npt.NDArray[np.floating]:
    """The numbers of a float column. Null becomes 0."""
    values: npt.NDArray[np.floating] = to_numpy(column.fill_null(0))
    return values


def whole_of_floats(column: pa.Array, root: str) -> pa.Array:
    """Floats cut to whole numbers. NaN becomes 0, and a number out of range the nearest number in range.

    TINYINT and SMALLINT are narrowed from an INT.
    """
    bits = 64 if root == "BIGINT" else 32
    numbers = float_values(column).astype(np.float64)
    low, high = -(2.0 ** (bits - 1)), 2.0 ** (bits - 1)
    inside = (numbers >= low) & (numbers < high)
    whole = np.where(inside, numbers, 0).astype(np.int64)
    whole[numbers >= high] = 2 ** (bits - 1) - 1
    whole[numbers < low] = -(2 ** (bits - 1))
    return narrowed(whole, column, root)


def of_booleans(column: pa.Array) -> Int64s:
    """Booleans as 1 and 0."""
    return longs(column.cast(pa.int8()))


def to_booleans(column: pa.Array) -> pa.Array:
    """Whole numbers as booleans: true unless they are 0."""
    return column_of(longs(column) != 0, present(column), pa.bool_())
