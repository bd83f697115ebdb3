"""The work of a rewrite: one task reads the live rows of several files of a group and writes their replacements.

A task returns its files, or the error that ended it, so the driver knows every file that was written and can remove it.
`write/file_sizes.py` has the rules of file sizes. Where a file ends is decided by bytes on disk while rows pass.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, counted
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import DataFile, FileTask, Partition, stored_files
from lakebed.formats.iceberg.parquet.join import NotJoinable
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.task import Selection, read_task
from lakebed.formats.iceberg.rewrite.arrange import ByPartition
from lakebed.formats.iceberg.rewrite.join import join_files
from lakebed.formats.iceberg.write.file_sizes import FileSizes
from lakebed.formats.iceberg.write.files import RollingWriter, WriteTarget
from lakebed.formats.iceberg.write.routing import Bucket, Router
from lakebed.kernel.arrays import from_numpy
from lakebed.kernel.sorting import MEMORY, Keys, sorted_batches


class RewriteStrategy(StrEnum):
    """How a task gets rows into new files."""

    JOIN = "join"
    """Copy row groups byte for byte, under a new footer."""
    ENCODE = "encode"
    """Read rows and write them in their order."""
    ARRANGE = "arrange"
    """Sort rows, or spread them over partitions."""


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Files of a group that one task rewrites.

    `outputs` is how many files it should write, `name` the write id of these. With `repartition` the rows go into the
    partitions of another spec.
    """

    group: int
    name: str
    strategy: RewriteStrategy
    inputs: tuple[FileTask, ...]
    outputs: int
    repartition: bool = False


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The outcome of a task: its files and how many live rows it read, or an error.

    `strategy` is the one used. `note` says why it is not the planned one.
    """

    group: int
    files: tuple[DataFile, ...] = ()
    rows: int = 0
    strategy: RewriteStrategy = RewriteStrategy.ENCODE
    note: str = ""
    error: Exception | None = None


class Stop:
    """Tells tasks of this process that have not started not to start. A copy in another process never does."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __reduce__(self) -> tuple[type[Stop], tuple[()]]:
        return Stop, ()

    def set(self) -> None:
        """Let no further task start."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether no further task should start."""
        return self._event.is_set()


class StoppedError(Exception):
    """The error of a task that was not started, since another one had failed."""


