"""Avro data files: what the vectorised writer makes, fastavro and the reader take for the same rows."""

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.avro_columns import avro_schema, encode_records
from tests.golden import unpack

ROW = pa.struct([pa.field("x", pa.int32(), False), ("y", pa.string())])
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "tiny": (pa.int8(), st.integers(-128, 127)),
    "number": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "single": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(max_size=20)),
    "data": (pa.binary(), st.binary(max_size=200)),
    "numbers": (pa.list_(pa.int64()), st.lists(st.none() | st.integers(-9, 2**40), max_size=4)),
    "named": (pa.map_(pa.string(), pa.int32()), st.dictionaries(st.text(max_size=3), st.none() | st.integers(0, 9))),
    "row": (ROW, st.fixed_dictionaries({"x": st.integers(0, 300), "y": st.none() | st.text(max_size=3)})),
    "rows": (
        pa.list_(ROW),
        st.lists(st.none() | st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.none() | st.text()}), max_size=3),
    ),
}


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_fastavro_reads_what_was_encoded(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(TYPES)), unique=True, min_size=1, max_size=5))
    rows = data.draw(st.integers(0, 6))
    fields, columns = [], []
    for name in names:
        kind, values = TYPES[name]
        nullable = data.draw(st.booleans())
        drawn = data.draw(st.lists(st.none() | values if nullable else values, min_size=rows + 1, max_size=rows + 1))
        fields.append(pa.field(name, kind, nullable))
        pairs = [list(v.items()) if isinstance(v, dict) and pa.types.is_map(kind) else v for v in drawn]
        columns.append(pa.array(pairs, kind).slice(1))  # a slice, so that offsets count
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
    source = io.BytesIO(encode_records(batch))
    schema = fastavro.parse_schema(avro_schema(batch.schema))
    found = [fastavro.schemaless_reader(source, schema, None) for _ in range(rows)]
    assert source.read() == b""
    wanted = [
        {name: dict(v) if pa.types.is_map(batch.schema.field(name).type) and v is not None else v
         for name, v in row.items()}
        for row in batch.to_pylist()
    ]  # fmt: skip
    assert found == wanted


@pytest.mark.parametrize("unscaled", [0, 1, -1, 127, 128, -128, -129, 255, 256, 10**29, -(10**29)])
def test_decimals_are_as_short_as_javas(unscaled: int) -> None:
    column = pa.array([Decimal(unscaled)], pa.decimal128(30, 0))
    size = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8) + 1
    batch = pa.RecordBatch.from_arrays([column], schema=pa.schema([pa.field("d", column.type, False)]))
    assert encode_records(batch) == bytes([size * 2]) + unscaled.to_bytes(size, "big", signed=True)


@pytest.mark.parametrize("name", ["types_avro", "types_pk_avro"])
def test_the_schema_is_the_jvms_and_every_type_comes_back(name: str, tmp_path: Path) -> None:
    golden = lakebed.open(unpack("paimon", name))
    key = golden.table_schema.primary_keys  # type: ignore[attr-defined]
    options = {"file.format": "avro", **({"bucket": "1"} if key else {})}
    table = lakebed.create(tmp_path / "t", "paimon", golden.schema, key, options=options)
    table.write(golden.read().read_all())
    assert repr(table.read().read_all().to_pylist()) == repr(golden.read().read_all().to_pylist())
    ours, theirs = (
        fastavro.schema.to_parsing_canonical_form(_schema_of(next(Path(t.location).rglob("data-*.avro"))))
        for t in (table, golden)
    )
    assert ours == theirs


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.map_(pa.int32(), pa.int32()), pa.list_(pa.timestamp("ns"))])
def test_what_avro_lacks_is_refused_by_name(kind: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("odd", kind)])
    table = lakebed.create(tmp_path / "t", "paimon", schema, options={"file.format": "avro"})
    with pytest.raises(UnsupportedError, match="column 'odd'"):
        table.write(pa.table([[1], pa.nulls(1, kind)], schema=schema))
    assert table.history() == []
    assert not list((tmp_path / "t").rglob("*.avro"))


def test_files_end_at_their_target_size(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    options = {"file.format": "avro", "target-file-size": "20 kb", "file.compression": "none"}
    table = lakebed.create(tmp_path / "t", "paimon", schema, options=options)
    table.write(pa.table([list(range(40_000))], schema=schema))
    assert len(list((tmp_path / "t").rglob("*.avro"))) > 2
    assert sorted(table.read().read_all()["id"].to_pylist()) == list(range(40_000))


def _schema_of(file: Path) -> Any:
    with file.open("rb") as source:
        header = fastavro.schemaless_reader(
            source,
            fastavro.parse_schema({
                "type": "record", "name": "h", "fields": [
                    {"name": "magic", "type": {"type": "fixed", "name": "m", "size": 4}},
                    {"name": "meta", "type": {"type": "map", "values": "bytes"}},
                ],
            }),
            None,
        )  # fmt: skip
    assert isinstance(header, dict)
    return fastavro.parse_schema(json.loads(header["meta"]["avro.schema"]))
