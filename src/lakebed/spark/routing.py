"""Bring rows into the tasks that their channels name, with one shuffle.

Spark 4.1 and later compute the channel from the key columns alone (an Arrow function) and take it for the task's number
(`repartitionById`). Earlier releases have neither. There, whole rows pass through Python once, which puts a number
behind them, and Spark's own hash of that number picks the task: we choose one number per channel whose hash picks it.
The hash is Murmur3 of the number's four bytes with seed 42, and the task is its remainder, never negative (Spark's
`HashPartitioning`). Whatever a vendor hashes with, rows of one channel meet in one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, StructField, StructType

from lakebed.kernel.arrays import Int32s
from lakebed.kernel.keys.murmur import hash_bytes
from lakebed.spark import worker
from lakebed.spark.release import parsed
from lakebed.verbs.write import Routing

CHANNEL_COLUMN = "_lakebed_channel"
_BY_ID = (4, 1)
"""The release that brought `repartitionById` and Arrow functions."""
_SEED = 42

Take: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Brings a batch of the columns that the routing needs, as Spark sends them, into the sink's form."""


def routed(df: DataFrame, routing: Routing, places: Sequence[int], take: Take, tasks: int) -> DataFrame:
    """The rows in the tasks that their channels name, and one column more. `places` are those of the columns that the
    routing needs, in the order in which `take` has them."""
    if hasattr(f, "arrow_udf") and hasattr(df, "repartitionById") and parsed(df.sparkSession.version) >= _BY_ID:
        return _by_channel(df, _Channels(routing, take), places, tasks)
    return _by_number(df, _Numbered(_Channels(routing, take), tuple(places), numbers_by_task(tasks)), tasks)


def numbers_by_task(tasks: int) -> Int32s:
    """One number per task, such that Spark's hash of the number picks that task."""
    numbers = np.full(tasks, -1, np.int32)
    start, count = 0, 4 * tasks + 64
    while (numbers < 0).any():
        candidates = np.arange(start, start + count, dtype=np.int32)
        words = pa.array(candidates.astype("<i4").view("V4").tolist(), pa.binary())
        picked, first = np.unique(np.mod(hash_bytes(words, _SEED).astype(np.int64), tasks), return_index=True)
        new = numbers[picked] < 0
        numbers[picked[new]] = candidates[first[new]]
        start += count
    return numbers


def _by_channel(df: DataFrame, channels: _Channels, places: Sequence[int], tasks: int) -> DataFrame:
    """Python gets only the columns that the routing needs."""
    route = worker.over_columns(worker.pack(channels))
    # Spark tells what kind of function this is from its annotations.
    route.__annotations__ = {"columns": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
    channel = f.arrow_udf(route, IntegerType())  # type: ignore[attr-defined]  # stubs lack it
    columns = [df[df.columns[place]] for place in places]
    return df.withColumn(CHANNEL_COLUMN, channel(*columns)).repartitionById(tasks, CHANNEL_COLUMN)


def _by_number(df: DataFrame, numbered: _Numbered, tasks: int) -> DataFrame:
    schema = StructType([*df.schema.fields, StructField(CHANNEL_COLUMN, IntegerType(), False)])
    rows = df.mapInArrow(worker.over_batches(worker.pack(numbered)), schema)
    return rows.repartition(tasks, CHANNEL_COLUMN)


@dataclass(frozen=True, slots=True)
class _Channels:
    """Computes the channel of each row from arrays as Spark sends them."""

    routing: Routing
    take: Take

    def __call__(self, arrays: Sequence[pa.Array]) -> pa.Array:
        names = [str(place) for place in range(len(arrays))]
        return self.routing.channels(self.take(pa.RecordBatch.from_arrays(list(arrays), names=names)))


@dataclass(frozen=True, slots=True)
class _Numbered:
    """Puts behind each row the number of its channel."""

    channels: _Channels
    places: tuple[int, ...]
    numbers: Int32s

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            channels = self.channels([batch.column(place) for place in self.places])
            numbers = pa.array(self.numbers[channels.to_numpy(zero_copy_only=False)], pa.int32())
            fields = [*batch.schema, pa.field(CHANNEL_COLUMN, pa.int32(), False)]
            yield pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=pa.schema(fields))
