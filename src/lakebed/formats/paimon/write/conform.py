"""Rows conformed to a Paimon table: its columns and types (`lakebed.kernel.rows.conform`), then defaults and
lengths."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

import lakebed.kernel.rows.conform as rows_of
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.write.defaults import with_defaults
from lakebed.formats.paimon.write.lengths import held_to_length
from lakebed.kernel.arrays import one_chunk


def check_conformable(given: pa.Schema, schema: TableSchema, table: str, names: Sequence[str] | None = None) -> None:
    """Raise SchemaError when data of the schema `given` cannot become rows of the table, or of its columns `names`.
    Looks at no row."""
    rows_of.check_conformable(given, arrow_schema(schema.project(tuple(names or schema.names))), table)


def conform(data: pa.Table, schema: TableSchema, table: str, names: Sequence[str] | None = None) -> pa.Table:
    """The table's columns, or those of `names`, in its order and its Arrow types, one chunk each.

    Nulls and columns that are not given take their default value, texts take the length of their type, and all NaNs of
    a key become one. SchemaError, with column and row, for a value that does not conform.
    """
    fields = schema.project(tuple(names or schema.names))
    rows = with_defaults(rows_of.conform(data, arrow_schema(fields), table), fields, table)
    keys = {*schema.partition_keys, *schema.primary_keys, *schema.bucket_keys}
    for place, field in enumerate(fields):
        given = one_chunk(rows.column(place))
        column = held_to_length(given, field, table)
        if field.name in keys and pa.types.is_floating(column.type):
            column = _with_one_nan(column)
        if column is not given:
            rows = rows.set_column(place, rows.schema.field(place), column)
    return rows


def _with_one_nan(column: pa.Array) -> pa.Array:
    """Floats whose NaNs all have Java's bits: keys are hashed by their bits, and a NaN can have many."""
    nan = pc.is_nan(column)
    return pc.if_else(nan, pa.scalar(float("nan"), column.type), column) if pc.any(nan).as_py() else column
