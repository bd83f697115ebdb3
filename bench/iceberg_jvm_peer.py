"""One run of Iceberg's own `rewrite_data_files` over a table that lies at a path, for `bench/iceberg_rewrite.py`; runs
in an interpreter with pyspark (LAKEBED_ICEBERG_JVM_PYTHON) and Iceberg's jars (LAKEBED_ICEBERG_JARS).

    python iceberg_jvm_peer.py TABLE_FOLDER CASE        # CASE: encode, deletes or sort

A small table is rewritten first, so that neither the session's start nor cold code counts.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

ARGUMENTS = {
    "encode": "options => map('min-input-files', '2')",
    "deletes": "options => map('min-input-files', '2', 'remove-dangling-deletes', 'true')",
    "sort": "strategy => 'sort', sort_order => 'cust ASC, ts ASC', options => map('min-input-files', '2')",
}


def main(folder: str, case: str) -> None:
    place = Path(folder).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        spark = session(str(place.parent.parent), scratch)
        spark.sql(
            "CREATE TABLE warm.db.t USING iceberg AS SELECT id, id % 7 cust, current_timestamp() ts FROM range(9)"
        )
        spark.sql("INSERT INTO warm.db.t SELECT id, id % 7, current_timestamp() FROM range(200000)")
        spark.sql(f"CALL warm.system.rewrite_data_files(table => 'db.t', {ARGUMENTS[case]})").collect()
        name = f"`{place.parent.name}`.`{place.name}`"
        wall, cpu = time.perf_counter(), processor_seconds()
        done = spark.sql(f"CALL had.system.rewrite_data_files(table => '{name}', {ARGUMENTS[case]})").collect()[0]
        line = {
            "wall_seconds": round(time.perf_counter() - wall, 2),
            "cpu_seconds": round(processor_seconds() - cpu, 2),
            "peak_mb": max(map(peak_mb, below(str(os.getpid())))),
            "files": done.rewritten_data_files_count,
            "files_after": done.added_data_files_count,
        }
        sizes = spark.sql(f"SELECT sum(file_size_in_bytes) FROM had.{name}.data_files").collect()[0][0]
        spark.stop()
    print(json.dumps({**line, "mb_after": round(sizes / 1e6, 1)}))


def session(warehouse: str, scratch: str) -> SparkSession:
    """Two threads; catalog `had` has the table, `warm` the small one."""
    jars = os.pathsep.join(str(jar) for jar in sorted(Path(os.environ["LAKEBED_ICEBERG_JARS"]).glob("*.jar")))
    settings = {
        "spark.driver.memory": "2g", "spark.driver.extraClassPath": jars, "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }  # fmt: skip
    for name, place in (("had", warehouse), ("warm", scratch)):
        settings |= {
            f"spark.sql.catalog.{name}": "org.apache.iceberg.spark.SparkCatalog",
            f"spark.sql.catalog.{name}.type": "hadoop", f"spark.sql.catalog.{name}.warehouse": place,
        }  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def processor_seconds() -> float:
    """Of this process and all below it."""
    ticks = 0
    for pid in list(below(str(os.getpid()))):
        with suppress(OSError):  # it may have ended just now
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def below(pid: str) -> Iterator[str]:
    """A process and its children."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in task.read_text().split():
                yield from below(child)


def peak_mb(pid: str) -> int:
    """The greatest resident size of a process."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) >> 10
    return 0


if __name__ == "__main__":
    main(*sys.argv[1:3])
