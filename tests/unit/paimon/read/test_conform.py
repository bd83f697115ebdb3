"""Rows of files that were written before a schema change: fields by their ids in every nesting, values by Paimon's
casts, and no file pruned by what its older type says of it."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakebed
from lakebed.errors import SchemaError, UnsupportedError

ROW = pa.struct([("x", pa.int32()), ("y", pa.string())])
NESTED = pa.schema(
    [
        ("k", pa.int32()),
        ("r", ROW),
        ("a", pa.list_(ROW)),
        ("m", pa.map_(pa.string(), ROW)),
        ("am", pa.list_(pa.map_(pa.string(), ROW))),
        ("ma", pa.map_(pa.string(), pa.list_(ROW))),
        ("mm", pa.map_(pa.string(), pa.map_(pa.string(), ROW))),
        ("rm", pa.struct([("inner", pa.map_(pa.string(), pa.struct([("deep", ROW)])))])),
    ]
)


def nested_row(one: Any) -> dict[str, Any]:
    """A row whose columns hold `one` in each nesting."""
    return {
        "k": 1,
        "r": one,
        "a": [one, None],
        "m": [("p", one), ("q", None)],
        "am": [[("p", one)], [], None],
        "ma": [("p", [one]), ("q", None)],
        "mm": [("p", [("o", one)]), ("q", None)],
        "rm": {"inner": [("p", {"deep": one}), ("q", {"deep": None}), ("s", None)]},
    }


def change_schema(table: Path, change: Callable[[dict[str, Any], Callable[[], int]], None]) -> None:
    """What ALTER TABLE does to a schema file: `change` gets each ROW (first the columns), and new ids."""
    number = max(int(path.name.removeprefix("schema-")) for path in (table / "schema").iterdir())
    schema = json.loads((table / "schema" / f"schema-{number}").read_text())
    schema["id"] = number + 1

    def next_id() -> int:
        schema["highestFieldId"] += 1
        return int(schema["highestFieldId"])

    def walk(kind: Any) -> None:
        if isinstance(kind, Mapping):
            if str(kind["type"]).startswith("ROW"):
                change(dict(kind), next_id)
                for field in kind["fields"]:
                    walk(field["type"])
            for part in ("element", "key", "value"):
                walk(kind.get(part))

    walk({"type": "ROW", "fields": schema["fields"]})
    (table / "schema" / f"schema-{number + 1}").write_text(json.dumps(schema))


def retype(table: Path, column: str, kind: str) -> None:
    """ALTER TABLE … MODIFY a column."""

    def change(row: dict[str, Any], _: Callable[[], int]) -> None:
        for field in row["fields"]:
            if field["name"] == column:
                field["type"] = kind

    change_schema(table, change)


def rows(table: Path, **how: Any) -> list[dict[str, Any]]:
    return lakebed.open(str(table)).read(**how).read_all().to_pylist()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_fields_are_found_by_their_ids_in_every_nesting(tmp_path: Path, file_format: str) -> None:
    table = tmp_path / "d.db" / "t"
    lakebed.create(str(table), "paimon", NESTED, options={"file.format": file_format}).write(
        pa.Table.from_pylist([nested_row({"x": 7, "y": "old"})], NESTED)
    )

    def change(row: dict[str, Any], next_id: Callable[[], int]) -> None:
        for field in row["fields"]:
            if field["name"] == "x":
                field["name"], field["type"] = "x2", "STRING"  # renamed, and another type
            if field["name"] == "y":
                field["id"] = next_id()  # dropped, and added again
        row["fields"].reverse()

    change_schema(table, change)
    expected = nested_row({"y": None, "x2": "7"})
    assert rows(table) == [dict(reversed(expected.items()))]


def test_rows_of_a_slice_keep_their_nested_values(tmp_path: Path) -> None:
    table = tmp_path / "d.db" / "t"
    schema = pa.schema([("m", pa.map_(pa.string(), ROW)), ("a", pa.list_(pa.int32()))])
    values = [{"m": [(str(at), {"x": at, "y": "s"})] if at % 3 else None, "a": [at] * (at % 4)} for at in range(50)]
    lakebed.create(str(table), "paimon", schema).write(pa.Table.from_pylist(values, schema).slice(10, 30))
    change_schema(table, lambda row, _: [field.update(name="x2") for field in row["fields"] if field["name"] == "x"])
    assert [row["m"] for row in rows(table)] == [
        [(str(at), {"x2": at, "y": "s"})] if at % 3 else None for at in range(10, 40)
    ]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_columns_of_older_files_are_cast(tmp_path: Path, file_format: str) -> None:
    table = tmp_path / "d.db" / "t"
    schema = pa.schema([("k", pa.int32()), ("a", pa.decimal128(10, 4)), ("t", pa.timestamp("us")), ("n", pa.int64())])
    year = 1970 if file_format == "orc" else 1969  # lakebed writes no earlier times to ORC files
    values = [
        [1, 2],
        [Decimal("1.2355"), Decimal("123456.7891")],
        [datetime(year, 12, 31, 1, 0, 0, 123456), None],
        [-1500, 383],
    ]
    made = lakebed.create(str(table), "paimon", schema, options={"file.format": file_format})
    made.write(pa.table(values, schema=schema))
    for column, kind in (("a", "DECIMAL(5, 2)"), ("t", "TIMESTAMP(3)"), ("n", "TINYINT"), ("k", "STRING")):
        retype(table, column, kind)
    assert rows(table) == [
        {"k": "1", "a": Decimal("1.24"), "t": datetime(year, 12, 31, 1, 0, 0, 123000), "n": 36},
        {"k": "2", "a": None, "t": None, "n": 127},
    ]


@pytest.mark.parametrize("keyed", [False, True])
def test_no_file_is_pruned_by_the_statistics_of_an_older_type(tmp_path: Path, keyed: bool) -> None:
    table = tmp_path / "d.db" / "t"
    schema = pa.schema([pa.field("k", pa.int32(), False), ("n", pa.int32()), ("s", pa.string())])
    made = lakebed.create(
        str(table), "paimon", schema, primary_key=["k"] if keyed else (), options={"bucket": "1"} if keyed else {}
    )
    made.write(pa.table([[1, 2], [383, 5], ["abcdef", "b"]], schema=schema))
    retype(table, "n", "TINYINT")
    retype(table, "s", "VARCHAR(2)")
    assert [row["k"] for row in rows(table, where="n = 127")] == [1]  # 383 wraps to it
    assert [row["k"] for row in rows(table, where="n < 100")] == [2]
    assert [row["k"] for row in rows(table, where="s = 'ab'")] == [1]
    assert [row["k"] for row in rows(table, where=pc.field("s") < "abc")] == [1]


def test_an_unreadable_value_names_column_and_file(tmp_path: Path) -> None:
    table = tmp_path / "d.db" / "t"
    lakebed.create(str(table), "paimon", pa.schema([("s", pa.string())])).write(pa.table({"s": ["1", "one"]}))
    retype(table, "s", "INT")
    with pytest.raises(SchemaError, match="column 's' was changed from STRING to INT") as error:
        rows(table)
    assert "'one'" in str(error.value) and ".parquet" in str(error.value)


def test_a_change_that_paimon_refuses_is_refused_by_name(tmp_path: Path) -> None:
    table = tmp_path / "d.db" / "t"
    lakebed.create(str(table), "paimon", pa.schema([("n", pa.int32()), ("o", pa.int32())])).write(
        pa.table({"n": [1], "o": [2]}, schema=pa.schema([("n", pa.int32()), ("o", pa.int32())]))
    )
    retype(table, "n", "DATE")
    with pytest.raises(UnsupportedError, match="column 'n' was changed from INT to DATE"):
        rows(table)
    assert rows(table, columns=["o"]) == [{"o": 2}]


def test_a_key_of_another_type_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "d.db" / "t"
    schema = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.string())])
    lakebed.create(str(table), "paimon", schema, primary_key=["k"], options={"bucket": "1"}).write(
        pa.table([[1], ["a"]], schema=schema)
    )
    retype(table, "k", "BIGINT NOT NULL")
    with pytest.raises(
        UnsupportedError, match="type of key column 'k' was changed from INT NOT NULL to BIGINT NOT NULL"
    ):
        rows(table)
