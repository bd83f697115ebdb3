"""Texts and bytes of at most the length of their type, in nested columns too.

Rules: Paimon's Spark writer for CHAR and VARCHAR: it cuts off blanks beyond the length, refuses longer texts, and pads
CHAR with blanks; a character is a code point. Paimon's TypeUtils for BINARY and VARBINARY: it refuses more bytes and
pads none.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError, first_line
from lakebed.formats.paimon.codec.types import MAX_LENGTH, DataField, DataType
from lakebed.kernel.arrays import to_numpy

_TEXTS, _BYTES = ("CHAR", "VARCHAR"), ("BINARY", "VARBINARY")


def held_to_length(column: pa.Array, field: DataField, table: str) -> pa.Array:
    """The column with texts cut and padded to the length of their type. SchemaError for a longer value."""
    try:
        return _held(column, field.type, field.name, table)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"column {field.name!r} cannot be padded to the length of its type {field.type}",
            table=table,
            why=first_line(error),
            todo="Write fewer rows at a time",
        ) from error


def _limits(kind: DataType) -> bool:
    """Whether the type, or a type inside it, limits the length of its values."""
    if kind.root in (*_TEXTS, *_BYTES):
        return kind.length < MAX_LENGTH
    inside = (kind.key, kind.element, *(field.type for field in kind.fields))
    return any(part is not None and _limits(part) for part in inside)


def _held(column: pa.Array, kind: DataType, name: str, table: str) -> pa.Array:
    if not _limits(kind):
        return column
    if kind.root in _TEXTS:
        return _text(column, kind, name, table)
    if kind.root in _BYTES:
        _check(pc.greater(pc.binary_length(column), kind.length), kind, name, table)
        return column
    if kind.root == "ROW":
        children = [
            _held(column.field(at), field.type, f"{name}.{field.name}", table) for at, field in enumerate(kind.fields)
        ]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(column.type), mask=mask)
    values = column.values
    if kind.root == "MAP" and kind.key and kind.element:
        parts = [
            _held(column.keys, kind.key, f"{name}.key", table),
            _held(column.items, kind.element, f"{name}.value", table),
        ]
        values = pa.StructArray.from_arrays(parts, fields=[column.type.key_field, column.type.item_field])
    elif kind.element:
        values = _held(values, kind.element, f"{name}.element", table)
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(column.type, len(column), buffers, column.null_count, column.offset, [values])


def _text(column: pa.Array, kind: DataType, name: str, table: str) -> pa.Array:
    longer = pc.greater(pc.utf8_length(column), kind.length)
    if pc.any(longer).as_py():
        beyond = pc.utf8_rtrim(pc.utf8_slice_codeunits(column, kind.length), " ")
        _check(pc.not_equal(beyond, ""), kind, name, table)
        column = pc.utf8_slice_codeunits(column, 0, kind.length)
    return pc.utf8_rpad(column, kind.length, " ") if kind.root == "CHAR" else column


def _check(wrong: pa.Array, kind: DataType, name: str, table: str) -> None:
    if pc.any(wrong).as_py():
        row = int(np.flatnonzero(to_numpy(wrong.fill_null(False)))[0])
        units = "characters" if kind.root in _TEXTS else "bytes"
        raise SchemaError(
            f"column {name!r} holds values of more {units} than its type {kind} takes",
            table=table,
            why=f"the first is value {row}",
            todo=f"Cut them to {kind.length} {units}, or widen the column's type",
        )
