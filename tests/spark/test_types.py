"""Arrow and Spark schemas convert exactly to each other, and so do whole columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from lakebed.errors import SchemaError
from lakebed.spark.types import arrow_schema, conform, fits, spark_schema, wire_schema

PERSON = pa.struct([pa.field("name", pa.large_string(), False), pa.field("born", pa.timestamp("ns"))])
EVERY_TYPE = {
    "null": (pa.null(), [None]),
    "bool": (pa.bool_(), [True]),
    "int8": (pa.int8(), [-8]),
    "int16": (pa.int16(), [-16]),
    "int32": (pa.int32(), [-32]),
    "int64": (pa.int64(), [-64]),
    "uint8": (pa.uint8(), [255]),
    "uint16": (pa.uint16(), [65535]),
    "uint32": (pa.uint32(), [2**32 - 1]),
    "uint64": (pa.uint64(), [2**64 - 1]),
    "float16": (pa.float16(), [1.5]),
    "float32": (pa.float32(), [1.5]),
    "float64": (pa.float64(), [float("inf")]),
    "decimal32": (pa.decimal32(7, 2), [Decimal("-12345.67")]),
    "decimal64": (pa.decimal64(15, 2), [Decimal("1.20")]),
    "decimal128": (pa.decimal128(38, 10), [Decimal("1.2")]),
    "decimal256": (pa.decimal256(38, 0), [Decimal(7)]),
    "string": (pa.string(), ["ä"]),
    "large_string": (pa.large_string(), ["b"]),
    "string_view": (pa.string_view(), ["c" * 40]),
    "binary": (pa.binary(), [b"\0"]),
    "large_binary": (pa.large_binary(), [b"b"]),
    "binary_view": (pa.binary_view(), [b"c" * 40]),
    "fixed_binary": (pa.binary(3), [b"abc"]),
    "date32": (pa.date32(), [dt.date(1969, 12, 31)]),
    "date64": (pa.date64(), [dt.date(2020, 2, 29)]),
    "ts_s": (pa.timestamp("s"), [dt.datetime(1900, 1, 1)]),
    "ts_ms_zone": (pa.timestamp("ms", "Europe/Berlin"), [dt.datetime(2020, 7, 1, tzinfo=dt.UTC)]),
    "ts_us": (pa.timestamp("us", "UTC"), [dt.datetime(2020, 7, 1, 0, 0, 0, 5, dt.UTC)]),
    "time32": (pa.time32("ms"), [dt.time(23, 59, 59, 1000)]),
    "time64": (pa.time64("us"), [dt.time(1)]),
    "duration": (pa.duration("ms"), [dt.timedelta(days=-1)]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["d"]),
    "run_ends": (pa.run_end_encoded(pa.int32(), pa.string()), ["r"]),
    "list": (pa.list_(pa.field("x", pa.timestamp("ms"), False)), [[dt.datetime(2020, 1, 1)], []]),
    "large_list": (pa.large_list(pa.int32()), [[1, None]]),
    "fixed_list": (pa.list_(pa.int32(), 2), [[1, 2]]),
    "list_view": (pa.list_view(pa.int32()), [[3]]),
    "map": (pa.map_(pa.large_string(), PERSON), [[("k", {"name": "n", "born": dt.datetime(2020, 1, 1)})], []]),
    "struct": (PERSON, [{"name": "n", "born": None}]),
    "deep": (pa.list_(pa.map_(pa.string(), pa.list_(PERSON))), [[[("a", [{"name": "n", "born": None}])], None], []]),
}


def batch_of_every_type(rows: int = 4) -> pa.RecordBatch:
    """One column per type, each with some values and then nulls."""
    arrays = {name: _array(values + [None] * (rows - len(values)), kind) for name, (kind, values) in EVERY_TYPE.items()}
    return pa.RecordBatch.from_pydict(arrays)


def _array(values: list[object], kind: pa.DataType) -> pa.Array:
    if pa.types.is_run_end_encoded(kind):
        ends = pa.array(range(1, len(values) + 1), kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, pa.array(values, kind.value_type))
    return pa.array(values, kind)


def test_the_wire_form_is_the_one_that_pyspark_derives() -> None:
    schema = batch_of_every_type().schema
    wire, derived = wire_schema(schema), to_arrow_schema(spark_schema(schema), timezone="UTC")
    assert wire.equals(derived)
    assert [str(field) for field in wire] == [str(field) for field in derived]  # names of children too
    assert arrow_schema(spark_schema(schema)).equals(wire)


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_values_survive_the_way_to_the_wire_and_back(name: str) -> None:
    kind, values = EVERY_TYPE[name]
    given = pa.RecordBatch.from_arrays([_array([None, *values, None], kind)], [name])
    for sent in (given, given.slice(1), given.slice(1, 1), given.slice(0, 0)):
        there = conform(sent, wire_schema(sent.schema))
        there.validate(full=True)
        assert there.schema.equals(wire_schema(sent.schema))
        assert there.column(0).to_pylist() == sent.column(0).to_pylist()
        if name not in ("run_ends", "list_view"):  # no table's writer asks for those
            back = conform(there, sent.schema)
            assert back.column(0).to_pylist() == sent.column(0).to_pylist()


def test_nullability_is_kept_at_every_depth() -> None:
    schema = pa.schema([pa.field("a", pa.list_(pa.field("item", PERSON, False)), False)])
    (column,) = spark_schema(schema).fields
    assert not column.nullable
    assert isinstance(column.dataType, spark.ArrayType)
    assert not column.dataType.containsNull
    assert isinstance(column.dataType.elementType, spark.StructType)
    assert [field.nullable for field in column.dataType.elementType.fields] == [False, True]


def test_finer_times_are_cut_down_to_the_past() -> None:
    given = pa.record_batch({"t": pa.array([-1, 1, 1999], pa.timestamp("ns"))})
    cut = conform(given, wire_schema(given.schema)).column(0)
    assert cut.cast(pa.int64()).to_pylist() == [-1, 0, 1]


@pytest.mark.parametrize(
    "kind", [pa.decimal256(39, 0), pa.decimal128(5, -2), pa.month_day_nano_interval(), pa.list_(pa.decimal256(76, 1))]
)
def test_a_type_that_spark_lacks_is_refused_by_column(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="no type for column 'odd"):
        spark_schema(pa.schema([("odd", kind)]))


def test_a_null_where_none_may_be_is_refused() -> None:
    given = pa.record_batch({"k": pa.array([1, None])})
    with pytest.raises(SchemaError, match="column 'k' holds a null"):
        conform(given, pa.schema([pa.field("k", pa.int64(), False)]))


def test_a_value_that_does_not_fit_is_refused() -> None:
    given = pa.record_batch({"d": pa.array([Decimal("123.45")])})
    with pytest.raises(SchemaError, match="a value of column 'd' does not fit"):
        conform(given, pa.schema([("d", pa.decimal128(4, 2))]))


@pytest.mark.parametrize(
    ("given", "wanted", "answer"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.int16(), pa.decimal128(5, 0), True),
        (pa.int16(), pa.decimal128(5, 1), False),
        (pa.int32(), pa.float32(), False),
        (pa.int32(), pa.float64(), True),
        (pa.float64(), pa.float32(), False),
        (pa.decimal128(5, 2), pa.decimal128(7, 2), True),
        (pa.decimal128(7, 2), pa.decimal128(7, 3), False),
        (pa.string(), pa.int32(), False),
        (pa.int32(), pa.string(), False),
        (pa.string(), pa.string_view(), True),
        (pa.date32(), pa.timestamp("us"), False),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), False),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Berlin"), True),
        (pa.null(), pa.map_(pa.string(), pa.int8()), True),
        (pa.list_(pa.int8()), pa.large_list(pa.int16()), True),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int16()), ("b", pa.string())]), True),
        (pa.struct([("a", pa.int8()), ("c", pa.int8())]), pa.struct([("a", pa.int16())]), False),
        (pa.map_(pa.string(), pa.int16()), pa.map_(pa.string(), pa.int8()), False),
    ],
)
def test_only_lossless_widening_fits(given: pa.DataType, wanted: pa.DataType, answer: bool) -> None:
    assert fits(given, wanted) is answer
