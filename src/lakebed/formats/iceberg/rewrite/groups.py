"""The groups of a rewrite on an engine: each is cut into tasks, and comes back when all of these have ended.

Files are joined, encoded or sorted; what a group's files allow is decided here, when its turn comes. A group that alone
would keep one processor busy while the others rest is sorted by several tasks (`ranges.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lakebed.errors import LakebedError
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile, FileTask
from lakebed.formats.iceberg.rewrite.join import may_join
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
from lakebed.kernel.engine import Engine
from lakebed.kernel.packing import even_runs

_LEAST_OUTPUTS = 4
"""Files of one task where a group is split, at least."""


@dataclass(slots=True)
class Group:
    """A group under way: its tasks, and what they gave so far. `ranged` says that they sort it together."""

    planned: PlannedGroup
    tasks: list[RewriteTask]
    ranged: bool = False
    results: list[TaskResult] = field(default_factory=list)

    @property
    def error(self) -> Exception | None:
        """The first real error of its tasks."""
        found = [one.error for one in self.results if one.error is not None]
        return next((e for e in found if not isinstance(e, StoppedError)), found[0] if found else None)

    @property
    def inputs(self) -> list[FileTask]:
        """The files that it replaces."""
        return [one for task in self.tasks for one in task.inputs]

    @property
    def files(self) -> list[DataFile]:
        """Those written so far."""
        return [one for result in self.results for one in result.files]

    @property
    def vectors(self) -> list[DeleteFile]:
        """The deletion vectors that go with its files."""
        return [delete for one in self.inputs for delete in one.deletes if delete.is_vector]


class GroupWork:
    """Runs groups of one plan. `least_row_group` says which row groups are worth keeping as they are, `columns` are
    those that the order needs."""

    def __init__(
        self, runner: TaskRunner, chosen: ChosenFiles, engine: Engine, concurrent: int, least_row_group: int,
        columns: Sequence[str],
    ) -> None:  # fmt: skip
        self._runner, self._chosen, self._engine = runner, chosen, engine
        self._concurrent, self._least_row_group, self._columns = concurrent, least_row_group, columns
        self._write_id = str(uuid.uuid4())

    def executed(self, planned: Sequence[PlannedGroup], stop: Stop | None = None) -> Iterator[Group]:
        """The groups as they end; no more at a time than the call allows. `stop` is set by the first error, so that
        tasks which have not begun do not begin."""
        wave = len(planned) if self._engine.parallelism <= self._concurrent else self._concurrent
        for start in range(0, len(planned), wave):
            groups = self._prepared(planned[start : start + wave], start)
            yield from self._side_by_side([one for one in groups if not one.ranged], stop)
            for group in groups:
                if group.ranged:
                    self._sort_in_ranges(group)
                    if group.error is not None and stop is not None:
                        stop.set()
                    yield group

    def _side_by_side(self, groups: Sequence[Group], stop: Stop | None) -> Iterator[Group]:
        tasks = [task for group in groups for task in group.tasks]
        by_number = {group.tasks[0].group: group for group in groups}
        for task, result in zip(tasks, self._engine.map(self._runner, tasks), strict=True):
            group = by_number[task.group]
            group.results.append(_checked([result], task.inputs) or result)
            if group.error is not None and stop is not None:
                stop.set()
            if len(group.results) == len(group.tasks):
                yield group

    def _sort_in_ranges(self, group: Group) -> None:
        try:
            group.results.extend(in_ranges(self._runner, self._columns, self._engine, group.tasks))
        except Exception as error:  # noqa: BLE001  # as an error of a task is: the caller decides what it means
            group.results.append(TaskResult(group.tasks[0].group, error=error))
        if group.error is None:
            wrong = _checked(group.results, group.inputs)
            if wrong is not None:
                group.results.append(replace(wrong, files=()))

    def _prepared(self, planned: Sequence[PlannedGroup], first: int) -> list[Group]:
        """The tasks of groups. Figures of files are fetched for those that may be joined."""
        inputs = [self._chosen.tasks(group.rows) for group in planned]
        joins = [
            self._runner.order is None and not group.repartitioned and self._may_join(some)
            for group, some in zip(planned, inputs, strict=True)
        ]
        joined = [group.rows for group, join in zip(planned, joins, strict=True) if join]
        metrics = self._chosen.metrics(np.concatenate(joined)) if joined else {}
        total = sum(group.about.size for group in planned)
        found = []
        for number, (group, some, join) in enumerate(zip(planned, inputs, joins, strict=True), first):
            if join:
                some = [replace(one, data=replace(one.data, metrics=metrics.get(one.data.path))) for one in some]
                join = self._may_join(some, lineage=self._runner.lineage)
            way = RewriteStrategy.JOIN if join else RewriteStrategy.ENCODE
            if group.repartitioned or self._runner.order is not None:
                way = RewriteStrategy.ARRANGE
            ranged = (
                way is RewriteStrategy.ARRANGE and not group.repartitioned and self._is_too_much_for_one(group, total)
            )
            found.append(Group(group, self._tasks(number, group, some, way, len(planned), ranged), ranged))
        return found

    def _is_too_much_for_one(self, group: PlannedGroup, total: int) -> bool:
        """Whether the other tasks of this wave would be done long before the only one of this group."""
        size, most = group.about.size, self._engine.parallelism
        return most > 1 and group.about.files_after > 1 and size >= LEAST_BYTES and size * most > total

    def _may_join(self, some: Sequence[FileTask], lineage: bool = False) -> bool:
        runner = self._runner
        return runner.target.layout.format == "PARQUET" and may_join(
            some, self._least_row_group, runner.sizes.write_max, lineage
        )

    def _tasks(
        self,
        number: int,
        group: PlannedGroup,
        some: Sequence[FileTask],
        way: RewriteStrategy,
        groups: int,
        ranged: bool,
    ) -> list[RewriteTask]:
        """A group as tasks: one a file where files are joined, as many as run at once where they are encoded, but
        then of several files each: a task can even its files out only among themselves."""
        outputs, most = group.about.files_after, self._engine.parallelism
        sizes = np.array([one.data.size for one in some], np.int64)
        pieces = {
            RewriteStrategy.JOIN: outputs,
            RewriteStrategy.ENCODE: min(max(1, outputs // _LEAST_OUTPUTS), max(1, most // groups)),
            RewriteStrategy.ARRANGE: most if ranged else 1,
        }[way]
        starts = even_runs(sizes, pieces).tolist()
        ends = [*starts[1:], len(some)]
        shares = [round(outputs * float(sizes[:end].sum()) / max(1, float(sizes.sum()))) for end in ends]
        counts = [max(not ranged, after - before) for before, after in zip([0, *shares[:-1]], shares, strict=True)]
        return [
            RewriteTask(
                number, f"{self._write_id}-{number:05d}-{place}", way, tuple(some[start:end]), count,
                group.repartitioned,
            )
            for place, (start, end, count) in enumerate(zip(starts, ends, counts, strict=True))
        ]  # fmt: skip


def _checked(results: Sequence[TaskResult], inputs: Sequence[FileTask]) -> TaskResult | None:
    """The first result with the error that the rows are not those of the inputs; None when they are."""
    if results[0].error is None:
        try:
            check_rows(results, inputs)
        except LakebedError as error:
            return replace(results[0], error=error)
    return None
