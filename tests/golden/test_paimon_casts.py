"""Every pair of types that Paimon's ALTER TABLE allows, compared with the engine's own casts, and the pairs that it
refuses. tests/interop/jvm/CastVectors.java prints `cast_vectors.jsonl`; an interop test compares the two."""

import json
import math
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from lakebed.errors import LakebedError, SchemaError, UnsupportedError
from lakebed.formats.paimon.casts import cast_values
from lakebed.formats.paimon.codec.types import DataType, arrow_type, type_from_json

VECTORS = Path(__file__).parent / "paimon" / "cast_vectors.jsonl"
DAY = 86_400_000
FAILS = {}  # how the vectors write a value that the engine cannot cast
NANOS = {"ms": 10**6, "us": 10**3, "ns": 1}


class Pair(NamedTuple):
    source: DataType
    wanted: DataType
    zone: str
    values: pa.Array
    results: list[Any]


def pairs() -> Iterator[Pair]:
    source, values = DataType("NULL"), pa.array([])
    for line in VECTORS.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        if "from" in item:
            source = type_from_json(item["from"])
            values = column([plain(value, source) for value in item["values"]], source)
        else:
            yield Pair(source, type_from_json(item["to"]), item["zone"], values, item["results"])


def plain(value: Any, kind: DataType) -> Any:
    """A value of the vectors as a Python value. Dates and times stay numbers."""
    if value is None:
        return None
    match kind.root:
        case "FLOAT" | "DOUBLE":
            return float(value) if value.lstrip("-")[0] in "NI" else float.fromhex(value)
        case "DECIMAL":
            return Decimal(value)
        case "BINARY" | "VARBINARY":
            return bytes.fromhex(value)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return value // NANOS[arrow_type(kind).unit]
        case "ARRAY":
            return [plain(item, kind.element) for item in value]
        case "MAP":
            return [(plain(key, kind.key), plain(item, kind.element)) for key, item in value]
        case "ROW":
            return {field.name: plain(item, field.type) for field, item in zip(kind.fields, value, strict=True)}
    return value


def column(values: list[Any], kind: DataType) -> pa.Array:
    return pa.array(values, counted(arrow_type(kind))).cast(arrow_type(kind))


