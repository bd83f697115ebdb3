"""A separate driver on a cluster whose workers lack lakebed. It does what a user does, and prints its results as JSON.

    python -m tests.programs.on_cluster MASTER PYTHON HUDI FOLDER

At first nothing is shipped, then lakebed is. Spark runs a task a second time while its first copy is slow. An executor
and Python workers are killed in the middle of a write. An event log is kept of all of it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import lakebed
import lakebed.spark
from lakebed.errors import RuntimeMissingError
from lakebed.examples import example_path as example
from lakebed.spark.session import _SECRETS
from lakebed.spark.slow_start import despite_slow_start
from tests.spark.tables import as_bag
from tests.tables.leftovers import leftovers

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "3",
    "spark.redaction.regex": _SECRETS,
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.minTaskRuntime": "2s",
}
CANARY = "hUsHcAnArY0123456789"
SECRETS = {
    "lakebed.storage.setting.aws_access_key_id": CANARY,
    "lakebed.storage.setting.aws_secret_access_key": CANARY,
    "lakebed.storage.setting.azure_storage_account_key": CANARY,
    "lakebed.storage.ship-secrets": "true",
}
ROWS = 200_000
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("text", pa.string())])


def main(master: str, python: str, hudi: str, folder: str) -> dict[str, object]:
    began = time.monotonic()
    events = Path(folder, "events")
    events.mkdir()
    spark = session(master, python, events)
    _log("session", began)
    place = Path(folder)
    began = time.monotonic()
    seen: dict[str, object] = {"bare": _bare(spark, hudi, place)}
    _log("bare", began)
    began = time.monotonic()
    lakebed.spark.ship(spark)
    lakebed.spark.register(spark)
    _log("shipped", began)
    for step in (_read, _write, _write_by_format, _stream, _rewrite, _called, _secrets):
        began = time.monotonic()
        seen[step.__name__.lstrip("_")] = step(spark, hudi, place)
        _log(step.__name__, began)
    spark.stop()
    seen["events"], seen["orphans"] = _told(events), _orphans(place)
    return seen


def session(master: str, python: str, events: Path, more: Mapping[str, str] = {}) -> SparkSession:
    """A session on a cluster, with more settings than these programs have in common."""
    # Nothing of this process's own paths may reach the Python of the cluster, nor that of sources on the driver.
    os.environ.pop("PYTHONPATH", None)
    os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.master(master).appName("lakebed on a cluster")
    builder = builder.config("spark.eventLog.dir", events.as_uri())
    for key, value in {**SETTINGS, **more}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _bare(spark: SparkSession, hudi: str, place: Path) -> dict[str, str]:
    """The type and text of the error that each way to use lakebed raises when the workers lack it."""
    table = _iceberg(place / "never")
    lakebed.spark.register(spark)

    def stream() -> None:
        rows = spark.readStream.format("lakebed").load(hudi)
        query = rows.writeStream.format("noop").option("checkpointLocation", str(place / "no")).start()
        query.awaitTermination()

    calls: dict[str, Callable[[], object]] = {
        "read": lambda: lakebed.spark.read(spark, hudi, options={"read.tasks": 1}).count(),
        "load": lambda: spark.read.format("lakebed").load(hudi),
        "sql": lambda: spark.sql(f"create temporary view missing using lakebed options (path '{hudi}')"),
        "save": lambda: rows_of(spark).write.format("lakebed").mode("append").save(table.location),
        "write": lambda: lakebed.spark.write(rows_of(spark), table.location),
        "engine": lambda: list(lakebed.spark.SparkEngine(spark).map(_twice, [1])),
        "stream": stream,
    }
    errors = {}
    for name, call in calls.items():
        try:
            call()
            errors[name] = "no error"
        except RuntimeMissingError as error:
            errors[name] = str(error)
        except Exception as error:  # seen by the test
            errors[name] = f"{type(error).__name__}: {error}"
    return errors


def _read(spark: SparkSession, hudi: str, place: Path) -> bool:
    expected = as_bag(lakebed.open(hudi).read())
    fast = as_bag(lakebed.spark.read(spark, hudi).toArrow())
    source = as_bag(spark.read.format("lakebed").load(hudi).toArrow())
    return fast == source == expected


def _write(spark: SparkSession, hudi: str, place: Path) -> dict[str, object]:
    """One task is so slow that Spark starts a second copy, which wins. What the first copy staged must be removed."""
    table = _iceberg(place / "written")
    rows = rows_of(spark, ROWS, 4).mapInArrow(_Slow(str(place / "staged")), "id long, text string")
    lakebed.spark.write(rows, table.location, options={"lakebed.write.buffer-bytes": "64kb"})
    there = lakebed.open(table.location).read(columns=["id"]).read_all()
    return {
        "rows": there.num_rows,
        "distinct": len(there.column("id").unique()),
        "twins": (place / "staged").exists(),
        "left": _staging(table),
    }


def _write_by_format(spark: SparkSession, hudi: str, place: Path) -> dict[str, object]:
    """An executor dies in the middle of each format's write, and the Python workers in the next one. Of tables that
    stage rows, nothing is left."""
    seen: dict[str, object] = {}
    for table_format, key in (("iceberg", []), ("paimon", ["id"]), ("hudi", ["id"])):
        options = {"bucket": "2"} if table_format == "paimon" else {}
        table = lakebed.create(str(place / table_format), table_format, SCHEMA, key, options=options)
        marks = []
        for number, victim in enumerate(("executor", "workers")):
            marks.append(place / f"{victim}-{table_format}")
            rows = rows_of(spark, 4000, 4, 4000 * number).mapInArrow(
                _Deadly(str(marks[-1]), victim), "id long, text string"
            )
            rows.write.format("lakebed").mode("append").save(table.location)
        there = lakebed.open(table.location).read(columns=["id"]).read_all()
        seen[table_format] = {
            "rows": there.num_rows,
            "distinct": len(there.column("id").unique()),
            "died": [mark.exists() for mark in marks],
            "left": sorted(leftovers(lakebed.open(table.location))) if table_format != "paimon" else [],
        }
    return seen


def _orphans(place: Path) -> dict[str, object]:
    """What is left of Paimon's dead tasks, and of those that lost and ended late, once orphan files were removed a day
    later."""
    table = lakebed.open(str(place / "paimon"))
    for path in Path(table.location).rglob("*"):
        os.utime(path, (time.time() - 86_400,) * 2)
    options = {"lakebed.expire.what": "orphan-files", "lakebed.expire.orphans.after": "1 h"}
    removed = table.expire(options=options).deleted_files
    print(f"orphan files of Paimon: {len(removed)}", file=sys.stderr)
    rows = table.read(columns=["id"]).read_all().num_rows
    return {"rows": rows, "left": sorted(leftovers(lakebed.open(table.location)))}


def _secrets(spark: SparkSession, hudi: str, place: Path) -> bool:
    """Jobs of all kinds with credentials."""
    location = _iceberg(place / "secret").location
    rows_of(spark).write.format("lakebed").options(**SECRETS).mode("append").save(location)
    lakebed.spark.write(rows_of(spark), location, options=SECRETS)
    options = ", ".join(f"`{key}` '{value}'" for key, value in SECRETS.items())
    spark.sql(f"create temporary view secret using lakebed options (path '{location}', {options})")
    counts = [
        spark.read.format("lakebed").options(**SECRETS).load(location).count(),
        lakebed.spark.read(spark, location, options=SECRETS).count(),
        spark.sql("select * from secret where id >= 0").count(),
    ]
    rows = spark.readStream.format("lakebed").options(**SECRETS).option("read.start-commit", "earliest").load(location)
    written = str(place / "secretly")
    _iceberg(place / "secretly")
    lakebed.spark.write_stream(
        rows.drop("_row_kind"),
        written,
        str(place / "secret-checkpoint"),
        options=SECRETS,
        trigger={"availableNow": True},
    ).awaitTermination()
    counts.append(lakebed.open(written).count())
    return counts == [20] * 4


def _told(events: Path) -> dict[str, object]:
    """What the event log says: how many executions of SQL, whether Spark left a value out, and the lines with a secret
    in them."""
    lines = [line for path in events.rglob("*") if path.is_file() for line in path.read_text("utf-8").splitlines()]
    return {
        "executions": sum("SparkListenerSQLExecutionStart" in line for line in lines),
        "redacted": any("(redacted)" in line for line in lines),
        "secrets": [line[:2000] for line in lines if CANARY in line][:3],
    }


def _stream(spark: SparkSession, hudi: str, place: Path) -> dict[str, object]:
    source = lakebed.open(example("orders_hudi"))
    rows = spark.readStream.format("lakebed").option("read.start-commit", "earliest").load(source.location)
    rows = rows.select("order_id", "amount", "_row_kind")
    wanted = pa.schema([pa.field("order_id", pa.int64(), False), source.schema.field("amount")])
    table = lakebed.create(str(place / "streamed"), "iceberg", wanted, primary_key=["order_id"])
    despite_slow_start(lambda: _started(rows, table.location, place).awaitTermination())
    there = lakebed.open(table.location).read(columns=wanted.names)
    return {"equal": as_bag(there) == as_bag(source.read(columns=wanted.names)), "left": _staging(table)}


def _started(rows: DataFrame, location: str, place: Path) -> StreamingQuery:
    return lakebed.spark.write_stream(rows, location, str(place / "checkpoint"), trigger={"availableNow": True})


def _rewrite(spark: SparkSession, hudi: str, place: Path) -> dict[str, object]:
    table = lakebed.open(str(place / "written"))
    for _ in range(2):
        table.write(pa.table({"id": pa.array([1], pa.int64()), "text": ["one more"]}, SCHEMA))
    result = table.rewrite(engine=lakebed.spark.SparkEngine(spark), options={"min-input-files": 2})
    return {
        "before": result.files_before,
        "after": result.files_after,
        "failed": len(result.failed),
        "rows": table.read(columns=["id"]).read_all().num_rows,
    }


def _called(spark: SparkSession, hudi: str, place: Path) -> dict[str, object]:
    """Tasks that call SQL functions fail after these have done their work, and run again."""
    table = lakebed.open(str(place / "written"))
    before = len(table.history())
    spark.udf.register("late", _Late(str(place / "attempts")), "string")
    (tagged,) = spark.sql(f"SELECT late(name) FROM lakebed_tag('{table.location}', 'now')").collect()
    options = "map('rewrite-all', 'true')"
    call = f"SELECT late(string(files_after)), instants FROM lakebed_rewrite('{table.location}', {options})"
    (rewritten,) = spark.sql(call).collect()
    return {
        "tagged": tagged[0],
        "tags": [ref.name for ref in table.refs() if ref.kind == "tag"],
        "files": int(rewritten[0]) > 0,
        "instants": list(rewritten[1]) == [table.history()[-1].time],
        "snapshots": len(table.history()) - before,
        "attempts": (place / "attempts").read_text().split(),
    }


class _Late:
    """Passes a value on, and fails in the first attempt at a task."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def __call__(self, value: str) -> str:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.attemptNumber() if context is not None else -1
        with open(self._mark, "a") as file:
            file.write(f"{number} ")
        if not number:
            raise OSError("the first attempt is lost")
        return value


