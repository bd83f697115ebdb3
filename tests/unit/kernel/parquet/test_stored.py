"""Which columns of a Parquet file every reader reads alike."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.kernel.parquet.stored import StoredFile, same_values, stored_file, widens

AT = pa.timestamp("us", "UTC")
SPARK = "org.apache.spark"
ODD: tuple[tuple[str, dict[str, str], dict[str, Any]], ...] = (
    ("Julian days of Spark 2", {f"{SPARK}.version": "2.4.8"}, {}),
    ("Julian days by a mark", {f"{SPARK}.version": "3.5.0", f"{SPARK}.legacyDateTime": ""}, {}),
    ("Julian INT96", {f"{SPARK}.version": "3.5.0", f"{SPARK}.legacyINT96": ""}, {}),
    ("LZ4, of which there are two", {}, {"compression": "lz4"}),
    ("Brotli", {}, {"compression": "brotli"}),
    ("split bytes", {}, {"use_dictionary": False, "column_encoding": {"id": "BYTE_STREAM_SPLIT", "at": "PLAIN"}}),
)


def _stored(table: pa.Table, file: Path, **how: Any) -> StoredFile:
    pq.write_table(table, file, **how)
    return stored_file(pq.read_metadata(file))


@pytest.mark.parametrize(("metadata", "how"), [odd[1:] for odd in ODD], ids=[odd[0] for odd in ODD])
def test_no_column_of_an_odd_file_is_alike(tmp_path: Path, metadata: dict[str, str], how: dict[str, Any]) -> None:
    rows = pa.table({"id": pa.array([1], pa.int32()), "at": pa.array([-(10**16)], AT)})
    assert [c.kind for c in _stored(rows, tmp_path / "plain").columns] == [pa.int32(), AT]
    odd = _stored(rows.replace_schema_metadata(metadata), tmp_path / "odd", **how)
    assert [c.kind for c in odd.columns] == [None, None]


def test_the_kinds_of_columns(tmp_path: Path) -> None:
    nested = pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))])
    alike = {
        "t": (pa.bool_(), None), "i": (pa.int16(), None), "f": (pa.float32(), None),
        "s": (pa.large_string(), pa.string()), "b": (pa.binary(), None), "d": (pa.date32(), None),
        "n": (pa.timestamp("ms"), pa.timestamp("us")),
        "z": (pa.timestamp("us", "Asia/Tokyo"), AT), "x": (pa.decimal128(20, 3), None), "r": (nested, None),
        "l": (pa.list_(nested), None), "m": (pa.map_(pa.string(), nested), None),
        "y": (pa.dictionary(pa.int8(), pa.string()), pa.string()),
    }  # fmt: skip
    unlike = {
        "u": pa.uint32(), "h": pa.float16(), "w": pa.binary(4), "id": pa.uuid(), "o": pa.time64("us"),
        "Two": pa.int32(),
        "twO": pa.int32(), "twins": pa.struct([("a", pa.int8()), ("A", pa.int8())]), "e": pa.list_(pa.int8(), 2),
        "g": pa.timestamp("ns"), "lu": pa.list_(pa.uint8()),
    }  # fmt: skip
    schema = pa.schema([*((name, kind) for name, (kind, _) in alike.items()), *unlike.items()])
    stored = _stored(schema.empty_table(), tmp_path / "file", version="2.6")
    for name, (given, kind) in alike.items():
        column = stored.column(name)
        assert column is not None and column.kind is not None, name
        assert same_values(column.kind, kind or given), name
    assert {column.name for column in stored.columns if column.kind is None} == {*unlike}


def test_days_of_96_bits_are_told(tmp_path: Path) -> None:
    rows = pa.table({"at": pa.array([0], AT), "in": pa.array([{"at": 0}], pa.struct([("at", AT)])), "id": [1]})
    stored = _stored(rows, tmp_path / "file", use_deprecated_int96_timestamps=True)
    assert [(column.name, column.has_int96) for column in stored.columns] == [("at", True), ("in", True), ("id", False)]


def test_what_widens() -> None:
    assert widens(pa.int8(), pa.int64()) and widens(pa.decimal128(9, 2), pa.decimal128(12, 2))
    for narrow, wide in (
        (pa.int64(), pa.int32()), (pa.int32(), pa.float64()), (pa.float32(), pa.float64()), (pa.uint8(), pa.int16()),
        (pa.decimal128(9, 2), pa.decimal128(12, 3)), (pa.decimal128(9, 2), pa.decimal128(8, 2)),
    ):  # fmt: skip
        assert not widens(narrow, wide)
