"""Avro records to Arrow: types, projection, order, pieces, and damage."""

import json
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, SchemaError, StorageError, UnsupportedError
from lakebed.formats.hudi.codec import avro
from lakebed.formats.hudi.codec.avro import decode_blocks, decode_records, record_run
from lakebed.formats.hudi.codec.log import BlockKind, parse_log
from lakebed.formats.hudi.codec.schema import arrow_schema
from lakebed.kernel.scratch import Scratch
from lakebed.testing.hudi_log import avro_content, avro_data_block, write_block

SCRATCH = Scratch()


def record(*fields, **more):
    return json.dumps({"type": "record", "name": "row", "fields": [{"name": n, "type": t} for n, t in fields], **more})


ROWS = record(("k", "string"), ("n", ["null", "long"]), ("x", "double"))
SOME = [{"k": f"k{i}", "n": None if i % 3 == 0 else i, "x": i / 2} for i in range(1000)]


def run(rows=SOME, schema=ROWS):
    content = memoryview(avro_content(schema, rows))
    return struct.unpack_from(">i", content, 4)[0], content[8:]


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        ("int", pa.int32()),
        ({"type": "int"}, pa.int32()),
        ({"type": {"type": "long"}}, pa.int64()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, pa.int32()),
        ({"type": "long", "logicalType": "time-micros"}, pa.int64()),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        ({"type": "fixed", "name": "f", "size": 3}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 2)),
        ({"type": "fixed", "name": "f", "size": 5, "logicalType": "decimal", "precision": 10}, pa.decimal128(10, 0)),
        ({"type": "array", "items": ["null", "string"]}, pa.list_(pa.string())),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int32())),
        ("null", pa.null()),
    ],
)
def test_types_are_those_of_the_spark_reader(kind, arrow):
    assert arrow_schema(record(("a", kind))).field("a").type == arrow
    assert arrow_schema(record(("a", ["null", kind] if kind != "null" else kind))).field("a").nullable


def test_names_refer_within_their_namespace():
    point = {"type": "record", "name": "Point", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}
    text = record(("a", point), ("b", ["null", "geo.Point"]), namespace="geo")
    struct_type = pa.struct([("x", pa.int32())])
    assert arrow_schema(text).types == [struct_type, struct_type]
    table = decode_records(
        text, [run([{"a": {"x": 1}, "b": {"x": 2}}, {"a": {"x": 3}, "b": None}], text)], ["b"], SCRATCH
    )
    assert table.to_pylist() == [{"b": {"x": 2}}, {"b": None}]


def test_fixed_types_of_the_same_name_in_different_records():
    def holder(name, size):
        fixed = {"type": "fixed", "name": "fixed", "namespace": f"t.{name}", "size": size}
        return {"type": "record", "name": name, "fields": [{"name": "f", "type": fixed}]}

    text = record(("a", holder("a", 2)), ("b", holder("b", 3)))
    rows = [{"a": {"f": b"ab"}, "b": {"f": b"cde"}}]
    assert decode_records(text, [run(rows, text)], None, SCRATCH).to_pylist() == rows


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (["null", "int", "string"], "union of 3"),
        (["int"], "union of 1"),
        ({"type": "array", "items": ["int", "string"]}, "union of 2"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50}, "decimal"),
    ],
)
def test_a_type_without_a_column_is_refused_by_name_and_harms_no_other(kind, why):
    text = record(("bad", kind), ("good", "int"))
    with pytest.raises(UnsupportedError, match="'bad'.*" + why):
        arrow_schema(text)
    rows = [{"bad": [] if "array" in str(kind) else 7 if "bytes" not in str(kind) else b"\x01", "good": 5}]
    text_written = record(("bad", "bytes"), ("good", "int")) if "bytes" in str(kind) else text
    assert decode_records(text, [run(rows, text_written)], ["good"], SCRATCH).to_pylist() == [{"good": 5}]


def test_a_record_that_contains_itself_is_refused():
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    text = record(("n", node), ("good", "int"))
    with pytest.raises(UnsupportedError, match=r"'n'.*contains itself"):
        decode_records(text, [run([{"n": {"next": None}, "good": 1}], text)], ["good"], SCRATCH)


