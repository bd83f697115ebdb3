"""A program on an older PySpark: it writes, reads, streams and rewrites tables of the three formats, and prints what it
saw as one line of JSON.

    python -m tests.interop.on_older_spark FOLDER [connect]

The rows of a table are compared with those of the DataFrame that was written, in Spark and, through lakebed without
Spark, in this process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

import lakebed
import lakebed.spark
from lakebed.errors import LakebedError
from lakebed.spark.release import HAS_SOURCES
from lakebed.spark.types import arrow_schema

ROWS = """
    select id, concat('d', id % 3) as dt, cast(id as decimal(10, 2)) as amount,
           date_from_unix_date(cast(id as int)) as day,
           timestamp_seconds(id * 86400 * 400) as at, cast(timestamp_seconds(id) as timestamp_ntz) as wall,
           if(id % 7 = 0, null, concat('t', id)) as text, cast(id as double) / 3 as ratio, id % 2 = 0 as even,
           cast(concat('b', id) as binary) as raw, array(cast(id as int), null) as list,
           map('k', id) as pairs, named_struct('x', cast(id as int), 'y', concat('y', id)) as parts
    from range({start}, {end}, 1, 3)
"""
FORMATS = ("hudi", "paimon", "iceberg")
BUCKETS = 4
CHANGES: dict[str, dict[str, object]] = {
    "hudi": {},
    "paimon": {"bucket": "1", "changelog-producer": "lookup"},
    "iceberg": {"format-version": "2"},
}
"""The options of the tables whose changes are streamed."""


def main(folder: str, mode: str) -> dict[str, Any]:
    spark = lakebed.spark.local_session(**{"remote" if mode == "connect" else "master": "local[2]"}, brief=True)
    seen: dict[str, Any] = {"release": pyspark.__version__, "session": type(spark).__module__}
    try:
        lakebed.spark.register(spark)
    except LakebedError as error:
        seen["register"] = str(error)
    for table_format in FORMATS:
        seen[table_format] = of_format(spark, table_format, f"{folder}/{table_format}")
    try:
        lakebed.create(f"{folder}/times", "iceberg", {"at": "time64[us]"})
        lakebed.spark.read(spark, f"{folder}/times").collect()
    except LakebedError as error:
        seen["times"] = str(error)
    if HAS_SOURCES:
        try:
            bounded = spark.readStream.format("lakebed").option("maxFilesPerTrigger", 1)
            seen["bounded"] = bounded.load(f"{folder}/paimon").isStreaming
        except LakebedError as error:
            seen["bounded"] = str(error)
        place = f"{folder}/iceberg"
        seen["sql"] = spark.sql(f"SELECT count(*) FROM lakebed_history('{place}')").collect()[0][0]
    spark.stop()
    return seen


def of_format(spark: SparkSession, table_format: str, place: str) -> dict[str, Any]:
    """What one format's table held after each step: true where it held the rows that it should."""
    first = spark.sql(ROWS.format(start=0, end=60))
    options: dict[str, object] = {"bucket": str(BUCKETS)} if table_format == "paimon" else {}
    partitions = ["dt", f"bucket({BUCKETS}, id)"] if table_format == "iceberg" else ["dt"]
    key = ["id"] if table_format == "hudi" else ["dt", "id"]
    schema = arrow_schema(first.schema)
    lakebed.create(place, table_format, schema, primary_key=key, partition_by=partitions, options=options)
    seen: dict[str, Any] = {}

    def holds(frame: DataFrame, step: str) -> None:
        wanted, names = bag(frame), frame.columns
        seen[f"{step}, read natively"] = bag(lakebed.spark.read(spark, place, names)) == wanted
        seen[f"{step}, through Python"] = bag(lakebed.spark.read(spark, place, names, native=False)) == wanted
        here = spark.createDataFrame(lakebed.open(place).to_pandas(["id", "text"]))
        seen[f"{step}, without Spark"] = bag(here) == bag(frame.select("id", "text"))

    lakebed.spark.write(first, place, options={"sink.parallelism": 5})
    files = [file for file in Path(place).rglob("*.parquet") if ".hoodie" not in file.parts]
    seen["files"], seen["folders"] = len(files), len({file.parent for file in files})
    holds(first, "append")
    changed = spark.sql(ROWS.format(start=40, end=80)).withColumn("text", new_text())
    lakebed.spark.write(changed, place, mode="upsert", options={"sink.parallelism": 3})
    whole = first.where("id < 40").union(changed)
    holds(whole, "upsert")
    seen["where"] = bag(lakebed.spark.read(spark, place, ["id"], where="dt = 'd1' and id > 10")) == bag(
        whole.where("dt = 'd1' and id > 10").select("id")
    )
    seen["streamed"] = streamed(spark, place, f"{place}-more", whole.schema)
    whole = whole.union(spark.sql(ROWS.format(start=80, end=100)))
    holds(whole, "stream")
    engine = lakebed.spark.SparkEngine(spark)
    table = lakebed.open(place)
    seen["rewritten"] = table.rewrite(engine=engine).files_before > 0
    table.expire(engine=engine)
    holds(whole, "upkeep")
    if HAS_SOURCES:
        seen["changes"] = changes(spark, table_format, f"{place}-changes")
        seen["source"] = bag(spark.read.format("lakebed").load(place).select(whole.columns)) == bag(whole)
        if table_format != "hudi":
            spark.sql(ROWS.format(start=100, end=110)).write.format("lakebed").mode("append").save(place)
            whole = whole.union(spark.sql(ROWS.format(start=100, end=110)))
            holds(whole, "source")
    return seen


