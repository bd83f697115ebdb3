"""The filter that a catalog gets for a predicate: as much of it as keeps every row that the predicate keeps."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter
from pyiceberg import types as T
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from lakebed.formats.iceberg.codec.scan_filter import scan_filter
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.kernel.predicates.where import parse_where

KINDS = {
    "n": T.LongType(), "i": T.IntegerType(), "s": T.StringType(), "d": T.DateType(), "b": T.BooleanType(),
    "t": T.TimestampType(), "z": T.TimestamptzType(), "x": T.DoubleType(), "m": T.DecimalType(9, 2),
}  # fmt: skip
SCHEMA = Schema(*(T.NestedField(id, name, kind) for id, (name, kind) in enumerate(KINDS.items(), 1)))
COLUMNS = {field.name: field for field in SCHEMA.fields}


def of(where: str) -> Any:
    return scan_filter(parse_where(where, arrow_schema(SCHEMA.fields)), COLUMNS)


def term(kind: str, name: str, value: Any) -> dict[str, Any]:
    return {"type": kind, "term": name, "value": value}


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("n = 1", term("eq", "n", 1)),
        ("1 < n", term("gt", "n", 1)),
        ("i <= 7 and s >= 'a'", {"type": "and", "left": term("lt-eq", "i", 7), "right": term("gt-eq", "s", "a")}),
        ("d = date '2024-02-29'", term("eq", "d", "2024-02-29")),
        ("b = true", term("eq", "b", True)),
        ("s in ('a', 'b')", {"type": "in", "term": "s", "values": ["a", "b"]}),
        ("s is null", {"type": "is-null", "term": "s"}),
        ("s is not null", {"type": "not-null", "term": "s"}),
        ("not (s = 'a')", term("not-eq", "s", "a")),
        ("not (n < 3)", term("gt-eq", "n", 3)),
        ("not (s = 'a' and n = 1)", None),
        ("s not in ('a')", None),
        ("s in ('a', null)", {"type": "in", "term": "s", "values": ["a"]}),
        ("n = 1 and x = 0.1", term("eq", "n", 1)),
        ("n = 1 or x = 0.1", None),
        ("x = 0.1", None),
        ("m = 1.5", None),
        ("s like 'a%'", None),
        ("n + 1 = 2", None),
        ("n = i", None),
    ],
)
def test_what_is_asked_for(where: str, wanted: Any) -> None:
    assert of(where) == wanted


def test_a_long_chain_is_a_shallow_tree_that_pyiceberg_reads() -> None:
    made = of(" or ".join(f"n = {number}" for number in range(500)))
    depth = 0
    while made is not None and "left" in made:
        made, depth = made["left"], depth + 1
    assert depth == 9
    both = of("n = 1 and (s = 'a' or s is null) and i in (1, 2)")
    read = TypeAdapter(BooleanExpression).validate_json(json.dumps(both)) if both else None
    assert read is not None and "s" in str(read)


def test_names_are_those_of_the_plans_schema() -> None:
    renamed = {"n": T.NestedField(1, "was", T.IntegerType())}
    where = parse_where("n = 5 and s = 'a'", arrow_schema(SCHEMA.fields))
    assert scan_filter(where, renamed) == term("eq", "was", 5)


def test_values_out_of_a_columns_range_are_left_out() -> None:
    assert of("i < 3000000000") is None
    assert of("z < timestamp '2024-01-01 00:00:00+00:00'") == term("lt", "z", "2024-01-01T00:00:00.000000+00:00")
    assert pa.types.is_timestamp(arrow_schema(SCHEMA.fields).field("z").type)
