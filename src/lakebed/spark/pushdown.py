"""Spark's pushed filters as a predicate tree that rules out files.

Spark evaluates every filter again. So a filter may be left out here, but the predicate must never drop a row that Spark
would keep. Filters are left out where Spark and Arrow differ: NaN is larger than all numbers in Spark, and compares as
false in Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakebed.kernel.predicates.tree import (
    Call,
    Column,
    Literal,
    Node,
    Pattern,
    ValueSet,
    all_of,
    is_null,
    is_valid,
    negated,
)
from lakebed.kernel.predicates.where import find_column

try:
    from pyspark.sql import datasource as pushed
except ImportError:  # PySpark 3.5
    pushed = None  # type: ignore[assignment]

_FUNCTIONS = {
    "EqualTo": "equal",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
}
_COMPARE: dict[type[Any], str] = {
    getattr(pushed, name): function for name, function in _FUNCTIONS.items() if hasattr(pushed, name)
}
"""Arrow's function by the class of a pushed filter. Spark pushes filters since 4.1."""


def predicate_of(filters: Sequence[Any], schema: pa.Schema) -> Node | None:
    """The filters that both engines understand alike, joined by AND; None when there are none."""
    nodes = [node for node in (_node(given, schema) for given in filters) if node is not None]
    return all_of(*nodes) if nodes else None


def _node(given: Any, schema: pa.Schema) -> Node | None:
    inner = given.child if isinstance(given, pushed.Not) else given
    if not hasattr(inner, "attribute") or len(inner.attribute) != 1:
        return None
    name = find_column(inner.attribute[0], schema.names)
    if name is None:
        return None
    node = _of_column(inner, Column((name,)), schema.field(name).type)
    return negated(node) if node is not None and isinstance(given, pushed.Not) else node


def _of_column(given: Any, column: Column, kind: pa.DataType) -> Node | None:
    match given:
        case pushed.IsNull():
            return is_null(column)
        case pushed.IsNotNull():
            return is_valid(column)
        case pushed.In():
            values = [_constant(value, kind) for value in given.value]
            members = [value.as_py() for value in values if value is not None and value.is_valid]
            if not members or len(members) != len(values):
                return None
            return Call("is_in", (column,), ValueSet(pa.array(members, kind)))
        case pushed.StringStartsWith() if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return Call("starts_with", (column,), Pattern(given.value))
        case _ if type(given) in _COMPARE:
            constant = _constant(given.value, kind)
            if constant is None or not constant.is_valid:
                return None
            return Call(_COMPARE[type(given)], (column, Literal(constant)))
    return None


def _constant(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    """The value in the column's own type; None where it is not of that type, or the engines may compare it in different
    ways."""
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_floating(kind) or pa.types.is_nested(kind):
        return None
    if pa.types.is_interval(kind):
        return None
    try:
        return pa.scalar(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError, OverflowError):
        return None
