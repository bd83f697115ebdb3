"""Changes of a table's definition, without a table: the next metadata, and what is refused."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataUtil

import lakebed
from lakebed.errors import LakebedError, OptionError, SchemaError, UnsupportedError, UsageError
from lakebed.formats.iceberg.alter.plan import Altered, altered
from lakebed.formats.iceberg.codec.metadata import TableMetadata, metadata_to_json
from lakebed.formats.iceberg.codec.updates import applied
from lakebed.formats.iceberg.definition import new_metadata, new_schema, new_spec

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int32(), False),
        pa.field("dt", pa.date32()),
        pa.field("ts", pa.timestamp("us")),
        pa.field("n", pa.int32()),
        pa.field("price", pa.decimal128(5, 2)),
        pa.field("s", pa.struct([("x", pa.int32()), ("deep", pa.list_(pa.struct([("y", pa.float32())])))])),
        pa.field("m", pa.map_(pa.string(), pa.int32())),
    ]
)
NAMES = (
    '[{"field-id":4,"names":["n"]},{"field-id":6,"names":["s"],"fields":[{"field-id":8,"names":["x"]},'
    '{"field-id":9,"names":["deep"],"fields":[{"field-id":10,"names":["element"],"fields":'
    '[{"field-id":11,"names":["y"]}]}]}]}]'
)


def table(version: int = 2, *partition_by: str, rows: bool = True, **properties: str) -> TableMetadata:
    schema = new_schema(COLUMNS, ["id"], version, "t")
    spelled = {key.replace("__", "-").replace("_", "."): value for key, value in properties.items()}
    document = new_metadata("file:/t", schema, new_spec(schema, partition_by, "t"), version, spelled)
    if rows:
        document["snapshots"] = [{"snapshot-id": 1, "timestamp-ms": 1, "manifest-list": "m", "summary": {}}]
    return TableMetadata(document)


def change(*changes: Any, of: TableMetadata | None = None) -> Altered:
    return altered(of or table(), changes, "t")


def after(*changes: Any, of: TableMetadata | None = None) -> TableMetadata:
    """The metadata after changes. pyiceberg's own model takes it."""
    before = of or table()
    document = applied(before, change(*changes, of=before).updates, 5, "v1")
    made = TableMetadata(document)
    made.check()
    TableMetadataUtil.parse_raw(metadata_to_json({**document, "snapshots": []}).decode())
    return made


def columns(schema: Schema) -> dict[str, str]:
    return {name: str(schema.find_field(name).field_type) for name in schema.column_names}


def fields(spec: PartitionSpec) -> list[tuple[int, int, str, str]]:
    return [(one.field_id, one.source_id, str(one.transform), one.name) for one in spec.fields]


def test_every_change_of_columns_has_its_line_and_field_ids_are_never_used_again() -> None:
    result = change(
        lakebed.add_column("tax", "DECIMAL(10, 2)", comment="in euro", after="N"),
        lakebed.add_column("s.deep.element.z", pa.struct([("q", pa.date32())]), first=True),
        lakebed.drop_column("s.x"),
        lakebed.rename_column("price", "cost"),
        lakebed.widen("n", "int64"),
        lakebed.widen("m.value", "long"),
        lakebed.widen("s.deep.element.y", "double"),
        lakebed.widen("cost", "decimal(9, 2)"),
        lakebed.move_column("cost", first=True),
        lakebed.move_column("s.deep.element.y", before="z"),
        lakebed.set_nullable("id"),
        lakebed.set_comment("s.deep", "inside"),
        lakebed.set_comment(None, "whole"),
        lakebed.set_identifier_fields(),
        lakebed.set_sort_order("bucket(4, id) desc", "dt nulls last"),
    )
    assert result.lines == (
        "add column tax decimal(10, 2) after N",
        "add column s.deep.element.z struct<16: q: optional date> to the front",
        "drop column s.x int", "rename column price to cost", "column n: int becomes long",
        "column m.value: int becomes long", "column s.deep.element.y: float becomes double",
        "column cost: decimal(5, 2) becomes decimal(9, 2)", "move column cost to the front",
        "move column s.deep.element.y before z", "column id may be null", "column s.deep: comment 'inside'",
        "property comment: whole", "identifier fields: none", "sort order: bucket(4, id) desc, dt nulls last",
    )  # fmt: skip
    kinds = {requirement["type"] for requirement in result.requirements}
    assert kinds == {"assert-last-assigned-field-id", "assert-current-schema-id", "assert-default-sort-order-id"}
    made = after(*[lakebed.add_column("a", "int"), lakebed.drop_column("a")])
    assert made.schema == table().schema and made.current_schema_id == 0
    once = after(lakebed.add_column("a", "int"))
    again = after(lakebed.add_column("a", "int"), of=after(lakebed.drop_column("a"), of=once))
    assert [metadata.schema.find_field("a").field_id for metadata in (once, again)] == [14, 15]
    assert again.last_column_id == 15 and sorted(again.schemas) == [0, 1, 2]


