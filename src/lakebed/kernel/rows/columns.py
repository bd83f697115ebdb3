"""The columns of a new table, as a caller gives them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lakebed.errors import SchemaError, first_line


def schema_of(given: pa.Schema | Mapping[str, pa.DataType | str]) -> pa.Schema:
    """An Arrow schema, or one of a dict of column names to types. SchemaError for other values, and for unknown
    types."""
    if isinstance(given, pa.Schema):
        return given
    if not isinstance(given, Mapping):
        raise SchemaError(
            f"the schema has the type {type(given).__name__}",
            todo='Give a pyarrow.Schema, or a dict such as {"id": "int64", "name": pyarrow.string()}',
        )
    fields = []
    for name, kind in given.items():
        try:
            fields.append(pa.field(name, kind))
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise SchemaError(
                f"column {name!r} has an unknown type",
                why=first_line(error),
                todo='Give a pyarrow type, or the name of a plain one such as "int64", "string" or "date32"',
            ) from error
    return pa.schema(fields)
