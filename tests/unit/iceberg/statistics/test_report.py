"""The health report says what statistics count, how old they are, and never fails on damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.model.report import Health


def table_of(folder: Path) -> Any:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    table = lakebed.create(folder / "t", "iceberg", schema, partition_by=["city"])
    table.write(pa.table({"id": range(10), "city": ["Oslo", "Rome"] * 5}, schema=schema))
    return table


def findings(table: Any) -> list[str]:
    return [finding.what for finding in table.inspect().findings if "statistics" in finding.what]


def test_distinct_values_and_their_age_are_shown(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    assert "statistics" not in table.inspect().figures
    table.compute_table_stats()
    table.compute_partition_stats()
    figures = table.inspect().figures
    assert figures["distinct values"] == {"id": 10, "city": 2}
    assert [*figures["statistics"].values()] == [0, 0]
    assert findings(table) == []
    few = pa.table({"id": pa.array([10], pa.int64()), "city": ["Bern"]})
    table.write(few)
    assert findings(table) == ["the statistics of partitions are 1 commit old"]
    for _ in range(3):
        table.write(few)
    assert findings(table)[0] == "the statistics of columns are old"
    assert [*table.inspect().figures["statistics"].values()] == [4, 4]
    table.alter(lakebed.drop_column("id"))
    assert table.inspect().figures["distinct values"] == {"city": 2}
    table.compute_table_stats()
    table.compute_partition_stats()
    assert findings(table) == []
    assert table.inspect().figures["distinct values"] == {"city": 3}


MANY = {"type": "apache-datasketches-theta-v1", "fields": [1], "properties": {"ndv": "many"}}


@pytest.mark.parametrize("blobs", [None, 7, [None], [MANY]], ids=["none", "number", "null", "words"])
def test_damaged_figures_are_a_finding(tmp_path: Path, blobs: Any) -> None:
    table = table_of(tmp_path)
    table.compute_table_stats()
    (newest,) = (tmp_path / "t" / "metadata").glob("v3.metadata.json")
    document = json.loads(newest.read_text())
    Path(document["statistics"][0]["statistics-path"].removeprefix("file://")).write_bytes(b"cut")
    document["statistics"][0]["blob-metadata"] = blobs
    newest.write_text(json.dumps(document))
    report = lakebed.open(table.location).inspect()
    assert "distinct values" not in report.figures
    assert [f.health for f in report.findings if "damaged" in f.what] == [Health.ATTENTION]
    assert lakebed.open(table.location).read(where="city = 'Oslo'").read_all().num_rows == 5
