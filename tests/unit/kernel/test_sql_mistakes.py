"""Texts that are no SQL are told in words for who wrote them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakebed.errors import PredicateError
from lakebed.kernel.predicates.where import parse_where

SCHEMA = pa.schema([("k", pa.int64())])


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("k = ", "something is missing near '='"),
        ("k in (1,", r"\) is missing near ','"),
        ("k = 1 2", "it cannot be read near '2'"),
        ("k between 1", "something is missing near '1'"),
        ("k is null and\n not", "something is missing near 'not' in line 2"),
        ("cast(k as foo) = 1", "it cannot be read near 'foo'"),
        ("k = 'a", "a quote, a comment or a parenthesis has no end"),
        ("k = 1 /* one", "a quote, a comment or a parenthesis has no end"),
    ],
    ids=["value", "list", "two", "between", "line", "type", "text", "comment"],
)
def test_the_mistake_is_told_without_names_of_the_parser(where: str, why: str) -> None:
    with pytest.raises(PredicateError, match=why) as raised:
        parse_where(where, SCHEMA)
    assert "sqlglot" not in str(raised.value)
    assert "Token" not in str(raised.value)
