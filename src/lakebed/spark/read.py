"""Read on Spark: a plan's splits, packed into tasks, each giving Arrow batches in exactly the form that Spark takes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

import lakebed.formats as formats
from lakebed.errors import UsageError
from lakebed.kernel.options import option_texts
from lakebed.kernel.predicates.where import Where
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.model.split import Split
from lakebed.spark import worker
from lakebed.spark.engine import default_parallelism, over_tasks
from lakebed.spark.failures import speak_plainly
from lakebed.spark.types import conformed, spark_schema, wire_schema
from lakebed.verbs.read import ReadPlan, report

TASKS_OPTION = "read.tasks"
_TASK_BYTES = 64 << 20
"""Above the session's parallelism, one more task for this many bytes: a slow task then holds the others up for less."""


def read(
    spark: SparkSession,
    location: str,
    columns: Sequence[str] | None = None,
    where: Where = None,
    options: Mapping[str, object] = {},
) -> DataFrame:
    """A snapshot as a DataFrame, the fast way: only `columns` are decoded, and files that `where` rules out are not
    opened.

    The snapshot is the one that is newest now, however often the DataFrame is used. `where` keeps exactly the rows that
    `Table.read` keeps. `options` are the table's own; `read.tasks` is the number of Spark tasks (default: the session's
    parallelism, more for much data).
    """
    speak_plainly()
    table = formats.open_table(location, options)
    plan = table.plan_read(columns, where)
    if not plan.schema.names:
        raise UsageError(
            "no columns are asked for", table=table.location, todo="Name at least one, or count rows with one"
        )
    texts = {key.lower(): text for key, text in option_texts(options).items()}
    parallelism = int(texts[TASKS_OPTION]) if TASKS_OPTION in texts else None
    tasks = read_tasks(plan, parallelism, default_parallelism(spark))
    return over_tasks(spark, _batches, [worker.pack(task) for task in tasks], spark_schema(plan.schema))


@dataclass(frozen=True, slots=True)
class ReadTask:
    """The splits that one Spark task reads in turn. With `rows_only` deletes are left out, and so is the column of row
    kinds."""

    plan: ReadPlan[Any]
    wire: pa.Schema
    rows_only: bool = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the schema `wire`."""
        for split in self.plan.splits:
            batches = self.plan.read(split)
            yield from conformed(_rows(batches) if self.rows_only else batches, self.wire)


def read_tasks(plan: ReadPlan[Any], wanted: int | None, parallelism: int, rows_only: bool = False) -> list[ReadTask]:
    """The plan's splits as tasks: exactly `wanted` or as many as suit the data; fewer when there are fewer groups. The
    plan's warnings are told."""
    report(plan)
    size = sum(split.size for split in plan.splits)
    schema = plain_rows(plan.schema) if rows_only else plan.schema
    wire = wire_schema(schema)
    return [
        ReadTask(ReadPlan(plan.schema, tuple(splits), plan.read), wire, rows_only)
        for splits in pack_splits(plan.splits, wanted or max(parallelism, size // _TASK_BYTES))
    ]


def pack_splits(splits: Sequence[Split], tasks: int) -> list[list[Split]]:
    """At most `tasks` lists of about equal bytes. Splits of one group stay in one list and in order; the largest group
    goes first."""
    groups: dict[str, list[Split]] = {}
    for split in splits:
        groups.setdefault(split.group, []).append(split)
    sizes = {name: sum(split.size for split in group) for name, group in groups.items()}
    bins: list[tuple[int, int, list[str]]] = [(0, number, []) for number in range(min(max(tasks, 1), len(groups)))]
    for name in sorted(groups, key=lambda name: -sizes[name]):
        filled, number, names = bins[0]
        names.append(name)
        # Every group counts for a little, so that many empty ones spread as well.
        heapq.heapreplace(bins, (filled + sizes[name] + 1, number, names))
    return [[split for name in names for split in groups[name]] for _, _, names in sorted(bins, key=lambda b: b[1])]


def plain_rows(schema: pa.Schema) -> pa.Schema:
    """The schema without the column of row kinds."""
    index = schema.get_field_index(ROW_KIND_COLUMN)
    return schema.remove(index) if index >= 0 else schema


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are now: neither deletes nor what updates replaced, and no kinds."""
    kept = pa.array(["+I", "+U"])
    for batch in batches:
        index = batch.schema.get_field_index(ROW_KIND_COLUMN)
        if index >= 0:
            batch = batch.filter(pc.is_in(batch.column(index), value_set=kept)).remove_column(index)
        yield batch


def _batches(_: int, task: ReadTask) -> Iterator[pa.RecordBatch]:
    return task.batches()
