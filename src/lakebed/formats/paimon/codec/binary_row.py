"""BinaryRow: the bytes of a key or partition, which Paimon hashes, orders manifests by and stores in them.

Rules: Paimon's BinaryRow and BinaryRowWriter. A row is a header of null bits (the first byte is the row kind), then
eight bytes a field, then the variable part, all little-endian. A null DECIMAL of precision above 18 or TIMESTAMP
above 3 still takes its room in the variable part, so it hashes differently from other nulls.

Plain values, where single rows are meant: int, float, bool, str, bytes, `Decimal`; DATE is days, TIME milliseconds,
timestamps the number of milli-, micro- or nanoseconds since 1970 that their Arrow type counts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.paimon.codec.decimals import decimal_bytes
from lakebed.formats.paimon.codec.types import DataType, timestamp_unit
from lakebed.kernel.keys.murmur import hash_matrix, hash_ragged

SEED = 42
EMPTY_ROW = bytes(8)
"""The row of no fields."""

_WIDE = Context(prec=60)
_HASHED_ROWS = 1 << 15
_INLINE_BYTES = 7
_LONG_DECIMAL_BYTES = 16
_PER_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_NANOS = {"ms": 1_000_000, "us": 1_000, "ns": 1}

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Many rows: row i is `words[starts[i] : starts[i] + counts[i]]`, words of eight bytes. `width` is the count when
    it is the same for all."""

    words: U64
    starts: I64
    counts: I64
    width: int | None

    def hashes(self) -> npt.NDArray[np.int32]:
        """The int32 hash of each row."""
        halves = self.words.view(np.uint32)
        if self.width is not None:
            return hash_matrix(halves.reshape(len(self.starts), self.width * 2), SEED)
        return hash_ragged(halves, self.starts * 2, self.counts * 2, SEED)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes:
        start = self.starts[row]
        return self.words[start : start + self.counts[row]].tobytes()


def encode_rows(columns: Sequence[pa.Array], types: Sequence[DataType], length: int | None = None) -> Rows:
    """The rows that columns make up, one a position. `columns` are Arrow arrays of exactly the types' Arrow types;
    `length` is for no columns."""
    rows = len(columns[0]) if columns else (length or 0)
    header = _header_words(len(types))
    fields = [_Field(column, kind) for column, kind in zip(columns, types, strict=True)]
    fixed = header + len(fields)
    sizes = [field.room for field in fields]
    constant = fixed + sum(size for size in sizes if isinstance(size, int))
    varying = [size for size in sizes if not isinstance(size, int)]
    if not varying:
        matrix = np.zeros((rows, constant), np.uint64)
        starts = np.arange(rows, dtype=np.int64) * constant
        _fill(matrix.reshape(-1), starts, fields, header, matrix)
        return Rows(matrix.reshape(-1), starts, np.full(rows, constant, np.int64), constant)
    counts = np.full(rows, constant, np.int64)
    for size in varying:
        counts += size
    ends = np.cumsum(counts)
    starts = ends - counts
    words = np.zeros(int(ends[-1]) if rows else 0, np.uint64)
    _fill(words, starts, fields, header, None)
    return Rows(words, starts, counts, None)


def hash_rows(
    columns: Sequence[pa.Array], types: Sequence[DataType], length: int | None = None
) -> npt.NDArray[np.int32]:
    """The int32 hash of each row that columns make up: Java's `BinaryRow.hashCode`. Some rows at a time, for the
    cache."""
    rows = len(columns[0]) if columns else (length or 0)
    hashes = np.empty(rows, np.int32)
    for start in range(0, rows, _HASHED_ROWS):
        some = [column.slice(start, _HASHED_ROWS) for column in columns]
        part = hashes[start : start + _HASHED_ROWS]
        part[:] = encode_rows(some, types, len(part)).hashes()
    return hashes


def encode_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """One row from plain values."""
    header = _header_words(len(types)) * 8
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
    """The plain values of one row; None for null. CorruptError when the bytes end too early."""
    header = _header_words(len(types)) * 8
    if len(data) < header + 8 * len(types):
        raise CorruptError("a binary row ends too early", why=f"{len(data)} bytes for {len(types)} fields")
    nulls = int.from_bytes(data[:header], "little")
    try:
        return tuple(
            None if nulls >> (position + 8) & 1 else _value_of(data, header + 8 * position, kind)
            for position, kind in enumerate(types)
        )
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptError("a binary row cannot be read", why=str(error)) from error


def with_arity(row: bytes, arity: int) -> bytes:
    """The serialized form that manifests hold: the number of fields as a big-endian int, then the row."""
    return struct.pack(">i", arity) + row


def without_arity(data: bytes) -> bytes:
    """The row of its serialized form."""
    return data[4:]


