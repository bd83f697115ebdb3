"""Default values of columns, which take the place of nulls when rows are written.

Rules: Paimon's DefaultValueRow and DefaultValueUtils. A default is a text in the schema, with or without single quotes,
that is cast to the column's type. It replaces every null of its column, in rows of every kind and under every merge
engine, and the column itself where it was not given. It is in place before a row's kind, partition and bucket are
determined. Reads replace nothing. A column that may not be null takes no null, whatever its default.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import LakebedError, SchemaError, UnsupportedError
from lakebed.formats.paimon.codec.types import MAX_LENGTH, DataField, DataType
from lakebed.formats.paimon.read.conform import cast_column
from lakebed.formats.paimon.write.nested_defaults import nested_value
from lakebed.kernel.arrays import from_numpy, to_numpy

_STRING = DataType("VARCHAR", length=MAX_LENGTH)


def check_defaults(fields: Iterable[DataField], table: str) -> None:
    """Raise SchemaError for a default that is not a value of its column's type, UnsupportedError for a text that
    Paimon's releases read in different ways."""
    for field in fields:
        default_of(field, table)


def with_defaults(rows: pa.Table, fields: Iterable[DataField], table: str) -> pa.Table:
    """Rows in the columns of `fields`, with defaults in place of nulls. Raises what `check_defaults` raises."""
    for place, field in enumerate(fields):
        column = rows.column(place)
        if field.default is not None and column.null_count:
            value = default_of(field, table)
            if value.is_valid:
                rows = rows.set_column(place, rows.schema.field(place), _filled(column, value))
    return rows


def _filled(column: pa.ChunkedArray, value: pa.Scalar) -> pa.ChunkedArray:
    """The column with a value in place of nulls."""
    if not pa.types.is_nested(value.type):
        return pc.fill_null(column, value)
    whole = pa.concat_arrays([*column.chunks, pa.array([value], column.type)])
    places = np.arange(len(column))
    places[to_numpy(column.is_null())] = len(column)
    return pa.chunked_array([whole.take(from_numpy(places))])


def _leaf(text: str, kind: DataType) -> pa.Array:
    return cast_column(pa.array([text]), _STRING, kind)


def default_of(field: DataField, table: str) -> pa.Scalar:
    """The default value of a column in its Arrow type; null where it has none."""
    text = field.default
    if text is None:
        return pa.NULL
    plain = text[1:-1] if len(text) > 1 and text.startswith("'") and text.endswith("'") else text
    try:
        return nested_value(plain, field.type, _leaf)[0]
    except UnsupportedError as error:
        error.table = table
        raise
    except (LakebedError, pa.ArrowException, ValueError) as error:
        raise SchemaError(
            f"the default value {text!r} of column {field.name!r} is not of its type {field.type}",
            table=table,
            why=error.why if isinstance(error, LakebedError) else str(error),
            todo="Change the column's default value",
        ) from error
