"""Variants between Iceberg's own engine and lakebed: rewritten tables are read, appended to and rewritten in turn."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import VariantVal

import lakebed
from lakebed.formats.iceberg.read.plan import scan_tasks
from tests.interop.iceberg_ask import spark_sql

pytestmark = pytest.mark.timeout(900)
ENCODE = {"rewrite-all": True, "lakebed.rewrite.concat-min-row-group-bytes": 1 << 40}
JOIN = {"rewrite-all": True, "lakebed.rewrite.concat-min-row-group-bytes": 1}
READ = "SELECT id, to_json(v), to_json(s.v), _row_id FROM had.db.v ORDER BY id"
VALUES = (
    "id, parse_json(format_string('{\"a\": %d, \"b\": [1, null, \"x\"]}', id)) v, named_struct('v', parse_json('7')) s"
)


@dataclass
class Turns:
    """What each engine saw, turn by turn; of the last rewrite before Spark's second turn the notes, and each file's
    schema."""

    spark: list[list[list[Any]]]
    ours: list[list[list[Any]]]
    notes: tuple[str, ...]
    schemas: list[str]


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Turns:
    folder = tmp_path_factory.mktemp("variants")
    made = spark_sql(folder, {"make": [
        "CREATE TABLE had.db.v (id int, v variant, s struct<v: variant>) USING iceberg "
        "TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read', "
        "'read.parquet.vectorization.enabled'='false')",  # this release reads no variants by batches
        f"INSERT INTO had.db.v SELECT cast(id AS int) {VALUES} FROM range(0, 4)",
        "INSERT INTO had.db.v SELECT 4, null, null",
        "DELETE FROM had.db.v WHERE id = 1",
        READ,
    ]})  # fmt: skip
    table: Any = lakebed.open(folder / "db" / "v")
    ours = [rows(table)]
    table.rewrite(options=ENCODE)
    ours.append(rows(table))
    table.write(moved(table, 100))
    table.rewrite(where="id >= 100", options=ENCODE)
    ours.append(rows(table))
    notes = table.rewrite(options=JOIN).notes
    ours.append(rows(table))
    found = schemas(table)
    table.write(moved(table, 200))
    went_on = spark_sql(folder, {"on": [
        READ,
        f"INSERT INTO had.db.v SELECT cast(id AS int) {VALUES} FROM range(10, 12)",
        "CALL had.system.rewrite_data_files(table => 'db.v', options => map('rewrite-all', 'true'))",
        READ,
    ]})  # fmt: skip
    ours.append(rows(table))
    table.rewrite(options=ENCODE)
    ours.append(rows(table))
    return Turns([made["make"][-1], went_on["on"][0], went_on["on"][-1]], ours, notes, found)


def moved(table: Any, to: int) -> pa.Table:
    """Two rows with other keys."""
    found = table.read().read_all().sort_by("id").slice(0, 2)
    return found.set_column(0, found.schema.field(0), pa.array([to, to + 1], pa.int32()))


def rows(table: Any) -> list[list[Any]]:
    found = table.read(columns=["id", "v", "s", "_row_id"]).read_all().sort_by("id")
    return [[row["id"], text(row["v"]), text((row["s"] or {}).get("v")), row["_row_id"]] for row in found.to_pylist()]


def text(value: dict[str, bytes] | None) -> str | None:
    if value is None:
        return None
    return json.dumps(VariantVal(value["value"], value["metadata"]).toPython(), separators=(",", ":"))


def schemas(table: Any) -> list[str]:
    metadata = table.table_metadata
    tasks = scan_tasks(table.operations.files, metadata, metadata.head())
    return [str(pq.ParquetFile(task.data.path.removeprefix("file:")).schema) for task in tasks]


def test_what_spark_wrote_is_read_and_rewritten(turns: Turns) -> None:
    assert [row[0] for row in turns.spark[0]] == [0, 2, 3, 4]
    assert turns.spark[0][0][1:3] == ['{"a":0,"b":[1,null,"x"]}', "7"] and turns.spark[0][3][1:3] == [None, None]
    assert turns.ours[0] == turns.ours[1] == turns.spark[0]


def test_variants_are_written_and_joined(turns: Turns) -> None:
    assert [row[0] for row in turns.ours[2]] == [0, 2, 3, 4, 100, 101]
    assert [row[1] for row in turns.ours[2][4:]] == [row[1] for row in turns.ours[2][:2]]
    assert turns.ours[3] == turns.ours[2] and "1 file was joined without decoding its rows" in turns.notes
    assert [schema.count("(Variant(1))") for schema in turns.schemas] == [2]


def test_spark_reads_them_and_goes_on(turns: Turns) -> None:
    assert [row[0] for row in turns.spark[1]] == [0, 2, 3, 4, 100, 101, 200, 201]
    assert turns.spark[1][:6] == turns.ours[3]
    assert turns.spark[2] == turns.ours[4] == turns.ours[5] and len(turns.ours[5]) == 10
