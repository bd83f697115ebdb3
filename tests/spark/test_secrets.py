"""A secret that is an option of a DataFrame or a view turns up in no plan and in no error that Spark shows.

`test_stream_sink.py` looks for one in checkpoints and tables.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from lakebed.errors import LakebedError
from lakebed.spark.types import spark_schema
from tests.pyspark_release import needs

CANARY = "hUsHcAnArY0123456789"
SCHEMA = pa.schema([pa.field("id", pa.int64(), False)])
SECRETS = {
    f"lakebed.storage.setting.{name}": CANARY
    for name in (
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "azure_storage_account_key",
        "azure_storage_sas_key",
        "google_service_account_key",
    )
}
SHIPPED = {**SECRETS, "lakebed.storage.ship-secrets": "true"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("secrets") / "t")
    lakebed.create(place, "iceberg", SCHEMA).write(pa.table({"id": [1, 2]}, SCHEMA))
    return place


def test_plans_do_not_tell(spark: SparkSession, table: str) -> None:
    options = ", ".join(f"`{key}` '{value}'" for key, value in SHIPPED.items())
    view = f"create or replace temporary view with_secrets using lakebed options (path '{table}', {options})"
    spark.sql(view)
    frame = spark.read.format("lakebed").options(**SHIPPED).load(table)
    explained = [
        text
        for query in (view, "select * from with_secrets where id > 1")
        for text in spark.sql(f"explain extended {query}").toPandas()["plan"]
    ]
    explained.append(frame._jdf.queryExecution().toString())  # type: ignore[operator]
    assert all("lakebed" in text.lower() for text in explained[:1])
    assert all(CANARY not in text for text in explained), explained
    assert spark.sql("select * from with_secrets").count() == frame.count() == 2


def test_a_filter_of_one_query_is_none_of_the_next(spark: SparkSession, table: str) -> None:
    """Spark keeps the reader of a DataFrame, and what it left out for one query would be missing in the next."""
    needs("4.1", "filters that Spark pushes to sources")
    key = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(key)
    try:
        spark.conf.set(key, "true")
        lakebed.spark.register(spark)
        frame = spark.read.format("lakebed").load(table)
        frame.createOrReplaceTempView("reused")
        counts = [frame.where("id > 1").count(), frame.count(), spark.sql("select * from reused where id < 2").count()]
        assert [*counts, spark.table("reused").count()] == [1, 2, 1, 2]
        assert frame.alias("a").join(frame.where("id > 1").alias("b")).count() == 2
    finally:
        spark.conf.set(key, before)
        lakebed.spark.register(spark)


def test_errors_of_spark_do_not_tell(spark: SparkSession, table: str) -> None:
    wrong = {**SHIPPED, "lakebed.storage.setting.aws_secret_access_kez": CANARY, "no.such.option": CANARY}
    calls = (
        lambda: spark.read.format("lakebed").options(**wrong).load(table).collect(),
        lambda: spark.read.format("lakebed").options(**SECRETS).load(table).collect(),
        lambda: spark.range(1).write.format("lakebed").mode("append").options(**SECRETS).save(table),
        lambda: lakebed.spark.write(spark.range(1), table, options=wrong),
    )
    for call in calls:
        with pytest.raises(Exception) as caught:  # of whatever type
            call()
        assert CANARY not in f"{caught.value} {caught.value!r} {caught.value.__cause__}"


def test_readers_and_writers_hold_no_secret_that_may_not_travel(table: str) -> None:
    needs("4.0", "sources that are written in Python")
    from lakebed.spark.data_sources import data_sources

    (source,) = data_sources({"lakebed": "lakebed"}, 1, False)
    for call in (lambda s: s.schema(), lambda s: s.writer(spark_schema(SCHEMA), False)):
        with pytest.raises(LakebedError, match="explicit secrets would travel"):
            call(source({"path": table, **SECRETS}))
