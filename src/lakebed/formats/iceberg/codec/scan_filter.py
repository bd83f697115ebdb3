"""A predicate as the filter of a REST catalog's scan plan: the specification's "Expressions", as JSON.

A filter only saves work: each row that is read is checked against the predicate itself. So a part that has no equal
there is left out, wherever the filter then keeps more rows and no fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa
from pyiceberg import types as T

from lakebed.kernel.predicates.tree import AND, OR, Call, Column, Literal, Node, NullRule, ValueSet

Json: TypeAlias = dict[str, Any]
Columns: TypeAlias = Mapping[str, T.NestedField]
_COMPARISONS = {
    "equal": "eq", "not_equal": "not-eq", "less": "lt", "less_equal": "lt-eq", "greater": "gt",
    "greater_equal": "gt-eq",
}  # fmt: skip
_TURNED = {"lt": "gt", "lt-eq": "gt-eq", "gt": "lt", "gt-eq": "lt-eq"}
"""A comparison whose sides change places."""
_OPPOSITES = {
    "eq": "not-eq", "not-eq": "eq", "lt": "gt-eq", "gt-eq": "lt", "gt": "lt-eq", "lt-eq": "gt", "is-null": "not-null",
}  # fmt: skip
_MOST_VALUES = 1000
"""Longer lists of values get no filter."""


def scan_filter(predicate: Node | None, columns: Columns) -> Json | None:
    """A filter that keeps each row which the predicate keeps; None where there is none to make.

    `columns` are those of the plan's schema, by the names that the predicate has for them.
    """
    if not isinstance(predicate, Call):
        return None
    arguments = predicate.arguments
    if predicate.function in (AND, OR):
        parts = [scan_filter(argument, columns) for argument in arguments]
        filters = [part for part in parts if part is not None]
        if not filters or (predicate.function == OR and len(filters) < len(parts)):
            return None
        return _joined("and" if predicate.function == AND else "or", filters)
    if predicate.function in _COMPARISONS and len(arguments) == 2:
        return _comparison(_COMPARISONS[predicate.function], *arguments, columns=columns)
    if predicate.function == "if_else" and isinstance(arguments[1], Literal) and arguments[1].value.as_py() is None:
        return scan_filter(arguments[2], columns)  # null where a condition holds, which keeps no row
    if predicate.function == "invert" and isinstance(arguments[0], Call):
        return _inverted(arguments[0], columns)
    column = _column(arguments[0], columns) if arguments else None
    if column is None:
        return None
    if predicate.function == "is_valid":
        return {"type": "not-null", "term": column.name}
    if predicate.function == "is_null" and predicate.options == NullRule(nan_is_null=False):
        return {"type": "is-null", "term": column.name}
    if predicate.function == "is_in" and isinstance(predicate.options, ValueSet):
        return _among(column, predicate.options)
    return None


def _joined(kind: str, parts: list[Json]) -> Json:
    """A tree of pairs that is no deeper than it must be: readers descend it by recursion."""
    while len(parts) > 1:
        pairs = [parts[place : place + 2] for place in range(0, len(parts), 2)]
        parts = [pair[0] if len(pair) == 1 else {"type": kind, "left": pair[0], "right": pair[1]} for pair in pairs]
    return parts[0]


def _comparison(kind: str, left: Node, right: Node, columns: Columns) -> Json | None:
    if isinstance(left, Literal):
        kind, left, right = _TURNED.get(kind, kind), right, left
    column = _column(left, columns)
    if column is None or not isinstance(right, Literal):
        return None
    value = _value(right.value, column.field_type)
    return None if value is None else {"type": kind, "term": column.name, "value": value}


def _inverted(call: Call, columns: Columns) -> Json | None:
    """A filter that keeps each row for which a call is false, and no row for which it is null."""
    positive = scan_filter(call, columns) if call.function in (*_COMPARISONS, "is_null") else None
    return None if positive is None else {**positive, "type": _OPPOSITES[positive["type"]]}


def _among(column: T.NestedField, values: ValueSet) -> Json | None:
    if not 0 < len(values.values) <= _MOST_VALUES:
        return None
    literals = [_value(value, column.field_type) for value in values.values]
    return None if None in literals else {"type": "in", "term": column.name, "values": literals}


def _column(node: Node, columns: Columns) -> T.NestedField | None:
    """The top-level column that a node is."""
    return columns.get(node.path[0]) if isinstance(node, Column) and len(node.path) == 1 else None


def _value(scalar: pa.Scalar, kind: T.IcebergType) -> Any:
    """A literal as JSON has values of the column's type; None for a literal of another type, and for null.

    Floats are left out, since a comparison with a literal of another width is another one here and there; decimals,
    since their scales may differ.
    """
    value, arrow_type = scalar.as_py(), scalar.type
    match kind:
        case T.BooleanType():
            return value if pa.types.is_boolean(arrow_type) else None
        case T.IntegerType() | T.LongType():
            bits = 31 if isinstance(kind, T.IntegerType) else 63
            fits = pa.types.is_integer(arrow_type) and value is not None and -(1 << bits) <= value < 1 << bits
            return value if fits else None
        case T.StringType():
            return value if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) else None
        case T.DateType():
            return value.isoformat() if pa.types.is_date32(arrow_type) and value is not None else None
        case T.TimestampType() | T.TimestamptzType():
            micros = pa.types.is_timestamp(arrow_type) and arrow_type.unit != "ns" and value is not None
            zoned = isinstance(kind, T.TimestamptzType)
            if not micros or (arrow_type.tz is not None) is not zoned:
                return None
            return scalar.cast(pa.timestamp("us", "UTC" if zoned else None)).as_py().isoformat(timespec="microseconds")
    return None
