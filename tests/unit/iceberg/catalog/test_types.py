"""Tables with types that pyiceberg does not know, in every kind of catalog: pyiceberg's clients take a table's metadata
apart, and what they do not know must stay what it is."""

from __future__ import annotations

import secrets
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

import lakebed
from lakebed.formats.iceberg.codec.schema import arrow_schema, for_pyiceberg, with_all_types
from tests.tables.iceberg.small import create

POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
VARIANT = {"metadata": b"\x01\0\0", "value": b"\x0c\x01"}
TYPES = {
    "variant": "variant", "geometry": "geometry", "geometry(srid:3857)": "geometry(srid:3857)",
    "geometry( 'EPSG:4326' )": "geometry(EPSG:4326)", "geometry(OGC:CRS84)": "geometry",
    "geography": "geography", "geography(EPSG:4326)": "geography(EPSG:4326)",
    "geography(OGC:CRS84,spherical)": "geography", "geography(srid:4326, karney)": "geography(srid:4326, karney)",
}  # fmt: skip


def document(*types: Any) -> dict[str, Any]:
    """A schema with a column of each type."""
    fields = [{"id": 2 + n, "name": f"c{n}", "required": False, "type": type} for n, type in enumerate(types)]
    many = {"type": "list", "element-id": 99, "element": "variant", "element-required": False}
    return {"type": "struct", "schema-id": 1, "fields": [
        {"id": 1, "name": "id", "required": False, "type": "int"}, *fields,
        {"id": 98, "name": "many", "required": False, "type": many},
    ]}  # fmt: skip


def test_texts_of_types() -> None:
    """Rule: the specification's JSON of types. Texts in quotes are those that pyiceberg writes."""
    schema = Schema.model_validate(with_all_types(document(*TYPES)))
    written = [field["type"] for field in schema.model_dump(by_alias=True, mode="json")["fields"]]
    assert written[1:-1] == [*TYPES.values()] and written[-1]["element"] == "variant"
    assert [str(column.field_type) for column in schema.columns[1:-1]] == [*TYPES.values()]
    binary = [column.type for column in arrow_schema(schema)][2:-1]
    assert binary == [pa.binary()] * len(binary)
    plain = Schema.model_validate(for_pyiceberg(document(*TYPES, "unknown", "decimal(9, 2)")))
    assert [str(column.field_type) for column in plain.columns[-4:]] == [
        "binary", "unknown", "decimal(9, 2)", "list<binary>",
    ]  # fmt: skip
    named = document("long")
    named["fields"][0]["name"] = "variant"
    assert for_pyiceberg(named)["fields"][0]["name"] == "variant"
    for text in ("geometry(a, b)", "geometry(", "variants"):
        with pytest.raises(Exception, match=r"geometry|recognized|Unsupported"):
            Schema.model_validate(with_all_types(document(text)))


@pytest.mark.slow
def test_a_table_of_a_catalog(catalog: dict[str, str]) -> None:
    name = f"cat:db.t{secrets.token_hex(4)}"
    made: Any = create(name, 3, **catalog)
    types = ["variant", "geometry(srid:3857)", "geography", "unknown"]
    made.alter([lakebed.add_column(f"c{number}", type) for number, type in enumerate(types)])
    table: Any = lakebed.open(name, catalog)
    row = {"id": 1, "c0": VARIANT, "c1": POINT, "c2": POINT, "c3": None}
    table.write(pa.Table.from_pylist([row], table.schema))
    lakebed.open(name, catalog).write(pa.Table.from_pylist([{**row, "id": 2}], table.schema))
    table.tag("kept")
    table.rewrite(options={"rewrite-all": True})
    table = lakebed.open(name, catalog)
    assert table.read([*row]).read_all().sort_by("id").to_pylist() == [row, {**row, "id": 2}]
    schema = table.table_metadata.schema_documents[table.table_metadata.current_schema_id]
    assert [field["type"] for field in schema["fields"]][-4:] == types
    assert isinstance(table.table_metadata.schema.find_field("c0"), NestedField) and table.expire(dry_run=True)
