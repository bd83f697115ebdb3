"""Thrift's compact protocol, decoded and encoded lazily and without a schema.

Only the fields that a caller names are decoded. All others keep their bytes, even fields that this build does not know.

Rule: thrift-compact-protocol.md of Apache Thrift. Parquet's footers and page indexes are such structs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.errors import CorruptError

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
"""The types of the protocol. A boolean field has its value as its type."""

Bytes = bytes | bytearray
Shape = Mapping[int, Any]
"""Which fields of a struct to decode, by field id: None for an integer, else the shape of a struct or of the structs of
a list."""

Struct = dict[int, tuple[int, Any]]
"""(type, value) by field id. A decoded value is an int, a Struct or a list of Structs; all others are encoded bytes."""


def decode(data: Bytes, start: int, shape: Shape) -> tuple[Struct, int]:
    """The struct that starts at a position, and the position of its end. CorruptError when there is no whole struct."""
    try:
        struct, end = _struct(data, start, shape)
    except (IndexError, RecursionError, OverflowError) as error:
        raise CorruptError("a Thrift struct is cut off", why=str(error)) from error
    if end > len(data):
        raise CorruptError("a Thrift struct is cut off", why=f"it would end {end - len(data)} bytes later")
    return struct, end


def encode(struct: Struct) -> bytes:
    """The bytes of a struct, fields in the order of their ids."""
    out = bytearray()
    _write(out, struct)
    return bytes(out)


def of_binary(content: bytes) -> bytes:
    """The encoded value of a string or binary field."""
    out = bytearray()
    _put_varint(out, len(content))
    return bytes(out) + content


_MOST_BITS = 63


def _varint(data: Bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    number, shift = byte & 0x7F, 7
    while byte & 0x80:
        if shift > _MOST_BITS:
            raise CorruptError("a Thrift number has no end")
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        shift += 7
    if number >> 64:
        raise CorruptError("a Thrift number has more than 64 bits")
    return number, at + 1


def _field(data: Bytes, at: int, last: int) -> tuple[int, int, int]:
    """The type and id of a field, and the end of its head. Type 0 ends the struct."""
    head = data[at]
    if head > 0x0F:
        return head & 0x0F, last + (head >> 4), at + 1
    if not head:
        return 0, last, at + 1
    number, at = _varint(data, at + 1)
    return head, number >> 1 ^ -(number & 1), at


def _struct(data: Bytes, at: int, shape: Shape) -> tuple[Struct, int]:
    struct: Struct = {}
    kind, number, at = _field(data, at, 0)
    while kind:
        if number in shape:
            value, end = _value(data, at, kind, shape[number])
            struct[number] = kind, value
        else:
            end = _skip(data, at, kind)
            struct[number] = kind, bytes(data[at:end])
        kind, number, at = _field(data, end, number)
    return struct, at


def _value(data: Bytes, at: int, kind: int, shape: Shape | None) -> tuple[Any, int]:
    """The value of a field in the shape. CorruptError when it has another type."""
    if shape is None and kind in (I16, I32, I64):
        number, at = _varint(data, at)
        return number >> 1 ^ -(number & 1), at
    if shape is not None and kind == STRUCT:
        return _struct(data, at, shape)
    if shape is not None and kind == LIST:
        count, item, at = _head(data, at)
        if item == STRUCT or not count:
            structs = []
            for _ in range(count):
                struct, at = _struct(data, at, shape)
                structs.append(struct)
            return structs, at
    raise CorruptError("a Thrift struct holds a field of another type than the format says", why=f"type {kind}")


def _head(data: Bytes, at: int) -> tuple[int, int, int]:
    """The count and item type of a list, and the end of its head."""
    head = data[at]
    if head >> 4 != 15:
        return head >> 4, head & 0x0F, at + 1
    count, end = _varint(data, at + 1)
    return count, head & 0x0F, end


def _skip(data: Bytes, at: int, kind: int) -> int:
    """The end of a value of that type."""
    if kind in (I16, I32, I64):
        while data[at] & 0x80:
            at += 1
        return at + 1
    if kind == BINARY:
        length, at = _varint(data, at)
        return at + length
    if kind == STRUCT:
        kind, number, at = _field(data, at, 0)
        while kind:
            kind, number, at = _field(data, _skip(data, at, kind), number)
        return at
    if kind in (LIST, SET):
        count, item, at = _head(data, at)
        return _skip_items(data, at, item, count)
    if kind == MAP:
        return _skip_pairs(data, at)
    if kind in _WIDTHS:
        return at + _WIDTHS[kind]
    raise CorruptError("a Thrift struct holds a field of an unknown type", why=f"type {kind}")


_WIDTHS = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}


def _skip_items(data: Bytes, at: int, kind: int, count: int) -> int:
    if kind in (TRUE, FALSE, BYTE):
        return at + count
    if kind == DOUBLE:
        return at + 8 * count
    for _ in range(count):
        at = _skip(data, at, kind)
    return at


def _skip_pairs(data: Bytes, at: int) -> int:
    count, at = _varint(data, at)
    if count:
        kinds = data[at]
        at += 1
        if count > len(data) - at:  # a key has at least one byte
            raise CorruptError("a Thrift struct is cut off", why=f"a map of {count} pairs at {at}")
        for _ in range(count):
            at = _skip_items(data, at, kinds >> 4, 1)
            at = _skip_items(data, at, kinds & 0x0F, 1)
    return at


def _put_varint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _write(out: bytearray, struct: Struct) -> None:
    last = 0
    for number in sorted(struct):
        kind, value = struct[number]
        if 0 < number - last < 16:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _put_varint(out, (number << 1) ^ (number >> 63))
        last = number
        if isinstance(value, bytes):
            out += value
        elif isinstance(value, int):
            _put_varint(out, (value << 1) ^ (value >> 63))
        elif isinstance(value, dict):
            _write(out, value)
        else:
            if len(value) < 15:
                out.append(len(value) << 4 | STRUCT)
            else:
                out.append(0xF0 | STRUCT)
                _put_varint(out, len(value))
            for item in value:
                _write(out, item)
    out.append(0)
