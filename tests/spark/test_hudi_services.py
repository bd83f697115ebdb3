"""Hudi's table services by tasks of a Spark session: the rows stay, and the work is done as on the local engine."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark

ROWS = pa.table({"id": range(40), "dt": [f"d{n % 2}" for n in range(40)], "amount": range(40)})
TYPE = "hoodie.datasource.write.table.type"
CLUSTER = {"lakebed.rewrite.what": "clustering", "hoodie.clustering.plan.strategy.sort.columns": "amount"}


def bag(location: Path) -> list[str]:
    return sorted(map(repr, lakebed.open(location).read(ROWS.schema.names).read_all().to_pylist()))


def test_compaction_clustering_and_cleaning_run_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    engine = lakebed.spark.SparkEngine(spark, 2)
    made = {TYPE: "MERGE_ON_READ", "hoodie.clean.automatic": "false"}
    table = lakebed.create(tmp_path / "t", "hudi", ROWS.schema, ["id"], ["dt"], options=made)
    table.write(ROWS)
    later = ROWS.set_column(2, "amount", pa.array(range(100, 140), pa.int64()))
    table.write(later.slice(0, 20), mode="upsert")
    rows = bag(tmp_path / "t")

    compacted = table.rewrite(engine=engine)
    assert compacted.groups == 2 and compacted.files_after == 2
    clustered = table.rewrite(engine=engine, options=CLUSTER)
    assert bag(tmp_path / "t") == rows
    assert clustered.groups == 2

    cleaned = table.expire(engine=engine, options={"hoodie.clean.commits.retained": 1})
    assert len(cleaned.deleted_files) >= 2
    assert bag(tmp_path / "t") == rows
