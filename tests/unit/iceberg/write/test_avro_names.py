"""Columns with names that Avro does not allow are written with the names that Iceberg gives them, and read back with
their own."""

import io
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.iceberg.codec.avro_data import avro_name

NAMES = {
    "plain": "plain", "_x": "_x", "名称": "名称", "ü": "ü", "é1": "é1", "1st": "_1st", "9": "_9", "a-b": "a_x2Db",
    'q"t': "q_x22t", "a b": "a_x20b", "a.b": "a_x2Eb", "😎": "_xD83D_xDE0E", "\u200b": "_x200B",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_are_those_of_the_reference_engine(name: str) -> None:
    assert avro_name(name) == NAMES[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["名称", "1st", 'q"t', "a.b", "😎"])
def test_rows_deletes_and_nested_fields_come_back(name: str, tmp_path: Path) -> None:
    inner = pa.list_(pa.struct([(name, pa.int32())]))
    nested = pa.struct([(name, pa.string()), ("b", inner)])
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), (name, nested), (f"{name}2", pa.string())])
    options = {"write.format.default": "avro"}
    table: Any = lakebed.create(tmp_path / "t", "iceberg", schema, ["id"], options=options)
    rows = [{"id": at, name: {name: "v", "b": [{name: at}]}, f"{name}2": "w"} for at in range(3)]
    data = pa.Table.from_pylist(rows, schema)
    table.write(data)
    table.write(data.slice(0, 1), "upsert")
    table.write(data.slice(1, 1), "delete")
    table.rewrite(options={"rewrite-all": "true"})
    assert sorted(table.read().read_all().to_pylist(), key=lambda row: row["id"]) == [rows[0], rows[2]]
    for file in (tmp_path / "t" / "data").rglob("*.avro"):
        written: Any = fastavro.reader(io.BytesIO(file.read_bytes())).writer_schema
        fastavro.parse_schema({**written, "name": "strict"})
        assert [field["name"] for field in written["fields"]] == ["id", avro_name(name), avro_name(f"{name}2")]
        assert written["fields"][1].get("iceberg-field-name", name) == name