class _Slow:
    """Passes the rows of a partition on. The first copy of the last task yields its rows and then does not end."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context is not None and context.partitionId() == 3 and context.attemptNumber() == 0:
            with open(self._mark, "w") as file:
                file.write("slow")
            time.sleep(30)


class _Deadly:
    """Kills the executor that it runs on, or all other Python workers there, the writer's among them. It does so
    once."""

    def __init__(self, mark: str, victim: str) -> None:
        self._mark, self._victim = mark, victim

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import signal

        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context is not None and context.partitionId() == 1 and not os.path.exists(self._mark):
            with open(self._mark, "w") as file:
                file.write("dead")
            daemon = os.getppid()
            if self._victim == "executor":
                with open(f"/proc/{daemon}/stat") as stat:  # the parent of the workers' daemon is the executor
                    victims = [int(stat.read().rpartition(")")[2].split()[1])]
            else:
                with open(f"/proc/{daemon}/task/{daemon}/children") as children:
                    victims = [int(child) for child in children.read().split() if int(child) != os.getpid()]
            for victim in victims:
                os.kill(victim, signal.SIGKILL)
            if victims:
                time.sleep(30)


def rows_of(spark: SparkSession, count: int = 10, tasks: int = 1, start: int = 0) -> DataFrame:
    """Rows of `SCHEMA`, from so many tasks."""
    return spark.range(start, start + count, 1, tasks).selectExpr(
        "id", "concat(md5(string(id)), md5(string(-id))) as text"
    )


def _iceberg(place: Path) -> Any:
    return lakebed.create(str(place), "iceberg", SCHEMA)


def _staging(table: Any) -> list[str]:
    return sorted(path.name for path in Path(table.location, "data").glob("lakebed-staging-*"))


def _twice(number: int) -> int:
    return 2 * number


def _log(what: str, began: float) -> None:
    print(f"{what}: {time.monotonic() - began:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
