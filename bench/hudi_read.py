"""Reads of a Hudi merge-on-read table, side by side: lakebed, lakebed on Spark, hudi-rs and Hudi's own Spark reader,
each in processes of its own, in turn. `handover` is what Spark alone takes for rows that lie ready in its Python
workers: no read through Spark can be faster.

    ./run bench hudi-read [--rows 2000000] [--repeats 3] [--times 3] [--table FOLDER]
                          [--engines lakebed,lakebed-spark,handover,hudi-rs,spark]

The table has 12 columns in 4 partitions: one bulk insert and three upserts of a tenth of the rows into logs, nothing
compacted; Hudi's Spark bundle writes it once. What is measured: a snapshot of all columns, a filtered count, and the
changes of the last two commits; seconds on the clock and of processor time, warm (each process reads once before), and
the process's peak memory; for lakebed also the plan of a table of 100,000 file groups and 1,000 instants, with its
listings. Figures go to bench/results/hudi_read.json.

hudi-rs and Spark need the environments that `./run setup interop` makes; an engine whose environment is missing is left
out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results" / "hudi_read.json"
PYTHONS = {
    "lakebed": ".venv",
    "lakebed-spark": ".venv",
    "handover": ".venv",
    "hudi-rs": ".venv-interop",
    "spark": ".venv-hudi-jvm",
}
BUNDLE = ".cache/jars/hudi/hudi-spark3.5-bundle_2.12-1.0.2.jar"
Work = Callable[[], int]


def main() -> None:
    options = _options()
    if options.work:
        _measure(options)
        return
    table = Path(options.table)
    if not (table / ".hoodie").exists():
        _run("spark", options, "make")
    figures: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for _ in range(options.repeats):
        for engine in options.engines.split(","):
            if not _python(engine, options).exists():
                print(f"no environment for {engine}: left out", file=sys.stderr)
                continue
            for line in _run(engine, options, "read"):
                figures.setdefault(line["what"], {}).setdefault(engine, []).append(line)
    plans = _plans(options) if "lakebed" in options.engines else []
    _report(figures, plans, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--table", default=str(ROOT / ".cache" / "bench" / "hudi_read"))
    parser.add_argument("--engines", default="lakebed,lakebed-spark,handover,hudi-rs,spark")
    parser.add_argument("--python", action="append", default=[], help="ENGINE=PATH of another interpreter")
    parser.add_argument("--bundle", default=str(ROOT / BUNDLE))
    parser.add_argument("--times", type=int, default=3, help="How often each process reads after its first read")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def _python(engine: str, options: argparse.Namespace) -> Path:
    named = dict(entry.split("=", 1) for entry in options.python)
    return Path(named.get(engine, ROOT / PYTHONS[engine] / "bin" / "python"))


def _run(engine: str, options: argparse.Namespace, work: str) -> list[dict[str, Any]]:
    """One process of an engine; the figures that it printed."""
    python = _python(engine, options)
    command = [
        str(python),
        str(Path(__file__)),
        "--work",
        f"{engine}:{work}",
        "--table",
        options.table,
        "--rows",
        str(options.rows),
        "--bundle",
        options.bundle,
        "--times",
        str(options.times),
    ]
    environment = {**os.environ, "TZ": "UTC", "PYSPARK_PYTHON": str(python)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{engine} failed:\n{done.stderr[-3000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _plans(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Planning alone, in a process of its own."""
    table = Path(options.table).with_name("hudi_many_groups")
    command = [str(_python("lakebed", options)), "-m", "bench.hudi_many_groups", str(table)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _report(
    figures: dict[str, dict[str, list[dict[str, Any]]]], plans: list[dict[str, Any]], options: argparse.Namespace
) -> None:
    summary: dict[str, Any] = {}
    for what, engines in figures.items():
        print(f"\n{what}")
        best = {engine: min(min(line["seconds"]) for line in lines) for engine, lines in engines.items()}
        for engine, lines in engines.items():
            assert len({line["rows"] for lines in engines.values() for line in lines}) == 1, "the engines disagree"
            seconds = [value for line in lines for value in line["seconds"]]
            processor = [value for line in lines for value in line["cpu_seconds"]]
            memory = max(line["peak_mb"] for line in lines)
            ratio = "".join(
                f"  {best['lakebed'] / best[engine]:.2f} of it" if engine != "lakebed" and "lakebed" in best else ""
            )
            summary.setdefault(what, {})[engine] = {
                "seconds_min": min(seconds),
                "seconds_median": statistics.median(seconds),
                "cpu_seconds_min": min(processor),
                "peak_mb": memory,
                "rows": lines[0]["rows"],
            }
            print(
                f"  {engine:8} {min(seconds):7.2f} s (median {statistics.median(seconds):.2f})"
                f"  {min(processor):6.2f} CPU s  {memory:5d} MB{ratio}"
            )
    for plan in plans:
        print(
            f"\n{plan['what']}: {plan['splits']} splits in {plan['seconds']:.2f} s ({plan['cpu_seconds']:.2f} CPU s),"
            f" {plan['listings']} listings"
        )
    RESULTS.parent.mkdir(exist_ok=True)
    found = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]},
        "rows": options.rows,
        "figures": summary,
        "plans": plans,
    }
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


