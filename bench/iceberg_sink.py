"""Writes into a partitioned Iceberg table from Spark: files and bytes of each partition at several parallelisms, beside
Iceberg's own Spark sink with its hash distribution, in one run on one machine.

    ./run bench iceberg-sink [--rows 1000000] [--parallelism 2,4,8,16] [--repeats 3]

Rows of 12 columns in 4 regions, of which one has 85 in 100 of the rows, come from a Parquet folder of 16 files; the
target size is 4 MiB. Iceberg's own sink runs in the interpreter that LAKEBED_ICEBERG_JVM_PYTHON names with the jars in
LAKEBED_ICEBERG_JARS; without them only lakebed is measured. The engines take turns, write by write, after a round that
is not counted; the least seconds of the repeats count. Seconds of processor time are those of the driver, its JVM and
the Python workers, and leave the session's start out. The result of all rows goes to results/iceberg_sink.json.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "iceberg_sink.json"
TARGET = 4 << 20
ROWS = 1_000_000
SQL = "id bigint, region string, cust int, qty int, price decimal(12,2), ratio double, score float, flag boolean, \
d date, ts timestamp_ntz, code string, note string"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--parallelism", default="2,4,8,16")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        run = {"lakebed": with_lakebed, "iceberg": with_iceberg}[given.engine]
        for line in run(given.folder, map(int, sys.stdin)):
            print(json.dumps(line), flush=True)
        return
    from bench.turns import Engine

    tasks = [int(text) for text in given.parallelism.split(",")]
    outside = os.environ.get("LAKEBED_ICEBERG_JVM_PYTHON")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        make_rows(Path(folder, "input"), given.rows)
        commands = {"lakebed": [sys.executable, "-m", "bench.iceberg_sink"]}
        if outside:
            commands["iceberg"] = [outside, __file__]
        running = {
            name: opened.enter_context(Engine([*command, "--engine", name, "--folder", folder]))
            for name, command in commands.items()
        }
        runs: dict[str, dict[int, list[dict[str, Any]]]] = {name: {n: [] for n in tasks} for name in running}
        for engine in running.values():
            engine.ask(str(tasks[0]))
        for number in tasks * given.repeats:
            for name, engine in running.items():
                runs[name][number].append(engine.ask(str(number)))
                print(name, runs[name][number][-1], file=sys.stderr)
    engines = {name: [least(of_tasks) for of_tasks in by_tasks.values()] for name, by_tasks in runs.items()}
    result = {
        "bench": "iceberg-sink",
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),  # noqa: UP017
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end",
        "rows": given.rows,
        "target_bytes": TARGET,
        "engines": engines,
    }
    if given.rows == ROWS:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def least(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One line for the runs of an engine: the least seconds of both kinds."""
    return {**runs[0], **{key: min(run[key] for run in runs) for key in ("seconds", "cpu_seconds")}}


