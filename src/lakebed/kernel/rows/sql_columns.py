"""Columns and types in Spark's SQL, as Arrow has them.

Rule: the data types of Spark's SQL reference. Two names differ in width from Arrow's: TIMESTAMP is a moment (UTC,
microseconds), TIMESTAMP_NTZ a time without zone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from lakebed.errors import SchemaError
from lakebed.kernel.sql_mistakes import near_mistake

_DT = sql.DataType.Type
_PLAIN: Mapping[Any, pa.DataType] = {
    _DT.BOOLEAN: pa.bool_(),
    _DT.TINYINT: pa.int8(),
    _DT.SMALLINT: pa.int16(),
    _DT.INT: pa.int32(),
    _DT.BIGINT: pa.int64(),
    _DT.FLOAT: pa.float32(),
    _DT.DOUBLE: pa.float64(),
    _DT.TEXT: pa.string(),
    _DT.BINARY: pa.binary(),
    _DT.DATE: pa.date32(),
    _DT.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    _DT.TIMESTAMPLTZ: pa.timestamp("us", "UTC"),
    _DT.TIMESTAMPNTZ: pa.timestamp("us"),
}
_EXAMPLE = 'Example: "id bigint not null, name string, price decimal(10, 2), tags array<string>"'


def columns_of_sql(text: str) -> pa.Schema:
    """The columns that a text declares as CREATE TABLE does, between its parentheses.

        columns_of_sql("id bigint not null, price decimal(10, 2), tags array<string>")

    SchemaError for a text that is not a list of columns, and for types that Arrow lacks.
    """
    columns = _declared(text)
    names = [column.name.lower() for column in columns]
    if not columns or len({*names}) < len(names):
        what = "names a column twice" if columns else "names no column"
        raise SchemaError(f"the schema {_short(text)!r} {what}", todo=_EXAMPLE)
    return pa.schema([_field(column) for column in columns])


def type_of_sql(text: str) -> pa.DataType:
    """The type that a text names: `decimal(10, 2)`, `map<string, int>`. SchemaError for other texts."""
    columns = _declared(f"x {text}")
    if len(columns) != 1 or columns[0].args.get("constraints"):
        raise SchemaError(f"{_short(text)!r} is not a type", todo=_EXAMPLE)
    return _type(columns[0])


def _declared(text: str) -> list[sql.ColumnDef]:
    try:
        struct = sqlglot.parse_one(f"struct<{text}>", dialect="spark", into=sql.DataType)
    except (SqlglotError, RecursionError) as error:
        why = near_mistake(error) or "it is not a list of columns with their types"
        raise SchemaError(f"cannot read the schema {_short(text)!r}", why=why, todo=_EXAMPLE) from error
    for item in struct.expressions:
        if not isinstance(item, sql.ColumnDef) or item.kind is None:
            raise SchemaError(f"{item.sql('spark')!r} in the schema is not a column with its type", todo=_EXAMPLE)
    return list(struct.expressions)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _field(column: sql.ColumnDef) -> pa.Field:
    """A column, or a field of a struct, with its comment where it has one."""
    nullable, comment = True, ""
    for constraint in column.args.get("constraints") or ():
        kind = constraint.kind
        if isinstance(kind, sql.NotNullColumnConstraint):
            nullable = bool(kind.args.get("allow_null"))
        elif isinstance(kind, sql.CommentColumnConstraint):
            comment = kind.this.name
        else:
            raise SchemaError(
                f"column {column.name!r} has {constraint.sql('spark')}, which a schema does not take",
                todo="Set defaults by table.alter once the table is there",
            )
    return pa.field(column.name, _type(column), nullable, {"comment": comment} if comment else None)


def _type(column: sql.ColumnDef) -> pa.DataType:
    return _arrow(column.kind, column.name)


def _arrow(kind: Any, column: str) -> pa.DataType:
    this = kind.this if isinstance(kind, sql.DataType) else None
    if this in _PLAIN:
        return _PLAIN[this]
    if this in _NESTED:
        return _NESTED[this](kind.expressions, column)
    if this is _DT.DECIMAL:
        numbers = [int(parameter.this.name) for parameter in kind.expressions]
        precision, scale = [*numbers, 10, 0][:2] if not numbers else [*numbers, 0][:2]
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise SchemaError(f"column {column!r}: {kind.sql('spark')} has more digits than a decimal can hold")
        return pa.decimal128(precision, scale)
    spelled = kind.sql("spark") if isinstance(kind, sql.Expression) else str(kind)
    raise SchemaError(
        f"column {column!r} has the type {spelled}, which cannot be said in SQL here",
        todo="Give the schema as a pyarrow.Schema, or use string for texts of any length",
    )


def _list(inner: list[Any], column: str) -> pa.DataType:
    return pa.list_(_arrow(inner[0], column)) if len(inner) == 1 else _lacks_types("ARRAY", column)


def _map(inner: list[Any], column: str) -> pa.DataType:
    if len(inner) != 2:
        return _lacks_types("MAP", column)
    return pa.map_(_arrow(inner[0], column), _arrow(inner[1], column))


def _struct(inner: list[Any], column: str) -> pa.DataType:
    return pa.struct([_field(field) for field in inner]) if inner else _lacks_types("STRUCT", column)


def _lacks_types(kind: str, column: str) -> pa.DataType:
    raise SchemaError(f"column {column!r}: {kind} needs the types of what it holds", todo=_EXAMPLE)


_NESTED: Mapping[Any, Callable[[list[Any], str], pa.DataType]] = {
    _DT.ARRAY: _list,
    _DT.MAP: _map,
    _DT.STRUCT: _struct,
}
