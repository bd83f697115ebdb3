"""New Iceberg tables: schema, ids, partition spec and metadata, by path and in a catalog, read by pyiceberg."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakebed
from lakebed.errors import LakebedError, OptionError, SchemaError, TableExistsError, TableNotFoundError, UsageError

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("p", pa.struct([("x", pa.int32()), pa.field("y", pa.list_(pa.string()))])),
        ("m", pa.map_(pa.string(), pa.decimal128(9, 2))),
        ("ts", pa.timestamp("us", "UTC")),
        ("name", pa.large_string()),
    ]
)


def document(table: Any) -> dict[str, Any]:
    return dict(table.table_metadata.document)


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_ids_specs_and_keys_are_those_of_the_reference_engine(tmp_path: Path, version: str) -> None:
    table = lakebed.create(
        tmp_path / "t", "iceberg", SCHEMA, "id", ["bucket(8, id)", "days(ts)", "truncate(4, name)", "NAME"],
        {"format-version": version, "write.format.default": "orc"},
    )  # fmt: skip
    found = document(table)
    (schema,) = found["schemas"]
    fields = {f["name"]: f for f in schema["fields"]}
    assert [f["id"] for f in schema["fields"]] == [1, 2, 3, 4, 5]
    assert [f["id"] for f in fields["p"]["type"]["fields"]] == [6, 7]
    assert fields["p"]["type"]["fields"][1]["type"]["element-id"] == 8
    assert (fields["m"]["type"]["key-id"], fields["m"]["type"]["value-id"]) == (9, 10)
    assert found["last-column-id"] == 10
    assert schema["identifier-field-ids"] == [1]
    assert fields["id"]["required"] and not fields["ts"]["required"]
    assert found["partition-specs"][0]["fields"] == [
        {"source-id": 1, "field-id": 1000, "transform": "bucket[8]", "name": "id_bucket"},
        {"source-id": 4, "field-id": 1001, "transform": "day", "name": "ts_day"},
        {"source-id": 5, "field-id": 1002, "transform": "truncate[4]", "name": "name_trunc"},
        {"source-id": 5, "field-id": 1003, "transform": "identity", "name": "name"},
    ]
    assert found["properties"] == {"write.format.default": "orc"}
    assert ("next-row-id" in found, "last-sequence-number" in found) == (version == "3", version != "1")
    assert (tmp_path / "t/metadata/version-hint.text").read_text() == "1"
    read = StaticTable.from_metadata(str(tmp_path / "t/metadata/v1.metadata.json"))
    assert read.schema().find_field("p.y.element").field_id == 8
    assert read.metadata.format_version == int(version)
    assert table.history() == []
    assert table.read().read_all().num_rows == 0


def test_parts_of_columns_may_be_null_as_the_arrow_schema_says(tmp_path: Path) -> None:
    required = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
    schema = pa.schema(
        [
            ("m", pa.map_(pa.string(), pa.int64())), ("r", required), ("l", pa.list_(pa.int64())),
            ("q", pa.list_(pa.field("element", pa.int64(), nullable=False))),
        ]
    )  # fmt: skip
    table = lakebed.create(tmp_path / "t", "iceberg", schema)
    kinds = {field["name"]: field["type"] for field in document(table)["schemas"][0]["fields"]}
    assert [kinds[name]["value-required"] for name in "mr"] == [False, True]
    assert [kinds[name]["element-required"] for name in "lq"] == [False, True]
    rows = [{"m": [("a", None), ("b", 1)], "r": [("a", 1)], "l": [None], "q": [1]}]
    table.write(pa.Table.from_pylist(rows, schema))
    assert table.read().read_all().to_pylist() == rows
    with pytest.raises(SchemaError, match=r"nulls inside, in r\.value"):
        table.write(pa.table([pa.array([[("a", None)]], pa.map_(pa.string(), pa.int64()))], ["r"]))
    assert table.read().read_all().to_pylist() == rows


@pytest.mark.parametrize(
    ("schema", "options", "partition_by", "error", "words"),
    [
        (pa.schema([("a", pa.uint64())]), {}, (), SchemaError, "uint64"),
        (pa.schema([("a", pa.timestamp("ns"))]), {}, (), SchemaError, "format-version=3"),
        (pa.schema([("a", pa.int64()), ("a", pa.int64())]), {}, (), SchemaError, "two columns have the name 'a'"),
        (pa.schema([("_row_kind", pa.string())]), {}, (), SchemaError, "'_row_kind' is reserved for metadata"),
        (pa.schema([("_pos", pa.int64())]), {}, (), SchemaError, "'_pos' is reserved for metadata"),
        (pa.schema([("a", pa.int64())]), {"format-version": "4"}, (), OptionError, "1, 2 or 3"),
        (pa.schema([("a", pa.int64())]), {"commit.retry.num-retries": "many"}, (), OptionError, "num-retries"),
        (pa.schema([("a", pa.int64())]), {}, ("bucket(a)",), UsageError, "bucket"),
        (pa.schema([("a", pa.int64())]), {}, ("day(a)",), UsageError, "cannot partition a column of type long"),
        (pa.schema([("a", pa.list_(pa.int64()))]), {}, ("void(a)",), UsageError, "partition a column of type list"),
        (pa.schema([("a", pa.int64())]), {}, ("b",), UsageError, "unknown column 'b'"),
        (pa.schema([("a", pa.int64())]), {}, ("bucket(2, a)", "bucket(2, a)"), UsageError, "twice"),
    ],
)
def test_what_iceberg_does_not_allow_is_refused(
    tmp_path: Path, schema: pa.Schema, options: dict[str, str], partition_by: Any, error: type[LakebedError], words: str
) -> None:
    with pytest.raises(error, match=words.replace("(", r"\(")):
        lakebed.create(tmp_path / "t", "iceberg", schema, (), partition_by, options)
    assert not (tmp_path / "t").exists()


def test_spaces_of_a_columns_name_count_where_it_is_partitioned_by(tmp_path: Path) -> None:
    """Around the names of others they are left out."""
    table = lakebed.create(tmp_path / "t", "iceberg", {" x": "string", "y": "string"}, (), [" x", " y "])
    table.write(pa.table({" x": ["a", "b"], "y": ["c", "d"]}))
    (spec,) = document(table)["partition-specs"]
    assert [field["name"] for field in spec["fields"]] == [" x", "y"]
    assert table.count(where="` x` = 'a'") == 1


def test_a_table_is_made_once(tmp_path: Path) -> None:
    lakebed.create(tmp_path / "t", "iceberg", SCHEMA)
    with pytest.raises(TableExistsError):
        lakebed.create(tmp_path / "t", "iceberg", SCHEMA)


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_a_table_in_a_catalog(tmp_path: Path, version: str) -> None:
    catalog = {
        "lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/c.db",
        "lakebed.catalog.warehouse": str(tmp_path / "wh"),
    }  # fmt: skip
    with pytest.raises(TableNotFoundError):
        lakebed.open("cat:ns.t", catalog)
    made = lakebed.create(
        "cat:ns.t", "iceberg", SCHEMA, "id", "bucket(4, id)", {**catalog, "format-version": version, "a.b": "c"}
    )
    table = lakebed.open("cat:ns.t", catalog)
    assert made.location == table.location
    assert table.table_metadata.format_version == int(version)  # type: ignore[attr-defined]
    assert document(table)["properties"]["a.b"] == "c"
    assert document(table)["partition-specs"][0]["fields"][0]["name"] == "id_bucket"
    assert document(table)["schemas"][0]["identifier-field-ids"] == [1]
    with pytest.raises(TableExistsError):
        lakebed.create("cat:ns.t", "iceberg", SCHEMA, options=catalog)


def test_unknown_fields_of_the_metadata_outlive_a_change(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "iceberg", SCHEMA, options={"format-version": "3"})
    path = tmp_path / "t/metadata/v1.metadata.json"
    before = json.loads(path.read_text()) | {"extra-keys": [{"key-id": "k", "x": 1}], "of-a-later-version": [1]}
    path.write_text(json.dumps(before))
    from lakebed.formats.iceberg.commit.loop import change_metadata

    change_metadata(
        table.operations,
        lambda _: ([], [{"action": "set-properties", "updates": {"a": "b"}}]),  # type: ignore[attr-defined]
    )
    after = document(lakebed.open(tmp_path / "t"))
    assert after["extra-keys"] == before["extra-keys"]
    assert after["of-a-later-version"] == [1]
    assert after["metadata-log"] == [{"timestamp-ms": before["last-updated-ms"], "metadata-file": str(path)}]
    changed = {"properties", "metadata-log", "last-updated-ms"}
    assert {k: v for k, v in after.items() if k not in changed} == {k: v for k, v in before.items() if k not in changed}


def test_the_size_of_splits_is_a_property_of_the_table(tmp_path: Path) -> None:
    table = lakebed.create(
        tmp_path / "t", "iceberg", SCHEMA, options={"read.split.target-size": "1000", "branch": "main"}
    )
    assert document(table)["properties"] == {"read.split.target-size": "1000"}
    with pytest.raises(OptionError, match=r"read\.split\.target-size"):
        lakebed.create(tmp_path / "other", "iceberg", SCHEMA, options={"read.split.target-size": "much"})
    assert not (tmp_path / "other").exists()
