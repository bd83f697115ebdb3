"""Default values of columns: in place of nulls and of columns left out, for every merge engine and kind of row."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.errors import SchemaError, UnsupportedError

SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int32()), ("v", pa.int32()), ("s", pa.string())])


def table_of(
    path: Path, defaults: dict[str, str], primary_key: tuple[str, ...] = (), partition_by: tuple[str, ...] = (),
    schema: pa.Schema = SCHEMA, **options: str,
) -> Table:  # fmt: skip
    """A table whose columns have defaults, as ALTER TABLE of Paimon's own engine leaves its schema."""
    lakebed.create(path, "paimon", schema, primary_key, partition_by, options)
    value = json.loads((path / "schema" / "schema-0").read_text())
    value["id"] = 1
    for field in value["fields"]:
        if field["name"] in defaults:
            field["defaultValue"] = defaults[field["name"]]
    (path / "schema" / "schema-1").write_text(json.dumps(value))
    return lakebed.open(path)


def row(schema: pa.Schema = SCHEMA, **values: Any) -> pa.Table:
    kind = values.pop("kind", None)
    made = pa.table({name: pa.array([value], schema.field(name).type) for name, value in values.items()})
    return made.append_column("_row_kind", pa.array([kind])) if kind else made


def contents(table: Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(line.values()) for line in table.read().read_all().to_pylist()), key=repr)


def test_nulls_and_columns_left_out(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", {"v": "7", "s": "'dflt'"})
    table.write(row(p="a", k=1, v=None, s=None))
    table.write(row(p="a", k=2))
    table.write(row(p="a", k=3, v=1, s=""))
    assert contents(table) == [("a", 1, 7, "dflt"), ("a", 2, 7, "dflt"), ("a", 3, 1, "")]


@pytest.mark.parametrize("bucket", ["2", "-1", "-2"])
def test_partitions_and_bucket_modes(tmp_path: Path, bucket: str) -> None:
    table = table_of(tmp_path / "t", {"v": "7"}, ("p", "k"), ("p",), bucket=bucket)
    table.write(row(p="a", k=1))
    if bucket == "-2":
        table.rewrite()
    assert contents(table) == [("a", 1, 7, None)]


def test_the_partition_and_the_bucket_are_those_of_the_default(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", {"p": "x", "v": "7"}, (), ("p",), **{"bucket": "16", "bucket-key": "v"})
    table.write(row(k=1))
    table.write(row(p="x", k=2, v=7))
    assert contents(table) == [("x", 1, 7, None), ("x", 2, 7, None)]
    assert len([*(tmp_path / "t" / "p=x").iterdir()]) == 1
    routing: Any = table.sink().plan(97).routing  # type: ignore[attr-defined]  # of the format
    given, left_out = pa.record_batch([["x"], pa.array([7], pa.int32())], ["p", "v"]), pa.record_batch([[None]], ["p"])
    assert routing.channels(given) == routing.channels(left_out.cast(pa.schema([("p", pa.string())])))


@pytest.mark.parametrize(
    ("engine", "options", "wanted"),
    [
        ("deduplicate", {}, [("a", 1, 7, "s2")]),
        ("partial-update", {}, [("a", 1, 7, "s2")]),  # a default is a value: it replaces what was there
        ("aggregation", {"fields.v.aggregate-function": "sum", "fields.s.aggregate-function": "last_value"},
         [("a", 1, 12, "s2")]),
    ],
)  # fmt: skip
def test_merge_engines(tmp_path: Path, engine: str, options: dict[str, str], wanted: list[tuple[Any, ...]]) -> None:
    table = table_of(tmp_path / "t", {"v": "7"}, ("k",), **{"bucket": "1", "merge-engine": engine, **options})
    table.write(row(p="a", k=1, v=5, s="s1"))
    table.write(row(p="a", k=1, v=None, s="s2"), "upsert")
    assert contents(table) == wanted


def test_first_row(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", {"v": "7"}, ("k",), **{"bucket": "-2", "merge-engine": "first-row"})
    table.write(row(p="a", k=1))
    table.write(row(p="a", k=1, v=1))
    table.rewrite()
    assert contents(table) == [("a", 1, 7, None)]


def test_rows_of_every_kind(tmp_path: Path) -> None:
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    table = table_of(tmp_path / "t", {"v": "7"}, ("k",), **options)
    table.write(row(p="a", k=1, v=20))
    for kind, total in (("+U", 27), ("-U", 20), ("+I", 27), ("-D", 20)):
        table.write(row(p="a", k=1, v=None, kind=kind))
        assert [line[2] for line in contents(table)] == [total]


def test_the_column_of_row_kinds(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", {"s": "-D"}, ("k",), **{"bucket": "1", "rowkind.field": "s"})
    table.write(row(p="a", k=1, v=1, s="+I"))
    table.write(row(p="a", k=1, v=1))
    assert contents(table) == []


def test_a_column_that_may_not_be_null_takes_no_null(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", {"k": "7"}, ("k",), bucket="1")
    with pytest.raises(SchemaError, match="may not be null"):
        table.write(row(p="a", k=None))


def test_defaults_that_cannot_be_read_refuse_the_write(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"default value 'x' of column 'v' is not of its type INT"):
        table_of(tmp_path / "text", {"v": "x"}).write(row(p="a", k=1, v=1, s=""))
    nested = pa.schema([("k", pa.int32()), ("m", pa.map_(pa.string(), pa.int32()))])
    table = table_of(tmp_path / "nested", {"m": '{"a" -> 1}'}, schema=nested)
    with pytest.raises(UnsupportedError, match="quotes or backslashes"):
        table.write(row(nested, k=1))
    assert table.history() == []


def test_nested_defaults_take_the_place_of_nulls(tmp_path: Path) -> None:
    nested = pa.schema([
        ("k", pa.int32()), ("a", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32())),
        ("r", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ])  # fmt: skip
    table = table_of(tmp_path / "t", {"a": "[1, null]", "m": "{p -> 1}", "r": "{7, seven}"}, schema=nested)
    given = {"k": [1, 2], "a": [None, []], "m": [None, [("q", 2)]], "r": [None, {"x": 1, "y": None}]}
    table.write(pa.table(given, schema=nested))
    table.write(row(nested, k=3))
    default = {"a": [1, None], "m": [("p", 1)], "r": {"x": 7, "y": "seven"}}
    assert sorted(table.read().read_all().to_pylist(), key=lambda one: one["k"]) == [
        {"k": 1, **default}, {"k": 2, "a": [], "m": [("q", 2)], "r": {"x": 1, "y": None}}, {"k": 3, **default}
    ]  # fmt: skip