# ---- inside an engine's process --------------------------------------------------------------------------------------


def _measure(options: argparse.Namespace) -> None:
    engine, _, work = options.work.partition(":")
    if work == "make":
        _make(options)
        return
    engines = {
        "lakebed": _lakebed, "lakebed-spark": _lakebed_on_spark, "handover": _handover, "hudi-rs": _hudi_rs,
        "spark": _spark,
    }  # fmt: skip
    works = engines[engine](options)
    for what, read in works.items():
        rows = read()
        seconds, processor = [], []
        for _ in range(options.times):
            began, used = time.perf_counter(), _processor_seconds()
            assert read() == rows
            seconds.append(round(time.perf_counter() - began, 3))
            processor.append(round(_processor_seconds() - used, 3))
        peak = _peak_mb()
        print(
            json.dumps({"what": what, "rows": rows, "seconds": seconds, "cpu_seconds": processor, "peak_mb": peak}),
            flush=True,
        )


def _processor_seconds() -> float:
    """Of this process and of all that it started: Spark's JVM and its Python workers, which live on."""
    return sum(sum(map(int, _stat(pid)[11:13])) for pid in _family(str(os.getpid()))) / os.sysconf("SC_CLK_TCK")


def _peak_mb() -> int:
    found = [Path(f"/proc/{pid}/status").read_text() for pid in _family(str(os.getpid()))]
    lines = [line for status in found for line in status.splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def _family(pid: str) -> list[str]:
    """A process and those below it."""
    below = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")).split()
    return [pid, *(one for child in below for one in _family(child))]


def _stat(pid: str) -> list[str]:
    """The fields of a process behind its name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _last_two(options: argparse.Namespace) -> str:
    """The instant before the last two commits."""
    return sorted(path.name.partition(".")[0] for path in (Path(options.table) / ".hoodie").glob("*.deltacommit"))[-3]


def _lakebed(options: argparse.Namespace) -> dict[str, Work]:
    import lakebed

    def count(batches: Any) -> int:
        return sum(batch.num_rows for batch in batches)

    after = _last_two(options)
    return {
        "snapshot": lambda: count(lakebed.open(options.table).read()),
        "filtered count": lambda: count(lakebed.open(options.table).read([], "part = 'p1' and i1 < 100")),
        "last two commits": lambda: count(lakebed.open(options.table).changes(after=after)),
    }


def _lakebed_on_spark(options: argparse.Namespace) -> dict[str, Work]:
    """As `_lakebed`, through Spark: every row reaches Spark's own form, and is dropped there."""
    import lakebed.spark

    spark = lakebed.spark.local_session("local[2]")
    lakebed.spark.register(spark)
    after = _last_two(options)

    def noop(frame: Any) -> int:
        frame.write.format("noop").mode("overwrite").save()
        return -1

    def changes() -> Any:
        return spark.read.format("lakebed").option("after", after).load(options.table)

    changed = changes().count()
    return {
        "snapshot": lambda: noop(lakebed.spark.read(spark, options.table)) and options.rows,
        "filtered count": lambda: int(
            lakebed.spark.read(spark, options.table, ["i1"], "part = 'p1' and i1 < 100").count()
        ),
        "last two commits": lambda: noop(changes()) and changed,
    }


def _handover(options: argparse.Namespace) -> dict[str, Work]:
    """As many rows of the table's schema as the table has, in two tasks that give one batch again and again."""
    import pyarrow as pa

    import lakebed
    import lakebed.spark
    from lakebed.spark.types import conform, spark_schema, wire_schema

    reader = lakebed.open(options.table).read()
    wire = wire_schema(reader.schema)
    batch = conform(next(iter(reader)), wire).slice(0, 1 << 15)
    reader.close()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, wire) as stream:
        stream.write_batch(batch)
    packed, repeats = sink.getvalue().to_pybytes(), options.rows // batch.num_rows // 2

    def ready(batches: Any) -> Any:
        import pyarrow as pa

        list(batches)
        for _ in range(repeats):
            yield from pa.ipc.open_stream(packed)

    spark = lakebed.spark.local_session("local[2]")
    schema = spark_schema(wire)

    def noop() -> int:
        spark.range(0, 2, 1, 2).mapInArrow(ready, schema).write.format("noop").mode("overwrite").save()
        return options.rows

    return {"snapshot": noop}


