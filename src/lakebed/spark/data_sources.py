"""The data source classes that Spark sees: thin wrappers around `source`, `stream` and `sink`, which do the work.

They travel by value, like the functions of `worker`, and load lakebed only inside their methods. So a worker without
lakebed can say so in one line. Everything that they hold is packed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
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
from pyspark.sql.types import StructType

from lakebed.spark import worker
from lakebed.spark.release import HAS_STREAMS

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # before PySpark 4.2 a stream is not told where a batch begins
    ReadAllAvailable = ReadLimit = ReadMaxRows = SupportsTriggerAvailableNow = type("Later", (), {})  # type: ignore[misc,assignment]


def data_sources(
    names: Mapping[str, str], parallelism: int, push_filters: bool, catalogs: Mapping[str, Mapping[str, str]] = {}
) -> list[type[DataSource]]:
    """One data source per name, each with the short name that it stands for. Each holds the session's parallelism and
    what it knows of catalogs, since sources plan where no session is at hand.

    `push_filters` says whether readers take filters (`PushingReader`): only where each DataFrame is used once, and the
    session has `spark.sql.python.filterPushdown.enabled`, without which Spark refuses such a reader.
    """
    return [
        type(
            f"{short.capitalize()}Source",
            (TableSource,),
            {
                "called": name,
                "short_name": short,
                "parallelism": parallelism,
                "push": push_filters,
                "catalogs": catalogs,
            },
        )
        for name, short in names.items()
    ]


class TableSource(DataSource):
    """A table by its location, under one short name."""

    called = "lakebed"
    short_name = "lakebed"
    parallelism = 1
    push = False
    tells_start = HAS_STREAMS
    catalogs: Mapping[str, Mapping[str, str]] = {}

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._loaded = b""
        self._shipped = ""

    @classmethod
    def name(cls) -> str:
        """The name that `format()` takes."""
        return cls.called

    def schema(self) -> StructType:
        """Load the table and return its schema. This object keeps what it loaded, so each later action reads the same
        snapshot."""
        loaded = self._load().pinned()
        schema: StructType = loaded.spark_schema()
        self._loaded = worker.pack(loaded)
        # A stream is planned in another process, whose folder of files is not that of the session.
        self._shipped = worker.shipped_folder()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch."""
        return (PushingReader if self.push else BatchReader)(self._load().batch(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a stream."""
        return (TableStreamReader if self.tells_start else NewestStreamReader)(self._load().stream(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer of one commit, without routing."""
        return TableWriter(worker.pack(self._load().sink(schema, overwrite)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        """Refused: such a writer could neither route rows nor know its checkpoint."""
        return self._load().stream_sink()

    def _load(self) -> Any:
        arguments = dict(self.options), self.short_name, self.parallelism, self.catalogs
        deferred = worker.Deferred("lakebed.spark.source", "load", *arguments)
        return worker.unpack(self._loaded or worker.pack(deferred), self._shipped)


class Part(InputPartition):
    """One input partition of Spark: a packed task."""


class BatchReader(DataSourceReader):
    """Reads the tasks of a plan."""

    def __init__(self, batch: Any) -> None:
        self._packed = worker.pack(batch)

    def partitions(self) -> list[InputPartition]:
        """One partition per task."""
        return [Part(task) for task in worker.unpack(self._packed).tasks()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The batches of one task."""
        return iter(worker.unpack_in_task(partition.value).batches()) if partition.value else iter(())


class PushingReader(BatchReader):
    """A `BatchReader` that takes filters, for a DataFrame that is used once. `register` adds no source that has it:
    Spark keeps this reader, with the filters of one query, for later queries of the same DataFrame."""

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Take filters, and return those that Spark must still apply."""
        batch = worker.unpack(self._packed)
        remaining = batch.push(filters)
        self._packed = worker.pack(batch)
        return iter(remaining)


class StreamReader(DataSourceStreamReader):
    """The driver's half of a stream, in the form that Spark asks for. It lives in one process as long as the query."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first row."""
        offset: dict[str, Any] = self._stream.initial()
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One partition per task, planned from the two offsets alone."""
        return [Part(task) for task in self._stream.tasks(start, end)]

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has completed all batches up to an offset."""
        self._stream.committed(end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The batches of one task."""
        return iter(worker.unpack_in_task(partition.value).batches())

    def __reduce__(self) -> Any:
        # A task needs only its partition, and a worker may lack what the driver's half needs.
        return type(self), (None,)


class TableStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A stream that Spark tells where a batch begins (from 4.2 on)."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """A marker that says whether options bound a batch. The stream itself applies the bounds, since Spark has none
        for commits."""
        return ReadMaxRows(self._stream.options.limits.commits or 1) if self._stream.is_bounded else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The offset at which the batch that begins at `start` ends."""
        offset: dict[str, Any] = self._stream.latest(start, not isinstance(limit, ReadAllAvailable))
        return offset

    def prepareForTriggerAvailableNow(self) -> None:
        """Read nothing that is committed after this run has planned its first batch."""
        self._stream.prepare_available_now()


class NewestStreamReader(StreamReader):
    """A stream that Spark asks for its newest offset, without saying where a batch begins (before 4.2)."""

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first row."""
        offset: dict[str, Any] = self._stream.initial_untold()
        return offset

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # as PySpark 4.0 and 4.1 call it
        """The offset after all that is there now."""
        offset: dict[str, Any] = self._stream.newest()
        return offset


class Message(WriterCommitMessage):
    """The commit messages of one task, packed."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed


class TableWriter(DataSourceArrowWriter):
    """One commit of a DataFrame: each task writes the rows that Spark gives it."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the files of one task."""
        return Message(worker.unpack_in_task(self._packed).write(iterator))

    def commit(self, messages: list[Any]) -> None:
        """Publish the messages of all tasks. Spark calls this in a worker, without a session."""
        worker.unpack(self._packed).commit([worker.unpack(m.packed) for m in messages])

    def abort(self, messages: list[Any]) -> None:
        """Remove the files of tasks that succeeded when another one failed.

        Spark calls this after a failed commit too. Only a failed task leaves a message out, and only then is it certain
        that nothing was published.
        """
        if any(message is None for message in messages):
            worker.unpack(self._packed).abort([worker.unpack(m.packed) for m in messages if m is not None])


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # pyspark's copy is untyped
