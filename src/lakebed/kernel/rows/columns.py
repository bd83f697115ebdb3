"""The columns of a new table, as a caller gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from lakebed.errors import SchemaError


def schema_of(given: object) -> pa.Schema:
    """An Arrow schema, or one of a dict of column names to types, of SQL text, or of Arrow data of any library.

        schema_of({"id": "int64", "price": "decimal(10, 2)", "tags": pyarrow.list_(pyarrow.string())})
        schema_of("id bigint not null, price decimal(10, 2), tags array<string>")

    Types are pyarrow types, the names of plain ones ("int64"), or Spark's SQL types. SchemaError for other values, and
    for unknown types.
    """
    if isinstance(given, pa.Schema):
        return given
    if isinstance(given, str):
        return _sql().columns_of_sql(given)
    if isinstance(given, Mapping):
        return pa.schema([_field(name, kind) for name, kind in given.items()])
    if hasattr(given, "__arrow_c_schema__"):
        return pa.schema(given)
    if hasattr(given, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(given).schema
    raise SchemaError(
        f"the schema has the type {type(given).__name__}",
        todo='Give a pyarrow.Schema, a dict such as {"id": "int64"}, or SQL such as "id bigint, name string"',
    )


def check_names(names: Sequence[str], table: str) -> None:
    """SchemaError where a table has no column, or two of one name."""
    if not names:
        raise SchemaError("a table needs at least one column", table=table)
    for number, name in enumerate(names):
        if name in names[:number]:
            raise SchemaError(f"two columns have the name {name!r}", table=table, todo="Rename one of them")


def check_struct(kind: pa.StructType, column: str, table: str = "") -> None:
    """SchemaError for a struct in a column that has no field, which no file can hold, or two of one name."""
    names = [field.name for field in kind]
    if not names:
        raise SchemaError(
            f"column {column!r} has a struct without fields",
            table=table,
            why="no file can hold it",
            todo="Leave it out",
        )
    for number, name in enumerate(names):
        if name in names[:number]:
            raise SchemaError(
                f"a struct in column {column!r} has two fields {name!r}", table=table, todo="Rename one of them"
            )


def _field(name: object, kind: object) -> pa.Field:
    if not isinstance(name, str):
        raise SchemaError(f"the schema names a column {name!r}", todo="Give its name as text")
    if isinstance(kind, str):
        try:
            return pa.field(name, pa.type_for_alias(kind))
        except ValueError:
            pass
        try:
            return pa.field(name, _sql().type_of_sql(kind))
        except SchemaError as error:
            raise SchemaError(
                f"column {name!r} has the unknown type {kind!r}",
                todo='Give a pyarrow type, the name of a plain one such as "int64", or a SQL type such as "bigint"',
            ) from error
    try:
        return pa.field(name, kind)
    except (TypeError, pa.ArrowException) as error:
        raise SchemaError(
            f"column {name!r} has an unknown type",
            why=f"it is given as a {type(kind).__name__}",
            todo='Give a pyarrow type, the name of a plain one such as "int64", or a SQL type such as "bigint"',
        ) from error


def _sql() -> Any:
    """The parser of SQL types, which loads sqlglot: most callers need neither."""
    return import_module("lakebed.kernel.rows.sql_columns")
