"""What Spark sees of the sources: thin classes that load lakebed only inside, made for one session by `faces`.

They travel by value, like the functions of `worker`, so that a worker without lakebed says so in one line. What they
hold is packed; the work is done in `source`, `stream` and `sink`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lakebed.spark import worker


def faces(names: Sequence[str], parallelism: int, push_filters: bool) -> list[type[DataSource]]:
    """One data source per name. Each holds the session's parallelism, since sources plan where no session is at hand.

    `push_filters` says whether the session has `spark.sql.python.filterPushdown.enabled`: without it, Spark refuses a
    reader that takes filters.
    """
    return [
        type(
            f"{name.capitalize()}Source",
            (Face,),
            {"short_name": name, "parallelism": parallelism, "push": push_filters},
        )
        for name in names
    ]


class Face(DataSource):
    """A table by its location, for one short name."""

    short_name = "lakebed"
    parallelism = 1
    push = False

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._loaded = b""
        self._shipped = ""

    @classmethod
    def name(cls) -> str:
        """The name that `format()` is given."""
        return cls.short_name

    def schema(self) -> StructType:
        """Load the table. What is found is kept in this object, so that each later action sees the same snapshot."""
        loaded = self._load().pinned()
        schema: StructType = loaded.spark_schema()
        self._loaded = worker.pack(loaded)
        # A stream is planned in another process, whose own folder of files is not that of the session.
        self._shipped = worker.shipped_folder()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """The snapshot's reader."""
        return (PushingReader if self.push else BatchReader)(self._load().batch(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The stream's reader."""
        return StreamFace(self._load().stream(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer of one commit, without routing."""
        return WriterFace(worker.pack(self._load().sink(schema, overwrite)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        """Refused: it could neither route rows nor know its checkpoint."""
        return self._load().stream_sink()

    def _load(self) -> Any:
        return worker.unpack(
            self._loaded or worker.pack(_Loading(dict(self.options), self.short_name, self.parallelism)), self._shipped
        )


class _Loading:
    """Stands for a loaded table that is not loaded yet: unpacking it loads it, where lakebed is known to be there."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __reduce__(self) -> Any:
        return _by_name, ("lakebed.spark.source", "load", self._arguments)


def _by_name(module: str, function: str, arguments: tuple[Any, ...]) -> Any:
    return getattr(importlib.import_module(module), function)(*arguments)


class Part(InputPartition):
    """One task's share, packed."""


class BatchReader(DataSourceReader):
    """Reads a plan's tasks."""

    def __init__(self, batch: Any) -> None:
        self._packed = worker.pack(batch)

    def partitions(self) -> list[InputPartition]:
        """One for each task."""
        return [Part(task) for task in worker.unpack(self._packed).tasks()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The task's batches."""
        return iter(worker.unpack(partition.value).batches()) if partition.value else iter(())


class PushingReader(BatchReader):
    """... and takes filters, for sessions that have that enabled."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Those that Spark must still apply."""
        batch = worker.unpack(self._packed)
        left = batch.push(filters)
        self._packed = worker.pack(batch)
        return iter(left)


class StreamFace(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's half of a stream in Spark's words; it lives in one process as long as the query."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def initialOffset(self) -> dict[str, Any]:
        """Before the first row."""
        offset: dict[str, Any] = self._stream.initial()
        return offset

    def getDefaultReadLimit(self) -> ReadLimit:
        """A marker when the options bound a batch."""
        limit: ReadLimit = self._stream.limit()
        return limit

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch."""
        offset: dict[str, Any] = self._stream.latest(start, limit)
        return offset

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes later is for the next run."""
        self._stream.prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One for each task, from the offsets alone."""
        return [Part(task) for task in self._stream.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The task's batches."""
        return iter(worker.unpack(partition.value).batches())

    def __reduce__(self) -> Any:
        # Tasks need nothing but their partition, and workers may lack what the driver's half is made of.
        return StreamFace, (None,)


class Message(WriterCommitMessage):
    """The commit messages of one task, packed."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed


class WriterFace(DataSourceArrowWriter):
    """One commit of a DataFrame: each task writes what it gets."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """One task's files."""
        return Message(worker.unpack(self._packed).write(iterator))

    def commit(self, messages: list[Any]) -> None:
        """Publish, in a worker without a session."""
        worker.unpack(self._packed).commit([worker.unpack(m.packed) for m in messages])

    def abort(self, messages: list[Any]) -> None:
        """Called for a failed task and for a failed commit alike. Only the first has a message missing, and only then
        is nothing published."""
        if any(message is None for message in messages):
            worker.unpack(self._packed).abort([worker.unpack(m.packed) for m in messages if m is not None])


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # pyspark's copy is untyped
