"""Datums of any schema decoded as columns: what fastavro wrote, and errors for bytes that do not fit."""

import io
import random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakebed.errors import CorruptError
from lakebed.kernel.avro.columns import Choice, decode_datums

WRAPPED = {"type": "record", "name": "Long", "fields": [{"name": "value", "type": "long"}]}
SCHEMA: Any = {
    "type": "record",
    "name": "Row",
    "namespace": "some.where",
    "fields": [
        {"name": "text", "type": {"type": "string", "avro.java.string": "String"}},
        {"name": "number", "type": ["null", "long"]},
        {"name": "name", "type": ["null", "string"]},
        {"name": "yes", "type": "boolean"},
        {"name": "passed", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "pairs", "type": ["null", {"type": "map", "values": "int"}]},
        {"name": "low", "type": ["null", WRAPPED, "double"]},
        {"name": "high", "type": ["null", "Long", "float"]},
    ],
}


def rows(count: int) -> list[dict[str, Any]]:
    pick = random.Random(7)
    return [
        {
            "text": pick.choice(["", "a", "é☃", "x" * 200]),
            "number": pick.choice([None, 0, -1, 2**62, -(2**63), 300]),
            "name": pick.choice([None, "n"]),
            "yes": pick.random() < 0.5,
            "passed": [pick.choice([None, "p"]) for _ in range(pick.randrange(4))],
            "pairs": pick.choice([None, {}, {"k": 5, "l": -5}]),
            "low": pick.choice([None, ("some.where.Long", {"value": -7}), 0.5]),
            "high": pick.choice([None, {"value": 7}, 1.5]),
        }
        for _ in range(count)
    ]


def datums(values: list[dict[str, Any]]) -> pa.Array:
    parsed, texts = fastavro.parse_schema(SCHEMA), []
    for value in values:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, value)
        texts.append(sink.getvalue())
    return pa.array([b"before", *texts], pa.binary()).slice(1)


def test_all_that_fastavro_writes() -> None:
    values = rows(500)
    fields = decode_datums(datums(values), SCHEMA)
    assert fields["text"].to_pylist() == [value["text"] for value in values]
    assert fields["number"].filled(99).tolist() == [99 if v["number"] is None else v["number"] for v in values]
    assert fields["name"].texts().to_pylist() == [value["name"] for value in values]
    assert fields["yes"].tolist() == [value["yes"] for value in values]
    low: Choice = fields["low"]
    assert low.branches.tolist() == [0 if v["low"] is None else 2 if v["low"] == 0.5 else 1 for v in values]
    assert set(low.values[1]["value"].tolist()) == {-7} and set(low.values[2].tolist()) == {0.5}
    assert set(fields["high"].values[2].tolist()) == {1.5}


def test_no_datums() -> None:
    fields = decode_datums(pa.array([], pa.binary()), SCHEMA)
    assert len(fields["text"]) == 0 and fields["name"].texts().to_pylist() == []


@pytest.mark.parametrize("length", [0, 1, 5, -1])
def test_bytes_that_do_not_fit(length: int) -> None:
    (whole,) = datums(rows(1)).to_pylist()
    with pytest.raises(CorruptError):
        decode_datums(pa.array([whole[:length] if length >= 0 else whole + b"\0"], pa.binary()), SCHEMA)


def test_damaged_bytes_end_in_an_error_or_an_answer() -> None:
    pick, good = random.Random(3), datums(rows(20)).to_pylist()
    for _ in range(200):
        bad = [bytearray(datum) for datum in good]
        victim = pick.choice(bad)
        victim[pick.randrange(len(victim))] = pick.randrange(256)
        try:
            decode_datums(pa.array([bytes(datum) for datum in bad], pa.binary()), SCHEMA)
        except CorruptError:
            continue