def test_a_schema_that_the_table_had_gets_its_id_back() -> None:
    once = after(lakebed.rename_column("n", "number"))
    back = after(lakebed.rename_column("number", "n"), of=once)
    assert (once.current_schema_id, back.current_schema_id, len(back.schemas)) == (1, 0, 2)
    assert change(lakebed.rename_column("n", "n")).updates == ()


def test_partition_fields_keep_their_ids() -> None:
    base = table(2, "month(dt)", "n")
    made = after(lakebed.replace_partition_field("dt_month", "days(dt)"), of=base)
    assert fields(made.spec) == [(1001, 4, "identity", "n"), (1002, 2, "day", "dt_day")]
    made = after(
        lakebed.rename_partition_field("identity(n)", "nn"), lakebed.add_partition_field("bucket(8, s.x)"), of=made
    )
    assert fields(made.spec)[0] == (1001, 4, "identity", "nn") and fields(made.spec)[2:] == [
        (1003, 8, "bucket[8]", "s.x_bucket_8")
    ]
    gone = after(*(lakebed.drop_partition_field(name) for name in ("nn", "day(dt)", "s.x_bucket_8")), of=made)
    assert gone.spec.fields == () and gone.last_partition_id == 1003
    back = after(lakebed.add_partition_field("month(dt)"), lakebed.add_partition_field("n"), of=gone)
    assert back.default_spec_id == 0 and fields(back.spec) == fields(base.spec), "it is the spec that it was"
    assert set(back.specs) == {0, 1, 2, 3}


def test_version_1_keeps_a_dropped_partition_field_as_void() -> None:
    base = table(1, "month(dt)", "n")
    made = after(lakebed.drop_partition_field("dt_month"), of=base)
    assert fields(made.spec) == [(1000, 2, "void", "dt_month"), (1001, 4, "identity", "n")]
    assert [field["transform"] for field in made.document["partition-spec"]] == ["void", "identity"]
    again = after(lakebed.add_partition_field("month(dt)"), of=made)
    assert fields(again.spec) == [
        (1000, 2, "void", "dt_month_1000"), (1001, 4, "identity", "n"), (1002, 2, "month", "dt_month"),
    ]  # fmt: skip
    gone = after(lakebed.drop_partition_field("dt_month"), lakebed.drop_column("dt"), of=again)
    assert gone.document["schema"]["schema-id"] == 1 and "dt" not in columns(gone.schema)
    upgraded = after(lakebed.set_option("format-version", "2"), of=gone)
    assert "schema" not in upgraded.document and "partition-spec" not in upgraded.document
    assert upgraded.specs == gone.specs and upgraded.schemas == gone.schemas
    assert after(lakebed.set_option("format-version", 3), of=upgraded).next_row_id == 0


