"""Paimon tables in Spark: every way to read gives what `table.read` gives, and writes to dynamic buckets and append
tables lose and double no row."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from tests.golden import unpack
from tests.spark.tables import ORDERS, ORDERS_SQL, as_bag


@pytest.mark.parametrize("name", ["pk_fixed", "types_parquet"])
def test_a_snapshot(spark: SparkSession, name: str) -> None:
    folder = str(unpack("paimon", name))
    wanted = as_bag(lakebed.open(folder).read())
    assert wanted
    for source in ("lakebed", "paimon"):
        assert as_bag(spark.read.format(source).load(folder).toArrow()) == wanted
    assert as_bag(lakebed.spark.read(spark, folder).toArrow()) == wanted


@pytest.mark.parametrize("source", ["lakebed", "paimon"])
def test_projection_filter_and_time_travel(spark: SparkSession, source: str) -> None:
    """A snapshot that an option names is read instead of the newest one."""
    folder = str(unpack("paimon", "pk_fixed"))
    reader = spark.read.format(source).option("scan.snapshot-id", "1")
    found = reader.load(folder).where("id < 20").select("id", "dt")
    wanted = lakebed.open(folder).read(["id", "dt"], "id < 20", as_of=1)
    assert as_bag(found.toArrow()) == as_bag(wanted)


@pytest.mark.parametrize("parallelism", [4, 3])
def test_dynamic_buckets(spark: SparkSession, tmp_path: Path, parallelism: int) -> None:
    """Overlapping writes of many tasks: there is one row per key, and each key is in one bucket.

    With the same number of tasks as before there is one file per bucket and commit. With another number, several tasks
    may share a bucket, but never a key.
    """
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "40"}
    table = lakebed.create(tmp_path / "t", "paimon", ORDERS, ["dt", "id"], ["dt"], options)
    for start, end, tasks in ((0, 300, 4), (150, 400, parallelism)):
        spark.range(start, end, 1, 5).createOrReplaceTempView("numbers")
        frame = spark.sql(f"{ORDERS_SQL} from numbers")
        lakebed.spark.write(frame, str(tmp_path / "t"), mode="upsert", options={"sink.parallelism": tasks})
    spark.range(0, 400, 1, 3).createOrReplaceTempView("numbers")
    assert as_bag(table.read()) == as_bag(spark.sql(f"{ORDERS_SQL} from numbers").toArrow())
    splits = table.plan_read().splits
    assert len({(split.partition, split.bucket) for split in splits}) >= 10
    if parallelism == 4:
        assert all(len(split.files) <= 2 for split in splits)


def test_append_tables_have_no_buckets_to_route_to(spark: SparkSession, tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", ORDERS, [], ["dt"], {"bucket": "-1"})
    spark.range(0, 100, 1, 4).createOrReplaceTempView("numbers")
    frame = spark.sql(f"{ORDERS_SQL} from numbers")
    for _ in range(2):
        lakebed.spark.write(frame, str(tmp_path / "t"))
    assert as_bag(table.read()) == sorted(2 * as_bag(frame.toArrow()))
    assert [split.bucket for split in table.plan_read().splits] == [0, 0]


def test_a_static_overwrite(spark: SparkSession, tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", ORDERS, ["dt", "id"], ["dt"], {"bucket": "2"})
    spark.range(0, 20, 1, 2).createOrReplaceTempView("numbers")
    frame = spark.sql(f"{ORDERS_SQL} from numbers")
    lakebed.spark.write(frame, str(tmp_path / "t"))
    options = {"overwrite.partition": "dt=d0"}
    lakebed.spark.write(frame.where("dt = 'd0' and id < 4"), str(tmp_path / "t"), mode="overwrite", options=options)
    assert sorted(table.read(["id"], "dt = 'd0'").read_all()["id"].to_pylist()) == [0, 2]
    assert table.read(["id"], "dt = 'd1'").read_all().num_rows == 10