def streamed(spark: SparkSession, place: str, folder: str, schema: StructType) -> list[int]:
    """Stream files into a table, twice from the same checkpoint. The rows of each batch's report."""
    rows = spark.sql(ROWS.format(start=80, end=90))
    rows.write.parquet(f"{folder}/in")
    reports = []
    for _ in range(2):
        frame = spark.readStream.schema(schema).parquet(f"{folder}/in")
        query = lakebed.spark.write_stream(frame, place, f"{folder}/checkpoint", trigger={"availableNow": True})
        query.awaitTermination()
        spark.sql(ROWS.format(start=90, end=100)).write.mode("append").parquet(f"{folder}/in")
    for report in sorted(Path(folder, "checkpoint", "lakebed-batches").iterdir()):
        reports.append(json.loads(report.read_text())["rows"])
    return reports


def changes(spark: SparkSession, table_format: str, place: str) -> list[list[str]]:
    """What each run of a stream of changes saw of a table, all from one checkpoint: the first one of two appends, and
    of a third one while it runs; then none; then one; then an update and a delete beside the compaction of a table."""
    lakebed.create(place, table_format, {"id": "int64", "text": "string"}, ["id"], options=CHANGES[table_format])
    table = lakebed.open(place)
    source = spark.readStream.format("lakebed").option("read.start-commit", "earliest").load(place)
    runs: list[list[str]] = []

    def note(batch: DataFrame, number: int) -> None:
        runs[-1] += sorted(f"{row._row_kind} {row.id} {row.text}" for row in batch.collect())

    def run(*writes: Callable[[], object], **trigger: Any) -> None:
        runs.append([])
        writer = source.writeStream.foreachBatch(note).option("checkpointLocation", f"{place}-checkpoint")
        query = writer.trigger(**trigger).start()
        for write in writes:
            query.processAllAvailable()
            write()
        if writes:
            query.processAllAvailable()
            query.stop()
        query.awaitTermination()

    def put(number: int, text: str = "old") -> None:
        table.write(pa.table({"id": [number], "text": [text]}), "upsert")

    put(0)
    put(1)
    run(lambda: put(2), lambda: put(3), processingTime="0 seconds")
    run(availableNow=True)
    put(4)
    run(availableNow=True)
    put(0, "new")
    table.rewrite()
    table.write(pa.table({"id": [1], "text": ["old"]}), "delete")
    run(availableNow=True)
    put(5)
    run(lambda: put(5, "new"), processingTime="0 seconds")
    return runs


def new_text() -> Column:
    return f.concat(f.lit("new "), f.col("id").cast("string"))


def bag(frame: DataFrame) -> list[str]:
    """Rows as sorted texts, by the engine's own spelling of each value."""
    names = sorted(frame.columns)
    return sorted(str(row) for row in frame.select(*names).collect())


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "classic")))
