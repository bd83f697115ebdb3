"""Queries on Spark over one Iceberg table: native scans, lakebed's Arrow path, Spark's Parquet reader alone on the same
files, and Iceberg's own source, in one run on one machine.

    ./run bench native-scan [--rows 8000000] [--repeats 5] [--deleted 5 | --updated 5 | --merged 5]

Eight files of 12 columns, without deletes, or with so many of 100 rows deleted by deletion vectors. With `--updated` it
is a Hudi merge-on-read table of about eight file groups, so many of 100 rows of which are newer in logs, and with
`--merged` a Paimon table of eight buckets with a primary key, so many of 100 rows of which are newer in a second file
of each bucket; there is no source of another engine beside them, and plain Parquet gives the old rows too. Each query
begins with the read's plan: a count of all rows, the sum of one column, that sum with a filter, and all columns into a
sink that drops them. lakebed's two ways and plain Parquet, which gives the deleted rows too, take turns in one session.
Iceberg's own source runs after them, in the interpreter that LAKEBED_ICEBERG_JVM_PYTHON names with the jars in
LAKEBED_ICEBERG_JARS; without them it is left out. The result goes to results/native_scan.json, beside
those of other shares of deleted, updated and merged rows.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "native_scan.json"
FILES = 8
QUERIES: Mapping[str, Callable[[Any], Any]] = {
    "count": lambda frame: frame.count(),
    "sum of one column": lambda frame: frame.agg({"amount": "sum"}).first()[0],
    "sum with a filter": lambda frame: frame.where("id < 100000").agg({"amount": "sum"}).first()[0],
    "all columns": lambda frame: frame.write.format("noop").mode("overwrite").save(),
}
Figures = dict[str, dict[str, list[float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--deleted", type=int, default=0)
    parser.add_argument("--updated", type=int, default=0)
    parser.add_argument("--merged", type=int, default=0)
    parser.add_argument("--table", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.table:
        print(json.dumps(with_iceberg(given.table, given.repeats)))
        return
    with tempfile.TemporaryDirectory() as folder:
        table = str(Path(folder, "table"))
        if given.updated:
            make_merge_on_read(table, given.rows, given.updated)
        elif given.merged:
            make_keyed(table, given.rows, given.merged)
        else:
            make(table, given.rows, given.deleted)
        figures = with_lakebed(table, given.repeats)
        outside = os.environ.get("LAKEBED_ICEBERG_JVM_PYTHON")
        if outside and not given.updated and not given.merged:
            command = [outside, __file__, "--table", table, "--repeats", str(given.repeats)]
            environment = {**os.environ, "PYSPARK_PYTHON": outside}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if done.returncode:
                sys.exit(done.stderr[-3000:])
            for query, by_engine in json.loads(done.stdout.splitlines()[-1]).items():
                figures[query] |= by_engine
    for query, by_engine in figures.items():
        plain = min(by_engine["parquet"])
        for engine, seconds in by_engine.items():
            print(f"{query:18} {engine:8} {min(seconds):6.2f} s, {min(seconds) / plain:5.2f} of plain Parquet")
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    kept = json.loads(RESULT.read_text())["figures"] if RESULT.exists() else {}
    kind = "updated" if given.updated else "merged" if given.merged else "deleted"
    kept[f"{getattr(given, kind)} % {kind}"] = summary(figures)
    result = {"machine": machine, "rows": given.rows, "figures": kept}
    RESULT.write_text(json.dumps(result, indent=2) + "\n")


def summary(figures: Figures) -> dict[str, dict[str, dict[str, float]]]:
    """The least and the middle of the seconds."""
    return {
        query: {
            engine: {"seconds_min": min(seconds), "seconds_median": statistics.median(seconds)}
            for engine, seconds in by_engine.items()
        }
        for query, by_engine in figures.items()
    }


def rows_of(ids: Any, random: Any) -> Any:
    """Rows with these ids, without an order."""
    import numpy as np
    import pyarrow as pa

    each = len(ids)
    mixed = random.integers(0, 1 << 40, each)
    return pa.table(
        {
            "id": ids, "region": pa.array(np.array(["eu", "us", "apac"])[mixed % 3]), "customer": mixed % 100_000,
            "quantity": (mixed % 50).astype(np.int32), "amount": random.random(each) * 1e4,
            "ratio": random.random(each),
            "score": random.random(each).astype(np.float32), "flag": mixed % 2 == 0,
            "day": pa.array((mixed % 3000).astype(np.int32), pa.int32()).cast(pa.date32()),
            "at": pa.array(mixed * 1000, pa.timestamp("us", "UTC")),
            "code": pa.array(mixed % 5000).cast(pa.string()),
            "note": pa.array(mixed).cast(pa.string()),
        }
    )  # fmt: skip


def make_merge_on_read(table: str, rows: int, percent: int) -> None:
    """The Hudi table: one insert, and an upsert of newer versions of some percent of the rows."""
    import lakebed

    first, newer = versions(rows, percent)
    options = {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "version",
    }
    opened = lakebed.create(table, "hudi", first.schema, options=options)
    opened.write(first, options={"hoodie.parquet.max.file.size": str(rows * 50 // FILES)})
    opened.write(newer, mode="upsert")


def make_keyed(table: str, rows: int, percent: int) -> None:
    """The Paimon table: one write, and newer versions of some percent of the rows."""
    import lakebed

    first, newer = versions(rows, percent)
    options = {"bucket": str(FILES), "write-only": "true"}
    opened = lakebed.create(table, "paimon", first.schema, primary_key=["id"], options=options)
    opened.write(first)
    opened.write(newer)


def versions(rows: int, percent: int) -> tuple[Any, Any]:
    """Rows, and newer versions of some percent of them."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(7)
    first = rows_of(np.arange(rows), random).append_column("version", pa.repeat(1, rows))
    again = random.choice(rows, rows * percent // 100, replace=False)
    return first, rows_of(again, random).append_column("version", pa.repeat(2, len(again)))


def make(table: str, rows: int, percent: int) -> None:
    """The Iceberg table: rows without an order, in eight files, of which some percent are deleted in a commit of their
    own."""
    import numpy as np
    import pyarrow as pa

    import lakebed

    random = np.random.default_rng(7)
    each = rows // FILES
    opened = None
    for number in range(FILES):
        part = rows_of(np.arange(number * each, (number + 1) * each), random)
        options = {"format-version": 3, "write.delete.mode": "merge-on-read"}
        opened = opened or lakebed.create(table, "iceberg", part.schema, options=options if percent else {})
        opened.write(part)
    if opened is not None and percent:
        gone = pa.table({"id": random.choice(each * FILES, each * FILES * percent // 100, replace=False)})
        opened.write(gone, mode="delete", options={"upsert.keys": "id"})


def with_lakebed(table: str, repeats: int) -> Figures:
    """lakebed's two ways and plain Parquet, in turn."""
    import lakebed.spark

    spark = lakebed.spark.local_session("local[2]")
    native = lakebed.spark.read(spark, table)
    files = native.inputFiles()
    schema = native.schema
    engines = {
        "native": lambda: lakebed.spark.read(spark, table),
        "arrow": lambda: lakebed.spark.read(spark, table, native=False),
        "parquet": lambda: spark.read.schema(schema).parquet(*files),
    }
    figures = timed(engines, repeats)
    spark.stop()
    return figures


def with_iceberg(table: str, repeats: int) -> Figures:
    """Iceberg's own source. Runs in an environment without lakebed."""
    from pyspark.sql import SparkSession

    jars = os.pathsep.join(str(jar) for jar in sorted(Path(os.environ["LAKEBED_ICEBERG_JARS"]).glob("*.jar")))
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", jars)
    spark = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    return timed({"iceberg": lambda: spark.read.format("iceberg").load(table)}, repeats)


def timed(engines: Mapping[str, Callable[[], Any]], repeats: int) -> Figures:
    """Seconds of each query, the engines in turn, after one round that is not counted."""
    figures: Figures = {query: {engine: [] for engine in engines} for query in QUERIES}
    for query, ask in QUERIES.items():
        answers = {engine: ask(read()) for engine, read in engines.items()}
        live = {str(answer)[:12] for engine, answer in answers.items() if engine != "parquet"}
        assert len(live) == 1, answers
        for _ in range(repeats):
            for engine, read in engines.items():
                began = time.perf_counter()
                ask(read())
                figures[query][engine].append(round(time.perf_counter() - began, 3))
    return figures


if __name__ == "__main__":
    main()