def plain(scalar: pa.Scalar) -> Any:
    """The plain value of an Arrow scalar."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    return scalar.value if pa.types.is_temporal(kind) else scalar.as_py()


def _header_words(arity: int) -> int:
    return (arity + 63 + 8) // 64


# ---- whole columns ---------------------------------------------------------------------------------------------------


class _Field:
    """One column on its way into rows. `room` is the words it takes in the variable part: one number, or one a row."""

    def __init__(self, column: pa.Array, kind: DataType) -> None:
        self.column, self.kind = column, kind
        self.valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        self.room: int | I64 = 0
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
        # eight more bytes, so that a whole word can be read at every position
        self.data = np.concatenate([raw[offsets[0] : offsets[-1]], np.zeros(8, np.uint8)])
        room = np.where(self.lengths > _INLINE_BYTES, (self.lengths + 7) // 8, 0)
        self.room = 0 if not room.any() else room

    def fill(self, words: U64, slots: Any, at: I64, offsets: Any) -> None:
        """Write the slots (`slots` indexes words) and the variable part, which begins at word `at`, `offsets` bytes
        into the row."""
        kind = self.kind
        match kind.root:
            case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
                self._fill_bytes(words, slots, at, offsets)
            case "DECIMAL" if kind.precision > 18:
                data, lengths = self._long_decimals()
                words[slots] = (np.asarray(offsets, np.uint64) << np.uint64(32)) | lengths.astype(np.uint64)
                words[at], words[at + 1] = data[:, 0], data[:, 1]
            case "TIMESTAMP" | "TIMESTAMP_LTZ" if kind.precision > 3:
                unit = timestamp_unit(kind)
                value = self._zeroed(_fixed(self.column, np.int64))
                millis = np.floor_divide(value, _PER_MILLI[unit])
                nanos = ((value - millis * _PER_MILLI[unit]) * _NANOS[unit]).astype(np.uint64)
                words[slots] = (np.asarray(offsets, np.uint64) << np.uint64(32)) | nanos
                words[at] = millis.view(np.uint64)
            case _:
                words[slots] = self._zeroed(self._scalar_words())

    def _scalar_words(self) -> Any:
        column, kind = self.column, self.kind
        match kind.root:
            case "BOOLEAN":
                return pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(np.uint64)
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

    def _fill_bytes(self, words: U64, slots: Any, at: I64, offsets: Any) -> None:
        lengths = self.lengths
        small = lengths <= _INLINE_BYTES
        values = _unaligned_words(self.data, self.begins) & _LOW_BYTES[np.minimum(lengths, 8)]
        inline = values | ((lengths.astype(np.uint64) | np.uint64(0x80)) << np.uint64(56))
        if isinstance(self.room, int):
            words[slots] = self._zeroed(inline)
            return
        far = (np.asarray(offsets, np.uint64) << np.uint64(32)) | lengths.astype(np.uint64)
        words[slots] = self._zeroed(np.where(small, inline, far))
        count = self.room
        total = int(count.sum())
        first = np.cumsum(count) - count
        within = np.arange(total, dtype=np.int64) - np.repeat(first, count)
        source = np.repeat(self.begins, count) + 8 * within
        left = np.minimum(np.repeat(lengths, count) - 8 * within, 8)
        words[np.repeat(at, count) + within] = _unaligned_words(self.data, source) & _LOW_BYTES[left]

    def _long_decimals(self) -> tuple[U64, I64]:
        """The bytes of each number at the left of sixteen; and the lengths in bytes."""
        data, lengths = decimal_bytes(self.column)
        if self.valid is not None:
            data[~self.valid] = 0
            lengths = np.where(self.valid, lengths, 0)
        return np.ascontiguousarray(data).view(np.uint64), lengths


_LOW_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)
"""Mask of the lowest n bytes of a word."""


def _fill(words: U64, starts: I64, fields: Sequence[_Field], header: int, matrix: U64 | None) -> None:
    for position, field in enumerate(fields):
        if field.valid is not None:
            bit = np.where(field.valid, np.uint64(0), np.uint64(1 << ((position + 8) % 64)))
            words[starts + (position + 8) // 64] |= bit
    fixed = header + len(fields)
    offsets: Any = np.int64(fixed * 8)
    for position, field in enumerate(fields):
        if matrix is not None and isinstance(field.room, int) and field.room == 0:
            field.fill(matrix, (slice(None), header + position), starts, 0)
            continue
        field.fill(words, starts + (header + position), starts + offsets // 8, offsets)
        offsets = offsets + field.room * 8


def _fixed(column: pa.Array, dtype: Any) -> Any:
    return np.frombuffer(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]


def _unaligned_words(data: npt.NDArray[np.uint8], positions: I64) -> U64:
    """The eight bytes at each position, as one little-endian word."""
    every = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, strides=(1,))
    return every[positions]


# ---- single rows -----------------------------------------------------------------------------------------------------

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
            millis, rest = divmod(value or 0, _PER_MILLI[unit])
            return struct.pack("<ii", rest * _NANOS[unit], offset), struct.pack("<q", millis)
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
            return struct.unpack_from("<q", data, offset)[0] * _PER_MILLI[unit] + nanos // _NANOS[unit]
    if kind.root not in _SLOTS:
        raise UnsupportedError(f"{kind} cannot be part of a key", todo="Use columns that are not nested as keys")
    return struct.unpack_from(_SLOTS[kind.root], data, at)[0]
