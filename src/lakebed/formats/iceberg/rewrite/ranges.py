"""A large group sorted by several tasks: each has ranges of the sort keys to itself, so that the files together are in
order as if one task had made them.

Rules: the reference engine sorts by a shuffle into ranges of sampled keys, about one a file. Here the same is done in
three steps on the engine: keys are sampled, which reads the columns of the order alone; live rows are put aside by
range (`kernel/sizing/staging.py`); each task sorts its ranges one after the other and writes their files. The number
of rows of a range is known by then, so that files come out even. A range is about what a task may hold in memory.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.formats.iceberg.data_files import Partition
from lakebed.formats.iceberg.layout import staging_folder
from lakebed.formats.iceberg.read.task import Selection, read_task
from lakebed.formats.iceberg.rewrite.task import (
    RewriteStrategy,
    RewriteTask,
    RollTarget,
    StoppedError,
    TaskResult,
    TaskRunner,
)
from lakebed.formats.iceberg.write.files import RollingWriter
from lakebed.kernel.engine import Engine
from lakebed.kernel.sizing.staging import Grouped, Run, Staged, StagedBuckets, Stager, StagingLimits, grouped
from lakebed.kernel.sort_keys import boundaries, range_codes, thinned, with_ties
from lakebed.kernel.sorting import sorted_batches

LEAST_BYTES = 32 << 20
"""Bytes on disk of a group that is worth putting its rows aside."""
_SAMPLED = 1 << 18
_KEYS = 2000
"""So many keys are kept of so many rows."""
_GROWTH = 3
"""Bytes in memory of a byte on disk, as a guess before rows are seen."""
_MOST_RANGES = 1024


def in_ranges(
    runner: TaskRunner, columns: Sequence[str], engine: Engine, parts: Sequence[RewriteTask]
) -> Iterator[TaskResult]:
    """Sort the files of a group together. `parts` share them out over tasks that read, `columns` are those that the
    order needs. What comes is a result for each of them, with the live rows that it read, and then one for each task
    that wrote: their files are in order.

    The first error ends it; what is written by then is among the results.
    """
    outputs = sum(part.outputs for part in parts)
    size = sum(one.data.size for part in parts for one in part.inputs)
    folder = staging_folder(runner.target.location, runner.target.properties)
    each = -(-min(_MOST_RANGES, 2 * size * _GROWTH // runner.memory + 1) // outputs)
    staged: list[Staged] = []
    try:
        samples = list(engine.map(_Sampled(runner, tuple(columns)), parts))
        bounds = boundaries(pa.concat_tables(samples), outputs * each)
        for part, done in zip(parts, engine.map(_Aside(runner, bounds, folder), parts), strict=True):
            staged += done.staged
            yield TaskResult(part.group, rows=done.rows, way=RewriteStrategy.ARRANGE, error=done.error)
            if done.error is not None:
                return
        buckets = StagedBuckets(staged, runner.rows_schema)
        yield from engine.map(_Written(runner), _tasks(buckets, parts, outputs, each, size, engine.parallelism))
    finally:
        runner.target.files.remove_folder(folder)  # what tasks staged whom the engine did not count goes too


@dataclass(frozen=True, slots=True)
class _Sampled:
    """Reads the columns of the order, deleted rows too, and keeps some of the keys in order."""

    runner: TaskRunner
    columns: tuple[str, ...]

    def __call__(self, part: RewriteTask) -> pa.Table:
        runner, found = self.runner, []
        held: list[pa.RecordBatch] = []
        for one in part.inputs:
            undeleted, selection = replace(one, deletes=()), Selection(self.columns)
            for batch in read_task(runner.target.files, runner.context, undeleted, selection):
                held.append(batch)
                if sum(some.num_rows for some in held) >= _SAMPLED:
                    found.append(self._thinned(held))
                    held = []
        return pa.concat_tables([*found, self._thinned(held)] if held else found)

    def _thinned(self, held: Sequence[pa.RecordBatch]) -> pa.Table:
        rows = pa.Table.from_batches(held)
        assert self.runner.order is not None  # else there is nothing to sort by
        return thinned(with_ties(self.runner.order.keys(rows)), -(-_KEYS * len(rows) // _SAMPLED))


@dataclass(frozen=True, slots=True)
class _Done:
    """What a task put aside, of how many rows."""

    staged: tuple[Staged, ...] = ()
    rows: int = 0
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Aside:
    """Puts the live rows of some files aside, each in the range that it belongs to."""

    runner: TaskRunner
    bounds: pa.Table
    folder: str

    def __call__(self, part: RewriteTask) -> _Done:
        if self.runner.stop.is_set:
            return _Done(error=StoppedError("not begun"))
        try:
            return self._stage(part)
        except Exception as error:  # noqa: BLE001  # the driver decides what it means
            return _Done(error=error)

    def _stage(self, part: RewriteTask) -> _Done:
        runner, order, seen = self.runner, self.runner.order, 0
        assert order is not None  # as above
        ranges = range(len(self.bounds) + 1)

        def group(rows: pa.Table) -> Grouped:
            nonlocal seen
            codes = range_codes(with_ties(order.keys(rows), seen), self.bounds)
            seen += len(rows)
            return grouped(codes, ranges)

        path = f"{self.folder}/{uuid.uuid4()}.arrow"
        stager = Stager(runner.target.files, path, runner.rows_schema, group, StagingLimits(runner.memory // 2))
        try:
            for one in part.inputs:
                for batch in runner.rows(one):
                    stager.write(batch)
            staged = stager.finish()
        except BaseException:
            stager.abort()
            raise
        return _Done(() if staged is None else (staged,), seen)


@dataclass(frozen=True, slots=True)
class _RangeTask:
    """Neighbouring ranges, a run each, by the file that they are meant for: `size` is the bytes of their share of the
    group's input."""

    group: int
    name: str
    files: tuple[tuple[Run, ...], ...]
    size: int
    partition: Partition