def test_an_old_document_of_version_1_gets_its_lists() -> None:
    document = dict(table(1, "n", rows=False).document)
    newer = ("schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id", "sort-orders")
    for key in (*newer, "default-sort-order-id", "table-uuid"):
        del document[key]
    old = TableMetadata({**document, "schema": {k: v for k, v in document["schema"].items() if k != "schema-id"}})
    made = after(lakebed.add_column("a", "int"), lakebed.add_partition_field("day(dt)"), of=old)
    assert sorted(made.schemas) == [0, 1] and fields(made.spec)[1] == (1001, 2, "day", "dt_day")
    upgraded = after(lakebed.set_option("format-version", 2), of=old)
    assert upgraded.uuid and upgraded.specs == old.specs and upgraded.current_schema_id == 0


def test_defaults_of_version_3() -> None:
    made = after(
        lakebed.add_column("a", "int", default=5, nullable=False),
        lakebed.add_column("b", "date", default="2020-01-02"), lakebed.add_column("c", "decimal(5, 2)", default="1.5"),
        lakebed.add_column("s.d", "uuid", default="0" * 32),
        lakebed.add_column("e", "timestamptz", default=datetime.datetime(2020, 1, 2)),
        lakebed.add_column("f", "fixed[2]", default=b"ab"), lakebed.widen("a", "long"), lakebed.widen("b", "timestamp"),
        lakebed.set_default("c", 2), lakebed.set_default("f", None), of=table(3),
    )  # fmt: skip
    stored = {field["name"]: field for field in made.document["schemas"][-1]["fields"]}
    kept = {name: (f.get("initial-default"), f.get("write-default")) for name, f in stored.items() if name in "abcef"}
    assert kept == {
        "a": (5, 5), "b": ("2020-01-02T00:00:00", "2020-01-02T00:00:00"), "c": ("1.50", "2.00"),
        "e": ("2020-01-02T00:00:00+00:00", "2020-01-02T00:00:00+00:00"), "f": ("6162", None),
    }  # fmt: skip
    assert stored["a"]["required"] and made.schema.find_field("c").initial_default == Decimal("1.50")
    upgraded = after(lakebed.set_option("format-version", 3), lakebed.add_column("a", "int", default=1))
    assert upgraded.format_version == 3


def test_types_of_version_3() -> None:
    made = after(lakebed.add_column("u", "unknown"), lakebed.add_column("w", "timestamp_ns"), of=table(3))
    made = after(lakebed.widen("u", "string"), lakebed.widen("dt", "timestamp"), of=made)
    assert (columns(made.schema)["u"], columns(made.schema)["dt"]) == ("string", "timestamp")
    assert change(lakebed.add_column("v", "variant"), of=table(3)).schema.find_field("v")
    for by in ("dt", "bucket(2, dt)"):
        moved = after(lakebed.drop_partition_field(by), of=table(3, by))
        for base in (table(3, by), moved):
            with pytest.raises(SchemaError, match="'dt' stays a date"):
                change(lakebed.widen("dt", "timestamp"), of=base)
    assert after(lakebed.widen("dt", "timestamp"), of=table(3, "month(dt)")).spec.fields


def test_metadata_that_counts_too_low() -> None:
    low = TableMetadata({**table().document, "last-column-id": 3})
    assert after(lakebed.add_column("a", "int"), of=low).schema.find_field("a").field_id == 14


def test_a_spec_whose_source_is_gone_can_be_mended() -> None:
    fields = [{"source-id": 99, "field-id": 1000, "transform": "identity", "name": "gone"}]
    broken = TableMetadata({**table().document, "partition-specs": [{"spec-id": 0, "fields": fields}]})
    assert after(lakebed.drop_partition_field("gone"), of=broken).spec.fields == ()


