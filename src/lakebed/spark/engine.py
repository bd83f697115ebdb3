"""Run tasks on a Spark session, classic or Connect: the same functions that LocalEngine runs, inside mapInArrow."""

from __future__ import annotations

import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from lakebed.kernel.engine import LocalEngine
from lakebed.spark import worker
from lakebed.spark.failures import translated_errors

_LOCAL = re.compile(r"local(?:\[\s*([0-9]+|\*)\s*(?:,[^]]*)?\])?")
"""The masters that run tasks as threads of the driver's JVM, with the number of them. `local-cluster` is none."""

T = TypeVar("T")
R = TypeVar("R")

_RESULT = StructType([StructField("task", LongType(), False), StructField("result", BinaryType(), False)])
_RESULT_ARROW = pa.schema([pa.field("task", pa.int64(), False), pa.field("result", pa.binary(), False)])


def run_workers_here(spark: SparkSession) -> None:
    """Let the workers of a session on this machine run this Python, where the user names none.

    Spark takes `python3` of the PATH: in an environment that is not activated, another Python, which lacks lakebed.
    """
    if os.environ.get("PYSPARK_PYTHON") or not isinstance(spark, SparkSession):  # a Connect session is no such one
        return
    context = spark.sparkContext
    if str(context.master).startswith("local") and context.pythonExec == "python3":
        context.pythonExec = sys.executable


class SparkEngine:
    """Runs the tasks of rewrite, expire and archive on a cluster.

        table.rewrite(engine=lakebed.spark.SparkEngine(spark))

    `parallelism` is the number of tasks that a verb plans for; by default as many as the session runs at once.
    """

    def __init__(self, spark: SparkSession, parallelism: int | None = None) -> None:
        self._spark, self._given = spark, parallelism
        run_workers_here(spark)

    @cached_property
    def parallelism(self) -> int:
        """How many tasks the session runs at once. Over Connect, one small job finds out."""
        return self._given or default_parallelism(self._spark)

    def in_this_process(self) -> LocalEngine | None:
        """Threads for the processors of a session that runs its tasks on this machine (`local[...]`). None for one on a
        cluster, or over Connect."""
        threads = local_threads(self._spark)
        return LocalEngine(min(self.parallelism, threads)) if threads else None

    def map(self, fn: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """The results in the order of the tasks, all of them once the last task is done.

        A task may run more than once (a lost executor, speculation). An error ends the Spark job and is raised here
        with its own type.
        """
        packed = [worker.pack(task) for task in tasks]
        if not packed:
            return
        frame = over_tasks(self._spark, _Call(fn), packed, _RESULT)
        with translated_errors():
            results = collected(frame, _RESULT_ARROW).sort_by("task").column("result")
        for result in results:
            yield pickle.loads(result.as_buffer())


@dataclass(frozen=True, slots=True)
class _Call(Generic[T, R]):
    """Runs one task on a worker and gives its result as one row."""

    fn: Callable[[T], R]

    def __call__(self, number: int, task: T) -> Iterator[pa.RecordBatch]:
        # cloudpickle, since a result may be of a class that is defined in __main__
        result = worker.dumps(self.fn(task))
        yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([result], pa.binary())], schema=_RESULT_ARROW)


def over_tasks(
    spark: SparkSession, fn: Callable[[int, T], Iterator[pa.RecordBatch]], packed: list[bytes], schema: StructType
) -> DataFrame:
    """A DataFrame of the batches that `fn(number, task)` yields, with one Spark task per task. Nothing runs yet."""
    count = max(len(packed), 1)
    numbers = spark.range(0, len(packed), 1, count)
    return numbers.mapInArrow(worker.over_tasks(worker.pack(fn), packed), schema)


def collected(df: DataFrame, schema: pa.Schema) -> pa.Table:
    """The few rows of a DataFrame, in this schema. PySpark 3.5 gives them as its own rows alone."""
    if hasattr(df, "toArrow"):
        return df.toArrow()
    rows = df.collect()
    return pa.table([pa.array([row[n] for row in rows], field.type) for n, field in enumerate(schema)], schema=schema)


def local_threads(spark: SparkSession) -> int:
    """How many tasks a session runs at once whose tasks run on this machine, beside its driver; 0 for another one."""
    try:
        named = _LOCAL.fullmatch(str(spark.sparkContext.master))
    except Exception:  # noqa: BLE001  # Connect has no context, and raises one of several errors
        return 0
    if named is None:
        return 0
    threads = named[1] or "1"
    return (os.cpu_count() or 1) if threads == "*" else int(threads)


def default_parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs at once, as Spark counts its cores."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001  # Connect has no context, and raises one of several errors
        numbers = spark.range(1 << 16).select(f.spark_partition_id().alias("task"))
        last = numbers.agg(f.max("task")).first()
        return int(last[0]) + 1 if last else 1
