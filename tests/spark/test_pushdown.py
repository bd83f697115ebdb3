"""Spark's pushed filters as predicate trees: each form, and what is left to Spark."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

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
from lakebed.spark.pushdown import predicate_of
from tests.pyspark_release import needs

needs("4.1", "filters that Spark pushes to sources", whole_module=True)
from pyspark.sql import datasource as pushed  # noqa: E402

SCHEMA = pa.schema(
    [
        ("n", pa.int32()), ("Text", pa.string()), ("real", pa.float64()), ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)), ("s", pa.struct([("x", pa.int32())])),
    ]
)  # fmt: skip
N, TEXT = Column(("n",)), Column(("Text",))


def compared(function: str, column: Column, value: Any, kind: pa.DataType) -> Node:
    return Call(function, (column, Literal.of(value, kind)))


@pytest.mark.parametrize(
    ("given", "node"),
    [
        (pushed.EqualTo(("n",), 5), compared("equal", N, 5, pa.int32())),
        (pushed.GreaterThan(("n",), 5), compared("greater", N, 5, pa.int32())),
        (pushed.GreaterThanOrEqual(("N",), 5), compared("greater_equal", N, 5, pa.int32())),
        (pushed.LessThan(("n",), 5), compared("less", N, 5, pa.int32())),
        (pushed.LessThanOrEqual(("n",), 5), compared("less_equal", N, 5, pa.int32())),
        (pushed.IsNull(("text",)), is_null(TEXT)),
        (pushed.IsNotNull(("text",)), is_valid(TEXT)),
        (pushed.In(("n",), (1, 2)), Call("is_in", (N,), ValueSet(pa.array([1, 2], pa.int32())))),
        (pushed.StringStartsWith(("text",), "a"), Call("starts_with", (TEXT,), Pattern("a"))),
        (pushed.Not(pushed.EqualTo(("n",), 5)), negated(compared("equal", N, 5, pa.int32()))),
        (
            pushed.EqualTo(("day",), datetime.date(2026, 3, 2)),
            compared("equal", Column(("day",)), datetime.date(2026, 3, 2), pa.date32()),
        ),
        (
            pushed.LessThan(("price",), Decimal("1.50")),
            compared("less", Column(("price",)), Decimal("1.50"), pa.decimal128(10, 2)),
        ),
    ],
    ids=str,
)
def test_filters_become_trees(given: Any, node: Node) -> None:
    assert predicate_of([given], SCHEMA) == node


@pytest.mark.parametrize(
    "given",
    [
        pushed.EqualTo(("real",), 1.5),  # NaN is the largest number in Spark
        pushed.EqualTo(("s", "x"), 1),
        pushed.EqualTo(("absent",), 1),
        pushed.EqualTo(("n",), None),
        pushed.EqualTo(("n",), 2**40),
        pushed.In(("n",), (1, None)),
        pushed.StringStartsWith(("n",), "a"),
        pushed.StringContains(("text",), "a"),
        pushed.EqualNullSafe(("n",), 1),
    ],
    ids=str,
)
def test_filters_that_are_left_to_spark(given: Any) -> None:
    assert predicate_of([given], SCHEMA) is None
    both = predicate_of([given, pushed.IsNull(("n",)), pushed.IsNotNull(("text",))], SCHEMA)
    assert both == all_of(is_null(N), is_valid(TEXT))
