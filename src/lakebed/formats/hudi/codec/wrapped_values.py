"""Bounds of statistics in the metadata table, which Hudi wraps in a record for each kind of value.

Releases up to 1.0 name no type (version V1): a timestamp is a bare number of unknown units, a decimal is a number of
scale 15. From 1.1 on (V2) a type stands beside the values.

A bound is given only where it certainly is one:

- Floats have none. A file with NaN has no statistics, for which Hudi records the bounds 0.0.
- Texts are ordered by their UTF-16 units in Java and by code points here. The two orders differ where a character
  beyond U+FFFF meets one from U+E000 to U+FFFF.
- Timestamps of version V1 have none, and bytes have none.

Rules: Hudi's `HoodieAvroWrapperUtils`, `ValueType`, `ValueMetadata`, `ParquetUtils.readColumnStatsFromMetadata`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Bools, Int64s, from_numpy
from lakebed.kernel.avro.columns import Choice

_V1_SCALE = 15
_DECIMAL = pa.decimal128(38, _V1_SCALE)
_DECIMAL_BYTES = 16
_LAST_TEXT = chr(0x10FFFF)
_LAST_BYTES = b"\xff" * 32


class Wrapper(IntEnum):
    """The branches of a bound's union, in the order of the schema."""

    NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, DATE, DECIMAL, TIME, TIMESTAMP, LOCAL_DATE, ARRAY = range(
        14
    )


class ValueType(IntEnum):
    """The types that stand beside bounds from release 1.1 on."""

    V1, NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, STRING, BYTES, FIXED, DECIMAL, UUID, DATE = range(13)
    TIME_MILLIS, TIME_MICROS, TIMESTAMP_MILLIS, TIMESTAMP_MICROS, TIMESTAMP_NANOS = range(13, 18)
    LOCAL_MILLIS, LOCAL_MICROS, LOCAL_NANOS = range(18, 21)


_UNITS = {
    ValueType.TIMESTAMP_MILLIS: "ms",
    ValueType.LOCAL_MILLIS: "ms",
    ValueType.TIMESTAMP_MICROS: "us",
    ValueType.LOCAL_MICROS: "us",
}
_NUMBERS = frozenset({ValueType.V1, ValueType.INT, ValueType.LONG})
_DAYS = frozenset({ValueType.V1, ValueType.DATE})


def has_bounds(kind: pa.DataType) -> bool:
    """Whether bounds of a column of this type can be used."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_decimal128(kind)
    )


def unbounded(kind: pa.DataType) -> tuple[Any, Any] | None:
    """Bounds of all values that a type has, None where a footer always tells the range, and for floats: Hudi's readers
    leave files out whose greatest float is NaN."""
    if pa.types.is_string(kind):
        return "", _LAST_TEXT
    return (b"", _LAST_BYTES) if pa.types.is_binary(kind) else None


def value_types(stats: Mapping[str, Any], count: int) -> tuple[Int64s, pa.Array | None]:
    """The types that stand beside the bounds of some statistics, and what is said about them (precision, scale)."""
    choice = stats.get("valueType")
    types = np.zeros(count, np.int64)
    if choice is None or not len(choice.rows[1]):
        return types, None
    types[choice.rows[1]] = choice.values[1]["typeOrdinal"]
    place = np.full(count, -1)
    place[choice.rows[1]] = np.arange(len(choice.rows[1]))
    info: Choice = choice.values[1]["additionalInfo"]
    texts = info.texts().take(pa.array(place, mask=place < 0)) if len(info.rows[1]) else None
    return types, texts


def bounds(wrapped: Choice, types: Int64s, info: pa.Array | None, kind: pa.DataType) -> pa.Array:
    """The wrapped values as a column's type, null where there is none that is certain.

    ArrowInvalid where one does not fit the type.
    """
    parts: list[tuple[Int64s, pa.Array]] = []
    for branch, (rows, values) in enumerate(zip(wrapped.rows, wrapped.values, strict=True)):
        if values is None or not len(rows) or branch == Wrapper.ARRAY:
            continue
        parts += _converted(Wrapper(branch), rows, values["value"], types[rows], info, kind)
    if not parts:
        return pa.nulls(len(wrapped.branches), kind)
    places = np.full(len(wrapped.branches), -1)
    taken = 0
    for rows, _ in parts:
        places[rows] = np.arange(taken, taken + len(rows))
        taken += len(rows)
    return pa.concat_arrays([values for _, values in parts]).take(pa.array(places, mask=places < 0))


def certain_texts(lower: pa.Array, upper: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Bounds of texts, without those that would be none in the order of code points."""
    beyond = pc.fill_null(pc.match_substring_regex(lower, r"[\x{10000}-\x{10FFFF}]"), False)
    private = pc.fill_null(pc.match_substring_regex(upper, r"[\x{E000}-\x{FFFF}]"), False)
    nothing = pa.scalar(None, lower.type)
    return pc.if_else(beyond, nothing, lower), pc.if_else(private, nothing, upper)


