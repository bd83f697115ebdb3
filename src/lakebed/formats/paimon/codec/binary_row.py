"""BinaryRow: the bytes of a key or partition, which Paimon hashes and stores in manifests.

Rules: Paimon's BinaryRow and BinaryRowWriter. A row is a header of null bits (the first byte is the row kind), then
eight bytes per field, then the variable part, all little-endian. A null DECIMAL of precision above 18 or TIMESTAMP of
precision above 3 still takes its space in the variable part, so it hashes differently from other nulls.

The plain values of single rows are int, float, bool, str, bytes and `Decimal`. A DATE is days, a TIME milliseconds, and
a timestamp the number of milli-, micro- or nanoseconds since 1970, by the unit of its Arrow type.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.paimon.codec.types import DataType, timestamp_unit
from lakebed.kernel.decoding import decoding

SEED = 42
EMPTY_ROW = bytes(8)
"""The row without fields."""

_WIDE = Context(prec=60)
_INLINE_BYTES = 7
_LONG_DECIMAL_BYTES = 16
PER_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}
NANOS = {"ms": 1_000_000, "us": 1_000, "ns": 1}


def encode_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """Encode one row from plain values. Raises UnsupportedError for nested types."""
    header = header_words(len(types)) * 8
    nulls = 0
    slots: list[bytes] = []
    tail = bytearray()
    base = header + 8 * len(types)
    for position, (value, kind) in enumerate(zip(values, types, strict=True)):
        if value is None:
            nulls |= 1 << (position + 8)
        slot, room = _value_bytes(value, kind, base + len(tail))
        slots.append(slot)
        tail += room
    return nulls.to_bytes(header, "little") + b"".join(slots) + bytes(tail)


def decode_row(data: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    """Decode the plain values of one row, None for null. Raises CorruptError when the bytes end too early."""
    header = header_words(len(types)) * 8
    if len(data) < header + 8 * len(types):
        raise CorruptError("a binary row ends too early", why=f"{len(data)} bytes for {len(types)} fields")
    nulls = int.from_bytes(data[:header], "little")
    with decoding("a binary row cannot be read"):
        return tuple(
            None if nulls >> (position + 8) & 1 else _value_of(data, header + 8 * position, kind)
            for position, kind in enumerate(types)
        )


def decode_field(data: bytes, place: int, arity: int, kind: DataType) -> Any:
    """The plain value of one field of a row of `arity` fields; None for null. CorruptError as `decode_row` raises
    it."""
    header = header_words(arity) * 8
    if len(data) < header + 8 * arity:
        raise CorruptError("a binary row ends too early", why=f"{len(data)} bytes for {arity} fields")
    bit = place + 8
    if data[bit >> 3] >> (bit & 7) & 1:
        return None
    with decoding("a binary row cannot be read"):
        return _value_of(data, header + 8 * place, kind)


def with_arity(row: bytes, arity: int) -> bytes:
    """The serialized form of a row in manifests: the number of fields as a big-endian int, then the row."""
    return struct.pack(">i", arity) + row


def without_arity(data: bytes) -> bytes:
    """The row in its serialized form, without the number of fields."""
    return data[4:]


def plain(scalar: pa.Scalar) -> Any:
    """The plain value of an Arrow scalar."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    return scalar.value if pa.types.is_temporal(kind) else scalar.as_py()


def header_words(arity: int) -> int:
    """How many words the null bits of a row with `arity` fields take."""
    return (arity + 63 + 8) // 64


_SLOTS = {
    "BOOLEAN": "<?7x", "TINYINT": "<b7x", "SMALLINT": "<h6x", "INT": "<i4x", "DATE": "<i4x", "TIME": "<i4x",
    "BIGINT": "<q", "FLOAT": "<f4x", "DOUBLE": "<d", "TIMESTAMP": "<q", "TIMESTAMP_LTZ": "<q",
}  # fmt: skip


def _value_bytes(value: Any, kind: DataType, offset: int) -> tuple[bytes, bytes]:
    match kind.root:
        case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
            if value is None:
                return bytes(8), b""
            data = value.encode() if isinstance(value, str) else bytes(value)
            if len(data) <= _INLINE_BYTES:
                return data.ljust(7, b"\0") + bytes((0x80 | len(data),)), b""
            return struct.pack("<ii", len(data), offset), data + bytes(-len(data) % 8)
        case "DECIMAL":
            unscaled = None if value is None else int(Decimal(value).scaleb(kind.scale, _WIDE))
            if kind.precision <= 18:
                return struct.pack("<q", unscaled or 0), b""
            if unscaled is None:
                return struct.pack("<ii", 0, offset), bytes(_LONG_DECIMAL_BYTES)
            size = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8) + 1
            return struct.pack("<ii", size, offset), unscaled.to_bytes(size, "big", signed=True).ljust(16, b"\0")
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if kind.precision > 3:
            unit = timestamp_unit(kind)
            millis, rest = divmod(value or 0, PER_MILLI[unit])
            return struct.pack("<ii", rest * NANOS[unit], offset), struct.pack("<q", millis)
    if kind.root not in _SLOTS:
        raise UnsupportedError(f"{kind} cannot be part of a key", todo="Use columns that are not nested as keys")
    return (bytes(8) if value is None else struct.pack(_SLOTS[kind.root], value)), b""


def _value_of(data: bytes, at: int, kind: DataType) -> Any:
    match kind.root:
        case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
            if data[at + 7] & 0x80:
                value = data[at : at + (data[at + 7] & 0x7F)]
            else:
                size, offset = struct.unpack_from("<ii", data, at)
                value = data[offset : offset + size]
            return value.decode() if kind.root.endswith("CHAR") else value
        case "DECIMAL":
            if kind.precision <= 18:
                unscaled = struct.unpack_from("<q", data, at)[0]
            else:
                size, offset = struct.unpack_from("<ii", data, at)
                unscaled = int.from_bytes(data[offset : offset + size], "big", signed=True)
            return Decimal(unscaled).scaleb(-kind.scale, _WIDE)
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if kind.precision > 3:
            nanos, offset = struct.unpack_from("<ii", data, at)
            unit = timestamp_unit(kind)
            return struct.unpack_from("<q", data, offset)[0] * PER_MILLI[unit] + nanos // NANOS[unit]
    if kind.root not in _SLOTS:
        raise UnsupportedError(f"{kind} cannot be part of a key", todo="Use columns that are not nested as keys")
    return struct.unpack_from(_SLOTS[kind.root], data, at)[0]
