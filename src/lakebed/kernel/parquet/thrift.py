"""Thrift's compact protocol, both ways, without a schema: what is read can be changed and written again, and fields
that this build does not know pass through.

Rule: thrift-compact-protocol.md of Apache Thrift. Parquet's footers and page indexes are such structs.
"""

from __future__ import annotations

from typing import Any

from lakebed.errors import CorruptError

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
"""Types of the protocol. A boolean field has its value as its type."""

Struct = dict[int, tuple[int, Any]]
"""Field id -> (type, value). Integers are Python's, doubles their eight bytes, lists and sets (element type, values),
maps (key type, value type, pairs)."""

_INTEGERS = frozenset((I16, I32, I64))


def decode(data: bytes | memoryview, start: int = 0) -> tuple[Struct, int]:
    """The struct that starts there, and where it ends. CorruptError for bytes that are none."""
    reader = _Reader(data, start)
    try:
        return reader.struct(), reader.at
    except (IndexError, RecursionError) as error:
        raise CorruptError("a Thrift struct is cut off", why=str(error)) from error


def encode(struct: Struct) -> bytes:
    """The bytes of a struct, fields in the order of their ids."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


class _Reader:
    """A position in bytes."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes | memoryview, at: int) -> None:
        self.data, self.at = data, at

    def varint(self) -> int:
        data, at = self.data, self.at
        byte = data[at]
        found, shift = byte & 0x7F, 7
        while byte & 0x80:
            at += 1
            byte = data[at]
            found |= (byte & 0x7F) << shift
            shift += 7
        self.at = at + 1
        return found

    def integer(self) -> int:
        found = self.varint()
        return found >> 1 ^ -(found & 1)

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise IndexError(f"{length} bytes are announced, {len(self.data) - self.at} are there")
        found = bytes(self.data[self.at : end])
        self.at = end
        return found

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while True:
            head = self.data[self.at]
            self.at += 1
            kind = head & 0x0F
            if not kind:
                return found
            number = number + (head >> 4) if head >> 4 else self.integer()
            found[number] = kind, self.value(kind)

    def value(self, kind: int) -> Any:
        if kind in _INTEGERS:
            return self.integer()
        if kind == BINARY:
            return self.take(self.varint())
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            return self.items()
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BYTE:
            return self.take(1)[0]
        if kind == DOUBLE:
            return self.take(8)
        if kind == MAP:
            return self.pairs()
        raise CorruptError("a Thrift struct holds a field of an unknown type", why=f"type {kind}")

    def items(self) -> tuple[int, list[Any]]:
        head = self.data[self.at]
        self.at += 1
        count = head >> 4 if head >> 4 != 15 else self.varint()
        kind = head & 0x0F
        return kind, [self.item(kind) for _ in range(count)]

    def item(self, kind: int) -> Any:
        return self.take(1)[0] == TRUE if kind in (TRUE, FALSE) else self.value(kind)

    def pairs(self) -> tuple[int, int, list[tuple[Any, Any]]]:
        count = self.varint()
        if not count:
            return 0, 0, []
        kinds = self.take(1)[0]
        key, value = kinds >> 4, kinds & 0x0F
        return key, value, [(self.item(key), self.item(value)) for _ in range(count)]


def _write_varint(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _write_integer(out: bytearray, number: int) -> None:
    _write_varint(out, (number << 1) ^ (number >> 63))


def _write_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for number in sorted(struct):
        kind, value = struct[number]
        if kind in (TRUE, FALSE):
            kind = TRUE if value else FALSE
        if 0 < number - last < 16:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_integer(out, number)
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, value)
        last = number
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _write_integer(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in (LIST, SET):
        item, values = value
        if len(values) < 15:
            out.append(len(values) << 4 | item)
        else:
            out.append(0xF0 | item)
            _write_varint(out, len(values))
        for one in values:
            _write_item(out, item, one)
    elif kind == BYTE:
        out.append(value)
    elif kind == DOUBLE:
        out += value
    else:
        key_kind, value_kind, pairs = value
        _write_varint(out, len(pairs))
        if pairs:
            out.append(key_kind << 4 | value_kind)
        for key, one in pairs:
            _write_item(out, key_kind, key)
            _write_item(out, value_kind, one)


def _write_item(out: bytearray, kind: int, value: Any) -> None:
    if kind in (TRUE, FALSE):
        out.append(TRUE if value else FALSE)
    else:
        _write_value(out, kind, value)