def make_rows(folder: Path, count: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    chance = np.random.default_rng(1)
    for part in range(16):
        ids = np.arange(part * count // 16, (part + 1) * count // 16)
        rows = len(ids)
        regions = np.where(chance.random(rows) < 0.8, "eu", chance.choice(["eu", "us", "ap", "af"], rows))
        cents = np.zeros((rows, 2), np.int64)
        cents[:, 0] = chance.integers(0, 10**8, rows)
        data = {
            "id": ids, "region": regions.astype(str), "cust": chance.integers(0, 200_000, rows).astype(np.int32),
            "qty": chance.integers(0, 100, rows).astype(np.int32),
            "price": pa.Array.from_buffers(pa.decimal128(12, 2), rows, [None, pa.py_buffer(cents.tobytes())]),
            "ratio": chance.random(rows), "score": chance.random(rows).astype(np.float32), "flag": ids % 3 == 0,
            "d": pa.array((18_262 + chance.integers(0, 1500, rows)).astype(np.int32)).cast(pa.date32()),
            "ts": pa.array(1_577_836_800_000_000 + chance.integers(0, 10**14, rows)).cast(pa.timestamp("us")),
            "code": [f"C{number:05d}" for number in chance.integers(0, 5000, rows).tolist()],
            "note": [f"order {number:x} note {number % 1000}" for number in chance.integers(0, 2**63, rows).tolist()],
        }  # fmt: skip
        pq.write_table(pa.table(data), folder / f"{part:02d}.parquet")


def measured(write: Callable[[], object]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), processor_seconds()
    write()
    return {"seconds": round(time.perf_counter() - wall, 2), "cpu_seconds": round(processor_seconds() - cpu, 2)}


def processor_seconds() -> float:
    """Of this process and all below it, those that ended included as far as their parents waited for them."""
    ticks = 0
    for pid in list(below(str(os.getpid()))):
        with suppress(OSError):  # it may have ended just now
            ticks += sum(map(int, stat(pid)[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def below(pid: str) -> Iterator[str]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in task.read_text().split():
                yield from below(child)


def stat(pid: str) -> list[str]:
    """The fields of a process behind its name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def report(tasks: int, figures: dict[str, float], sizes: dict[str, list[int]]) -> dict[str, Any]:
    """One line: files of each partition, and the least and greatest of the largest one in bytes."""
    largest = max(sizes.values(), key=sum)
    counts = {partition: len(found) for partition, found in sorted(sizes.items())}
    return {
        "parallelism": tasks, **figures, "files": sum(counts.values()), "files_of": counts,
        "bytes": sum(map(sum, sizes.values())), "least": min(largest), "greatest": max(largest),
    }  # fmt: skip


def with_lakebed(folder: str, parallelism: Iterable[int]) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    import lakebed
    import lakebed.spark
    from lakebed.formats.iceberg.read.plan import scan_tasks

    spark = lakebed.spark.local_session("local[2]")
    schema = pq.read_schema(f"{folder}/input/00.parquet")
    for number, tasks in enumerate(parallelism):
        table: Any = lakebed.create(f"{folder}/ours{number}", "iceberg", schema, partition_by=["region"])
        frame = spark.read.parquet(f"{folder}/input").repartition(tasks)
        options = {"sink.parallelism": tasks, "target-file-size-bytes": TARGET}
        figures = measured(lambda f=frame, t=table, o=options: lakebed.spark.write(f, t.location, options=o))
        sizes: dict[str, list[int]] = {}
        metadata = table.table_metadata
        for task in scan_tasks(table.operations.files, metadata, metadata.head()):
            sizes.setdefault(task.data.partition[0], []).append(task.data.size)
        yield report(tasks, figures, sizes)
    spark.stop()


def with_iceberg(folder: str, parallelism: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Runs in the other interpreter."""
    from pyspark.sql import SparkSession

    jars = os.pathsep.join(str(jar) for jar in sorted(Path(os.environ["LAKEBED_ICEBERG_JARS"]).glob("*.jar")))
    settings = {
        "spark.driver.memory": "2g", "spark.driver.extraClassPath": jars, "spark.ui.enabled": "false",
        "spark.sql.adaptive.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalog.had": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.had.type": "hadoop",
        "spark.sql.catalog.had.warehouse": f"{folder}/theirs",
    }  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for number, tasks in enumerate(parallelism):
        spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
        spark.sql(
            f"CREATE TABLE had.db.t{number} ({SQL}) USING iceberg PARTITIONED BY (region) TBLPROPERTIES "
            f"('format-version'='2', 'write.target-file-size-bytes'='{TARGET}', 'write.distribution-mode'='hash')"
        )
        frame = spark.read.parquet(f"{folder}/input").repartition(tasks)
        figures = measured(lambda f=frame, w=number: f.writeTo(f"had.db.t{w}").append())
        sizes: dict[str, list[int]] = {}
        for row in spark.sql(f"SELECT partition.region, file_size_in_bytes FROM had.db.t{number}.files").collect():
            sizes.setdefault(row[0], []).append(row[1])
        yield report(tasks, figures, sizes)
    spark.stop()


if __name__ == "__main__":
    main()
