"""The second half of a write: rows that tasks have staged by bucket become files of the right number and size.

All tasks are done, so the rows and bytes of each bucket are known. Where a bucket may need more than one file, some of
its rows are encoded to see what they take on disk. `kernel/sizing/file_counts.py` then says how many files each bucket
gets, each file is a run of its rows, and files are shared out over tasks by size. What was written is held against the
rule, and the few buckets whose sample misled are written once more with the bytes now known. Rows are never read from
the source again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lakebed.kernel.engine import Engine, LocalEngine
from lakebed.kernel.sizing.file_counts import even_cuts, file_count, in_bounds, share_out
from lakebed.kernel.sizing.staging import Place, Run, StagedBuckets

M = TypeVar("M")

SAMPLE_BYTES = 16 << 20
"""How much of a bucket is encoded to learn its size, at most; an eighth of it in any case."""
HERE_BYTES = 16 << 20
"""So little Arrow data in all buckets is not worth a job of another engine."""
_LEAST_SAMPLE = 256 << 10
_LEAST_QUARTER = 100
_ROUNDS = 3
_TASKS_A_SLOT = 2


@dataclass(frozen=True, slots=True)
class FileSize:
    """What a file of some rows takes on disk: `fixed` bytes, and more for each row. `sample` is what else was learnt,
    for instance keys."""

    fixed: float
    per_row: float
    sample: Any = None

    def of(self, rows: int, files: int) -> float:
        """The bytes of so many rows in so many files."""
        return files * self.fixed + rows * self.per_row

    @classmethod
    def measured(cls, rows: pa.Table, encoded: Callable[[pa.Table], int], sample: Any = None) -> FileSize:
        """By encoding some rows, at least 1, and a quarter of them too, which tells the two apart. `encoded` gives the
        bytes of a file of such rows."""
        whole, quarter = encoded(rows), len(rows) // 4
        if quarter >= _LEAST_QUARTER:
            per_row = (whole - encoded(rows.slice(0, quarter))) / (len(rows) - quarter)
            fixed = whole - per_row * len(rows)
            if per_row > 0 and fixed >= 0:
                return cls(fixed, per_row, sample)
        return cls(0.0, whole / len(rows), sample)


class FileMaker(Protocol[M]):
    """What a format gives. Picklable."""

    @property
    def place(self) -> Place:
        """Where chunks were staged."""
        ...

    def measure(self, bucket: Hashable, run: Run) -> FileSize:
        """Encode some rows and see what they take."""
        ...

    def make(self, bucket: Hashable, run: Run) -> M:
        """Write one file."""
        ...

    def size(self, made: M) -> int:
        """The bytes that the file really has."""
        ...

    def remove(self, made: Sequence[M]) -> None:
        """Delete files."""
        ...


class Splitter(Protocol):
    """What gives the files of a bucket ranges of keys that do not overlap, where the table wants that."""

    def split(
        self, buckets: StagedBuckets, counts: Mapping[int, int], sizes: Mapping[int, FileSize], engine: Engine
    ) -> tuple[dict[int, list[Run]], list[str]]:
        """Stage those buckets once more, cut into so many ranges: for each of them its runs, one a file, and the paths
        staged."""
        ...


def finalize(
    buckets: StagedBuckets, maker: FileMaker[M], engine: Engine, target: int, greatest: int,
    splitter: Splitter | None = None,
) -> list[M]:  # fmt: skip
    """Write what is staged: the files, those of a bucket in the order of its rows (or ranges). Little data is written
    in this process, whatever the engine.

    When it fails, what was written is removed as far as it is known. Staged chunks are left to the caller.
    """
    if buckets.sizes.sum() <= HERE_BYTES and not isinstance(engine, LocalEngine):
        engine = LocalEngine()
    work = _Work(buckets, maker, engine, target, greatest, splitter)
    try:
        return work.run()
    except BaseException:
        work.give_up()
        raise


@dataclass(slots=True)
class _Work(Generic[M]):
    buckets: StagedBuckets
    maker: FileMaker[M]
    engine: Engine
    target: int
    greatest: int
    splitter: Splitter | None
    made: list[M] = field(default_factory=list)
    restaged: list[str] = field(default_factory=list)

    def run(self) -> list[M]:
        rows, sizes = self.buckets.rows.tolist(), self._measured()
        counts = {at: self._count(rows[at], sizes[at]) if at in sizes else 1 for at in range(len(self.buckets.buckets))}
        files: dict[int, list[M]] = {}
        pending = counts
        try:
            for _ in range(_ROUNDS):
                files |= self._write(pending, sizes)
                pending = self._wrong(pending, files, sizes)
                if not pending:
                    break
        finally:
            if self.restaged:
                self.maker.place.delete_many(self.restaged)
        return [one for at in sorted(files) for one in files[at]]

    def give_up(self) -> None:
        self.maker.remove(self.made)

    def _measured(self) -> dict[int, FileSize]:
        """What files of the buckets take that may need more than one."""
        large = np.flatnonzero(self.buckets.sizes > self.target // 2).tolist()
        if not large:
            return {}
        runs = []
        for at in large:
            size, rows = int(self.buckets.sizes[at]), int(self.buckets.rows[at])
            wanted = min(size, max(_LEAST_SAMPLE, min(SAMPLE_BYTES, size // 8)))
            runs.append((self.buckets.buckets[at], self.buckets.sample(at, max(1, rows * wanted // size))))
        return dict(zip(large, self.engine.map(_Measure(self.maker), runs), strict=True))

    def _count(self, rows: int, size: FileSize) -> int:
        """The number of files, whose own fixed bytes count too."""
        count = 1
        for _ in range(3):
            count = file_count(size.of(rows, count), self.target, self.greatest)
        return min(count, rows)

    def _write(self, counts: dict[int, int], sizes: dict[int, FileSize]) -> dict[int, list[M]]:
        runs = self._runs(counts, sizes)
        jobs = [(at, run) for at, found in runs.items() for run in found if run.rows]
        weights = [run.rows * self.buckets.sizes[at] / self.buckets.rows[at] for at, run in jobs]
        shares = share_out(weights, self.engine.parallelism * _TASKS_A_SLOT)
        tasks = [[(self.buckets.buckets[jobs[item][0]], jobs[item][1]) for item in share] for share in shares]
        made: dict[int, M] = {}
        for share, done in zip(shares, self.engine.map(_Make(self.maker, self.made), tasks), strict=True):
            self.made += done
            made |= dict(zip(share, done, strict=True))
        found: dict[int, list[M]] = {at: [] for at in counts}
        for item, (at, _) in enumerate(jobs):
            found[at].append(made[item])
        return found

    def _runs(self, counts: dict[int, int], sizes: dict[int, FileSize]) -> dict[int, list[Run]]:
        ranged = {at: count for at, count in counts.items() if count > 1} if self.splitter is not None else {}
        found: dict[int, list[Run]] = {}
        if ranged and self.splitter is not None:
            found, paths = self.splitter.split(self.buckets, ranged, sizes, self.engine)
            self.restaged += paths
        for at, count in counts.items():
            if at not in ranged:
                cuts = even_cuts(int(self.buckets.rows[at]), count).tolist()
                found[at] = [self.buckets.run(at, start, end) for start, end in itertools.pairwise(cuts)]
        return found

    def _wrong(self, counts: dict[int, int], files: dict[int, list[M]], sizes: dict[int, FileSize]) -> dict[int, int]:
        """Buckets whose files are too many or too few, with the right number now that their bytes are known. Their
        files are removed."""
        again: dict[int, int] = {}
        for at in counts:
            taken, rows = sum(map(self.maker.size, files[at])), int(self.buckets.rows[at])
            if in_bounds(len(files[at]), taken, self.target, self.greatest):
                continue
            better = min(rows, file_count(taken, self.target, self.greatest))
            if better != len(files[at]):
                again[at] = better
                self.maker.remove(files[at])
                sizes.setdefault(at, FileSize(0.0, taken / rows))
        return again


@dataclass(frozen=True, slots=True)
class _Measure(Generic[M]):
    maker: FileMaker[M]

    def __call__(self, task: tuple[Hashable, Run]) -> FileSize:
        return self.maker.measure(*task)


@dataclass(frozen=True, slots=True)
class _Make(Generic[M]):
    """The files of one task, one after the other; a task that fails removes its own.

    In one process `log` is the driver's own list, so that files of tasks under way are known when another one fails.
    """

    maker: FileMaker[M]
    log: list[M]

    def __call__(self, task: Sequence[tuple[Hashable, Run]]) -> list[M]:
        made: list[M] = []
        try:
            for bucket, run in task:
                made.append(self.maker.make(bucket, run))
                self.log.append(made[-1])
        except BaseException:
            self.maker.remove(made)
            raise
        return made
