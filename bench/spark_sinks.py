"""Writes from Spark into a Paimon, a Hudi and an Iceberg table, beside Spark alone, in one run on one machine.

    ./run bench spark-sinks [--rows 1000000] [--parallelism 2,4,8,16] [--repeats 2] [--parts batch,stream]

batch: rows of 12 columns from a Parquet folder of 16 files (those of `bench/iceberg_sink.py`). Spark alone reads them,
shuffles them to that many tasks and writes them as Parquet, in the codec of Paimon and Iceberg (zstd) and in that of
Hudi (gzip). Paimon has a primary key and 4 buckets, Hudi (bulk_insert, copy on write) and Iceberg are partitioned by
region. All run in one session and take turns, write by write, after a round that is not counted; the least seconds of
the repeats count. Seconds of processor time are those of the driver, its JVM and the Python workers.

stream: files of 10 rows, one per batch, into the same tables and into Parquet by Spark alone. The milliseconds are
Spark's own: those of the trigger as a whole and those of the sink alone (`addBatch`), the middle of all batches but the
first three.

The parts that ran replace theirs in results/spark_sinks.json; with other `--rows` nothing is kept.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import lakebed
import lakebed.spark
from bench.iceberg_sink import ROWS, make_rows, measured

RESULT = Path(__file__).parent / "results" / "spark_sinks.json"
BULK_INSERT = {"hoodie.datasource.write.operation": "bulk_insert"}
BATCHES, BATCH_ROWS, WARMING = 23, 10, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--parallelism", default="2,4,8,16")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--parts", default="batch,stream")
    given = parser.parse_args()
    parts = {"batch": batch, "stream": stream}
    spark = lakebed.spark.local_session("local[2]")
    made: dict[str, Any] = {}
    for part in given.parts.split(","):
        with tempfile.TemporaryDirectory() as folder:
            made[part] = {
                "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                **parts[part](spark, Path(folder), given),
                "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end",
            }
    spark.stop()
    if given.rows == ROWS:
        kept = json.loads(RESULT.read_text()) if RESULT.exists() else {"bench": "spark-sinks"}
        RESULT.write_text(json.dumps({**kept, **made}, indent=1) + "\n")
    print(json.dumps(made, indent=1))


def paimon(folder: Path, schema: pa.Schema) -> str:
    """An empty table with a primary key and 4 buckets."""
    return lakebed.create(folder, "paimon", schema, ["id"], options={"bucket": "4"}).location


def hudi(folder: Path, schema: pa.Schema) -> str:
    """An empty copy-on-write table."""
    return lakebed.create(folder, "hudi", schema, ["id"], ["region"]).location


def iceberg(folder: Path, schema: pa.Schema) -> str:
    """An empty table without a key."""
    return lakebed.create(folder, "iceberg", schema, (), ["region"]).location


TABLES: Mapping[str, tuple[Callable[[Path, pa.Schema], str], Mapping[str, str]]] = {
    "paimon": (paimon, {}),
    "hudi": (hudi, BULK_INSERT),
    "iceberg": (iceberg, {}),
}


def batch(spark: SparkSession, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Seconds by the number of tasks."""
    make_rows(folder / "input", given.rows)
    frame = spark.read.parquet(str(folder / "input"))
    schema = pq.read_schema(folder / "input" / "00.parquet")
    fresh = itertools.count()

    def alone(codec: str) -> Callable[[int], dict[str, float]]:
        def write(tasks: int) -> dict[str, float]:
            place = str(folder / f"{next(fresh)}")
            return measured(partial(frame.repartition(tasks).write.option("compression", codec).parquet, place))

        return write

    def sink(name: str) -> Callable[[int], dict[str, float]]:
        make, options = TABLES[name]

        def write(tasks: int) -> dict[str, float]:
            place = make(folder / f"{next(fresh)}", schema)
            more = {**options, "sink.parallelism": tasks}
            return measured(partial(lakebed.spark.write, frame, place, "append", more))

        return write

    writes = {"spark alone, zstd": alone("zstd"), "spark alone, gzip": alone("gzip"), **{n: sink(n) for n in TABLES}}
    parallelism = [int(text) for text in given.parallelism.split(",")]
    for write in writes.values():
        write(parallelism[0])
    runs: dict[str, dict[int, list[dict[str, float]]]] = {name: {n: [] for n in parallelism} for name in writes}
    for tasks in parallelism * given.repeats:
        for name, write in writes.items():
            runs[name][tasks].append(write(tasks))
            print(name, tasks, runs[name][tasks][-1], file=sys.stderr)
    least = {
        name: [{"parallelism": n, **{key: min(run[key] for run in of) for key in of[0]}} for n, of in by_tasks.items()]
        for name, by_tasks in runs.items()
    }
    return {"rows": given.rows, "engines": least}


def stream(spark: SparkSession, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of a batch of few rows, one query after the other."""
    small = pa.table({"id": range(BATCH_ROWS), "region": ["eu", "us"] * (BATCH_ROWS // 2), "qty": range(BATCH_ROWS)})
    (folder / "input").mkdir()
    for number in range(BATCHES):
        rows = small.set_column(0, "id", pa.array(range(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)))
        pq.write_table(rows, folder / "input" / f"{number:02d}.parquet")
    source = spark.readStream.schema("id bigint, region string, qty bigint").option("maxFilesPerTrigger", 1)
    frame = source.parquet(str(folder / "input"))
    now: dict[str, Any] = {"availableNow": True}
    made: dict[str, Any] = {}
    for name in ("spark alone", *TABLES):
        checkpoint = str(folder / "checkpoints" / name)
        if name == "spark alone":
            plain = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint).trigger(**now)
            query = plain.start(str(folder / "alone"))
        else:
            make, options = TABLES[name]
            place = make(folder / name, small.schema)
            query = lakebed.spark.write_stream(frame, place, checkpoint, options, trigger=now)
        query.awaitTermination()
        batches = [progress["durationMs"] for progress in query.recentProgress if progress["numInputRows"]][WARMING:]
        made[name] = {
            "batches": len(batches),
            "trigger_ms": statistics.median(batch["triggerExecution"] for batch in batches),
            "sink_ms": statistics.median(batch["addBatch"] for batch in batches),
        }
        print(name, made[name], file=sys.stderr)
    return {"rows_of_a_batch": BATCH_ROWS, "engines": made}


if __name__ == "__main__":
    main()
