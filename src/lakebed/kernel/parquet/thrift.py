"""Thrift's compact form, as Parquet's page headers and footers have it: structs as their fields, without a definition.

Rules: Thrift's "compact protocol encoding". A struct is a dict of field number to `(type, value)`; the value of a list
carries the type of its elements. What a struct holds is written as it was read.
"""

from __future__ import annotations

from typing import Any

from lakebed.errors import CorruptError

Bytes = bytes | bytearray | memoryview
Struct = dict[int, tuple[int, Any]]
"""The fields of a struct by number, each with its type."""

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


def read_struct(data: Bytes, at: int = 0) -> tuple[Struct, int]:
    """The struct at a place, and the place after it. IndexError where the bytes end within it."""
    fields: Struct = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, at = _read_zigzag(data, at)
        value, at = _read(data, at, kind)
        fields[number] = (kind, value)


def write_struct(fields: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


def _read(data: Bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind in (I16, I32, I64):
        return _read_zigzag(data, at)
    if kind == BYTE:
        return data[at], at + 1
    if kind == DOUBLE:
        return _sliced(data, at, 8)
    if kind == BINARY:
        length, at = _read_varint(data, at)
        return _sliced(data, at, length)
    if kind in (LIST, SET):
        return _read_list(data, at)
    if kind == STRUCT:
        return read_struct(data, at)
    raise CorruptError(f"a Parquet header has the unknown Thrift type {kind}")


def _read_list(data: Bytes, at: int) -> tuple[tuple[int, list[Any]], int]:
    head = data[at]
    at += 1
    count, kind = head >> 4, head & 15
    if count == 15:
        count, at = _read_varint(data, at)
    values = []
    for _ in range(count):
        if kind in (TRUE, FALSE):  # in lists, a boolean is a byte
            value, at = data[at] == TRUE, at + 1
        else:
            value, at = _read(data, at, kind)
        values.append(value)
    return (kind, values), at


def _sliced(data: Bytes, at: int, length: int) -> tuple[bytes, int]:
    if at + length > len(data):
        raise IndexError(at + length)
    return bytes(data[at : at + length]), at + length


def _read_varint(data: Bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _read_zigzag(data: Bytes, at: int) -> tuple[int, int]:
    value, at = _read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _write_struct(out: bytearray, fields: Struct) -> None:
    before = 0
    for number, (given, value) in fields.items():
        kind = given if given not in (TRUE, FALSE) else TRUE if value else FALSE
        if 0 < number - before < 16:
            out.append((number - before) << 4 | kind)
        else:
            out.append(kind)
            _write_zigzag(out, number)
        before = number
        _write(out, kind, value)
    out.append(0)


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _write_zigzag(out, value)
    elif kind == BYTE:
        out.append(value)
    elif kind == DOUBLE:
        out += value
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind in (LIST, SET):
        _write_list(out, *value)
    elif kind == STRUCT:
        _write_struct(out, value)


def _write_list(out: bytearray, kind: int, values: list[Any]) -> None:
    if len(values) < 15:
        out.append(len(values) << 4 | kind)
    else:
        out.append(15 << 4 | kind)
        _write_varint(out, len(values))
    for value in values:
        if kind in (TRUE, FALSE):
            out.append(TRUE if value else FALSE)
        else:
            _write(out, kind, value)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _write_zigzag(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
