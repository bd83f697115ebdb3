"""Bring the rows of a DataFrame to the driver where they are few, which then writes them itself.

A shuffle takes two stages of tasks and Python in both of them, whatever the number of rows. For ten rows that is most
of the time that a micro-batch takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from lakebed.spark import worker
from lakebed.spark.engine import collected
from lakebed.spark.failures import translated_errors

ROWS = 10_000
"""A batch of at most so many rows suggests that the next one has few, too."""
_TASK_BYTES = 128 << 10
"""A task that has more than this has many rows."""
_PART = StructType([StructField("rows", BinaryType(), True)])
_PART_ARROW = pa.schema([pa.field("rows", pa.binary())])


def few_rows(df: DataFrame, take: Callable[[pa.RecordBatch], pa.RecordBatch]) -> list[pa.RecordBatch] | None:
    """All rows, after `take`, which gives batches of one schema; None where a task has many.

    One job without a shuffle, which ends early where a task has many rows. The DataFrame is then computed again by
    whoever writes it.
    """
    gathering = worker.over_batches(worker.pack(_Gathering(take, _TASK_BYTES)))
    with translated_errors():
        parts = collected(df.mapInArrow(gathering, _PART), _PART_ARROW).column("rows")
    if parts.null_count:
        return None
    return [batch for part in parts for batch in pa.ipc.open_stream(part.as_buffer())]


@dataclass(frozen=True, slots=True)
class _Gathering:
    """Yields the rows of a task as one value: null where they are more than `most` bytes, nothing where it has none."""

    take: Callable[[pa.RecordBatch], pa.RecordBatch]
    most: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            if batch.num_rows:
                rows.append(self.take(batch))
                size += rows[-1].nbytes
            if size > self.most:
                yield _part(None)
                return
        if rows:
            written = pa.BufferOutputStream()
            with pa.ipc.new_stream(written, rows[0].schema) as stream:
                for batch in rows:
                    stream.write_batch(batch)
            yield _part(written.getvalue().to_pybytes())


def _part(rows: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([rows], pa.binary())], schema=_PART_ARROW)
