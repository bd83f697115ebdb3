"""A predicate as a column of Spark that keeps the same rows, where Spark has one.

Spark compares NaN as the largest number, Arrow as none at all, so a comparison of floating numbers says what becomes of
NaN. Whatever has no counterpart here that is certain to mean the same gives None.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as f
from pyspark.sql.types import DataType

from lakebed.errors import LakebedError
from lakebed.kernel.predicates.tree import AND, UNKNOWN, Call, Column, Literal, Node, NullRule, Pattern, ValueSet
from lakebed.spark.types import conform, spark_schema, wire_schema

_SWAPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
_COMPARE = {"equal", "not_equal", *_SWAPPED}


def row_filter(predicate: Node, schema: pa.Schema) -> SparkColumn | None:
    """The column that is true for the rows that a predicate keeps, of a DataFrame with the columns of an Arrow schema.
    None where that is not certain."""
    try:
        return _truth(predicate, schema)
    except _Unknown:
        return None


def constant(value: pa.Scalar) -> SparkColumn | None:
    """A column of one value in Spark's own type for it. None for a type whose values cannot be given exactly."""
    schema = pa.schema([pa.field("value", value.type)])
    try:
        kind = spark_schema(schema).fields[0].dataType
        wire = wire_schema(schema)
        given = conform(pa.RecordBatch.from_arrays([pa.repeat(value, 1)], schema=schema), wire).column(0)[0]
    except LakebedError:
        return None
    if not given.is_valid:
        return f.lit(None).cast(kind)
    return _constant(given, kind)


def named(name: str) -> SparkColumn:
    """The column of exactly that name, whatever characters it has."""
    return f.col("`" + name.replace("`", "``") + "`")


class _Unknown(Exception):
    """Spark has no counterpart."""


def _constant(value: pa.Scalar, kind: DataType) -> SparkColumn | None:
    types, of = pa.types, value.type
    if types.is_date32(of):
        return f.date_from_unix_date(f.lit(value.cast(pa.int32()).as_py()))
    if types.is_timestamp(of):
        return f.timestamp_micros(f.lit(value.cast(pa.int64()).as_py()).cast("bigint")) if of.tz else None
    if types.is_decimal(of):
        return f.lit(format(value.as_py(), "f")).cast(kind)
    if types.is_string(of) or types.is_integer(of) or types.is_floating(of) or types.is_boolean(of):
        return f.lit(value.as_py()).cast(kind)
    return None


def _truth(node: Node, schema: pa.Schema) -> SparkColumn:
    """A boolean column: true, false or null where the node is."""
    match node:
        case Literal(value=value) if pa.types.is_boolean(value.type):
            return _literal(value)
        case Column() if pa.types.is_boolean(_type_of(node, schema)):
            return named(node.path[0])
        case Call(function=("and_kleene" | "or_kleene") as function, arguments=arguments):
            parts = [_truth(argument, schema) for argument in arguments]
            whole = parts[0]
            for part in parts[1:]:
                whole = whole & part if function == AND else whole | part
            return whole
        case Call(function="invert", arguments=(inner,)):
            return ~_truth(inner, schema)
        case Call(function="is_null", arguments=(Column() as column,), options=NullRule(nan_is_null=False) | None):
            return _column(column, schema).isNull()
        case Call(function="is_valid", arguments=(Column() as column,)):
            return _column(column, schema).isNotNull()
        case Call(function="coalesce", arguments=(inner, Literal(value=value))) if pa.types.is_boolean(value.type):
            return f.coalesce(_truth(inner, schema), _literal(value))
        case Call(
            function="if_else",
            arguments=(
                Call(function="is_null", arguments=(Column() as asked,)),
                Literal() as unknown,
                Call(function="is_in", arguments=(Column() as column,), options=ValueSet(values=values)),
            ),
        ) if asked == column and unknown is UNKNOWN:
            return _among(column, values, schema)
        case Call(function="starts_with", arguments=(Column() as column,), options=Pattern(text=str() as text) as way):
            if way.ignore_case or not pa.types.is_string(_type_of(column, schema)):
                raise _Unknown
            return named(column.path[0]).startswith(text)
        case Call(function=function, arguments=(Column() as column, Literal(value=value))) if function in _COMPARE:
            return _compared(function, column, value, schema)
        case Call(function=function, arguments=(Literal(value=value), Column() as column)) if function in _COMPARE:
            return _compared(_SWAPPED.get(function, function), column, value, schema)
    raise _Unknown


def _compared(function: str, column: Column, value: pa.Scalar, schema: pa.Schema) -> SparkColumn:
    kind, spark = _type_of(column, schema), _column(column, schema)
    if not value.is_valid:
        return f.lit(None).cast("boolean")
    given = _comparable(kind, value)
    match function:
        case "equal":
            return spark == given
        case "not_equal":
            return spark != given
        case "less":
            return spark < given
        case "less_equal":
            return spark <= given
    more = spark > given if function == "greater" else spark >= given
    return more & ~f.isnan(spark) if pa.types.is_floating(kind) else more


def _among(column: Column, values: pa.Array, schema: pa.Schema) -> SparkColumn:
    kind = _type_of(column, schema)
    if pa.types.is_floating(kind) or values.null_count or not len(values):
        raise _Unknown
    return _column(column, schema).isin([_comparable(kind, value) for value in values])


def _comparable(kind: pa.DataType, value: pa.Scalar) -> SparkColumn:
    """A constant to compare values of a type with. Both are of one kind, so that neither side is converted with
    loss."""
    types = pa.types
    whole = types.is_signed_integer(kind) and types.is_signed_integer(value.type)
    floating = types.is_floating(kind) and types.is_floating(value.type)
    exact = kind == value.type and not (types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType))
    if types.is_timestamp(kind) and kind.unit == "ns":
        exact = False  # Spark's rows are rounded to microseconds
    if not (whole or floating or exact) or (floating and value.as_py() != value.as_py()):
        raise _Unknown
    return _literal(value)


def _literal(value: pa.Scalar) -> SparkColumn:
    given = constant(value)
    if given is None:
        raise _Unknown
    return given


def _type_of(column: Column, schema: pa.Schema) -> pa.DataType:
    if len(column.path) != 1 or column.path[0] not in schema.names:
        raise _Unknown
    return schema.field(column.path[0]).type


def _column(column: Column, schema: pa.Schema) -> SparkColumn:
    _type_of(column, schema)
    return named(column.path[0])
