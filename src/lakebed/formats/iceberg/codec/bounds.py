"""Column bounds of manifests as whole Arrow columns.

Rule: the specification's "Binary single-value serialization", and "Schema Evolution" for bounds of widened columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    StringType,
    UUIDType,
)

from lakebed.formats.iceberg.codec.schema import arrow_type
from lakebed.kernel.arrays import UInt8s, from_numpy, one_chunk, to_numpy

_SECONDS_PER_DAY = 86_400


def plain_type(kind: IcebergType) -> pa.DataType:
    """The Arrow type in which values are compared; UUIDs are compared as bytes."""
    return pa.binary(16) if isinstance(kind, UUIDType) else arrow_type(kind)


def values_of_field(maps: pa.ChunkedArray, id: int) -> pa.Array:
    """The value of one field id in each map of a column of metrics; null where a map lacks it."""
    whole = one_chunk(maps)
    offsets = np.frombuffer(whole.buffers()[1], np.int32)[whole.offset : whole.offset + len(whole) + 1]
    first, last = (int(offsets[0]), int(offsets[-1])) if len(whole) else (0, 0)
    keys = to_numpy(whole.keys.slice(first, last - first))
    items = np.flatnonzero(keys == id) + first
    places = np.full(len(whole), -1, np.int64)
    places[np.searchsorted(offsets, items, side="right") - 1] = items
    return whole.items.take(from_numpy(places, places < 0))


def decoded_bounds(bounds: pa.BinaryArray, kind: IcebergType) -> pa.Array:
    """Bounds in the single-value form as values of a type; null for a bound that is missing or cannot be decoded.

    The bounds of a column that has been widened since may be in the narrower type.
    """
    target = plain_type(kind)
    if isinstance(kind, StringType):
        try:
            return bounds.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.nulls(len(bounds), target)
    if isinstance(kind, BinaryType):
        return bounds
    _, offset_buffer, data_buffer = bounds.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[bounds.offset : bounds.offset + len(bounds) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    lengths = np.where(to_numpy(bounds.is_valid()), np.diff(offsets), -1)
    places = {int(n): np.flatnonzero(lengths == n) for n in np.unique(lengths) if n > 0}
    rows = {n: data[offsets[at].astype(np.int64)[:, None] + np.arange(n)] for n, at in places.items()}
    if isinstance(kind, DecimalType):
        return _decimals(rows, places, len(bounds), target)
    if isinstance(kind, FixedType | UUIDType):
        return bounds.cast(target) if set(places) <= {target.byte_width} else pa.nulls(len(bounds), target)
    return _fixed_width(rows, places, len(bounds), kind, target)


_Rows = Mapping[int, UInt8s]
"""Bounds by their length: one row of bytes per bound."""


def _fixed_width(
    rows: _Rows, places: Mapping[int, Any], count: int, kind: IcebergType, target: pa.DataType
) -> pa.Array:
    """Booleans and numbers; `places` are the places of the rows among all bounds."""
    mask = np.ones(count, np.bool_)
    if isinstance(kind, BooleanType):
        flags = np.zeros(count, np.bool_)
        if 1 in rows:
            flags[places[1]], mask[places[1]] = rows[1][:, 0] != 0, False
        return from_numpy(flags, mask).cast(target)
    is_float = isinstance(kind, FloatType | DoubleType)
    values = np.zeros(count, np.float64 if is_float else np.int64)
    for width in rows.keys() & {4, 8}:
        dtype = ("<f" if is_float else "<i") + str(width)
        decoded = np.ascontiguousarray(rows[width]).view(dtype)[:, 0]
        if pa.types.is_timestamp(target) and width == 4:  # the column was a date
            ticks_per_second = 1_000_000 if target.unit == "us" else 1_000_000_000
            decoded = decoded.astype(np.int64) * (_SECONDS_PER_DAY * ticks_per_second)
        values[places[width]], mask[places[width]] = decoded, False
    if is_float:
        return from_numpy(values, mask | np.isnan(values)).cast(target)
    numbers = from_numpy(values.astype(np.int64, copy=False), mask)
    is_narrow = pa.types.is_int32(target) or pa.types.is_date32(target)
    return (numbers.cast(pa.int32()) if is_narrow else numbers).view(target)


def _decimals(rows: _Rows, places: Mapping[int, Any], count: int, target: pa.DataType) -> pa.Array:
    """Big-endian numbers of the fewest bytes, as Arrow's little-endian numbers of 16 bytes."""
    values, mask = np.zeros((count, 16), np.uint8), np.ones(count, np.bool_)
    for width in (n for n in rows if n <= 16):
        values[places[width], :width] = rows[width][:, ::-1]
        values[places[width], width:] = np.where(rows[width][:, :1] >= 0x80, 0xFF, 0)
        mask[places[width]] = False
    validity = from_numpy(~mask).buffers()[1]
    return pa.Array.from_buffers(target, count, [validity, pa.py_buffer(values.tobytes())])
