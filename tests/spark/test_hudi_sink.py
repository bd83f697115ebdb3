"""Hudi tables written from Spark: by lakebed's verbs, as Hudi's own sink, and in pipelines."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import OptionError, UsageError
from lakebed.examples import example_path as example
from lakebed.spark import pipeline
from tests.spark.tables import as_bag

COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), False), pa.field("dt", pa.string(), False), ("amount", pa.decimal128(10, 2))]
)
HUDI = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
}
OPERATION = "hoodie.datasource.write.operation"


def orders(spark: SparkSession, first: int, last: int, amount: int = 1) -> DataFrame:
    return spark.sql(
        f"select id, concat('d', id % 2) as dt, cast({amount} as decimal(10, 2)) as amount from range({first}, {last})"
    )


def amounts(location: str | Path) -> dict[int, int]:
    rows = lakebed.open(location).read(["id", "amount"]).read_all().to_pylist()
    held = {row["id"]: int(row["amount"]) for row in rows}
    assert len(held) == len(rows)
    return held


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_frame_is_inserted_upserted_and_deleted(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = lakebed.create(tmp_path / "t", "hudi", COLUMNS, ["id"], ["dt"], {"hoodie.table.type": kind})
    lakebed.spark.write(orders(spark, 0, 20), table.location)
    assert as_bag(table.read(["id", "dt", "amount"])) == as_bag(orders(spark, 0, 20).toArrow())
    changed = spark.sql(
        "select id, concat('d', id % 2) as dt, 5 as amount, if(id < 3, '-D', '+U') as _row_kind from range(6)"
    )
    lakebed.spark.write(
        changed.selectExpr("id", "dt", "cast(amount as decimal(10, 2)) as amount", "_row_kind"),
        table.location,
        "upsert",
    )
    lakebed.spark.write(orders(spark, 10, 20).drop("amount"), table.location, "delete")
    assert amounts(table.location) == {**dict.fromkeys(range(3, 6), 5), **dict.fromkeys(range(6, 10), 1)}
    lakebed.spark.write(orders(spark, 7, 8, 9), table.location, options={OPERATION: "insert_overwrite_table"})
    assert amounts(table.location) == {7: 9}
    assert not list(Path(table.location, ".hoodie/.lakebed").rglob("*.arrow"))
    with pytest.raises(OptionError, match="unknown option"):
        lakebed.spark.write(orders(spark, 7, 8), table.location, options={"hoodie.parquet.max.file.sise": 1})


def test_a_job_of_hudis_own_sink_runs_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")

    def write(frame: DataFrame, mode: str = "append", **options: str) -> None:
        frame.write.format("hudi").options(**HUDI, **options).mode(mode).save(place)

    write(orders(spark, 0, 10))  # creates the table
    table = lakebed.open(place)
    write(orders(spark, 5, 12, 2))
    assert amounts(place) == {**dict.fromkeys(range(5), 1), **dict.fromkeys(range(5, 12), 2)}
    assert [instant.action for instant in table.history()] == ["deltacommit", "deltacommit"]
    read = spark.read.format("hudi").load(place)  # with the meta columns
    write(read.filter("id >= 10"))
    write(read.filter("id < 8"), **{OPERATION: "delete"})
    assert amounts(place) == dict.fromkeys(range(8, 12), 2)
    write(orders(spark, 1, 2).union(orders(spark, 1, 2, 3)), "overwrite")
    assert list(amounts(place)) == [1]
    write(orders(spark, 1, 2, 4), "overwrite", **{OPERATION: "insert_overwrite"})
    assert amounts(place) == {1: 4}
    assert sorted(spark.read.format("hudi").load(place).select("id", "dt").collect()) == [(1, "d1")]


def test_a_first_write_that_fails_leaves_no_table(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "t"
    frame = orders(spark, 0, 3)
    null_key = frame.selectExpr("cast(null as bigint) as id", "dt", "amount")
    for broken in (frame.selectExpr("raise_error('no') as id", "dt", "amount"), null_key):
        with pytest.raises(Exception, match=r"no|null"):
            broken.write.format("hudi").options(**HUDI).mode("append").save(str(place))
        assert not place.exists() or not [path for path in place.rglob("*") if path.is_file()]
    frame.write.format("hudi").options(**HUDI).mode("append").save(str(place))
    assert len(amounts(str(place))) == 3


def test_a_frame_gives_the_table_new_columns_and_needs_no_record_key(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    orders(spark, 0, 3).write.format("hudi").mode("append").save(place)
    more = orders(spark, 3, 4).selectExpr("*", "'x' as Note")
    lakebed.spark.write(more, place, options={"lakebed.write.schema": "evolve"})
    rows = lakebed.open(place).read(["id", "Note", "_hoodie_record_key"]).read_all().to_pylist()
    assert {row["id"]: row["Note"] for row in rows} == {0: None, 1: None, 2: None, 3: "x"}
    assert len({row["_hoodie_record_key"] for row in rows}) == 4


def test_hudis_sink_refuses_what_does_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    frame = orders(spark, 0, 3)
    bad = {"hoodie.datasource.write.keygenerator.type": "GLOBAL_DELETE"}
    with pytest.raises(OptionError, match="does not fit 0 key"):
        frame.write.format("hudi").options(**bad).mode("append").save(place)
    assert not Path(place, ".hoodie").exists()
    frame.write.format("hudi").options(**HUDI).mode("append").save(place)
    other = {**HUDI, "hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
    with pytest.raises(UsageError, match="does not agree with the table"):
        frame.write.format("hudi").options(**other).mode("overwrite").save(place)
    assert len(amounts(place)) == 3


def test_a_pipeline_keeps_a_hudi_table(spark: SparkSession, tmp_path: Path) -> None:
    source = example("orders_hudi")
    columns = ["dt", "order_id", "customer", "amount"]
    file = tmp_path / "pipeline.toml"
    file.write_text(
        f"""
        [source]
        table = "{source}"
        [source.options]
        "read.start-commit" = "{lakebed.open(source).history()[0].time}"
        "read.commits.limit" = "5"
        [transform]
        sql = "select {", ".join(columns)}, _row_kind from source"
        [sink]
        table = "{tmp_path}/sink"
        format = "hudi"
        primary_key = ["order_id"]
        partition_by = ["dt"]
        [sink.options]
        "hoodie.datasource.write.table.type" = "MERGE_ON_READ"
        "hoodie.parquet.compression.codec" = "zstd"
        [upkeep]
        rewrite = 2
        """
    )
    pipeline.check(pipeline.load(file))
    made = pipeline.run(pipeline.load(file), spark)
    assert made.commits == 2
    assert [note.partition(":")[0] for batch in made.batches for note in batch.notes] == ["rewrite"]
    assert as_bag(lakebed.open(tmp_path / "sink").read(columns)) == as_bag(lakebed.open(source).read(columns))