def test_the_name_mapping_and_the_properties_of_columns_follow() -> None:
    properties = {
        "schema.name-mapping.default": NAMES, "write.metadata.metrics.column.n": "full",
        "write.parquet.bloom-filter-enabled.column.s.x": "true", "write.parquet.stats-enabled.column.dt": "false",
    }  # fmt: skip
    base = TableMetadata({**table().document, "properties": properties})
    made = after(
        lakebed.rename_column("n", "number"), lakebed.add_column("n", "int"), lakebed.rename_column("s", "t"),
        lakebed.add_column("t.deep.element.z", "int"), lakebed.drop_column("dt"), of=base,
    )  # fmt: skip
    mapping = json.loads(made.properties["schema.name-mapping.default"])
    by_id = {field["field-id"]: field["names"] for field in mapping}
    assert by_id == {4: ["number"], 6: ["s", "t"], 14: ["n"]}, "a name leads to one column"
    inside = mapping[1]["fields"][1]["fields"][0]["fields"]
    assert [field["names"] for field in inside] == [["y"], ["z"]]
    assert {key for key in made.properties if "column" in key} == {
        "write.metadata.metrics.column.number", "write.parquet.bloom-filter-enabled.column.t.x",
    }  # fmt: skip
    broken = TableMetadata({**base.document, "properties": {"schema.name-mapping.default": "{"}})
    assert "is not a name mapping" in change(lakebed.add_column("q", "int"), of=broken).notes[0]


def test_properties() -> None:
    base = table(2, commit_retry_num__retries="3")
    made = after(lakebed.set_option("write.x", True), lakebed.remove_option("commit.retry.num-retries"), of=base)
    assert dict(made.properties) == {"write.x": "true"}
    assert "'commit.retry.num-retries'" in change(lakebed.remove_option("commit.retry.num-retry"), of=base).notes[0]
    assert change(lakebed.set_option("commit.retry.num-retries", 3), of=base).updates == ()


