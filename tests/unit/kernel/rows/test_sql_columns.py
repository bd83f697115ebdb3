"""Columns of new tables, said in SQL or by names of types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakebed.errors import SchemaError
from lakebed.kernel.rows.columns import schema_of

SQL = """
    id BIGINT NOT NULL COMMENT 'the number', `a b` decimal(10, 2), d decimal, flag boolean, t tinyint, s smallint,
    f float, g double, raw binary, day date, ts timestamp, wall timestamp_ntz, names array<string>,
    at map<string, array<int>>, place struct<street: string not null, zip int comment 'code'>
"""
EXPECTED = pa.schema(
    [
        pa.field("id", pa.int64(), False, {"comment": "the number"}),
        ("a b", pa.decimal128(10, 2)),
        ("d", pa.decimal128(10, 0)),
        ("flag", pa.bool_()),
        ("t", pa.int8()),
        ("s", pa.int16()),
        ("f", pa.float32()),
        ("g", pa.float64()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("names", pa.list_(pa.string())),
        ("at", pa.map_(pa.string(), pa.list_(pa.int32()))),
        (
            "place",
            pa.struct(
                [pa.field("street", pa.string(), False), pa.field("zip", pa.int32(), metadata={"comment": "code"})]
            ),
        ),
    ]
)


def test_sql_declares_columns_as_spark_has_them() -> None:
    assert schema_of(SQL).equals(EXPECTED, check_metadata=True)


def test_a_dict_has_types_of_every_kind() -> None:
    given = {"a": pa.int8(), "b": "int64", "c": "string", "d": "decimal(5, 1)", "e": "array<date>", "f": "timestamp"}
    assert schema_of(given).types == [
        pa.int8(), pa.int64(), pa.string(), pa.decimal128(5, 1), pa.list_(pa.date32()), pa.timestamp("us", "UTC"),
    ]  # fmt: skip


def test_what_exports_arrows_schema_is_taken() -> None:
    assert schema_of(pa.table({"a": [1]})).names == ["a"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "cannot read the schema ''"),
        ("id", "cannot read the schema 'id'"),
        ("id words", "cannot read the schema 'id words'"),
        ("id bigint; drop", "near 'bigint'"),
        ("id bigint> x struct<a int", "cannot read"),
        ("bigint", "'BIGINT' in the schema is not a column with its type"),
        ("id int, ID bigint", "names a column twice"),
        ("id int default 5", "column 'id' has DEFAULT 5, which a schema does not take"),
        ("id int, primary key (id)", "near 'primary key'"),
        ("x decimal(50, 2)", r"DECIMAL\(50, 2\) has more digits"),
        ("x varchar(3)", r"has the type VARCHAR\(3\), which cannot be said in SQL here"),
        ("x interval day", "has the type INTERVAL DAY"),
        ("x array", "ARRAY needs the types of what it holds"),
        ("x map<int>", "MAP needs the types"),
        ("x " + "array<" * 500 + "int" + ">" * 500, r"array<array<.{30,60}\.\.\.'"),
        ({"id": "words"}, "column 'id' has the unknown type 'words'"),
        ({"id": "int64 not null"}, "unknown type 'int64 not null'"),
        ({"id": 5}, "it is given as a int"),
        ({5: "int64"}, "names a column 5"),
        (["id"], "the schema has the type list"),
    ],
)
def test_mistakes_are_told(given: object, told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        schema_of(given)
