"""The groups of a rewrite on an engine: each is cut into tasks, and is returned when all of them have ended.

Files are joined, encoded or sorted. Which of these a group's files allow is decided here, when its turn comes. A group
that would keep one processor busy while the others rest is sorted by several tasks (`ranges.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lakebed.errors import LakebedError
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile, FileTask
from lakebed.formats.iceberg.rewrite.join import may_join
from lakebed.formats.iceberg.rewrite.packing import even_runs
from lakebed.formats.iceberg.rewrite.plan import PlannedGroup
from lakebed.formats.iceberg.rewrite.ranges import LEAST_BYTES, in_ranges
from lakebed.formats.iceberg.rewrite.scan import ChosenFiles
from lakebed.formats.iceberg.rewrite.task import (
    RewriteStrategy,
    RewriteTask,
    Stop,
    StoppedError,
    TaskResult,
    TaskRunner,
    check_rows,
)
from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.sizing.finalize import writers_at_once

_LEAST_OUTPUTS = 4
"""How many files a task has at least when a group is split."""


@dataclass(slots=True)
class Group:
    """A group in progress: its tasks and their results so far. With `ranged` the tasks sort the group together."""

    planned: PlannedGroup
    tasks: list[RewriteTask]
    ranged: bool = False
    results: list[TaskResult] = field(default_factory=list)

    @property
    def error(self) -> Exception | None:
        """The first error of its tasks, a StoppedError only when there is no other; None without errors."""
        errors = [result.error for result in self.results if result.error is not None]
        return next((e for e in errors if not isinstance(e, StoppedError)), errors[0] if errors else None)

    @property
    def inputs(self) -> list[FileTask]:
        """The files that it replaces."""
        return [file for task in self.tasks for file in task.inputs]

    @property
    def files(self) -> list[DataFile]:
        """The files written so far."""
        return [file for result in self.results for file in result.files]

    @property
    def vectors(self) -> list[DeleteFile]:
        """The deletion vectors of the files that it replaces."""
        return [delete for file in self.inputs for delete in file.deletes if delete.is_vector]


class GroupWork:
    """Runs the groups of one plan.

    At most `concurrent` groups run at a time. Row groups of at least `least_row_group` bytes on average are worth
    keeping as they are. `columns` are those that the sort order needs.
    """

    def __init__(
        self, runner: TaskRunner, chosen: ChosenFiles, engine: Engine, concurrent: int, least_row_group: int,
        columns: Sequence[str],
    ) -> None:  # fmt: skip
        self._runner, self._chosen, self._engine = runner, chosen, engine
        self._concurrent, self._least_row_group, self._columns = concurrent, least_row_group, columns
        self._write_id = str(uuid.uuid4())

    def executed(self, planned: Sequence[PlannedGroup], stop: Stop | None = None) -> Iterator[Group]:
        """Run the groups and yield each as it ends. The first error sets `stop`, so that no further task starts."""
        wave = len(planned) if self._engine.parallelism <= self._concurrent else self._concurrent
        for start in range(0, len(planned), wave):
            groups = self._prepared(planned[start : start + wave], start)
            yield from self._side_by_side([group for group in groups if not group.ranged], stop)
            for group in groups:
                if group.ranged:
                    self._sort_in_ranges(group)
                    if group.error is not None and stop is not None:
                        stop.set()
                    yield group

    def _side_by_side(self, groups: Sequence[Group], stop: Stop | None) -> Iterator[Group]:
        tasks = [task for group in groups for task in group.tasks]
        by_number = {group.tasks[0].group: group for group in groups}
        for task, result in zip(tasks, self._engine_for(tasks).map(self._runner, tasks), strict=True):
            group = by_number[task.group]
            group.results.append(_checked([result], task.inputs) or result)
            if group.error is not None and stop is not None:
                stop.set()
            if len(group.results) == len(group.tasks):
                yield group

    def _engine_for(self, tasks: Sequence[RewriteTask]) -> Engine:
        """The engine, with more threads where it runs here and small tasks mostly wait for a store: as many as groups
        may run at a time."""
        if not isinstance(self._engine, LocalEngine):
            return self._engine
        size = sum(file.data.size for task in tasks for file in task.inputs)
        at_once = min(self._concurrent, self._runner.target.files.home.at_once)
        threads = writers_at_once(self._engine.parallelism, at_once, len(tasks), size)
        return LocalEngine(threads) if threads > self._engine.parallelism else self._engine

    def _sort_in_ranges(self, group: Group) -> None:
        try:
            group.results.extend(in_ranges(self._runner, self._columns, self._engine, group.tasks))
        except Exception as error:  # noqa: BLE001  # the caller decides what it means, as for an error of a task
            group.results.append(TaskResult(group.tasks[0].group, error=error))
        if group.error is None:
            failed = _checked(group.results, group.inputs)
            if failed is not None:
                group.results.append(replace(failed, files=()))

    def _prepared(self, planned: Sequence[PlannedGroup], first: int) -> list[Group]:
        """The groups with their tasks, numbered from `first`. Metrics are read for the files that may be joined."""
        inputs = [self._chosen.tasks(group.rows) for group in planned]
        joins = [
            self._runner.order is None and not group.repartitioned and self._may_join(files)
            for group, files in zip(planned, inputs, strict=True)
        ]
        joined = [group.rows for group, join in zip(planned, joins, strict=True) if join]
        metrics = self._chosen.metrics(np.concatenate(joined)) if joined else {}
        total = sum(group.about.size for group in planned)
        groups = []
        for number, (group, files, join) in enumerate(zip(planned, inputs, joins, strict=True), first):
            if join:
                files = [replace(f, data=replace(f.data, metrics=metrics.get(f.data.path))) for f in files]
                join = self._may_join(files, lineage=self._runner.lineage)
            strategy = RewriteStrategy.JOIN if join else RewriteStrategy.ENCODE
            if group.repartitioned or self._runner.order is not None:
                strategy = RewriteStrategy.ARRANGE
            sorts = strategy is RewriteStrategy.ARRANGE and not group.repartitioned
            ranged = sorts and self._is_too_large_for_one(group, total)
            pieces = self._piece_count(group, strategy, len(planned), ranged)
            groups.append(Group(group, self._tasks(number, group, files, strategy, pieces, not ranged), ranged))
        return groups

    def _is_too_large_for_one(self, group: PlannedGroup, total: int) -> bool:
        """Whether a single task for this group would run long after all other tasks of this wave have ended."""
        size, most = group.about.size, self._engine.parallelism
        return most > 1 and group.about.files_after > 1 and size >= LEAST_BYTES and size * most > total

    def _may_join(self, files: Sequence[FileTask], lineage: bool = False) -> bool:
        runner = self._runner
        return runner.target.layout.format == "PARQUET" and may_join(
            files, self._least_row_group, runner.sizes.write_max, lineage
        )

    def _piece_count(self, group: PlannedGroup, strategy: RewriteStrategy, groups: int, ranged: bool) -> int:
        """How many tasks a group becomes when `groups` groups run.

        There is one task per output file when files are joined. When they are encoded, there are as many as run at
        once, but each writes several files, since a task can make only its own files equal in size.
        """
        outputs, parallelism = group.about.files_after, self._engine.parallelism
        if strategy is RewriteStrategy.JOIN:
            return outputs
        if strategy is RewriteStrategy.ENCODE:
            return min(max(1, outputs // _LEAST_OUTPUTS), max(1, parallelism // groups))
        return parallelism if ranged else 1

    def _tasks(
        self, number: int, group: PlannedGroup, files: Sequence[FileTask], strategy: RewriteStrategy, pieces: int,
        least_outputs: int,
    ) -> list[RewriteTask]:  # fmt: skip
        """A group as tasks of about the same bytes, each with its share of the output files, at least `least_outputs`
        of them."""
        outputs = group.about.files_after
        sizes = np.array([file.data.size for file in files], np.int64)
        starts = even_runs(sizes, pieces).tolist()
        ends = [*starts[1:], len(files)]
        shares = [round(outputs * float(sizes[:end].sum()) / max(1, float(sizes.sum()))) for end in ends]
        counts = [max(least_outputs, after - before) for before, after in zip([0, *shares[:-1]], shares, strict=True)]
        write_id = f"{self._write_id}-{number:05d}"
        return [
            RewriteTask(number, f"{write_id}-{place}", strategy, tuple(files[start:end]), count, group.repartitioned)
            for place, (start, end, count) in enumerate(zip(starts, ends, counts, strict=True))
        ]


def _checked(results: Sequence[TaskResult], inputs: Sequence[FileTask]) -> TaskResult | None:
    """The first result with an error when rows were lost or added; None when the rows are those of the inputs."""
    if results[0].error is None:
        try:
            check_rows(results, inputs)
        except LakebedError as error:
            return replace(results[0], error=error)
    return None
