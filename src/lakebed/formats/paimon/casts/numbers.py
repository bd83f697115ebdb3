"""Casts between numbers, as Java narrows and widens them, and of booleans.

Rules: Paimon's NumericPrimitiveCastRule (Java's Number.byteValue and the like), BooleanToNumericCastRule,
NumericToBooleanCastRule.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.formats.paimon.casts.columns import column_of, longs, present
from lakebed.kernel.arrays import Int64s

BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
FLOATS = ("FLOAT", "DOUBLE")
_WHOLE = {"TINYINT": np.int8, "SMALLINT": np.int16, "INT": np.int32, "BIGINT": np.int64}


def narrowed(numbers: Int64s, column: pa.Array, root: str) -> pa.Array:
    """Whole numbers in another width: the lower bits stay."""
    made = numbers.astype(_WHOLE[root])
    return pa.array(made, mask=~present(column))


def floats_of(numbers: npt.NDArray[np.generic], column: pa.Array, root: str) -> pa.Array:
    """Numbers as floats, rounded once; too great ones are infinite."""
    with np.errstate(over="ignore"):
        made = numbers.astype(np.float32 if root == "FLOAT" else np.float64)
    return pa.array(made, mask=~present(column))


def float_values(column: pa.Array) -> npt.NDArray[np.floating]:
    """The numbers of a float column, 0 where there is none."""
    made: npt.NDArray[np.floating] = column.fill_null(0).to_numpy(zero_copy_only=False)
    return made


def whole_of_floats(column: pa.Array, root: str) -> pa.Array:
    """Floats cut to whole numbers: NaN is 0, what does not fit is the nearest that does. Bytes and shorts are cut from
    an INT."""
    bits = 64 if root == "BIGINT" else 32
    numbers = float_values(column).astype(np.float64)
    low, high = -(2.0 ** (bits - 1)), 2.0 ** (bits - 1)
    inside = (numbers >= low) & (numbers < high)
    made = np.where(inside, numbers, 0).astype(np.int64)
    made[numbers >= high] = 2 ** (bits - 1) - 1
    made[numbers < low] = -(2 ** (bits - 1))
    return narrowed(made, column, root)


def of_booleans(column: pa.Array) -> Int64s:
    """1 and 0."""
    return longs(column.cast(pa.int8()))


def to_booleans(column: pa.Array) -> pa.Array:
    """Whether whole numbers are not 0."""
    return column_of(longs(column) != 0, present(column), pa.bool_())
