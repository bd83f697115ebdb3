"""Turn the filters that Spark pushes into a predicate that rules out files.

Spark evaluates every filter again. So we may ignore a filter, but must never drop a row that Spark would keep. Filters
on which Spark and Arrow differ are ignored: NaN is larger than all numbers in Spark, and compares false in Arrow.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as pushed

from lakebed.kernel.predicates.where import find_column

_COMPARE: dict[type[Any], Callable[[Any, Any], Any]] = {
    pushed.EqualTo: operator.eq,
    pushed.GreaterThan: operator.gt,
    pushed.GreaterThanOrEqual: operator.ge,
    pushed.LessThan: operator.lt,
    pushed.LessThanOrEqual: operator.le,
}


def to_expression(filters: Sequence[Any], schema: pa.Schema) -> pc.Expression | None:
    """All that can be said of the filters, joined by AND; None when nothing can."""
    known = [e for e in (_translate(one, schema) for one in filters) if e is not None]
    return reduce(operator.and_, known) if known else None


def _translate(one: Any, schema: pa.Schema) -> pc.Expression | None:
    negated = isinstance(one, pushed.Not)
    inner = one.child if negated else one
    if not hasattr(inner, "attribute") or len(inner.attribute) != 1:
        return None
    name = find_column(inner.attribute[0], list(schema.names))
    if name is None:
        return None
    expression = _one(inner, pc.field(name), schema.field(name).type)
    return ~expression if negated and expression is not None else expression


def _one(one: Any, field: pc.Expression, kind: pa.DataType) -> pc.Expression | None:
    match one:
        case pushed.IsNull():
            return field.is_null()
        case pushed.IsNotNull():
            return field.is_valid()
        case pushed.In():
            values = [_constant(value, kind) for value in one.value]
            known = [value.as_py() for value in values if value is not None and value.is_valid]
            return field.isin(pa.array(known, kind)) if known and len(known) == len(values) else None
        case pushed.StringStartsWith() if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return pc.starts_with(field, one.value)
        case _ if type(one) in _COMPARE:
            constant = _constant(one.value, kind)
            return (
                None if constant is None or not constant.is_valid else _COMPARE[type(one)](field, pc.scalar(constant))
            )
    return None


def _constant(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    """The value in the column's own type, None where the two engines may not agree on comparing it or it is none of
    that type."""
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_floating(kind) or pa.types.is_nested(kind):
        return None
    if pa.types.is_interval(kind):
        return None
    try:
        return pa.scalar(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError, OverflowError):
        return None
