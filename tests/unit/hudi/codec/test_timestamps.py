"""Timestamps that files label wrongly."""

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey, parse_log
from lakebed.formats.hudi.codec.schema import arrow_schema
from lakebed.formats.hudi.codec.timestamps import mislabelled_units, units_of_block
from lakebed.formats.hudi.merge.rules import MergeRules, with_defaults
from lakebed.formats.hudi.read.conform import conform
from lakebed.formats.hudi.read.log_reader import parquet_rows
from lakebed.testing.hudi_log import write_block
from tests.golden import unpack
from tests.tables.hudi.writing import HudiFolder, rows

MOMENT = 1_720_631_224_939  # milliseconds of 2024-07-10T17:07:04.939Z
READ = datetime.datetime(2024, 7, 10, 17, 7, 4, 939000, tzinfo=datetime.UTC)
LABELLED_MICROS = pa.timestamp("us", "UTC")


def _schema(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "t", "type": ["null", kind]}]})


def _logical(name: str) -> dict[str, str]:
    return {"type": "long", "logicalType": name}


def _nested(leaf: Any) -> dict[str, Any]:
    record = {"type": "record", "name": "i", "fields": [{"name": "u", "type": ["null", leaf]}]}
    return {"type": "array", "items": {"type": "map", "values": record}}


@pytest.mark.parametrize(
    ("table", "stored", "value"),
    [
        ("timestamp-millis", LABELLED_MICROS, READ),
        ("timestamp-millis", pa.timestamp("ms", "UTC"), READ),
        ("timestamp-micros", LABELLED_MICROS, datetime.datetime(1970, 1, 20, 21, 57, 11, 224939, tzinfo=datetime.UTC)),
        ("local-timestamp-millis", pa.int64(), READ.replace(tzinfo=None)),
        ("local-timestamp-micros", pa.int64(), datetime.datetime(1970, 1, 20, 21, 57, 11, 224939)),
        ("local-timestamp-millis", pa.timestamp("ms"), READ.replace(tzinfo=None)),
    ],
)
def test_the_tables_schema_says_what_a_files_numbers_are(table: str, stored: pa.DataType, value: Any) -> None:
    schema = _schema(_logical(table))
    batch = pa.record_batch({"t": pa.array([MOMENT, None]).cast(stored)})
    actual = conform(batch, arrow_schema(schema), units=mislabelled_units(schema))
    assert actual.column("t").to_pylist() == [value, None]


def test_inside_lists_maps_and_records() -> None:
    schema = _schema(_nested(_logical("timestamp-millis")))
    target = arrow_schema(schema)
    written = pa.list_(pa.map_(pa.string(), pa.struct([("u", LABELLED_MICROS)])))
    number = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=MOMENT)
    batch = pa.record_batch({"t": pa.array([[[("a", {"u": number})]]], written)})
    actual = conform(batch, target, units=mislabelled_units(schema))
    assert actual.column("t").to_pylist() == [[[("a", {"u": READ})]]]


@pytest.mark.parametrize(("label", "mislabelled"), [("timestamp-micros", True), ("timestamp-millis", False)])
def test_a_log_block_is_repaired_where_its_own_schema_says_microseconds(label: str, mislabelled: bool) -> None:
    units = mislabelled_units(_schema(_nested(_logical("timestamp-millis"))))
    assert bool(units_of_block(units, _schema(_nested(_logical(label))))) == mislabelled
    renamed = {("new",): "t"}
    assert bool(units_of_block({("new",): "timestamp-millis"}, _schema(_logical(label)), renamed)) == mislabelled


def test_statistics_of_a_wrong_label_rule_nothing_out() -> None:
    folder = unpack("hudi", "timestamps_h015")
    actual = lakebed.open(folder).read(["id"], where="t > timestamp '2024-01-01 00:00:00'").read_all()
    assert sorted(actual["id"].to_pylist()) == ["k0", "k1", "k2"]
    assert lakebed.open(folder).read(["id"], where="t < timestamp '2024-01-01 00:00:00'").read_all().num_rows == 0


@pytest.mark.parametrize("options", [{}, {"cdc.enabled": True}])
def test_changes_of_repaired_columns(options: dict[str, object]) -> None:
    table = lakebed.open(unpack("hudi", "timestamps_h015"), options)
    assert {moment.year for moment in table.changes(["t"]).read_all()["t"].to_pylist()} == {2024}


@pytest.mark.parametrize("label", ["timestamp-millis", "timestamp-micros"])
def test_a_parquet_block_is_repaired_by_its_own_schema(label: str) -> None:
    content = pa.BufferOutputStream()
    pq.write_table(pa.table({"t": pa.array([MOMENT]).cast(LABELLED_MICROS)}), content)
    headers = {HeaderKey.INSTANT_TIME: "20260101000000000", HeaderKey.SCHEMA: _schema(_logical(label))}
    (block,) = parse_log(write_block(BlockKind.PARQUET_DATA, headers, content.getvalue().to_pybytes())).blocks
    years = [moment.year for moment in parquet_rows(block, None)["t"].to_pylist()]
    assert years == [2024 if label == "timestamp-millis" else 1970]


def test_bare_numbers_of_deletes_count_the_columns_unit(tmp_path: Path) -> None:
    table = HudiFolder(tmp_path, columns={"id": "string", "ts": _logical("timestamp-millis"), "x": "string"})
    actual = [{"id": key, "ts": MOMENT, "x": key} for key in "abc"]
    deletes = table.deletes(2, {"a": MOMENT + 1, "b": MOMENT - 1})
    table.done(2, [table.log("g", 2, table.data(2, actual) + deletes)])
    assert rows(table.open(), "x") == {"b": "b", "c": "c"}


def test_defaults_count_the_columns_unit() -> None:
    field = {"name": "t", "type": [_logical("timestamp-millis"), "null"], "default": MOMENT}
    schema = json.dumps({"type": "record", "name": "r", "fields": [field]})
    assert with_defaults(MergeRules(keep_defaults=True), schema).defaults["t"].as_py() == READ
