"""Record keys as text, for every key generator, type and release."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.record_keys import KeyForm, row_keys
from lakebed.formats.hudi.keygen import GeneratorKind, KeyGenerator

SIMPLE, COMPLEX = GeneratorKind.SIMPLE, GeneratorKind.COMPLEX
UTC = datetime.UTC
MOMENT = datetime.datetime(2024, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
STAMP = pa.timestamp("us", "UTC")


def _values(key: str, kind: pa.DataType, generator: KeyGenerator | None = None, unit: str = "us", **form: bool) -> Any:
    actual = KeyForm(generator or KeyGenerator(SIMPLE), **form)
    column = actual.columns(pa.array([key]), [pa.field("id", kind)], [unit]).column(0)
    assert column.type == kind
    return column[0].as_py()


@pytest.mark.parametrize(
    ("key", "kind", "unit", "value"),
    [
        ("a1", pa.string(), "us", "a1"),
        ("1", pa.int32(), "us", 1),
        ("-9000000000", pa.int64(), "us", -9_000_000_000),
        ("true", pa.bool_(), "us", True),
        ("1.1", pa.float32(), "us", pytest.approx(1.1)),
        ("1.000000001E8", pa.float64(), "us", 100_000_000.1),
        ("1.0", pa.float64(), "us", 1.0),
        ("Infinity", pa.float64(), "us", float("inf")),
        ("1.0000000000E-8", pa.decimal128(22, 18), "us", Decimal("1E-8")),
        ("1.50", pa.decimal128(10, 2), "us", Decimal("1.50")),
        ("2024-01-02", pa.date32(), "us", datetime.date(2024, 1, 2)),
        ("19724", pa.date32(), "us", datetime.date(2024, 1, 2)),
        ("-1", pa.date32(), "us", datetime.date(1969, 12, 31)),
        ("1704067200000005", STAMP, "us", MOMENT),
        ("1704067200000", STAMP, "ms", MOMENT.replace(microsecond=0)),
        ("1704067200000005", pa.timestamp("us"), "us", MOMENT.replace(tzinfo=None)),
    ],
)
@pytest.mark.parametrize("generator", [SIMPLE, COMPLEX])
def test_types(key: str, kind: pa.DataType, unit: str, value: Any, generator: GeneratorKind) -> None:
    assert _values(key, kind, KeyGenerator(generator), unit) == value
    if generator is COMPLEX:
        assert _values(f"id:{key}", kind, KeyGenerator(generator), unit) == value


@pytest.mark.parametrize(
    ("kind", "form", "value"),
    [
        *((kind, {}, "id:x") for kind in (SIMPLE, GeneratorKind.NON_PARTITION, GeneratorKind.CUSTOM)),
        (GeneratorKind.TIMESTAMP, {}, "id:x"),
        (COMPLEX, {}, "x"),
        (COMPLEX, {"value_only": True}, "id:x"),
        (GeneratorKind.GLOBAL_DELETE, {}, "x"),
        (GeneratorKind.UNNAMED, {}, "x"),
    ],
)
def test_the_name_of_a_lone_field(kind: GeneratorKind, form: dict[str, bool], value: str) -> None:
    assert _values("id:x", pa.string(), KeyGenerator(kind), **form) == value
    assert _values("x", pa.string(), KeyGenerator(kind), **form) == "x"


@pytest.mark.parametrize(
    ("key", "kind", "unit", "avro", "why"),
    [
        ("2024-01-01 00:00:00.0", STAMP, "us", False, "key of another form"),  # in the writer's time zone
        ("1704067200000", STAMP, "us", True, "micro- or in milliseconds"),  # Flink
        ("a", pa.int32(), "us", False, "Failed to parse"),
        ("java.nio.HeapByteBuffer[pos=0 lim=1 cap=1]", pa.binary(), "us", False, "no text that tells the value"),
    ],
)
def test_keys_that_tell_no_value_for_certain(key: str, kind: pa.DataType, unit: str, avro: bool, why: str) -> None:
    generator = KeyGenerator(SIMPLE, avro=avro)
    with pytest.raises(UnsupportedError, match=why):
        _values(key, kind, generator, unit)
    columns = KeyForm(generator).known_columns(pa.array([key]), [pa.field("id", kind)], [unit])
    assert columns["id"].to_pylist() == [None]


def test_several_fields_come_back_as_rows_have_them() -> None:
    fields = [pa.field("a", pa.string()), pa.field("d", pa.date32()), pa.field("n", pa.float64())]
    day = datetime.date(2024, 1, 2)
    rows = pa.table([["x", "x,d:y", None, ""], [day, day, None, day], [1.0, 1e10, 2.5, None]], schema=pa.schema(fields))
    keys = [
        "a:x,d:2024-01-02,n:1.0",
        "a:x,d:y,d:19724,n:1.0E10",
        "a:__null__,d:__null__,n:2.5",
        "a:__empty__,d:2024-01-02,n:__null__",
    ]
    for kind in (COMPLEX, GeneratorKind.NON_PARTITION, GeneratorKind.CUSTOM):
        actual = KeyForm(KeyGenerator(kind)).columns(pa.array(keys), fields, ["us"] * 3)
        assert actual.to_pylist() == rows.to_pylist()
        assert row_keys(actual, ("a", "d", "n")).to_pylist() == row_keys(rows, ("a", "d", "n")).to_pylist()
    with pytest.raises(UnsupportedError, match="'x' is a key of another form"):
        KeyForm(KeyGenerator(COMPLEX)).columns(pa.array(["x"]), fields, ["us"] * 3)


def test_a_generator_of_the_users_own_tells_nothing() -> None:
    form = KeyForm(KeyGenerator(GeneratorKind.OTHER, "com.acme.Mine"))
    assert form.known_columns(pa.array(["x"]), [pa.field("id", pa.string())], ["us"]) == {}
