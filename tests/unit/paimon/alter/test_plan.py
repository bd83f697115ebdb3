"""Changes of a schema, without a table: the next version, and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError, OptionError, SchemaError, UnsupportedError
from lakebed.formats.paimon.alter.plan import Altered, altered
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.definition import new_schema

COLUMNS = pa.schema(
    [
        pa.field("dt", pa.string(), False),
        pa.field("id", pa.int64(), False),
        pa.field("n", pa.int32()),
        pa.field("t", pa.string()),
        pa.field("s", pa.struct([("x", pa.int32()), ("deep", pa.list_(pa.struct([("y", pa.int32())])))])),
        pa.field("m", pa.map_(pa.string(), pa.list_(pa.int32()))),
        pa.field("must", pa.int32(), False),
    ]
)


def schema(primary_key: tuple[str, ...] = ("dt", "id"), **options: str) -> TableSchema:
    spelled = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return new_schema(COLUMNS, primary_key, ("dt",), {"bucket": "2", **spelled}, "t")


def change(*changes: Any, before: TableSchema | None = None, has_rows: bool = True) -> Altered:
    return altered(before or schema(), changes, has_rows, "t")


def columns(result: Altered) -> dict[str, str]:
    return {field.name: str(field.type) for field in result.schema.fields}


def test_every_change_has_its_line() -> None:
    result = change(
        lakebed.add_column("price", "DECIMAL(10, 2)", default="0.5", comment="in euro", after="N"),
        lakebed.add_column("s.deep.element.z", pa.struct([("q", pa.date32())])),
        lakebed.drop_column("s.x"),
        lakebed.rename_column("T", "text"),
        lakebed.widen("n", "int64"),
        lakebed.widen("m.value.element", "BIGINT"),
        lakebed.move_column("must", first=True),
        lakebed.set_nullable("must"),
        lakebed.set_default("text", "'a'"),
        lakebed.set_comment("s.deep", "inside"),
        lakebed.set_comment(None, "whole"),
        lakebed.set_option("SNAPSHOT.num-retained.min", 3),
        lakebed.remove_option("snapshot.num-retained.min"),
    )
    assert result.lines == (
        "add column price DECIMAL(10, 2) after N", "column price: default value '0.5'",
        "add column s.deep.element.z ROW<q DATE>", "drop column s.x INT", "rename column t to text",
        "column n: INT becomes BIGINT", "column m.value.element: INT becomes BIGINT", "move column must to the front",
        "column must: may be null", "column text: default value \"'a'\"", "column s.deep: comment 'inside'",
        "comment of the table: 'whole'", "option snapshot.num-retained.min: 3",
        "option snapshot.num-retained.min: removed (was 3)",
    )  # fmt: skip
    assert columns(result) == {
        "must": "INT", "dt": "STRING NOT NULL", "id": "BIGINT NOT NULL", "n": "BIGINT", "price": "DECIMAL(10, 2)",
        "text": "STRING", "s": "ROW<deep ARRAY<ROW<y INT, z ROW<q DATE>>>>", "m": "MAP<STRING NOT NULL, ARRAY<BIGINT>>",
    }  # fmt: skip
    before = schema()
    price = result.schema.field("price")
    assert price.id == before.highest_field_id + 1 and price.description == "in euro" and price.default == "0.5"
    assert result.schema.highest_field_id == before.highest_field_id + 3
    assert result.schema.comment == "whole" and result.schema.field("text").id == before.field("t").id


REFUSED: list[tuple[Any, type[LakebedError], str]] = [
    (lakebed.add_column("n", "INT"), SchemaError, "already a column 'n'"),
    (lakebed.add_column("new", "INT", nullable=False), SchemaError, "cannot be NOT NULL"),
    (lakebed.add_column("new", "INT NOT NULL"), SchemaError, "cannot be NOT NULL"),
    (lakebed.add_column("_ROW_ID", "INT"), SchemaError, "reserves"),
    (lakebed.add_column("new", "WORD"), SchemaError, "unknown type"),
    (lakebed.add_column("new", "VARIANT"), UnsupportedError, "VARIANT"),
    (lakebed.add_column("new", "INT", default="x"), SchemaError, "default value"),
    (lakebed.add_column("new", "INT", after="gone"), SchemaError, "no column 'gone'"),
    (lakebed.add_column("new", "INT", after="n", first=True), SchemaError, "two places"),
    (lakebed.add_column("n.new", "INT"), SchemaError, "INT has no field"),
    (lakebed.add_column("m.key", "INT"), SchemaError, "Go on with 'value'"),
    (lakebed.drop_column("id"), SchemaError, "primary key"),
    (lakebed.drop_column("dt"), SchemaError, "partition"),
    (lakebed.drop_column("gone"), SchemaError, "no column"),
    (lakebed.drop_column("s.deep.element.y"), SchemaError, "the only one"),
    (lakebed.rename_column("dt", "day"), SchemaError, "partition"),
    (lakebed.rename_column("n", "t"), SchemaError, "already"),
    (lakebed.rename_column("n", "_KEY_n"), SchemaError, "reserves"),
    (lakebed.widen("id", "INT"), SchemaError, "primary key"),
    (lakebed.widen("n", "DATE"), SchemaError, "no cast"),
    (lakebed.widen("s", "INT"), SchemaError, "no cast"),
    (lakebed.move_column("s.x", first=True), UnsupportedError, "not fields inside"),
    (lakebed.move_column("n"), SchemaError, "one place"),
    (lakebed.move_column("n", after="n"), SchemaError, "no column"),
    (lakebed.set_nullable("id"), SchemaError, "primary key"),
    (lakebed.set_nullable("n", False), SchemaError, "alter-column-null-to-not-null.disabled"),
    (lakebed.set_default("n", "x"), SchemaError, "default value"),
    (lakebed.set_default("s.x", 1), UnsupportedError, "inside another column"),
    (lakebed.set_option("snapshot.num-retained.mim", 1), OptionError, "Did you mean 'snapshot.num-retained.min'"),
    (lakebed.set_option("snapshot.num-retained.min", "x"), OptionError, "whole number"),
    (lakebed.set_option("merge-engine", "aggregation"), OptionError, "cannot change"),
    (lakebed.set_option("bucket", -1), OptionError, "2 buckets and rows"),
    (lakebed.set_option("primary-key", "n"), OptionError, "for ever"),
    (lakebed.set_option("branch", "b"), OptionError, "not kept"),
    (lakebed.set_option("commit.callbacks", "x:Y"), OptionError, "not kept"),
    (lakebed.set_option("deletion-vectors.enabled", True), OptionError, "deletion-vectors.modifiable"),
    (lakebed.set_option("chain-table.enabled", True), UnsupportedError, "chain-table.enabled"),
    (lakebed.set_option("sequence.field", "gone"), OptionError, "no column 'gone'"),
    (lakebed.set_option("fields.gone.aggregate-function", "sum"), OptionError, "does not have"),
    (lakebed.set_option("record-level.time-field", "t"), OptionError, "INT, BIGINT or TIMESTAMP"),
    (lakebed.set_option("snapshot.num-retained.max", 5), OptionError, "more than"),
    (lakebed.remove_option("bucket"), OptionError, "cannot change"),
]


@pytest.mark.parametrize(("wrong", "error", "says"), REFUSED, ids=[str(case[0]) for case in REFUSED])
def test_what_paimon_refuses(wrong: Any, error: type[LakebedError], says: str) -> None:
    with pytest.raises(error, match=says) as raised:
        change(wrong)
    assert raised.value.table in ("t", "") or "t" in str(raised.value)


def test_an_empty_table_may_change_more() -> None:
    for key, value in {"merge-engine": "partial-update", "bucket": "-1", "deletion-vectors.enabled": "true"}.items():
        assert change(lakebed.set_option(key, value), has_rows=False).schema.options[key] == value
    with pytest.raises(OptionError, match="for ever"):
        change(lakebed.set_option("type", "format-table"), has_rows=False)


def test_options_change_with_the_names_of_columns() -> None:
    before = schema(merge__engine="partial-update", sequence_field="n", fields_n_ignore__retract="true")
    before = change(lakebed.set_option("fields.n.sequence-group", "t,must"), before=before).schema
    result = change(lakebed.rename_column("n", "count"), lakebed.rename_column("t", "text"), before=before)
    assert {key: value for key, value in result.schema.options.items() if "count" in key + value} == {
        "sequence.field": "count", "fields.count.ignore-retract": "true", "fields.count.sequence-group": "text,must",
    }  # fmt: skip
    for wrong in (lakebed.drop_column("n"), lakebed.drop_column("t")):
        with pytest.raises(SchemaError, match="names it"):
            change(wrong, before=before)
    kind = schema(rowkind_field="t")
    with pytest.raises(UnsupportedError, match=r"rowkind\.field"):
        change(lakebed.rename_column("t", "kind"), before=kind)


def test_a_key_of_the_table_may_be_renamed() -> None:
    assert change(lakebed.rename_column("id", "number")).schema.primary_keys == ("dt", "number")


def test_options_that_allow_or_forbid_a_change() -> None:
    strict = schema(disable__explicit__type__casting="true")
    with pytest.raises(SchemaError, match="lose something"):
        change(lakebed.widen("t", "INT"), before=strict)
    assert columns(change(lakebed.widen("n", "BIGINT"), before=strict))["n"] == "BIGINT"
    loose = lakebed.set_option("alter-column-null-to-not-null.disabled", False)
    assert columns(change(loose, lakebed.set_nullable("n", False)))["n"] == "INT NOT NULL"
    placed = change(lakebed.set_option("add-column-before-partition", True), lakebed.add_column("new", "INT"))
    assert placed.schema.names[:2] == ("new", "dt")
    once = change(lakebed.set_option("ignore-delete", True))
    with pytest.raises(OptionError, match="cannot come back"):
        change(lakebed.set_option("ignore-delete", False), before=once.schema)


def test_a_name_with_a_dot() -> None:
    dotted = change(lakebed.add_column(("a.b",), "INT")).schema
    assert change(lakebed.drop_column("a.b"), before=dotted).lines == ("drop column a.b INT",)