def _tasks(
    buckets: StagedBuckets, parts: Sequence[RewriteTask], outputs: int, each: int, size: int, most: int
) -> Iterator[_RangeTask]:
    """Ranges shared out over tasks, each with whole files: `each` ranges are one."""
    rows = dict(zip(buckets.buckets, buckets.rows.tolist(), strict=True))
    places = {code: number for number, code in enumerate(buckets.buckets)}
    total = max(1, sum(rows.values()))

    def runs(file: int) -> tuple[Run, ...]:
        codes = range(file * each, (file + 1) * each)
        return tuple(buckets.run(places[code], 0, rows[code]) for code in codes if code in places)

    count = min(outputs, most)
    ends = [outputs * (number + 1) // count for number in range(count)]
    for number, (start, end) in enumerate(itertools.pairwise([0, *ends])):
        files = tuple(found for file in range(start, end) if (found := runs(file)))
        share = size * _rows(itertools.chain.from_iterable(files)) // total
        if files:
            name = f"{parts[0].name.rpartition('-')[0]}-{number}"
            yield _RangeTask(parts[0].group, name, files, share, parts[0].inputs[0].data.partition)


def _rows(runs: Iterable[Run]) -> int:
    return sum(run.rows for run in runs)


@dataclass(frozen=True, slots=True)
class _Written:
    """Sorts range after range and writes the files."""

    runner: TaskRunner

    def __call__(self, task: _RangeTask) -> TaskResult:
        if self.runner.stop.is_set:
            return TaskResult(task.group, error=StoppedError("not begun"))
        writer = RollingWriter(self.runner.target, task.name, self.runner.sizes.write_max)
        try:
            self._write(writer, task)
            return TaskResult(task.group, tuple(writer.finish()), way=RewriteStrategy.ARRANGE)
        except BaseException as error:
            writer.abort()
            if isinstance(error, Exception):
                return TaskResult(task.group, error=error)
            raise

    def _write(self, writer: RollingWriter, task: _RangeTask) -> None:
        """A file ends where its ranges do, unless rows take so much less now that the next ones find room in it."""
        runner, order, done = self.runner, self.runner.order, 0
        assert order is not None  # as above
        total = _rows(itertools.chain.from_iterable(task.files))
        pace = RollTarget(runner.sizes, 0, 1)
        for runs in task.files:
            share = task.size * _rows(runs) // total
            written = writer.closed_bytes + writer.open_bytes
            if done and writer.open_bytes + share * written / done > runner.sizes.target:
                writer.close_file()
                pace = RollTarget(runner.sizes, 0, 1)
            pace.total += share
            done += share
            for run in runs:
                for batch in sorted_batches(run.batches(runner.target.files), order, runner.memory):
                    pace.write(writer, batch, task.partition, task.size * batch.num_rows // total)
