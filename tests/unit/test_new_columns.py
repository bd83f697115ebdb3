"""Columns that no table can have are refused in one way by all formats, before there is a table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError, SchemaError

FORMATS = ["hudi", "paimon", "iceberg"]
NO_FIELD = pa.struct([])
TWICE = pa.struct([pa.field("a", pa.int32()), pa.field("a", pa.int64())])
WRONG = [
    (NO_FIELD, "column 'x' has a struct without fields"),
    (pa.list_(NO_FIELD), "column 'x' has a struct without fields"),
    (pa.map_(pa.string(), NO_FIELD), "column 'x' has a struct without fields"),
    (pa.struct([pa.field("x", NO_FIELD)]), "column 'x' has a struct without fields"),
    (TWICE, "a struct in column 'x' has two fields 'a'"),
    (pa.list_(pa.struct([pa.field("x", TWICE)])), "a struct in column 'x' has two fields 'a'"),
]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("kind", "error"), WRONG)
def test_structs_without_fields_or_with_one_twice(tmp_path: Path, format: str, kind: pa.DataType, error: str) -> None:
    with pytest.raises(SchemaError, match=error):
        lakebed.create(tmp_path / "t", format, pa.schema([pa.field("id", pa.int64()), pa.field("x", kind)]))
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("format", ["paimon", "iceberg"])
@pytest.mark.parametrize("kind", [kind for kind, _ in WRONG])
def test_an_alteration_adds_no_such_column(tmp_path: Path, format: str, kind: pa.DataType) -> None:
    table = lakebed.create(tmp_path / "t", format, {"id": "int64"})
    with pytest.raises(SchemaError):
        table.alter([lakebed.add_column("x", kind)])
    assert lakebed.open(tmp_path / "t").schema.names == ["id"]


@pytest.mark.parametrize("format", FORMATS)
def test_two_columns_of_one_name(tmp_path: Path, format: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("id", pa.int64())])
    with pytest.raises(SchemaError, match="two columns have the name 'id'"):
        lakebed.create(tmp_path / "t", format, schema, ["id"])
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("format", ["hudi", "paimon"])
def test_a_table_without_columns(tmp_path: Path, format: str) -> None:
    with pytest.raises(LakebedError, match="a table needs at least one column"):
        lakebed.create(tmp_path / "t", format, pa.schema([]))