@pytest.mark.parametrize("text", ["", "{", "[]", '"int"', '{"type": "record"}', record(("a", "nothing"))])
def test_a_text_that_is_no_record_schema_is_corrupt(text):
    with pytest.raises(CorruptError, match="not an Avro record schema"):
        arrow_schema(text)


def test_rows_keep_their_order_over_runs_and_pieces(monkeypatch):
    monkeypatch.setattr(avro, "PIECE_BYTES", 10_000)
    runs = [run(SOME[at : at + 100]) for at in range(0, 1000, 100)]
    table = decode_records(ROWS, [*runs[:3], (0, memoryview(b"")), *runs[3:]], None, SCRATCH)
    assert table.to_pylist() == SOME
    assert table.column("k").num_chunks > 1


def test_columns_come_as_asked():
    assert decode_records(ROWS, [run()], ["x", "k"], SCRATCH).column_names == ["x", "k"]
    none = decode_records(ROWS, [run()], [], SCRATCH)
    assert (none.num_rows, none.num_columns) == (1000, 0)
    assert decode_records(ROWS, [], None, SCRATCH).schema == arrow_schema(ROWS)
    with pytest.raises(SchemaError, match="'nope'"):
        decode_records(ROWS, [run()], ["nope"], SCRATCH)


def test_column_names_are_taken_as_they_are():
    text = record(("A", "int"), ("a", "int"), ("a b", "int"), ("select", "int"), ('naïve."x"', "int"))
    fields = json.loads(text)["fields"]
    plain = record(*((f"f{place}", "int") for place in range(len(fields))))
    rows = [{f"f{place}": place for place in range(len(fields))}]
    table = decode_records(text, [run(rows, plain)], None, SCRATCH)
    assert table.to_pylist() == [{field["name"]: place for place, field in enumerate(fields)}]


@pytest.mark.parametrize("count", [999, 1001, 0, -1, 2**31 - 1])
def test_a_wrong_count_is_corrupt(count):
    _, body = run()
    with pytest.raises(CorruptError):
        decode_records(ROWS, [(count, body)], None, SCRATCH)


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b[4:], lambda b: b + b])
def test_bytes_too_few_or_too_many_are_corrupt(change):
    count, body = run()
    with pytest.raises(CorruptError):
        decode_records(ROWS, [(count, memoryview(change(bytes(body))))], None, SCRATCH)


def test_the_corrupt_block_among_good_ones_is_named():
    good = avro_data_block(ROWS, SOME[:3], "001")
    bad = write_block(
        BlockKind.AVRO_DATA,
        dict(parse_log(avro_data_block(ROWS, [], "002")).blocks[0].headers),
        b"\0\0\0\3\0\0\0\1\0\0\0\1\7",
    )
    blocks = parse_log(good + bad + good).blocks
    with pytest.raises(CorruptError, match=f"offset {len(good)}") as caught:
        decode_blocks(blocks, None, SCRATCH)
    assert caught.value.instant == "002"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_content_versions_one_to_three_are_alike(version):
    (block,) = parse_log(avro_data_block(ROWS, SOME[:5], "001", content_version=version)).blocks
    assert decode_blocks([block], None, SCRATCH).to_pylist() == SOME[:5]


def test_other_content_is_refused():
    (block,) = parse_log(avro_data_block(ROWS, [], "001", content_version=4)).blocks
    with pytest.raises(UnsupportedError, match="content version 4"):
        record_run(block)
    (block,) = parse_log(write_block(BlockKind.HFILE_DATA, {0: "001", 2: ROWS}, b"DATABLK*")).blocks
    with pytest.raises(UnsupportedError, match="HFile"):
        record_run(block)


def test_scratch_files_leave_nothing_behind(tmp_path: Path):
    folder = tmp_path / "a b[1]*?%20#é"
    folder.mkdir()
    count, body = run(SOME[::-1])  # rows of no other test: what was decoded before needs no file
    assert decode_records(ROWS, [(count, body)], None, Scratch(str(folder))).num_rows == 1000
    with pytest.raises(CorruptError):
        decode_records(ROWS, [(count, body[:-1])], None, Scratch(str(folder)))
    assert list(folder.iterdir()) == []
    count, body = run(SOME[1:])
    with pytest.raises(StorageError, match=r"lakebed\.scratch\.dir"):
        decode_records(ROWS, [(count, body)], None, Scratch(str(tmp_path / "absent")))
