"""Rows are made to fit a table: what may not be null is looked for inside of nested values too."""

from typing import Any

import pyarrow as pa
import pytest

from lakebed.errors import SchemaError
from lakebed.kernel.rows.conform import conform

NUMBER = pa.field("n", pa.int64(), False)
LISTS = pa.list_(pa.field("element", pa.int64(), False))
MAPS = pa.map_(pa.string(), pa.field("value", LISTS, False))
ROWS = pa.struct([NUMBER, ("text", pa.string())])


def _loose(kind: pa.DataType) -> pa.DataType:
    """The same type with every part nullable, as rows come."""
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _loose(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_loose(kind.value_type))
    return pa.struct([(f.name, _loose(f.type)) for f in kind]) if pa.types.is_struct(kind) else kind


def _fitted(kind: pa.DataType, values: list[Any], loose: bool) -> list[Any]:
    data = pa.table([pa.array([None, *values], _loose(kind) if loose else kind).slice(1)], ["c"])
    found: list[Any] = conform(data, pa.schema([("c", kind)]), "t")["c"].to_pylist()
    return found


@pytest.mark.parametrize("loose", [True, False])
@pytest.mark.parametrize(
    ("kind", "values", "where"),
    [
        (LISTS, [[1], [None]], "c.element"),
        (MAPS, [[("a", None)]], "c.value"),
        (MAPS, [[("a", [1]), ("b", [1, None])]], "c.value.element"),
        (ROWS, [{"n": None, "text": "x"}], "c.n"),
        (pa.list_(ROWS), [[None], [{"n": 1}, {"n": None}]], "c.(item|element).n"),
    ],
)
def test_a_null_in_a_part_that_may_not_be_null_is_refused(
    kind: pa.DataType, values: list[Any], where: str, loose: bool
) -> None:
    with pytest.raises(SchemaError, match=where):
        _fitted(kind, values, loose)


@pytest.mark.parametrize("loose", [True, False])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (LISTS, [None, [], [1]]),
        (MAPS, [None, [], [("a", [])], [("a", [1]), ("b", [2])]]),
        (ROWS, [None, {"n": 1, "text": None}]),
        (pa.list_(ROWS), [None, [None], [{"n": 1, "text": None}]]),
    ],
)
def test_nulls_around_such_parts_stay(kind: pa.DataType, values: list[Any], loose: bool) -> None:
    assert _fitted(kind, values, loose) == values
