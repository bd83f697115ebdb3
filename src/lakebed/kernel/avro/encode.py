"""Encode Arrow columns in Avro's binary encoding, many rows at once.

Rules: the Avro specification, "Binary encoding". A nullable value is a union with null first. Structs are records.
Lists and maps are arrays and maps of one block; a map has the layout of an array of key-value records, so it serves
as both. Fixed-size binary is `fixed`, a decimal is `bytes`; whole numbers, dates, times and timestamps are `int` or
`long`.

Each column becomes parts with some bytes per row. All parts of a record are then laid one after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lakebed.errors import SchemaError, counted
from lakebed.kernel.arrays import AnyArray, Bools, Int64s, UInt8s, to_numpy
from lakebed.kernel.avro.container import avro_long
from lakebed.kernel.avro.encode_few import encode_few
from lakebed.kernel.decimals import decimal_bytes


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of every row, row after row. `width` is their length if it is the same in all rows."""

    data: UInt8s
    lengths: Int64s
    width: int | None = None


_ROWS_AT_ONCE = 1 << 13
"""Rows take about thirty times their bytes while they are laid one after another."""
_FEW = 2
"""Up to so many rows are laid one after another piece by piece: a commit often writes a manifest of one entry, and
numpy would take twice the time."""


def encode_records(batch: pa.RecordBatch) -> bytes:
    """The rows of a batch as Avro records, one after another."""
    few = encode_few(batch)
    if few is not None:
        return few
    return b"".join(_joined(_columns(rows), rows.num_rows).data.data for rows in _pieces(batch))


def encode_framed(batch: pa.RecordBatch) -> bytes:
    """The rows of a batch as Avro records, each after its length as a big-endian int32."""
    return b"".join(map(_framed, _pieces(batch)))


def _framed(rows: pa.RecordBatch) -> memoryview:
    parts = _columns(rows)
    lengths = _lengths(parts, rows.num_rows)
    return _joined([_fixed(lengths.astype(">i4"), 4), *parts], rows.num_rows).data.data


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
        yield batch.slice(start, _ROWS_AT_ONCE)


def _columns(batch: pa.RecordBatch) -> list[Part]:
    return [part for column, field in zip(batch.columns, batch.schema, strict=True) for part in _parts(column, field)]


def encode_datums(batch: pa.RecordBatch) -> pa.Array:
    """The rows of a batch as Avro records, one binary value each."""
    records = _joined(_columns(batch), batch.num_rows)
    offsets = np.append(0, np.cumsum(records.lengths)).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), batch.num_rows, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(records.data))]
    )


def _parts(column: pa.Array, field: pa.Field) -> list[Part]:
    if not field.nullable:
        if column.null_count:
            raise SchemaError(
                f"{field.name!r} is null in {counted(column.null_count, 'row')}, and its schema has no null"
            )
        return _values(column)
    if not column.null_count:
        return [_constant(2, len(column)), *_values(column)]
    valid = to_numpy(column.is_valid())
    branch = np.where(valid, np.uint8(2), np.uint8(0))
    return [Part(branch, np.ones(len(column), np.int64), 1), *_spread(_values(column.drop_null()), valid)]


def _values(column: pa.Array) -> list[Part]:
    """The parts of a column without nulls."""
    kind, rows = column.type, len(column)
    if pa.types.is_boolean(kind):
        return [_fixed(to_numpy(column).astype(np.uint8), 1)]
    if pa.types.is_floating(kind):
        return [_fixed(to_numpy(column), kind.bit_width // 8)]
    if pa.types.is_decimal(kind):
        matrix, lengths = decimal_bytes(column)
        return [_varint(lengths), Part(matrix[np.arange(16) < lengths[:, None]], lengths)]
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        raw = np.frombuffer(column.buffers()[1], np.uint8)[width * column.offset : width * (column.offset + rows)]
        return [Part(raw, np.full(rows, width, np.int64), width)]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        offsets = _offsets(column)
        data = column.buffers()[2]
        raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        lengths = np.diff(offsets)
        return [_varint(lengths), Part(raw[offsets[0] : offsets[-1]], lengths)]
    if pa.types.is_map(kind):
        begin, end = _bounds(column)
        return _blocks(column, [(column.keys[begin:end], kind.key_field), (column.items[begin:end], kind.item_field)])
    if pa.types.is_list(kind):
        begin, end = _bounds(column)
        return _blocks(column, [(column.values[begin:end], kind.value_field)])
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return [part for inner, field in zip(column.flatten(), fields, strict=True) for part in _parts(inner, field)]
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return [_varint(to_numpy(column).astype(np.int64))] if rows else [_varint(np.zeros(0, np.int64))]


def _blocks(column: pa.Array, inner: Sequence[tuple[pa.Array, pa.Field]]) -> list[Part]:
    """Arrays and maps: one block of all entries, if there are any, then the empty block that ends them."""
    offsets = _offsets(column)
    entries = _joined(
        [part for values, field in inner for part in _parts(values, field)], int(offsets[-1] - offsets[0])
    )
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(entries.lengths)])
    at = offsets - offsets[0]
    counts = np.diff(offsets)
    filled = counts > 0
    return [
        *_spread([_varint(counts[filled])], filled),
        Part(entries.data, ends[at[1:]] - ends[at[:-1]]),
        _constant(0, len(column)),
    ]