def _converted(
    wrapper: Wrapper, rows: Int64s, values: Any, types: Int64s, info: pa.Array | None, kind: pa.DataType
) -> list[tuple[Int64s, pa.Array]]:
    """The values of one wrapper that can be bounds of a column of this type, by the places of their records."""
    named = [ValueType(number) if number <= ValueType.LOCAL_NANOS else ValueType.NULL for number in np.unique(types)]
    parts = []
    for name in named:
        here = np.flatnonzero(types == name)
        converted = _of_type(wrapper, name, values, here, rows, info, kind)
        if converted is not None:
            parts.append((rows[here], converted))
    return parts


def _of_type(
    wrapper: Wrapper,
    name: ValueType,
    values: Any,
    here: Int64s,
    rows: Int64s,
    info: pa.Array | None,
    kind: pa.DataType,
) -> pa.Array | None:
    if pa.types.is_integer(kind) and wrapper in (Wrapper.INT, Wrapper.LONG) and name in _NUMBERS:
        return pa.array(values[here], pa.int64()).cast(kind)
    if pa.types.is_string(kind) and wrapper is Wrapper.STRING and name in (ValueType.V1, ValueType.STRING):
        return values.take(from_numpy(here)).cast(kind)
    if pa.types.is_boolean(kind) and wrapper is Wrapper.BOOLEAN and name in (ValueType.V1, ValueType.BOOLEAN):
        return pa.array(values[here])
    if pa.types.is_date32(kind) and wrapper in (Wrapper.INT, Wrapper.DATE, Wrapper.LOCAL_DATE) and name in _DAYS:
        return pa.array(values[here].astype(np.int32)).cast(kind)
    if pa.types.is_timestamp(kind):
        unit = "us" if wrapper is Wrapper.TIMESTAMP else _UNITS.get(name)
        if unit is not None and wrapper in (Wrapper.LONG, Wrapper.TIMESTAMP):
            return pa.array(values[here]).cast(pa.timestamp(unit)).cast(kind)
    if pa.types.is_decimal128(kind) and wrapper in (Wrapper.BYTES, Wrapper.DECIMAL):
        written = _decimal_type(name, info, rows[here])
        return None if written is None else _decimals(values.take(from_numpy(here)), written).cast(kind)
    return None


def _decimal_type(name: ValueType, info: pa.Array | None, rows: Int64s) -> pa.DataType | None:
    """The type of unscaled numbers, None where they are not of one known type."""
    if name is ValueType.V1:
        return _DECIMAL
    texts = info.take(from_numpy(rows)).unique().to_pylist() if info is not None else []
    if name is not ValueType.DECIMAL or len(texts) != 1 or not texts[0]:
        return None
    return pa.decimal128(38, int(texts[0].partition(",")[2]))


def _decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decimals from unscaled numbers in two's complement, the highest byte first. Null for those of over 16 bytes."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = texts.buffers()[2]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    lengths = np.diff(offsets)
    valid: Bools = (lengths > 0) & (lengths <= _DECIMAL_BYTES)
    places = offsets[1:, None] - 1 - np.arange(_DECIMAL_BYTES)
    inside = (np.arange(_DECIMAL_BYTES) < lengths[:, None]) & valid[:, None]
    words = raw[np.where(inside, places, 0)] if len(raw) else np.zeros((len(texts), _DECIMAL_BYTES), np.uint8)
    first = raw[np.where(valid, offsets[:-1], 0)] if len(raw) else np.zeros(len(texts), np.uint8)
    words = np.where(inside, words, np.where(first >= 0x80, 0xFF, 0)[:, None]).astype(np.uint8)
    bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, len(texts), [bits, pa.py_buffer(words.tobytes())])
