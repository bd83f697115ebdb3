"""One field of many serialized rows as an Arrow column: partitions and statistics in manifests.

Rules: as in `binary_row`. The rows begin with their number of fields.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.formats.paimon.codec.binary_row import decode_field, header_words, without_arity
from lakebed.formats.paimon.codec.types import DataType, arrow_type
from lakebed.kernel.arrays import Bools, Int64s, UInt8s, from_numpy, to_numpy

ARITY_BYTES = 4
_WIDTHS = {
    "BOOLEAN": np.dtype("?"), "TINYINT": np.dtype("<i1"), "SMALLINT": np.dtype("<i2"), "INT": np.dtype("<i4"),
    "DATE": np.dtype("<i4"), "TIME": np.dtype("<i4"), "BIGINT": np.dtype("<i8"), "FLOAT": np.dtype("<f4"),
    "DOUBLE": np.dtype("<f8"),
}  # fmt: skip
"""The types whose values are in the first bytes of their slots, as they are."""


def row_fields(rows: pa.Array, place: int, arity: int, kind: DataType) -> pa.Array:
    """The field at `place` of rows of `arity` fields, in the Arrow type of `kind`; null where it is null, and for an
    empty row. CorruptError for a row that ends too early."""
    width = _WIDTHS.get(kind.root)
    raw, starts, lengths = _buffers(rows)
    slots = header_words(arity) * 8
    filled = lengths > ARITY_BYTES + 8
    if (filled & (lengths < ARITY_BYTES + slots + 8 * arity)).any():
        raise CorruptError("a binary row ends too early", why=f"its rows should have {arity} fields")
    arrow = arrow_type(kind)
    if width is None:
        return _one_by_one(rows, filled, place, arity, kind, arrow)
    at = np.where(filled, starts + ARITY_BYTES, 0)
    bit = place + 8
    nulls: Bools = ~filled
    values = np.zeros(len(rows), width)
    if filled.any():
        nulls = nulls | ((raw[at + (bit >> 3)] >> (bit & 7)) & 1).astype(np.bool_)
        spread = raw[(at + slots + 8 * place)[:, None] + np.arange(width.itemsize)]
        values = np.ascontiguousarray(spread).view(width)[:, 0]
    plain = from_numpy(values, nulls)
    return plain.view(arrow) if plain.type.bit_width == arrow.bit_width else plain.cast(arrow)


def _one_by_one(rows: pa.Array, filled: Bools, place: int, arity: int, kind: DataType, arrow: pa.DataType) -> pa.Array:
    """Values of types that lie elsewhere. Of equal rows one is decoded."""
    encoded = rows.dictionary_encode()
    used = np.zeros(len(encoded.dictionary), np.bool_)
    codes = to_numpy(encoded.indices)
    used[codes[filled]] = True
    values = [
        decode_field(without_arity(row), place, arity, kind) if is_used else None
        for row, is_used in zip(encoded.dictionary.to_pylist(), used.tolist(), strict=True)
    ]
    return plain_array(values, arrow).take(encoded.indices)


def plain_array(values: list[object], arrow: pa.DataType) -> pa.Array:
    """Plain values, as `binary_row` gives them, in an Arrow type."""
    if pa.types.is_temporal(arrow):
        return pa.array(values, pa.int32() if arrow.bit_width == 32 else pa.int64()).cast(arrow)
    return pa.array(values, arrow)


def _buffers(rows: pa.Array) -> tuple[UInt8s, Int64s, Int64s]:
    """The bytes of all rows, and where each begins and how long it is."""
    if not len(rows):
        return np.zeros(1, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    offsets = np.frombuffer(rows.buffers()[1], np.int32)[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
    data = rows.buffers()[2]
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return raw, offsets[:-1], np.diff(offsets)
