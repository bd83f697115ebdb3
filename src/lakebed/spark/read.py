"""Read on Spark: the splits of a plan become tasks, and each task gives Arrow batches in exactly the form that Spark
takes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

import lakebed.formats as formats
from lakebed.errors import UsageError
from lakebed.kernel.options import option_texts
from lakebed.kernel.predicates.where import Where
from lakebed.kernel.streams import Overlap, interleave
from lakebed.model.rowkind import ROW_KIND_COLUMN
from lakebed.model.split import Split
from lakebed.spark import worker
from lakebed.spark.catalogs import open_in_session
from lakebed.spark.engine import default_parallelism, over_tasks, run_workers_here
from lakebed.spark.failures import explained_errors, reading_itself, translate_errors
from lakebed.spark.native_scan import choose, native_frames, reads_int96
from lakebed.spark.types import conformed, spark_schema, wire_schema
from lakebed.verbs.many_splits import ManySplits, StreamedSplits, sizes_of
from lakebed.verbs.read import ReadPlan, report

TASKS_OPTION = "read.tasks"
"""How many Spark tasks a read gets."""
_TASK_BYTES = 64 << 20
"""Much data gets more tasks than the session's parallelism, one per this many bytes: a slow task then delays less."""
_MOST_TASKS, _MOST_ROUNDS = 4096, 16
"""More tasks than these, and than these per slot, only cost the driver: it makes and sends each."""


def read(
    spark: SparkSession,
    location: str,
    columns: Sequence[str] | None = None,
    where: Where = None,
    options: Mapping[str, object] = {},
    native: bool = True,
) -> DataFrame:
    """Read a snapshot as a DataFrame.

        lakebed.spark.read(spark, "s3://bucket/orders", ["id", "amount"], where="dt = '2026-11-01'")

    This is the fastest way to read on Spark: only `columns` are decoded, and files that `where` rules out are not
    opened. `where` keeps exactly the rows that `Table.read` keeps. However often the DataFrame is used, it reads the
    snapshot that is the newest now.

    With `native`, Spark reads data files itself where its own Parquet reader gives the very same rows (docs/spark.md
    says where): a query then decodes only the columns that it needs, and pushes its filters into the files. All other
    files, and all of them without `native` or with `read.tasks`, are read by Python tasks.

    `options` are the table's own. `read.tasks` is the number of Spark tasks; by default it is the session's
    parallelism, or more for much data. Raises what `lakebed.open` and `Table.read` raise.
    """
    translate_errors()
    run_workers_here(spark)
    with explained_errors():
        table, _ = open_in_session(spark, location, option_texts(options))
    plan = table.plan_read(columns, where)
    if not plan.schema.names:
        raise UsageError(
            "columns is empty", table=table.location, todo="Name at least one; to count rows, any column will do"
        )
    texts = {key.lower(): text for key, text in option_texts(options).items()}
    parallelism = int(texts[TASKS_OPTION]) if TASKS_OPTION in texts else None
    names, frames = plan.schema.names, []
    if native and parallelism is None:
        choice = choose(plan, formats.plain_reads(table.format, plan), reads_int96(spark))
        plan, frames = choice.rest, native_frames(spark, choice, names)
        reading_itself(table.location, choice.paths)
    if plan.splits or not frames:
        tasks = read_tasks(plan, parallelism, default_parallelism(spark))
        frames.append(over_tasks(spark, _batches, [worker.pack(task) for task in tasks], spark_schema(plan.schema)))
    else:
        report(plan)
    return reduce(lambda whole, frame: whole.union(frame), frames)


@dataclass(frozen=True, slots=True)
class ReadTask:
    """The splits that one Spark task reads.

    Spark gives a task one processor, so the task decodes one split at a time. On a remote store it has more of them
    open meanwhile, which wait for their requests, as a read without Spark does. Splits of one group are read one after
    the other, in their order. `rows_only` drops deletes, old versions of updated rows, and the column of row kinds.
    """

    plan: ReadPlan[Any]
    wire: pa.Schema
    rows_only: bool = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the schema `wire`."""
        overlap = Overlap(self.plan.at_once, self.plan.in_flight)
        splits = self.plan.splits
        if isinstance(splits, ManySplits):
            return interleave(lambda split: self._read((split,)), splits, 1, overlap, sizes_of(splits))
        groups = [*_by_group(splits).values()]
        return interleave(self._read, groups, 1, overlap, [sum(split.size for split in group) for group in groups])

    def _read(self, group: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        for split in group:
            batches = self.plan.read(split)
            yield from conformed(_rows(batches) if self.rows_only else batches, self.wire)


def read_tasks(plan: ReadPlan[Any], wanted: int | None, parallelism: int, rows_only: bool = False) -> list[ReadTask]:
    """Pack a plan's splits into tasks: `wanted` tasks, or by default a number that suits the data. There are fewer when
    there are fewer groups of splits. The plan's warnings are reported."""
    report(plan)
    splits = plan.splits.whole if isinstance(plan.splits, StreamedSplits) else plan.splits
    size = sum(sizes_of(splits))
    schema = plain_rows(plan.schema) if rows_only else plan.schema
    wire = wire_schema(schema)
    tasks = wanted or max(parallelism, min(size // _TASK_BYTES, max(_MOST_TASKS, _MOST_ROUNDS * parallelism)))
    packed = splits.spread(tasks) if isinstance(splits, ManySplits) else map(tuple, pack_splits(splits, tasks))
    return [ReadTask(replace(plan, splits=of_task, warnings=()), wire, rows_only) for of_task in packed]


def pack_splits(splits: Sequence[Split], tasks: int) -> list[list[Split]]:
    """Pack splits into at most `tasks` lists of about equally many bytes.

    The splits of a group stay in one list and in order. Groups are packed largest first.
    """
    groups = _by_group(splits)
    sizes = {name: sum(split.size for split in group) for name, group in groups.items()}
    bins: list[tuple[int, int, list[str]]] = [(0, number, []) for number in range(min(max(tasks, 1), len(groups)))]
    for name in sorted(groups, key=lambda name: -sizes[name]):
        filled, number, names = bins[0]
        names.append(name)
        # Every group counts one byte more, so that many empty groups spread too.
        heapq.heapreplace(bins, (filled + sizes[name] + 1, number, names))
    return [[split for name in names for split in groups[name]] for _, _, names in sorted(bins, key=lambda b: b[1])]


def _by_group(splits: Sequence[Split]) -> dict[str, list[Split]]:
    groups: dict[str, list[Split]] = {}
    for split in splits:
        groups.setdefault(split.group, []).append(split)
    return groups


def plain_rows(schema: pa.Schema) -> pa.Schema:
    """The schema without the column of row kinds."""
    index = schema.get_field_index(ROW_KIND_COLUMN)
    return schema.remove(index) if index >= 0 else schema


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The current rows only: no deletes, no old versions of updated rows, and no column of kinds."""
    kept = pa.array(["+I", "+U"])
    for batch in batches:
        index = batch.schema.get_field_index(ROW_KIND_COLUMN)
        if index >= 0:
            batch = batch.filter(pc.is_in(batch.column(index), value_set=kept)).remove_column(index)
        yield batch


def _batches(_: int, task: ReadTask) -> Iterator[pa.RecordBatch]:
    return task.batches()
