"""Rows of data blocks in the form that the block's schema has: nested decimals, what cannot be null, milliseconds."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import SchemaError
from lakebed.formats.hudi.codec.avro import decode_records
from lakebed.formats.hudi.codec.avro_rows import framed_rows
from lakebed.kernel.scratch import Scratch

DECIMAL = {"type": "fixed", "name": "dec", "namespace": "n.row.s", "size": 5}
DECIMAL |= {"logicalType": "decimal", "precision": 10, "scale": 2}
BYTES = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}
NESTED = {"type": "record", "name": "s", "namespace": "n.row", "fields": [
    {"name": "d", "type": ["null", DECIMAL]}, {"name": "k", "type": "string"},
]}  # fmt: skip
SCHEMA = {"type": "record", "name": "row", "namespace": "n", "fields": [
    {"name": "s", "type": ["null", NESTED]},
    {"name": "again", "type": {"type": "array", "items": "n.row.s"}},
    {"name": "plain", "type": ["null", {"type": "array", "items": "int"}]},
    {"name": "m", "type": ["null", {"type": "map", "values": ["null", BYTES]}]},
    {"name": "wide", "type": ["null", {**DECIMAL, "name": "wide", "size": 20}]},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    {"name": "kind", "type": ["null", {"type": "enum", "name": "e", "symbols": ["A", "B"]}]},
]}  # fmt: skip
D = decimal.Decimal
MOMENT = datetime.datetime(2024, 1, 1, 1, 2, 3, 4000, datetime.UTC)
STRUCT = pa.struct([("d", pa.decimal128(10, 2)), ("k", pa.string())])
ROWS: list[dict[str, Any]] = [
    {"s": {"d": D("-1.50"), "k": "a"}, "again": [], "plain": [1, -2], "m": [("x", D("7.125")), ("y", None)],
     "wide": D("-99999999.99"), "at": MOMENT, "kind": "B"},
    {"s": None, "again": [{"d": None, "k": ""}, {"d": D("99999999.99"), "k": "é"}], "plain": None, "m": None,
     "wide": None, "at": None, "kind": None},
    {"s": {"d": None, "k": "b"}, "again": [{"d": D("0.01"), "k": "c"}], "plain": [], "m": [], "wide": D("0.00"),
     "at": MOMENT, "kind": "A"},
]  # fmt: skip
TYPES = pa.schema(
    [
        ("s", STRUCT),
        ("again", pa.list_(STRUCT)),
        ("plain", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.decimal128(20, 3))),
        ("wide", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("kind", pa.string()),
    ]
)


def test_rows_are_written_as_their_schema_says() -> None:
    batch = pa.RecordBatch.from_pylist([*ROWS, *ROWS], TYPES).slice(1, 4)
    text = json.dumps(SCHEMA)
    found = decode_records(text, [(4, memoryview(framed_rows(batch, text)))], None, Scratch())
    assert found.to_pylist() == batch.to_pylist()


def test_a_null_where_the_schema_has_none_is_refused() -> None:
    row = {**ROWS[0], "plain": [1, None]}
    with pytest.raises(SchemaError, match="'plain' is null in 1 row,"):
        framed_rows(pa.RecordBatch.from_pylist([row], TYPES), json.dumps(SCHEMA))


@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_nested_decimals_live_in_logs(tmp_path: Path, block: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", STRUCT), ("l", pa.list_(pa.decimal128(5, 1)))])
    options = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.logfile.data.block.format": block}
    table = lakebed.create(tmp_path / "t", "hudi", schema, ["id"], options=options)
    rows = [{"id": number, "s": {"d": D("1.25"), "k": None}, "l": [D("-0.5"), None]} for number in range(3)]
    table.write(pa.Table.from_pylist(rows, schema))
    rows[1] |= {"s": {"d": D("-7.00"), "k": "new"}, "l": None}
    table.write(pa.Table.from_pylist(rows[1:2], schema), mode="upsert")
    assert sorted(table.read(["id", "s", "l"]).read_all().to_pylist(), key=lambda row: row["id"]) == rows