def counted(kind: pa.DataType) -> pa.DataType:
    """The type with numbers in place of dates and times, nested ones too."""
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    if pa.types.is_map(kind):
        return pa.map_(counted(kind.key_type), kind.item_field.with_type(counted(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(counted(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(counted(field.type)) for field in kind])
    return kind


def numbers(values: pa.Array) -> list[Any]:
    kind = counted(values.type)
    return values.view(kind).to_pylist() if pa.types.is_temporal(values.type) else values.to_pylist()


def answer(pair: Pair, result: Any) -> Any:
    """The result that lakebed must give, FAILS for an error: the engine's result where a column can hold it."""
    if result in (None, FAILS):
        return result
    if pair.wanted.root == "TIME" and not 0 <= result < DAY:  # negative times of release 1.3.1 are mended in later ones
        return result % DAY if pair.source.root == "TIMESTAMP" else FAILS
    if pair.source.root.endswith("BINARY") and isinstance(result, str) and "\ufffd" in result:  # no text: not UTF-8
        return FAILS
    cast = plain(result, pair.wanted)
    return FAILS if isinstance(cast, int) and not -(2**63) <= cast < 2**63 else cast


def same(actual: Any, wanted: Any) -> bool:
    if isinstance(actual, float) and isinstance(wanted, float):
        alike = actual == wanted and math.copysign(1, actual) == math.copysign(1, wanted)
        return alike or (math.isnan(actual) and math.isnan(wanted))
    return bool(actual == wanted) and type(actual) is type(wanted)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield lambda name: monkeypatch.setenv("TZ", name)
    monkeypatch.undo()
    time.tzset()


@pytest.mark.slow
def test_every_pair_gives_what_the_engine_gives(zone: Any) -> None:
    count, wrong = 0, []
    for pair in pairs():
        zone(pair.zone)
        answers = [answer(pair, result) for result in pair.results]
        places = [place for place, result in enumerate(answers) if result != FAILS]
        cast = cast_values(pair.values.take(pa.array([*places, None], pa.int64())), pair.source, pair.wanted)
        cast.validate(full=True)
        assert cast.type == arrow_type(pair.wanted), (pair.source, pair.wanted)
        for place, got in zip([*places, None], numbers(cast), strict=True):
            expected = None if place is None else answers[place]
            if not same(got, expected):
                wrong.append((str(pair.source), str(pair.wanted), pair.zone, pair.values[place].as_py(), got, expected))
        count += 1
        assert len(cast_values(pair.values.slice(0, 0), pair.source, pair.wanted)) == 0
    assert not wrong
    assert count > 1200


@pytest.mark.slow
def test_values_that_have_no_counterpart_are_refused_by_name(zone: Any) -> None:
    seen, count = set(), 0
    for pair in pairs():
        zone(pair.zone)
        if (pair.source, pair.wanted.root) in seen:  # other precisions and zones fail at the same texts
            continue
        seen.add((pair.source, pair.wanted.root))
        for place, result in enumerate(pair.results):
            if answer(pair, result) == FAILS:
                with pytest.raises(SchemaError, match="it has a value that cannot become"):
                    cast_values(pair.values.slice(place, 1), pair.source, pair.wanted)
                count += 1
    assert count > 1000


@pytest.mark.slow
def test_pairs_that_alter_table_refuses_are_refused_by_name() -> None:
    count = 0
    for line in VECTORS.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        for refused in item.get("refused", ()):
            source, wanted = type_from_json(item["from"]), type_from_json(refused)
            with pytest.raises(UnsupportedError, match="ALTER TABLE refuses that change") as error:
                cast_values(column([plain(value, source) for value in item["values"]], source), source, wanted)
            assert isinstance(error.value, LakebedError)
            assert str(source) in str(error.value) and str(wanted) in str(error.value)
            count += 1
    assert count > 600


def test_hexadecimal_floats_are_refused() -> None:
    text, double = type_from_json("STRING"), type_from_json("DOUBLE")
    with pytest.raises(SchemaError, match="lakebed does not read hexadecimal numbers"):
        cast_values(pa.array(["0x1p3"]), text, double)


def test_a_slice_is_cast_by_its_own_rows() -> None:
    texts = pa.array(["x", "1", None, "2", "y"]).slice(1, 3)
    assert cast_values(texts, type_from_json("STRING"), type_from_json("INT")).to_pylist() == [1, None, 2]
    decimals = pa.array([Decimal("9.99"), Decimal("1.25"), None, Decimal("-0.05")], pa.decimal128(4, 2)).slice(1)
    kinds = type_from_json("DECIMAL(4, 2)"), type_from_json("DECIMAL(4, 1)")
    assert cast_values(decimals, *kinds).to_pylist() == [Decimal("1.3"), None, Decimal("-0.1")]
    assert cast_values(decimals, kinds[0], type_from_json("STRING")).to_pylist() == ["1.25", None, "-0.05"]
    assert cast_values(decimals, kinds[0], type_from_json("DOUBLE")).to_pylist() == [1.25, None, -0.05]


@pytest.mark.slow
def test_digits_without_end_are_cast_in_bounded_time() -> None:
    texts = pa.array(["1" * size + ".5" for size in range(1, 5000)] + ["0." + "0" * size + "6" for size in range(5000)])
    cast = cast_values(texts, type_from_json("STRING"), type_from_json("DECIMAL(38, 1)"))
    assert cast.null_count == 5000 - 1 - 37
    assert cast[36].as_py() == Decimal("1" * 37 + ".5")
    assert cast[-5000:].to_pylist() == [Decimal("0.6"), Decimal("0.1"), *[Decimal("0.0")] * 4998]


def test_a_length_that_no_column_holds_is_refused() -> None:
    for source, wanted in (("STRING", "CHAR(2147483646)"), ("BYTES", "BINARY(2147483646)")):
        values = column(["a", "b"] if source == "STRING" else [b"a", b"b"], type_from_json(source))
        with pytest.raises(UnsupportedError, match="and lakebed cannot cast"):
            cast_values(values, type_from_json(source), type_from_json(wanted))
