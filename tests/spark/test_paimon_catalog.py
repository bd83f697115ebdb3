"""Paimon tables by their names in a catalog, on Spark: each way to read and write, and a session's own catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import PipelineFileError, UsageError
from lakebed.spark import pipeline
from lakebed.spark.source import load
from tests.tables.paimon.rest_server import Warehouse, serving

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "w")


@pytest.fixture
def options(warehouse: Warehouse) -> Iterator[dict[str, str]]:
    with serving(warehouse) as uri:
        yield {"lakebed.catalog.metastore": "rest", "lakebed.catalog.uri": uri}


def commits(warehouse: Warehouse) -> int:
    return sum(path.endswith("/commit") for _, path, _ in warehouse.asked)


def test_a_server_makes_every_commit(
    spark: SparkSession, options: dict[str, str], warehouse: Warehouse, tmp_path: Path
) -> None:
    """Batches and the stream of a pipeline read and write tables by their names; each commit is the server's."""
    table = lakebed.create("shop:db.t", "paimon", SCHEMA, ["id"], options={**options, "bucket": "1"})
    lakebed.spark.write(spark.createDataFrame([(1, "a")], "id long, v string"), "shop:db.t", options=options)
    rows = spark.createDataFrame([(2, "b")], "id long, v string")
    rows.write.format("lakebed").options(**options).mode("append").save("shop:db.t")
    assert commits(warehouse) == len(table.history()) == 2
    for frame in (
        spark.read.format("lakebed").options(**options).load("shop:db.t"),
        lakebed.spark.read(spark, "shop:db.t", options=options),
    ):
        assert sorted(frame.collect()) == [(1, "a"), (2, "b")]
    words = "\n".join(f'"{key}" = "{text}"' for key, text in options.items())
    file = tmp_path / "p.toml"
    text = f'[source]\ntable = "shop:db.t"\n[source.options]\n{words}\n"scan.mode" = "latest-full"\n[sink]\n' + (
        f'table = "shop:db.end"\nformat = "paimon"\nprimary_key = ["id"]\n[sink.options]\n{words}\nbucket = 1\n'
    )
    file.write_text(text)
    with pytest.raises(PipelineFileError, match=r"run\.checkpoint"):
        pipeline.load(file)
    file.write_text(f'{text}[run]\ncheckpoint = "{tmp_path}/d"\n')
    loaded = pipeline.load(file)
    pipeline.check(loaded)
    assert pipeline.run(loaded, spark).commits == 1
    assert commits(warehouse) == 3
    end = lakebed.open("shop:db.end", options).read().read_all().to_pylist()
    assert sorted(row["id"] for row in end) == [1, 2]


def test_a_catalog_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    """Its settings are known, whether its class is there or not. Settings for files, and secrets, are left to it."""
    start = "spark.sql.catalog.lake"
    settings = {"": "org.apache.paimon.spark.SparkCatalog", ".warehouse": str(tmp_path), ".s3.endpoint": "x",
                ".token": "hush", ".table-default.bucket": "1"}  # fmt: skip
    for key, text in settings.items():
        spark.conf.set(f"{start}{key}", text)
    spark.conf.set("spark.sql.catalog.other", "org.apache.iceberg.spark.SparkCatalog")
    try:
        lakebed.create(tmp_path / "db.db" / "t", "paimon", SCHEMA, ["id"], options={"bucket": 1})
        lakebed.spark.register(spark)
        rows = spark.createDataFrame([(1, "a")], "id long, v string")
        named = {"catalog": "lake", "database": "db", "table": "t"}
        rows.write.format("paimon").options(**named).mode("append").save()
        lakebed.spark.write(rows, "lake:db.t", "upsert")
        for frame in (
            spark.read.format("paimon").options(**named).load(),
            spark.read.format("paimon").option("catalog", "lake").load(str(tmp_path / "db.db" / "t")),
            spark.read.format("lakebed").load("lake:db.t"),
            lakebed.spark.read(spark, "lake:db.t"),
        ):
            assert frame.collect() == [(1, "a")]
    finally:
        for key in (*(f"{start}{key}" for key in settings), "spark.sql.catalog.other"):
            spark.conf.unset(key)
        lakebed.spark.register(spark)
    assert load({"path": str(tmp_path / "db.db" / "t"), "database": "db"}, "paimon", 2).location.endswith("t")
    with pytest.raises(UsageError, match="has no catalog 'lake'"):
        load(named, "paimon", 2)
    with pytest.raises(UsageError, match="names no table"):
        load({"catalog": "lake"}, "paimon", 2)
