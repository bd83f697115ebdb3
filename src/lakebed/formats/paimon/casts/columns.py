"""Arrow columns as numpy arrays and back, and the error for a value that the new type cannot hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError
from lakebed.formats.paimon.codec.types import DataType
from lakebed.kernel.arrays import AnyArray, Bools, Int64s, to_numpy

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def per_second(kind: pa.DataType) -> int:
    """How many units of a timestamp type are one second."""
    return _PER_SECOND[kind.unit]


def longs(column: pa.Array) -> Int64s:
    """Integers, dates, times or timestamps as the numbers that store them. Null becomes 0."""
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    numbers: Int64s = to_numpy(column.cast(pa.int64()).fill_null(0))
    return numbers


def present(column: pa.Array) -> Bools:
    """Whether each value is not null."""
    valid: Bools = to_numpy(column.is_valid())
    return valid


def flags(column: pa.Array) -> Bools:
    """A boolean column as an array. Null becomes False."""
    values: Bools = to_numpy(column.fill_null(False))
    return values


def column_of(numbers: AnyArray, valid: Bools, kind: pa.DataType) -> pa.Array:
    """Numbers as a column of type `kind`, null where `valid` is false."""
    width = np.int32 if pa.types.is_temporal(kind) and kind.bit_width == 32 else np.int64
    if pa.types.is_temporal(kind):
        return pa.array(numbers.astype(width), mask=~valid).view(kind)
    return pa.array(numbers, kind, mask=~valid)


def scaled(column: pa.Array, numbers: Int64s, factor: int, source: DataType, wanted: DataType) -> Int64s:
    """Numbers times a factor. Raises SchemaError where the product exceeds 64 bits, as for times far from 1970."""
    bound = (2**63 - 1) // factor
    refuse(
        column,
        (numbers > bound) | (numbers < -bound),
        source,
        wanted,
        "lakebed cannot represent a time so far from 1970",
    )
    return numbers * factor


def refuse(column: pa.Array, wrong: Bools, source: DataType, wanted: DataType, why: str = "") -> None:
    """Raise SchemaError that names the first value where `wrong` is true."""
    if wrong.any():
        value = column[int(np.flatnonzero(wrong)[0])]
        raise SchemaError(
            f"a column was changed from {source} to {wanted}, and it has a value that cannot become {wanted}",
            why=f"{_shown(value)}: {why or 'Paimon fails on it too'}",
            todo="Change the column back, or read a snapshot from before the change with as_of",
        )


def _shown(value: pa.Scalar) -> str:
    text: str = pc.cast(value, pa.string()).as_py() if pa.types.is_temporal(value.type) else repr(value.as_py())
    return text if len(text) <= 60 else f"{text[:57]}..."
