"""Encodes and hashes the BinaryRows of whole columns, with numpy on Arrow's buffers.

Rules: as in `binary_row`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.binary_row import NANOS, PER_MILLI, SEED, header_words
from lakebed.formats.paimon.codec.types import DataType, timestamp_unit
from lakebed.kernel.arrays import Int32s, Int64s, UInt8s, UInt64s, to_numpy
from lakebed.kernel.decimals import decimal_words
from lakebed.kernel.keys.murmur import hash_words

_INLINE_BYTES = 7
_HASHED_ROWS = 1 << 15


def encode_rows(columns: Sequence[pa.Array], types: Sequence[DataType], length: int | None = None) -> list[bytes]:
    """The bytes of the row at each position of the columns.

    `columns` are Arrow arrays with exactly the Arrow types of `types`. `length` is the number of rows without columns.
    """
    rows = len(columns[0]) if columns else (length or 0)
    fields = [Field(column, kind) for column, kind in zip(columns, types, strict=True)]
    encoded = [b""] * rows
    if not rows:
        return encoded
    for of_layout, rooms in _layouts(fields):
        places = np.arange(rows)[of_layout]
        words = np.stack(_layout_words(fields, of_layout, rooms, len(places)), axis=1)
        for place, row in zip(places.tolist(), words, strict=True):
            encoded[place] = row.tobytes()
    return encoded


def hash_rows(columns: Sequence[pa.Array], types: Sequence[DataType], length: int | None = None) -> Int32s:
    """The int32 hash of the row at each position of the columns, equal to Java's `BinaryRow.hashCode`.

    To stay within the processor's cache, this takes a slice of the rows at a time, and in it all rows of one layout at
    once, word by word.
    """
    rows = len(columns[0]) if columns else (length or 0)
    hashes = np.empty(rows, np.int32)
    for start in range(0, rows, _HASHED_ROWS):
        fields = [Field(column.slice(start, _HASHED_ROWS), kind) for column, kind in zip(columns, types, strict=True)]
        part = hashes[start : start + _HASHED_ROWS]
        for of_layout, rooms in _layouts(fields):
            part[of_layout] = hash_words(_layout_words(fields, of_layout, rooms, len(part[of_layout])), SEED)
    return hashes


def _layouts(fields: Sequence[Field]) -> list[tuple[Any, tuple[int, ...]]]:
    """The layouts of the rows: the rows of each, and how many words each field takes in its variable part."""
    varying = [field.room for field in fields if not isinstance(field.room, int)]
    if not varying:
        return [(slice(None), tuple(int(field.room) for field in fields))]
    codes = np.zeros(len(varying[0]), np.int64)
    for room in varying:
        _, codes = np.unique(codes * (int(room.max()) + 1) + room, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    layouts = []
    for of_layout in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        first = of_layout[0]
        layouts.append((of_layout, tuple(f.room if isinstance(f.room, int) else int(f.room[first]) for f in fields)))
    return layouts


def _layout_words(fields: Sequence[Field], of_layout: Any, rooms: Sequence[int], rows: int) -> list[UInt64s]:
    """The words of the rows of one layout. Each array has one word of every row."""
    header = header_words(len(fields))
    head: list[UInt64s] = [np.zeros(rows, np.uint64) for _ in range(header)]
    tail: list[UInt64s] = []
    for position, (field, room) in enumerate(zip(fields, rooms, strict=True)):
        if field.valid is not None:
            bit = np.uint64(1 << ((position + 8) % 64))
            head[(position + 8) // 64] |= np.where(field.valid[of_layout], np.uint64(0), bit)
        slot, *more = field.words(of_layout, room, 8 * (header + len(fields) + len(tail)))
        head.append(slot)
        tail += more
    return head + tail


class Field:
    """One column to encode. `room` is how many words it takes in the variable part: one number, or one per row."""

    def __init__(self, column: pa.Array, kind: DataType) -> None:
        self.column, self.kind = column, kind
        self.valid = to_numpy(column.is_valid()) if column.null_count else None
        self.room: int | Int64s = 0
        match kind.root:
            case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
                self._bytes()
            case "DECIMAL" if kind.precision > 18:
                self.room = 2
            case "TIMESTAMP" | "TIMESTAMP_LTZ" if kind.precision > 3:
                self.room = 1

    def _bytes(self) -> None:
        column = self.column
        offsets = (
            np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
            if len(column)
            else np.zeros(1, np.int32)
        )
        self.begins = offsets[:-1].astype(np.int64) - offsets[0]
        self.lengths = np.diff(offsets).astype(np.int64)
        if self.valid is not None:
            self.lengths[~self.valid] = 0
        data = column.buffers()[2]
        raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
        # with eight more bytes a whole word can be read at every position
        self.data = np.concatenate([raw[offsets[0] : offsets[-1]], np.zeros(8, np.uint8)])
        room = np.where(self.lengths > _INLINE_BYTES, (self.lengths + 7) // 8, 0)
        self.room = 0 if not room.any() else room

    def words(self, rows: Any, room: int, offset: int) -> list[UInt64s]:
        """The slot and the words of the variable part, for rows that all take `room` words.

        `offset` is where these words begin, in bytes from the start of the row.
        """
        kind = self.kind
        match kind.root:
            case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
                return self._text_words(rows, room, offset)
            case "DECIMAL" if kind.precision > 18:
                first, second, lengths = map(self._zeroed, decimal_words(self.column))
                return [_far(offset, lengths[rows]), first[rows], second[rows]]
            case "TIMESTAMP" | "TIMESTAMP_LTZ" if kind.precision > 3:
                millis, nanos = self._moments()
                return [_far(offset, nanos[rows]), millis[rows].view(np.uint64)]
        return [self._zeroed(self._scalar_words())[rows]]

    def _text_words(self, rows: Any, room: int, offset: int) -> list[UInt64s]:
        begins, lengths = self.begins[rows], self.lengths[rows]
        if not room:
            low = _unaligned_words(self.data, begins) & _LOW_BYTES[lengths]
            inline = low | ((lengths.astype(np.uint64) | np.uint64(0x80)) << np.uint64(56))
            return [inline if self.valid is None else np.where(self.valid[rows], inline, np.uint64(0))]
        words = [_unaligned_words(self.data, begins + 8 * place) for place in range(room)]
        words[-1] &= _LOW_BYTES[lengths - 8 * (room - 1)]
        return [_far(offset, lengths), *words]

    def _moments(self) -> tuple[Int64s, Int64s]:
        """Timestamps as milliseconds, and the nanoseconds within the millisecond."""
        unit = timestamp_unit(self.kind)
        value = self._zeroed(_fixed(self.column, np.int64))
        millis = np.floor_divide(value, PER_MILLI[unit])
        return millis, (value - millis * PER_MILLI[unit]) * NANOS[unit]

    def _scalar_words(self) -> Any:
        column, kind = self.column, self.kind
        match kind.root:
            case "BOOLEAN":
                return to_numpy(pc.fill_null(column, False)).astype(np.uint64)
            case "TINYINT":
                return _fixed(column, np.uint8).astype(np.uint64)
            case "SMALLINT":
                return _fixed(column, np.uint16).astype(np.uint64)
            case "INT" | "DATE" | "TIME" | "FLOAT":
                return _fixed(column, np.uint32).astype(np.uint64)
            case "BIGINT" | "DOUBLE" | "TIMESTAMP" | "TIMESTAMP_LTZ":
                return _fixed(column, np.uint64)
            case "DECIMAL":
                return np.frombuffer(column.buffers()[1], np.uint64)[
                    2 * column.offset : 2 * (column.offset + len(column)) : 2
                ]
        raise UnsupportedError(f"{kind} cannot be part of a key", todo="Use columns that are not nested as keys")

    def _zeroed(self, values: Any) -> Any:
        return values if self.valid is None else np.where(self.valid, values, values.dtype.type(0))


_LOW_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)
"""The mask of the lowest n bytes of a word, by n."""


def _fixed(column: pa.Array, dtype: Any) -> Any:
    return np.frombuffer(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]


def _unaligned_words(data: UInt8s, positions: Int64s) -> UInt64s:
    """The eight bytes at each position as one little-endian word."""
    every = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, strides=(1,))
    return every[positions]


def _far(offset: Any, low: Any) -> Any:
    """A slot that points into the variable part."""
    return (np.asarray(offset, np.uint64) << np.uint64(32)) | low.astype(np.uint64)
