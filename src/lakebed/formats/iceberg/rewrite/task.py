"""The work of a rewrite: one task reads the live rows of some files of a group and writes their replacements.

A task answers with its files, or with the error that ended it, so that the driver knows all that was written and can
remove it. Rules of file sizes: `sizes.py`; where a file ends is judged by bytes on disk while rows pass.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import DataFile, FileTask, Partition
from lakebed.formats.iceberg.parquet.join import NotJoinable
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.task import Selection, read_task
from lakebed.formats.iceberg.rewrite.arrange import ByPartition
from lakebed.formats.iceberg.rewrite.join import join_files
from lakebed.formats.iceberg.write.file_sizes import FileSizes
from lakebed.formats.iceberg.write.files import RollingWriter, WriteTarget
from lakebed.formats.iceberg.write.routing import Bucket, Router
from lakebed.kernel.sorting import MEMORY, Keys, sorted_batches


class RewriteStrategy(StrEnum):
    """How the rows of a task get into new files."""

    JOIN = "join"
    """Row groups as they are, under a new footer."""
    ENCODE = "encode"
    """Read and written in their order."""
    ARRANGE = "arrange"
    """Sorted, or spread over partitions."""


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Some files of a group. `outputs` is how many files they shall become, `name` the write id of these;
    `repartition` says that their rows go into the partitions of another spec."""

    group: int
    name: str
    way: RewriteStrategy
    inputs: tuple[FileTask, ...]
    outputs: int
    repartition: bool = False


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What became of a task: its files and the live rows that it read, or an error. `way` is the one really taken,
    `note` why it is not the one planned."""

    group: int
    files: tuple[DataFile, ...] = ()
    rows: int = 0
    way: RewriteStrategy = RewriteStrategy.ENCODE
    note: str = ""
    error: Exception | None = None


class Stop:
    """Tells tasks of this process that have not begun to leave it; a copy in another process never does."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __reduce__(self) -> tuple[type[Stop], tuple[()]]:
        return Stop, ()

    def set(self) -> None:
        """No further task shall begin."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether it was said."""
        return self._event.is_set()


class StoppedError(Exception):
    """A task that was not begun, since another one had failed."""


