"""Types of newer Paimon releases are refused by name; what is no type is corrupt."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.paimon.codec.types import arrow_type, type_from_json, type_to_json

NEWER = [
    {"type": "VECTOR", "element": "FLOAT NOT NULL", "length": 3},
    {"type": "VECTOR NOT NULL", "element": "DOUBLE", "length": 768},
    {"type": "MULTISET", "element": "INT"},
    {"type": "ARRAY", "element": {"type": "VECTOR", "element": "FLOAT", "length": 2}},
    "VARIANT",
    "GEOMETRY('OGC:CRS84')",
    "GEOGRAPHY('OGC:CRS84', SPHERICAL)",
]


def typed(tmp_path: Path, kind: Any) -> str:
    """A table with a column of a type; where it is."""
    place = tmp_path / "d.db" / "t"
    lakebed.create(str(place), "paimon", pa.schema([("k", pa.int32()), ("v", pa.int32())]))
    path = place / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["fields"][1]["type"] = kind
    path.write_text(json.dumps(schema))
    return str(place)


@pytest.mark.parametrize("kind", NEWER, ids=str)
def test_a_column_of_a_newer_type_is_unsupported(tmp_path: Path, kind: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"lakebed does not read or write the type (VECTOR|MULT|VAR|GEO)"):
        lakebed.open(typed(tmp_path, kind)).read()


def test_large_values_outside_tables_of_data_evolution_are_unsupported(tmp_path: Path) -> None:
    assert type_to_json(type_from_json("BLOB NOT NULL")) == "BLOB NOT NULL"
    with pytest.raises(UnsupportedError, match=r"does not read column 'v' of type BLOB NOT NULL.*data-evolution"):
        lakebed.open(typed(tmp_path, "BLOB NOT NULL")).read()


@pytest.mark.parametrize("kind", NEWER, ids=str)
def test_newer_types_keep_their_spelling(kind: Any) -> None:
    read = type_from_json(kind)
    assert type_to_json(read) == kind
    with pytest.raises(UnsupportedError):
        arrow_type(read)


@pytest.mark.parametrize("kind", ["HYPERCUBE", "HYPERCUBE(3) NOT NULL", {"type": "GRAPH", "element": "INT"}], ids=str)
def test_a_type_that_lakebed_never_heard_of_is_unsupported(kind: Any) -> None:
    with pytest.raises(UnsupportedError, match="unknown type"):
        type_from_json(kind)


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "4INT",
        "INT)",
        "DECIMAL(39, 2)",
        "DECIMAL(4, 5)",
        "TIMESTAMP(10)",
        "CHAR(2147483648)",
        7,
        None,
        {"type": "ARRAY"},
        {"element": "INT"},
        {"type": 3},
    ],
    ids=str,
)
def test_what_is_no_type_is_corrupt(kind: Any) -> None:
    with pytest.raises(CorruptError):
        type_from_json(kind)