@dataclass(frozen=True, slots=True)
class TaskRunner:
    """The function that runs tasks on an engine. Picklable.

    `order` sorts rows. `router` spreads rows over the partitions of the output spec, for files of other specs. `memory`
    is how many bytes of rows a sort may hold.
    """

    context: ReadContext
    target: WriteTarget
    sizes: FileSizes
    order: Keys | None = None
    router: Router | None = None
    lineage: bool = False
    memory: int = MEMORY
    stop: Stop = field(default_factory=Stop)

    def __call__(self, task: RewriteTask) -> TaskResult:
        """Run one task. An error is part of the result."""
        if self.stop.is_set:
            return TaskResult(task.group, error=StoppedError("not started"))
        try:
            with self.target.files.fetching(stored_files(task.inputs)):
                return self._run(task)
        except Exception as error:  # noqa: BLE001  # the driver decides what it means
            return TaskResult(task.group, error=error)

    def _run(self, task: RewriteTask) -> TaskResult:
        note = ""
        if task.strategy is RewriteStrategy.JOIN:
            try:
                files, rows = join_files(self.target, task.name, [file.data for file in task.inputs])
                return TaskResult(task.group, files, rows, RewriteStrategy.JOIN)
            except NotJoinable as error:
                note = str(error)
        writer = RollingWriter(self.target, task.name, self.sizes.write_max)
        try:
            arrange = task.strategy is RewriteStrategy.ARRANGE
            rows = self._arrange(task, writer) if arrange else self._encode(task, writer)
            files = tuple(writer.finish())
        except BaseException:
            writer.abort()
            raise
        return TaskResult(task.group, files, rows, RewriteStrategy.ENCODE if note else task.strategy, note)

    def _encode(self, task: RewriteTask, writer: RollingWriter) -> int:
        roll_target = RollTarget(self.sizes, sum(file.data.size for file in task.inputs), task.outputs)
        rows = 0
        for file in task.inputs:
            start = roll_target.consumed
            for batch in self.rows(file):
                rows += batch.num_rows
                writer.write(batch, file.data.partition)
                roll_target.consumed += file.data.size * batch.num_rows // max(file.data.record_count, 1)
                writer.roll_at = roll_target.roll_at(writer)
            roll_target.consumed = start + file.data.size
        return rows

    def _arrange(self, task: RewriteTask, writer: RollingWriter) -> int:
        router = self.router if task.repartition else None
        counted = _Counted(router)
        batches = counted.count(batch for file in task.inputs for batch in self.rows(file))
        several_partitions = router is not None and bool(router.spec.fields)
        keys = ByPartition(router, self.order) if router is not None and several_partitions else self.order
        size = sum(file.data.size for file in task.inputs)
        partition = task.inputs[0].data.partition
        roll_targets: dict[Hashable, RollTarget] = {}
        for batch in sorted_batches(batches, keys, self.memory) if keys is not None else batches:
            for bucket, rows in _by_bucket(router, batch, partition):
                share = size * counted.rows.get(bucket, counted.total) // max(counted.total, 1)
                outputs = task.outputs if len(counted.rows) <= 1 else 0
                roll_target = roll_targets.setdefault(bucket, RollTarget(self.sizes, share, outputs))
                if len(roll_targets) > 1 and roll_target.consumed == 0:
                    writer.close_file()
                roll_target.write(writer, rows, bucket.partition, size * rows.num_rows // max(counted.total, 1))
        return counted.total

    @property
    def rows_schema(self) -> pa.Schema:
        """The schema of `rows`."""
        return arrow_schema(self.context.columns([*self._names], self.lineage))

    def rows(self, task: FileTask) -> Iterator[pa.RecordBatch]:
        """The live rows of a file, with the columns that are written."""
        return read_task(self.target.files, self.context, task, Selection(self._names, lineage=self.lineage))

    @property
    def _names(self) -> list[str]:
        own = {field.name for field in self.context.schema.fields}
        return [field.name for field in self.target.fields if field.name in own]


@dataclass(slots=True)
class RollTarget:
    """Decides where files end, so that a task writes the planned number of files of about equal size.

    `total` is the size of the input on disk and `consumed` how much of it was read, in bytes. `outputs` is the planned
    number of files, 0 for as many as the size asks for. How well rows compress now is measured while they pass.
    """

    sizes: FileSizes
    total: int
    outputs: int = 0
    consumed: int = 0
    _done: int = -1
    _closed: int = 0
    _bytes: int = 0

    def write(self, writer: RollingWriter, rows: pa.RecordBatch, partition: Partition, share: int) -> None:
        """Write rows that stand for `share` bytes of the input."""
        writer.roll_at = self.roll_at(writer)
        writer.write(rows, partition)
        self.consumed += share
        writer.roll_at = self.roll_at(writer)

    def roll_at(self, writer: RollingWriter) -> int:
        """The size in bytes at which the open file should end."""
        if self._done < 0:
            self._done, self._bytes = len(writer.closed), writer.closed_bytes
        if len(writer.closed) != self._done + self._closed:
            self._closed = len(writer.closed) - self._done
        if not self.consumed:
            return self.sizes.write_max
        open_bytes = writer.open_bytes if writer.measured else self.consumed
        written = writer.closed_bytes - self._bytes + open_bytes
        ratio = written / self.consumed if writer.measured else 1.0
        remaining = open_bytes + int(max(0, self.total - self.consumed) * ratio)
        count = self.sizes.expected(remaining)
        if self.outputs:
            count = min(count, max(1, self.outputs - self._closed))
        count = max(count, -(-remaining // self.sizes.write_max))
        return self.sizes.write_max if count <= 1 else min(self.sizes.write_max, remaining // count + 1)


@dataclass(slots=True)
class _Counted:
    """Counts the rows that pass, in total and per output partition."""

    router: Router | None
    rows: dict[Hashable, int] = field(default_factory=dict)
    total: int = 0

    def count(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.total += batch.num_rows
            if self.router is not None:
                grouped = self.router.group(pa.Table.from_batches([batch]))
                for code, start, end in runs(sorted(grouped.codes.tolist())):
                    bucket = grouped.buckets[code]
                    self.rows[bucket] = self.rows.get(bucket, 0) + end - start
            yield batch


def _by_bucket(
    router: Router | None, batch: pa.RecordBatch, partition: Partition
) -> Iterator[tuple[Bucket, pa.RecordBatch]]:
    """Runs of rows of one output partition each; in sorted rows each partition is one run."""
    if router is None:
        yield Bucket(partition), batch
        return
    grouped = router.group(pa.Table.from_batches([batch]))
    if grouped.order is not None:
        batch, codes = batch.take(from_numpy(grouped.order)), grouped.codes[grouped.order]
    else:
        codes = grouped.codes
    for code, start, end in runs(codes):
        bucket = grouped.buckets[code]
        assert isinstance(bucket, Bucket)
        yield bucket, batch.slice(start, end - start)


def runs(codes: object) -> Iterator[tuple[int, int, int]]:
    """(code, start, end) of each run of equal codes."""
    encoded = pc.run_end_encode(pa.array(codes, pa.int64()))
    start = 0
    for code, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield code, start, end
        start = end


def check_rows(results: Sequence[TaskResult], inputs: Sequence[FileTask]) -> None:
    """CorruptError when the files of the results do not have exactly the live rows of the inputs."""
    read = sum(result.rows for result in results)
    written = sum(file.record_count for result in results for file in result.files)
    total = sum(file.data.record_count for file in inputs)
    deleted = _deleted_rows(inputs)
    if written != read or (deleted is not None and written != total - deleted) or written > total:
        expected = f"at most {counted(total, 'row was', 'rows were')}"
        if deleted is not None:
            rows = counted(total, "row")
            expected = counted(total - deleted, f"of {rows} was", f"of {rows} were")
        raise CorruptError(
            f"a rewrite of {counted(len(inputs), 'file')} would change their rows",
            file=inputs[0].data.path,
            why=f"{expected} expected, {read} were read and {written} written",
            todo="Nothing was committed. Compare the record counts in the manifests with the files",
        )


def _deleted_rows(inputs: Sequence[FileTask]) -> int | None:
    """How many rows the deletes of files remove; None when only reading the files tells."""
    rows = 0
    for file in inputs:
        if any(not delete.is_vector for delete in file.deletes):
            return None
        rows += sum(delete.record_count for delete in file.deletes)
    return rows
