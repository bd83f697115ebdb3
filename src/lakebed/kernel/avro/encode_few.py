"""Encode a few rows of Arrow columns as Avro records, value by value: `encode.py` gives the same bytes for any number.

A commit writes manifests of a handful of entries, for which whole columns cost some twenty numpy calls each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakebed.kernel.avro.container import avro_bytes, avro_long

FEW_BYTES = 8 << 10
"""The most bytes of Arrow data that are encoded value by value."""

Writer = Callable[[Any], bytes]


def encode_few(batch: pa.RecordBatch) -> bytes | None:
    """The rows of a batch as Avro records, one after another. None where they are too large, have a type that is left
    to `encode.py`, or lack a value that their schema requires."""
    if batch.nbytes > FEW_BYTES:
        return None
    try:
        columns = [_rows(column, field) for column, field in zip(batch.columns, batch.schema, strict=True)]
    except (_Left, UnicodeDecodeError):
        return None
    return b"".join(value for row in zip(*columns, strict=True) for value in row)


class _Left(Exception):
    """The rows are left to `encode.py`."""


def _rows(column: pa.Array, field: pa.Field) -> list[bytes]:
    """The bytes of each row of a column."""
    kind: pa.DataType = column.type
    if column.null_count and (not field.nullable or pa.types.is_struct(kind)):
        raise _Left
    if pa.types.is_struct(kind):
        inner = [_rows(part, kind.field(place)) for place, part in enumerate(column.flatten())]
        rows = [b"".join(row) for row in zip(*inner, strict=True)] if inner else [b""] * len(column)
        return [b"\x02" + row for row in rows] if field.nullable else rows
    seen, write = _written_as(kind)
    values = (column if seen is None else column.view(seen)).to_pylist()
    if not field.nullable:
        return [write(value) for value in values]
    return [b"\x00" if value is None else b"\x02" + write(value) for value in values]


@lru_cache(256)
def _written_as(kind: pa.DataType) -> tuple[pa.DataType | None, Writer]:
    """The type in which a column is looked at, None for its own, and what writes its values."""
    if pa.types.is_string(kind):
        return pa.binary(), avro_bytes
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return (pa.int32() if kind.bit_width == 32 else pa.int64()), avro_long
    if pa.types.is_float32(kind):
        return pa.int32(), lambda value: value.to_bytes(4, "little", signed=True)
    if pa.types.is_float64(kind):
        return pa.int64(), lambda value: value.to_bytes(8, "little", signed=True)
    return None, _writer(kind)


def _writer(kind: pa.DataType) -> Writer:
    """A function that writes values of a type, as Arrow gives them to Python."""
    if pa.types.is_boolean(kind):
        return _boolean
    if pa.types.is_signed_integer(kind):
        return avro_long
    if pa.types.is_binary(kind):
        return avro_bytes
    if pa.types.is_string(kind):
        return lambda text: avro_bytes(text.encode())
    if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind):
        return bytes
    if pa.types.is_map(kind):
        key, item = _writer_of(kind.key_field), _writer_of(kind.item_field)
        return lambda pairs: _block(len(pairs), b"".join(key(name) + item(value) for name, value in pairs))
    if pa.types.is_list(kind):
        item = _writer_of(kind.value_field)
        return lambda values: _block(len(values), b"".join(map(item, values)))
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        inner = [(field.name, _writer_of(field)) for field in fields]
        if len(dict(inner)) == len(inner):
            return lambda record: b"".join(write(record[name]) for name, write in inner)
    raise _Left


def _writer_of(field: pa.Field) -> Writer:
    """A function that writes the values of a field inside a list, a map or a struct."""
    write, nullable = _writer(field.type), field.nullable

    def written(value: Any) -> bytes:
        if value is None:
            if not nullable:
                raise _Left
            return b"\x00"
        return b"\x02" + write(value) if nullable else write(value)

    return written


def _boolean(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def _block(count: int, entries: bytes) -> bytes:
    """An array or a map: one block of its entries, if there are any, then the empty block that ends it."""
    return avro_long(count) + entries + b"\x00" if count else b"\x00"
