"""A large group sorted by several tasks: each sorts its own ranges of the sort keys, so the files together are in order
as if one task had written them.

Rules: the reference engine sorts by a shuffle into ranges of sampled keys, about one per file. Here this takes three
steps on the engine. Keys are sampled, which reads only the columns of the order. Live rows are staged by range
(`kernel/sizing/staging.py`). Each task sorts its ranges one after the other and writes their files. By then the number
of rows of each range is known, so files get equal sizes. A range is about what a task may hold in memory.
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
"""Bytes on disk from which on staging the rows of a group is worth it."""
_SAMPLED = 1 << 18
_KEYS = 2000
"""How many keys are kept of `_SAMPLED` rows."""
_GROWTH = 3
"""Bytes in memory per byte on disk: an estimate before rows are read."""
_MOST_RANGES = 1024


def in_ranges(
    runner: TaskRunner, columns: Sequence[str], engine: Engine, parts: Sequence[RewriteTask]
) -> Iterator[TaskResult]:
    """Sort the files of a group together.

    `parts` distribute the files over tasks that read, `columns` are those that the order needs. Yields a result per
    part, with the number of live rows that it read, and then a result per task that wrote, whose files are in order.
    The first error ends it; the files written until then are among the results.
    """
    outputs = sum(part.outputs for part in parts)
    size = sum(file.data.size for part in parts for file in part.inputs)
    folder = staging_folder(runner.target.location, runner.target.properties)
    ranges_per_file = -(-min(_MOST_RANGES, 2 * size * _GROWTH // runner.memory + 1) // outputs)
    staged: list[Staged] = []
    try:
        samples = list(engine.map(_KeySampler(runner, tuple(columns)), parts))
        bounds = boundaries(pa.concat_tables(samples), outputs * ranges_per_file)
        for part, result in zip(parts, engine.map(_RangeStager(runner, bounds, folder), parts), strict=True):
            staged += result.staged
            yield TaskResult(part.group, rows=result.rows, strategy=RewriteStrategy.ARRANGE, error=result.error)
            if result.error is not None:
                return
        buckets = StagedBuckets(staged, runner.rows_schema)
        tasks = _RangeTasks(buckets, parts, outputs, ranges_per_file, size).shared_out(engine.parallelism)
        yield from engine.map(_RangeWriter(runner), tasks)
    finally:
        runner.target.files.remove_folder(folder)  # with what tasks staged whose results the engine discarded


@dataclass(frozen=True, slots=True)
class _KeySampler:
    """Reads the columns of the order, deleted rows included, and returns a sample of the keys in order."""

    runner: TaskRunner
    columns: tuple[str, ...]

    def __call__(self, part: RewriteTask) -> pa.Table:
        runner, selection = self.runner, Selection(self.columns)
        samples: list[pa.Table] = []
        held: list[pa.RecordBatch] = []
        for file in part.inputs:
            undeleted = replace(file, deletes=())
            for batch in read_task(runner.target.files, runner.context, undeleted, selection):
                held.append(batch)
                if sum(rows.num_rows for rows in held) >= _SAMPLED:
                    samples.append(self._thinned(held))
                    held = []
        return pa.concat_tables([*samples, self._thinned(held)] if held else samples)

    def _thinned(self, held: Sequence[pa.RecordBatch]) -> pa.Table:
        rows = pa.Table.from_batches(held)
        assert self.runner.order is not None  # else there is nothing to sort by
        return thinned(with_ties(self.runner.order.keys(rows)), -(-_KEYS * len(rows) // _SAMPLED))


@dataclass(frozen=True, slots=True)
class _StageResult:
    """The rows that a task staged and their number, or its error."""

    staged: tuple[Staged, ...] = ()
    rows: int = 0
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class _RangeStager:
    """Stages the live rows of files, each in the range of its key."""

    runner: TaskRunner
    bounds: pa.Table
    folder: str

    def __call__(self, part: RewriteTask) -> _StageResult:
        if self.runner.stop.is_set:
            return _StageResult(error=StoppedError("not started"))
        try:
            return self._stage(part)
        except Exception as error:  # noqa: BLE001  # the driver decides what it means
            return _StageResult(error=error)

    def _stage(self, part: RewriteTask) -> _StageResult:
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
            for file in part.inputs:
                for batch in runner.rows(file):
                    stager.write(batch)
            staged = stager.finish()
        except BaseException:
            stager.abort()
            raise
        return _StageResult(() if staged is None else (staged,), seen)


@dataclass(frozen=True, slots=True)
class _RangeTask:
    """Neighbouring ranges that one task sorts, as runs of staged rows per output file.

    `size` is their share of the group's input in bytes.
    """

    group: int
    name: str
    files: tuple[tuple[Run, ...], ...]
    size: int
    partition: Partition


@dataclass(frozen=True, slots=True)
class _RangeTasks:
    """The staged ranges of a group, which become `outputs` files of `ranges_per_file` ranges each. `size` is the
    group's input in bytes."""

    buckets: StagedBuckets
    parts: Sequence[RewriteTask]
    outputs: int
    ranges_per_file: int
    size: int

    def shared_out(self, most: int) -> Iterator[_RangeTask]:
        """At most `most` tasks, each with whole files."""
        buckets, first = self.buckets, self.parts[0]
        rows = dict(zip(buckets.buckets, buckets.rows.tolist(), strict=True))
        places = {code: number for number, code in enumerate(buckets.buckets)}
        total = max(1, sum(rows.values()))

        def runs_of(file: int) -> tuple[Run, ...]:
            codes = range(file * self.ranges_per_file, (file + 1) * self.ranges_per_file)
            return tuple(buckets.run(places[code], 0, rows[code]) for code in codes if code in places)

        count = min(self.outputs, most)
        ends = [self.outputs * (number + 1) // count for number in range(count)]
        for number, (start, end) in enumerate(itertools.pairwise([0, *ends])):
            files = tuple(runs for file in range(start, end) if (runs := runs_of(file)))
            share = self.size * _rows(itertools.chain.from_iterable(files)) // total
            if files:
                name = f"{first.name.rpartition('-')[0]}-{number}"
                yield _RangeTask(first.group, name, files, share, first.inputs[0].data.partition)


def _rows(runs: Iterable[Run]) -> int:
    return sum(run.rows for run in runs)


@dataclass(frozen=True, slots=True)
class _RangeWriter:
    """Sorts one range after the other and writes the files."""

    runner: TaskRunner

    def __call__(self, task: _RangeTask) -> TaskResult:
        if self.runner.stop.is_set:
            return TaskResult(task.group, error=StoppedError("not started"))
        writer = RollingWriter(self.runner.target, task.name, self.runner.sizes.write_max)
        try:
            self._write(writer, task)
            return TaskResult(task.group, tuple(writer.finish()), strategy=RewriteStrategy.ARRANGE)
        except BaseException as error:
            writer.abort()
            if isinstance(error, Exception):
                return TaskResult(task.group, error=error)
            raise

    def _write(self, writer: RollingWriter, task: _RangeTask) -> None:
        """A file ends where its ranges end, unless rows turn out so small that the next ranges fit into it too."""
        runner, order, done = self.runner, self.runner.order, 0
        assert order is not None  # as above
        total = _rows(itertools.chain.from_iterable(task.files))
        roll_target = RollTarget(runner.sizes, 0, 1)
        for runs in task.files:
            share = task.size * _rows(runs) // total
            written = writer.closed_bytes + writer.open_bytes
            if done and writer.open_bytes + share * written / done > runner.sizes.target:
                writer.close_file()
                roll_target = RollTarget(runner.sizes, 0, 1)
            roll_target.total += share
            done += share
            for run in runs:
                for batch in sorted_batches(run.batches(runner.target.files), order, runner.memory):
                    roll_target.write(writer, batch, task.partition, task.size * batch.num_rows // total)