def _hudi_rs(options: argparse.Namespace) -> dict[str, Work]:
    from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

    def count(read: Any) -> int:
        return sum(batch.num_rows for batch in HudiTableBuilder.from_base_uri(options.table).build().read(read))

    after = _last_two(options)
    return {
        "snapshot": lambda: count(HudiReadOptions()),
        "filtered count": lambda: count(HudiReadOptions(filters=[("part", "=", "p1"), ("i1", "<", "100")])),
        "last two commits": lambda: count(
            HudiReadOptions().with_query_type(HudiQueryType.Incremental).with_start_timestamp(after)
        ),
    }


def _session(options: argparse.Namespace) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": options.bundle,
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.shuffle.partitions": "4",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _spark(options: argparse.Namespace) -> dict[str, Work]:
    spark = _session(options)
    range_of = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": _last_two(options),
    }

    def noop(**given: str) -> int:
        frame = spark.read.format("hudi").options(**given).load(options.table)
        frame.write.format("noop").mode("overwrite").save()
        return -1

    counts = {
        "snapshot": options.rows,
        "last two commits": spark.read.format("hudi").options(**range_of).load(options.table).count(),
    }
    return {
        "snapshot": lambda: noop() and counts["snapshot"],
        "filtered count": lambda: int(
            spark.read.format("hudi").load(options.table).where("i1 < 100 and part = 'p1'").count()
        ),
        "last two commits": lambda: noop(**range_of) and counts["last two commits"],
    }


def _make(options: argparse.Namespace) -> None:
    """The table: generation 0 by bulk insert, three more generations of a tenth of the keys by upsert."""
    from pyspark.sql import functions as F

    spark = _session(options)
    writing = {
        "hoodie.table.name": "bench",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.table.version": "6",
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": "false",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.index.type": "SIMPLE",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.compact.inline": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
        "hoodie.upsert.shuffle.parallelism": "4",
        "hoodie.bulkinsert.shuffle.parallelism": "4",
    }
    for generation in range(4):
        frame = spark.range(0, options.rows, 1, 4)
        mixed = F.xxhash64("id", F.lit(generation))
        if generation:
            frame = frame.where(F.pmod(mixed, F.lit(10)) == 0)
        columns = [
            F.format_string("key-%09d", "id").alias("id"),
            F.lit(1000 + generation).cast("long").alias("ts"),
            F.concat(F.lit("p"), F.pmod("id", F.lit(4))).alias("part"),
            F.concat(F.lit("name-"), F.pmod(mixed, F.lit(100_000))).alias("name"),
            F.pmod(mixed, F.lit(1000)).cast("int").alias("i1"),
            mixed.alias("l1"),
            (mixed / 1e9).alias("d1"),
            F.pmod(mixed, F.lit(7)).cast("double").alias("d2"),
            (F.pmod(mixed, F.lit(2)) == 0).alias("b1"),
            F.date_add(F.lit("2020-01-01").cast("date"), F.pmod(mixed, F.lit(2000)).cast("int")).alias("dt"),
            F.timestamp_seconds(F.lit(1_600_000_000) + F.pmod(mixed, F.lit(100_000_000))).alias("tm"),
            F.when(F.pmod(mixed, F.lit(10)) != 1, (F.pmod(mixed, F.lit(100_000)) / 100).cast("decimal(10,2)")).alias(
                "dec"
            ),
        ]
        operation = "upsert" if generation else "bulk_insert"
        (
            frame.select(*columns)
            .write.format("hudi")
            .options(**writing)
            .option("hoodie.datasource.write.operation", operation)
            .mode("append" if generation else "overwrite")
            .save(options.table)
        )


if __name__ == "__main__":
    main()