def _spread(parts: Sequence[Part], where: Bools) -> list[Part]:
    """Parts of the rows in `where` as parts of all rows; the other rows have no bytes."""
    spread: list[Part] = []
    for part in parts:
        lengths = np.zeros(len(where), np.int64)
        lengths[where] = part.lengths
        spread.append(Part(part.data, lengths))
    return spread


def _varint(numbers: Int64s) -> Part:
    """Numbers in zig-zag order with seven bits per byte, the lowest first."""
    if len(numbers) <= _FEW:
        pieces = [avro_long(number) for number in numbers.tolist()]
        return Part(np.frombuffer(b"".join(pieces), np.uint8), np.array([*map(len, pieces)], np.int64))
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    most = int(zigzag.max()) if len(zigzag) else 0
    if most < 0x80:
        return _fixed(zigzag.astype(np.uint8), 1)
    lengths = np.ones(len(numbers), np.int64)
    for bits in range(7, most.bit_length(), 7):
        lengths += zigzag >= np.uint64(1 << bits)
    starts = np.cumsum(lengths) - lengths
    data = np.empty(int(lengths.sum()), np.uint8)
    for place in range(int(lengths.max())):
        rows = slice(None) if place == 0 else np.flatnonzero(lengths > place)
        bits7 = (zigzag[rows] >> np.uint64(7 * place)).astype(np.uint8) & np.uint8(0x7F)
        data[starts[rows] + place] = bits7 | np.where(lengths[rows] > place + 1, np.uint8(0x80), np.uint8(0))
    return Part(data, lengths)


def _fixed(values: AnyArray, width: int) -> Part:
    return Part(np.ascontiguousarray(values).view(np.uint8), np.full(len(values), width, np.int64), width)


def _constant(byte: int, rows: int) -> Part:
    return _few_times(byte, rows) if rows <= _FEW else _few_times.__wrapped__(byte, rows)


@lru_cache
def _few_times(byte: int, rows: int) -> Part:
    return Part(np.full(rows, byte, np.uint8), np.ones(rows, np.int64), 1)


def _joined(parts: Sequence[Part], rows: int) -> Part:
    """The parts of each row, one after another."""
    lengths = _lengths(parts, rows)
    if rows <= _FEW:
        pieces = zip(*(_cut(part) for part in parts), strict=True)
        return Part(np.frombuffer(b"".join(piece for row in pieces for piece in row), np.uint8), lengths)
    at = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    for part in parts:
        if part.width is not None:
            for place in range(part.width):
                out[at + place] = part.data[place :: part.width]
        else:
            shift = at - (np.cumsum(part.lengths) - part.lengths)
            out[np.repeat(shift, part.lengths) + np.arange(len(part.data))] = part.data
        at = at + part.lengths
    return Part(out, lengths)


def _cut(part: Part) -> list[bytes]:
    """The bytes of each row."""
    data, ends = part.data.tobytes(), np.cumsum(part.lengths).tolist()
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _lengths(parts: Sequence[Part], rows: int) -> Int64s:
    """The bytes of each row."""
    lengths = np.zeros(rows, np.int64)
    for part in parts:
        lengths += part.lengths
    return lengths


def _offsets(column: pa.Array) -> Int64s:
    if not len(column):
        return np.zeros(1, np.int64)
    raw = np.frombuffer(column.buffers()[1], np.int32)
    return raw[column.offset : column.offset + len(column) + 1].astype(np.int64)


def _bounds(column: pa.Array) -> tuple[int, int]:
    offsets = _offsets(column)
    return int(offsets[0]), int(offsets[-1])