def test_a_required_column_comes_only_while_the_table_is_empty() -> None:
    empty = table(rows=False)
    result = change(lakebed.add_column("must", "int", nullable=False), lakebed.set_nullable("n", False), of=empty)
    assert {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None} in result.requirements
    late = change(lakebed.add_column("a", "int", default=1), lakebed.set_nullable("a", False), of=table(3))
    assert late.schema.find_field("a").required


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        (lakebed.add_column("a", "int", nullable=False), SchemaError, "needs a default value"),
        (lakebed.add_column("a", "int", default=1), SchemaError, "version 2, and defaults came with version 3"),
        (lakebed.add_column("a", "timestamp_ns"), SchemaError, "from format version 3"),
        (lakebed.add_column("a", "nothing"), SchemaError, "unknown type 'nothing'"),
        (lakebed.add_column("dt", "int"), SchemaError, "already a column 'dt'"),
        (lakebed.add_column("_file", "int"), SchemaError, "reserved"),
        (lakebed.add_column("n.a", "int"), SchemaError, "has no field 'a'"),
        (lakebed.add_column(("s.x",), "int"), SchemaError, "would be called 's.x'"),
        (lakebed.add_column("m.key.a", "int"), SchemaError, "keys of"),
        (lakebed.add_column("m.a", "int"), SchemaError, "Go on with 'value'"),
        (lakebed.add_column("a", "int", after="b", before="n"), SchemaError, "two places"),
        (lakebed.add_column("n_bucket_4", "int"), SchemaError, "both have the name"),
        (lakebed.drop_column("gone"), SchemaError, "no column 'gone'"),
        (lakebed.drop_column("id"), SchemaError, "identifies rows"),
        (lakebed.drop_column("n"), SchemaError, "partition field 'n_bucket_4' comes from"),
        (lakebed.drop_column("price"), SchemaError, "that rows are sorted by"),
        (lakebed.drop_column("m.value"), SchemaError, "not a field"),
        (lakebed.rename_column("n", "dt"), SchemaError, "already a column"),
        (lakebed.widen("n", "string"), SchemaError, "cannot change from int to string"),
        (lakebed.widen("n", "float"), SchemaError, "cannot change"),
        (lakebed.widen("price", "decimal(9, 3)"), SchemaError, "cannot change"),
        (lakebed.widen("dt", "timestamp"), SchemaError, "earlier one"),
        (lakebed.widen("s", "string"), SchemaError, "only plain types"),
        (lakebed.move_column("n"), SchemaError, "a place"),
        (lakebed.move_column("s.x", after="n"), SchemaError, "no column 'n'"),
        (lakebed.set_nullable("n", False), SchemaError, "may have null"),
        (lakebed.set_nullable("id"), SchemaError, "it may be null"),
        (lakebed.set_identifier_fields("n"), SchemaError, "it may be null"),
        (lakebed.set_identifier_fields("m.value"), SchemaError, "cannot identify rows"),
        (lakebed.set_default("n", 1), SchemaError, "came with version 3"),
        (lakebed.add_partition_field("n_bucket_4"), SchemaError, "no column"),
        (lakebed.add_partition_field("bucket(4, n)"), SchemaError, "already"),
        (lakebed.add_partition_field("day(n)"), SchemaError, "does not apply"),
        (lakebed.add_partition_field("m.value", ""), SchemaError, "inside a list or a map"),
        (lakebed.add_partition_field("half(n)"), UsageError, "not a transform"),
        (lakebed.add_partition_field("day(ts)", "n"), SchemaError, "both have the name 'n'"),
        (lakebed.drop_partition_field("dt"), SchemaError, "Fields: n_bucket_4"),
        (lakebed.set_sort_order("s"), SchemaError, "does not apply"),
        (lakebed.set_sort_order("n sideways"), SchemaError, "no column"),
        (lakebed.set_option("format-version", 1), OptionError, "cannot go back from format version 2 to 1"),
        (lakebed.set_option("format-version", 4), OptionError, "1, 2 or 3"),
        (lakebed.set_option("uuid", "x"), OptionError, "has a field for that"),
        (lakebed.set_option("branch", "x"), OptionError, "lakebed.open"),
        (lakebed.set_option("commit.retry.num-retries", "many"), OptionError, "many"),
        (lakebed.set_option("encryption.key-id", "k"), UnsupportedError, "ncrypt"),
        (lakebed.remove_option("format-version"), OptionError, "always has"),
        (lakebed.set_option("a", None), OptionError, "remove_option"),
    ],
)  # fmt: skip
def test_what_iceberg_refuses(wrong: Any, kind: type[LakebedError], said: str) -> None:
    base = after(lakebed.add_partition_field("bucket(4, n)"), lakebed.set_sort_order("price"))
    base = TableMetadata({**base.document, "snapshots": table().document["snapshots"]})
    with pytest.raises(kind) as raised:
        change(wrong, of=base)
    assert type(raised.value) is kind and said in str(raised.value), str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lakebed.add_column("a", "long", default=1.5), "it is a float"),
        (lakebed.add_column("a", "int", default=2**40), "too large"),
        (lakebed.add_column("a", "boolean", default=1), "it is a int"),
        (lakebed.add_column("a", "timestamp", default=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)), "time zone"),
        (lakebed.add_column("a", "double", default=float("nan")), "cannot hold"),
        (lakebed.add_column("a", pa.list_(pa.int32()), default=[1]), "no defaults of the type"),
        (lakebed.add_column("a", "uuid", default="x"), "cannot have the default"),
    ],
)
def test_defaults_that_do_not_fit(wrong: Any, said: str) -> None:
    with pytest.raises(LakebedError, match=said):
        change(wrong, of=table(3))
    required = after(lakebed.add_column("a", "int", default=1, nullable=False), of=table(3))
    with pytest.raises(SchemaError, match="needs its default"):
        change(lakebed.set_default("a", None), of=required)
