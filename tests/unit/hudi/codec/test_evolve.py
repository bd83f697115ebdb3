"""Rows of an older schema as the wanted one: every change that Hudi allows, every other refused by name."""

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, SchemaError
from lakebed.formats.hudi.codec.internal_schema import (
    parse_internal_schema,
    parse_schema_history,
    renames,
    schema_as_of,
)
from lakebed.formats.hudi.read.conform import conform


def changed(values, before, after, renamed=None):
    batch = pa.record_batch({"c": pa.array(values, before)})
    return conform(batch, pa.schema([("c", after)]), renamed).column(0).to_pylist()


INT, LONG, FLOAT, DOUBLE, TEXT = pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()
DAY, MICROS, DECIMAL = pa.date32(), pa.timestamp("us", "UTC"), pa.decimal128


@pytest.mark.parametrize(
    ("values", "before", "after", "expected"),
    [
        ([1, None], INT, LONG, [1, None]),
        ([1], INT, FLOAT, [1.0]),
        ([1], INT, DOUBLE, [1.0]),
        ([-5], INT, TEXT, ["-5"]),
        ([5], INT, DECIMAL(5, 2), [Decimal("5.00")]),
        ([2**53 + 1], LONG, DOUBLE, [float(2**53)]),
        ([7], LONG, TEXT, ["7"]),
        ([1.1, None, float("inf"), 1e30], FLOAT, DOUBLE, [1.1, None, float("inf"), 1e30]),
        ([1.125, 2.5], DOUBLE, DECIMAL(5, 2), [Decimal("1.12"), Decimal("2.50")]),
        ([Decimal("1.2")], DECIMAL(3, 1), DECIMAL(10, 4), [Decimal("1.2000")]),
        ([Decimal("1.20")], DECIMAL(5, 2), TEXT, ["1.20"]),
        ([datetime.date(2020, 2, 29)], DAY, TEXT, ["2020-02-29"]),
        (["2020-02-29"], TEXT, DAY, [datetime.date(2020, 2, 29)]),
        (["1.5"], TEXT, DECIMAL(5, 2), [Decimal("1.50")]),
        (["a"], TEXT, pa.binary(), [b"a"]),
        ([b"a"], pa.binary(), TEXT, ["a"]),
        ([b"ab"], pa.binary(2), pa.binary(), [b"ab"]),
        ([None], pa.null(), LONG, [None]),
        (["a"], pa.large_string(), TEXT, ["a"]),
    ],
)
def test_allowed_changes(values, before, after, expected):
    assert changed(values, before, after) == expected


def test_timestamps_change_unit_and_zone():
    moment = datetime.datetime(2020, 1, 1, 1, 1, 1, 5000)
    for before in (pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ms", "UTC")):
        assert changed([moment], before, MICROS) == [moment.replace(tzinfo=datetime.UTC)]


@pytest.mark.parametrize(
    ("values", "before", "after"),
    [
        ([1], LONG, INT),
        ([1.5], DOUBLE, FLOAT),
        ([1.5], DOUBLE, LONG),
        ([1.5], FLOAT, TEXT),
        (["x"], TEXT, LONG),
        (["x"], TEXT, DAY),
        ([1], LONG, DECIMAL(2, 2)),
        ([Decimal("1.2")], DECIMAL(3, 1), DECIMAL(3, 2)),
        ([True], pa.bool_(), INT),
        ([1], INT, pa.list_(INT)),
        ([[1]], pa.list_(INT), INT),
    ],
)
def test_other_changes_are_refused_with_column_and_types(values, before, after):
    with pytest.raises(SchemaError, match="'c'") as caught:
        changed(values, before, after)
    assert str(before) in str(caught.value)
    assert str(after) in str(caught.value)


OLD = pa.struct([("a", INT), ("b", TEXT)])
NEW = pa.struct([("b", TEXT), ("added", INT), ("a", LONG)])


def nested_batch():
    one = {"a": 1, "b": "x"}
    return pa.record_batch(
        {
            "s": pa.array([one, None, {"a": None, "b": None}, one], OLD),
            "l": pa.array([[one], None, [], [None, one]], pa.list_(OLD)),
            "m": pa.array([[("k", one)], None, [], [("k", None), ("l", one)]], pa.map_(TEXT, OLD)),
        }
    )


@pytest.mark.parametrize("part", [slice(0, 4), slice(1, 4), slice(3, 4), slice(0, 0)])
def test_changes_inside_structs_lists_and_maps_of_any_slice(part):
    target = pa.schema([("m", pa.map_(TEXT, NEW)), ("l", pa.list_(NEW)), ("s", NEW)])
    batch = nested_batch().slice(part.start, part.stop - part.start)
    actual = conform(batch, target)
    actual.validate(full=True)
    one = {"b": "x", "added": None, "a": 1}
    none = {"b": None, "added": None, "a": None}
    expected = [
        {"m": [("k", one)], "l": [one], "s": one},
        {"m": None, "l": None, "s": None},
        {"m": [], "l": [], "s": none},
        {"m": [("k", None), ("l", one)], "l": [None, one], "s": one},
    ]
    assert actual.to_pylist() == expected[part]


def test_missing_columns_are_null_unless_they_may_not_be():
    batch = pa.record_batch({"a": [1, 2]})
    actual = conform(batch, pa.schema([("new", TEXT), ("a", LONG)]))
    assert actual.to_pylist() == [{"new": None, "a": 1}, {"new": None, "a": 2}]
    with pytest.raises(SchemaError, match="'new'"):
        conform(batch, pa.schema([pa.field("new", TEXT, nullable=False)]))
    assert conform(batch, pa.schema([])).num_rows == 2


def schema_text(version, *fields):
    nodes = [{"id": number, "name": name, "optional": True, "type": kind} for number, name, kind in fields]
    return {"max_column_id": 9, "version_id": version, "type": "record", "fields": nodes}


def test_renamed_dropped_and_added_again_columns_by_their_ids():
    inner = {"type": "record", "fields": [{"id": 4, "name": "x", "optional": True, "type": "int"}]}
    renamed = {"type": "record", "fields": [{"id": 4, "name": "y", "optional": True, "type": "long"}]}
    items = {"type": "array", "element_id": 6, "element": inner, "element_optional": True}
    new_items = {"type": "array", "element_id": 6, "element": renamed, "element_optional": True}
    first = schema_text(10, (0, "a", "int"), (1, "b", "string"), (5, "l", items))
    second = schema_text(20, (0, "renamed", "long"), (7, "b", "string"), (5, "l", new_items))
    history = parse_schema_history(json.dumps({"schemas": [second, first]}))
    assert [schema.version_id for schema in history] == [10, 20]
    assert schema_as_of("5", history) is None
    assert schema_as_of("15", history) == history[0]
    assert schema_as_of("20", history) == parse_internal_schema(json.dumps(second))
    mapping = renames(history[0], history[1])
    batch = pa.record_batch({"a": pa.array([1], INT), "b": ["old"], "l": pa.array([[{"x": 3}]])})
    target = pa.schema([("renamed", LONG), ("b", TEXT), ("l", pa.list_(pa.struct([("y", LONG)])))])
    assert conform(batch, target, mapping).to_pylist() == [{"renamed": 1, "b": None, "l": [{"y": 3}]}]


@pytest.mark.parametrize("text", ["{", "{}", '{"schemas": [{}]}', "[]"])
def test_a_broken_history_is_corrupt(text):
    with pytest.raises(CorruptError, match="Hudi schema"):
        parse_schema_history(text)


def test_no_schema_is_none():
    assert parse_internal_schema(" ") is None