@dataclass(frozen=True, slots=True)
class TaskRunner:
    """The function that runs tasks on an engine. Picklable.

    `order` sorts rows, `router` spreads them over the partitions of the output spec where groups hold files of others.
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
        """Run one task; an error is part of the answer."""
        if self.stop.is_set:
            return TaskResult(task.group, error=StoppedError("not begun"))
        try:
            return self._run(task)
        except Exception as error:  # noqa: BLE001  # the driver decides what it means
            return TaskResult(task.group, error=error)

    def _run(self, task: RewriteTask) -> TaskResult:
        note = ""
        if task.way is RewriteStrategy.JOIN:
            try:
                files, rows = join_files(self.target, task.name, [one.data for one in task.inputs])
                return TaskResult(task.group, files, rows, RewriteStrategy.JOIN)
            except NotJoinable as why:
                note = str(why)
        writer = RollingWriter(self.target, task.name, self.sizes.write_max)
        try:
            rows = self._arrange(task, writer) if task.way is RewriteStrategy.ARRANGE else self._encode(task, writer)
            made = tuple(writer.finish())
        except BaseException:
            writer.abort()
            raise
        return TaskResult(task.group, made, rows, RewriteStrategy.ENCODE if note else task.way, note)

    def _encode(self, task: RewriteTask, writer: RollingWriter) -> int:
        pace = RollTarget(self.sizes, sum(one.data.size for one in task.inputs), task.outputs)
        rows = 0
        for one in task.inputs:
            start = pace.consumed
            for batch in self.rows(one):
                rows += batch.num_rows
                writer.write(batch, one.data.partition)
                pace.consumed += one.data.size * batch.num_rows // max(one.data.record_count, 1)
                writer.roll_at = pace.roll_at(writer)
            pace.consumed = start + one.data.size
        return rows

    def _arrange(self, task: RewriteTask, writer: RollingWriter) -> int:
        router = self.router if task.repartition else None
        counted = _Counted(router)
        batches = counted.count(batch for one in task.inputs for batch in self.rows(one))
        several = router is not None and bool(router.spec.fields)  # else all rows go into one partition
        keys = ByPartition(router, self.order) if router is not None and several else self.order
        size = sum(one.data.size for one in task.inputs)
        partition = task.inputs[0].data.partition
        paces: dict[Hashable, RollTarget] = {}
        for batch in sorted_batches(batches, keys, self.memory) if keys is not None else batches:
            for bucket, some in _by_bucket(router, batch, partition):
                share = size * counted.rows.get(bucket, counted.total) // max(counted.total, 1)
                whole = len(counted.rows) <= 1
                pace = paces.setdefault(bucket, RollTarget(self.sizes, share, task.outputs if whole else 0))
                if len(paces) > 1 and pace.consumed == 0:
                    writer.close_file()
                pace.write(writer, some, bucket.partition, size * some.num_rows // max(counted.total, 1))
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
        own = {one.name for one in self.context.schema.fields}
        return [one.name for one in self.target.fields if one.name in own]


@dataclass(slots=True)
class RollTarget:
    """Where files end, so that those of a task are about equally large and as many as planned.

    `total` is the bytes of the input on disk, `outputs` the files planned for it (0: as many as its size says), and
    `consumed` what was read of it. How well rows compress now is learned while they pass.
    """

    sizes: FileSizes
    total: int
    outputs: int = 0
    consumed: int = 0
    _done: int = -1
    _closed: int = 0
    _bytes: int = 0

    def write(self, writer: RollingWriter, some: pa.RecordBatch, partition: Partition, share: int) -> None:
        """Write rows that are so many bytes of the input."""
        writer.roll_at = self.roll_at(writer)
        writer.write(some, partition)
        self.consumed += share
        writer.roll_at = self.roll_at(writer)

    def roll_at(self, writer: RollingWriter) -> int:
        """The size at which the open file shall end."""
        if self._done < 0:
            self._done, self._bytes = len(writer.closed), writer.closed_bytes
        if len(writer.closed) != self._done + self._closed:
            self._closed = len(writer.closed) - self._done
        if not self.consumed:
            return self.sizes.write_max
        known = writer.measured
        here = writer.open_bytes if known else self.consumed
        made = writer.closed_bytes - self._bytes + here
        drift = made / self.consumed if known else 1.0
        left = here + int(max(0, self.total - self.consumed) * drift)
        count = self.sizes.expected(left)
        if self.outputs:
            count = min(count, max(1, self.outputs - self._closed))
        count = max(count, -(-left // self.sizes.write_max))
        return self.sizes.write_max if count <= 1 else min(self.sizes.write_max, left // count + 1)


@dataclass(slots=True)
class _Counted:
    """Rows that pass, counted by output partition."""

    router: Router | None
    rows: dict[Hashable, int] = field(default_factory=dict)
    total: int = 0

    def count(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.total += batch.num_rows
            if self.router is not None:
                found = self.router.group(pa.Table.from_batches([batch]))
                for code, start, end in runs(sorted(found.codes.tolist())):
                    bucket = found.buckets[code]
                    self.rows[bucket] = self.rows.get(bucket, 0) + end - start
            yield batch


def _by_bucket(
    router: Router | None, batch: pa.RecordBatch, partition: Partition
) -> Iterator[tuple[Bucket, pa.RecordBatch]]:
    """Runs of rows of one output partition; sorted rows have each partition's together."""
    if router is None:
        yield Bucket(partition), batch
        return
    found = router.group(pa.Table.from_batches([batch]))
    if found.order is not None:
        batch, codes = batch.take(pa.array(found.order)), found.codes[found.order]
    else:
        codes = found.codes
    for code, start, end in runs(codes):
        bucket = found.buckets[code]
        assert isinstance(bucket, Bucket)
        yield bucket, batch.slice(start, end - start)


def runs(codes: object) -> Iterator[tuple[int, int, int]]:
    """(code, start, end) of each run of equal codes."""
    found = pa.array(codes, pa.int64())
    encoded = pc.run_end_encode(found)
    start = 0
    for code, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield code, start, end
        start = end


def check_rows(results: Sequence[TaskResult], inputs: Sequence[FileTask]) -> None:
    """CorruptError when rows that live in the inputs are not all in the files of the results."""
    read = sum(one.rows for one in results)
    written = sum(file.record_count for one in results for file in one.files)
    held = sum(one.data.record_count for one in inputs)
    gone = _deleted(inputs)
    if written != read or (gone is not None and written != held - gone) or written > held:
        wanted = "as many" if gone is None else str(held - gone)
        raise CorruptError(
            f"a rewrite of {len(inputs)} files would change their rows", file=inputs[0].data.path,
            why=f"{wanted} of {held} rows were expected, {read} were read, {written} written",
            todo="Nothing was committed. Compare the files' record counts in the manifests with the files",
        )  # fmt: skip


def _deleted(inputs: Sequence[FileTask]) -> int | None:
    """How many rows the deletes of files remove, None where only reading tells."""
    found = 0
    for one in inputs:
        if any(not delete.is_vector for delete in one.deletes):
            return None
        found += sum(delete.record_count for delete in one.deletes)
    return found
