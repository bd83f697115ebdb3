"""Files added by lakebed and by Iceberg's own `add_files`: the same metrics, and its engine reads and goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from tests.interop.iceberg_ask import spark_sql
from tests.unit.iceberg.add_files.test_run import ids, put, rows

pytestmark = pytest.mark.timeout(1800)
COLUMNS = "id bigint, x double, name string, at timestamp_ntz, d date, s struct<a: int, b: string>, l array<bigint>"


def figures(name: str) -> str:
    bounds = ", ".join(f"hex(lower_bounds[{id}]), hex(upper_bounds[{id}])" for id in (1, 2, 3, 4, 5, 9))
    counts = ", ".join(f"value_counts[{id}], null_value_counts[{id}]" for id in (1, 2, 3, 4, 5, 9, 10))
    return (
        f"SELECT partition.dt, record_count, split_offsets, {bounds}, {counts} FROM {name}.files ORDER BY partition.dt"
    )


def test_the_same_as_spark(tmp_path: Path) -> None:
    landing = {name: tmp_path / "db" / name / "landing" for name in ("ours", "theirs")}
    for place in landing.values():
        for number, day in enumerate(("2026-11-01", "2026-11-02", "__HIVE_DEFAULT_PARTITION__")):
            put(place / f"dt={day}" / "a.parquet", rows(10 * number))
    schema = rows(0).schema.append(pa.field("dt", pa.date32()))
    table: Any = lakebed.create(tmp_path / "db" / "ours", "iceberg", schema, (), ["dt"])
    table.add_files(str(landing["ours"]))
    answers = spark_sql(tmp_path, {
        "theirs": [
            f"CREATE TABLE had.db.theirs ({COLUMNS}, dt date) USING iceberg PARTITIONED BY (dt)",
            f"CALL had.system.add_files(table => 'db.theirs', source_table => '`parquet`.`{landing['theirs']}`')",
            figures("had.db.theirs"),
        ],
        "ours": [
            figures("had.db.ours"),
            "SELECT id, dt, s.a FROM had.db.ours ORDER BY id",
            "DELETE FROM had.db.ours WHERE id = 11",
            "CALL had.system.rewrite_data_files(table => 'db.ours', options => map('rewrite-all', 'true'))",
            f"CALL had.system.add_files(table => 'db.ours', source_table => '`parquet`.`{landing['theirs']}`')",
        ],
    })  # fmt: skip
    assert answers["ours"][0] == answers["theirs"][-1]
    assert [row[0] for row in answers["ours"][1]] == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
    assert [row[2] for row in answers["ours"][1]] == [0, 1, 2, 3] * 3
    places = {"lakebed.storage.places": str(landing["theirs"])}
    assert len(ids(lakebed.open(tmp_path / "db" / "ours", places))) == 23
