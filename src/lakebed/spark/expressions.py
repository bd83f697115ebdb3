"""A predicate as a column of Spark that keeps the same rows, where Spark has one.

Spark compares NaN as the largest number, Arrow as none at all, so a comparison of floating numbers says what becomes of
NaN. Whatever has no counterpart here that is certain to mean the same gives None.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as f
from pyspark.sql.types import DataType

from lakebed.errors import LakebedError
from lakebed.kernel.predicates.tree import (
    AND,
    UNKNOWN,
    Call,
    CastRule,
    Column,
    Literal,
    Node,
    NullRule,
    Pattern,
    ValueSet,
    any_of,
    is_null,
    negated,
)
from lakebed.spark.types import conform, spark_schema, wire_schema

_SWAPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
_COMPARE = {"equal", "not_equal", *_SWAPPED}
_MATH = {"add_checked": operator.add, "subtract_checked": operator.sub, "multiply_checked": operator.mul}
_YEAR_1, _YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000
"""The first moments of the years 1 and 10000, in microseconds since 1970."""


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
    return f.col(quoted(name))


def quoted(name: str) -> str:
    """The column of exactly that name, in SQL."""
    return "`" + name.replace("`", "``") + "`"


class _Unknown(Exception):
    """Spark has no counterpart."""


def _constant(value: pa.Scalar, kind: DataType) -> SparkColumn | None:
    types, of = pa.types, value.type
    if types.is_date32(of):
        return f.date_from_unix_date(f.lit(value.cast(pa.int32()).as_py()))
    if types.is_timestamp(of) and of.tz:
        return f.timestamp_micros(f.lit(value.cast(pa.int64()).as_py()).cast("bigint"))
    if types.is_timestamp(of):
        return _without_zone(value, kind)
    if types.is_binary(of):
        return f.lit(value.as_py())
    if types.is_decimal(of):
        return f.lit(format(value.as_py(), "f")).cast(kind)
    if types.is_string(of) or types.is_integer(of) or types.is_floating(of) or types.is_boolean(of):
        return f.lit(value.as_py()).cast(kind)
    return None


def _without_zone(value: pa.Scalar, kind: DataType) -> SparkColumn | None:
    """A timestamp without a zone: a text, which Spark reads alike in every session. None outside of years 1 to 9999."""
    micros = value.cast(pa.timestamp("us")).cast(pa.int64()).as_py()
    return f.lit(str(value.cast(pa.string()))).cast(kind) if _YEAR_1 <= micros < _YEAR_10000 else None


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
        case Call(
            function="is_null", arguments=(Column() | Literal() as of,), options=NullRule(nan_is_null=False) | None
        ):
            return _of_any_type(of, schema).isNull()
        case Call(function="is_valid", arguments=(Column() | Literal() as of,)):
            return _of_any_type(of, schema).isNotNull()
        case Call(function="is_nan", arguments=(Column() as column,)) if pa.types.is_floating(_type_of(column, schema)):
            return f.when(named(column.path[0]).isNotNull(), f.isnan(named(column.path[0])))
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
        case Call(
            function="if_else",
            arguments=(
                Call(function="or_kleene", arguments=(Call(function="is_null"), Call(function="invert"))) as missed,
                Literal() as unknown,
                Call(function="is_in", arguments=(Column() as column,), options=ValueSet(values=values)) as member,
            ),
        ) if unknown is UNKNOWN and missed == any_of(is_null(column), negated(member)):
            return f.when(_among(column, values, schema), f.lit(True))
        case Call(function="match_like", arguments=(Column() as column,), options=Pattern(text=str() as text) as way):
            # Readers may differ in what is one character, and in escapes: `_` and a backslash are left to Arrow.
            if way.ignore_case or not pa.types.is_string(_type_of(column, schema)) or set(text) & {"_", "\\"}:
                raise _Unknown
            return named(column.path[0]).like(text)
        case Call(function="starts_with", arguments=(Column() as column,), options=Pattern(text=str() as text) as way):
            if way.ignore_case or not pa.types.is_string(_type_of(column, schema)):
                raise _Unknown
            return named(column.path[0]).startswith(text)
        case Call(function=function, arguments=(Literal() as left, right)) if function in _COMPARE:
            return _compared(_SWAPPED.get(function, function), right, left, schema)
        case Call(function=function, arguments=(left, right)) if function in _COMPARE:
            return _compared(function, left, right, schema)
    raise _Unknown


def _compared(function: str, left: Node, right: Node, schema: pa.Schema) -> SparkColumn:
    of = _operand(left, schema)
    if isinstance(right, Literal):
        if not right.value.is_valid:
            return f.lit(None).cast("boolean")
        given = _comparable(of.kind, right.value)
    else:
        other = _operand(right, schema)
        # Of two floating numbers both may be NaN.
        if pa.types.is_floating(of.kind) or not _is_comparable(of.kind, other.kind):
            raise _Unknown
        given = other.column
    match function:
        case "equal":
            return of.column == given
        case "not_equal":
            return of.column != given
        case "less":
            return of.column < given
        case "less_equal":
            return of.column <= given
    more = of.column > given if function == "greater" else of.column >= given
    return more & ~f.isnan(of.column) if pa.types.is_floating(of.kind) else more


@dataclass(frozen=True, slots=True)
class _Operand:
    """A side of a comparison, its type, and for whole numbers the greatest that it can be, without its sign."""

    column: SparkColumn
    kind: pa.DataType
    most: int = 0


def _operand(node: Node, schema: pa.Schema) -> _Operand:
    """A column, or a sum or product. Whole numbers are computed in 64 bits: where these may not hold the result, only
    Arrow says so in the right way."""
    match node:
        case Column():
            kind = _type_of(node, schema)
            most = 1 << (kind.bit_width - 1) if pa.types.is_signed_integer(kind) else 0
            return _Operand(named(node.path[0]), kind, most)
        case Literal(value=value) if value.is_valid and pa.types.is_integer(value.type):
            return _Operand(f.lit(value.as_py()).cast("bigint"), pa.int64(), abs(value.as_py()))
        case Literal(value=value) if value.is_valid and value.type == pa.float64():
            return _Operand(f.lit(value.as_py()).cast("double"), pa.float64())
        case Call(function="cast", arguments=(inner,), options=CastRule(type=kind, allowed=())) if kind == pa.int64():
            of = _operand(inner, schema)
            if not pa.types.is_signed_integer(of.kind):
                raise _Unknown
            return _Operand(of.column.cast("bigint"), kind, of.most)
        case Call(function="add_checked" | "subtract_checked" | "multiply_checked" as function, arguments=(one, two)):
            left, right = _operand(one, schema), _operand(two, schema)
            if left.kind not in (pa.int64(), pa.float64()) or right.kind not in (pa.int64(), pa.float64()):
                raise _Unknown
            if pa.float64() in (left.kind, right.kind):
                sides = left.column.cast("double"), right.column.cast("double")
                return _Operand(_MATH[function](*sides), pa.float64())
            most = left.most * right.most if function == "multiply_checked" else left.most + right.most
            if most >= 1 << 63:
                raise _Unknown
            return _Operand(_MATH[function](left.column, right.column), left.kind, most)
    raise _Unknown


def _among(column: Column, values: pa.Array, schema: pa.Schema) -> SparkColumn:
    kind = _type_of(column, schema)
    if pa.types.is_floating(kind) or values.null_count or not len(values):
        raise _Unknown
    return _column(column, schema).isin([_comparable(kind, value) for value in values])


def _comparable(kind: pa.DataType, value: pa.Scalar) -> SparkColumn:
    """A constant to compare values of a type with. Both are of one kind, so that neither side is converted with
    loss."""
    is_nan = pa.types.is_floating(value.type) and value.as_py() != value.as_py()
    if is_nan or not _is_comparable(kind, value.type):
        raise _Unknown
    return _literal(value)


def _is_comparable(kind: pa.DataType, other: pa.DataType) -> bool:
    types = pa.types
    if types.is_timestamp(kind) and kind.unit == "ns":
        return False  # Spark's rows are rounded to microseconds
    whole = types.is_signed_integer(kind) and types.is_signed_integer(other)
    floating = types.is_floating(kind) and types.is_floating(other)
    exact = kind == other and not (types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType))
    return whole or floating or exact


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


def _of_any_type(node: Column | Literal, schema: pa.Schema) -> SparkColumn:
    """A column or a constant, to be asked whether it is null."""
    return _column(node, schema) if isinstance(node, Column) else f.lit(True if node.value.is_valid else None)
