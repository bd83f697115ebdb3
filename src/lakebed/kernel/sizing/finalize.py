"""The second half of a write: turn the rows that tasks staged by bucket into files of the right number and size.

When it begins, all tasks are done, so the rows and bytes of each bucket are known. Where a bucket may need more than
one file, a sample of its rows is encoded to learn how large they are on disk. `file_counts.py` then says how many files
each bucket gets. Each file holds a run of the bucket's rows, and files are shared out over tasks by size. The sizes of
the written files are checked, and the few buckets whose sample was misleading are written again. Rows are never read
from the source again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lakebed.kernel.engine import Engine, LocalEngine, nearest
from lakebed.kernel.sizing.file_counts import even_cuts, file_count, in_bounds, share_out
from lakebed.kernel.sizing.staging import Place, Run, StagedBuckets

M = TypeVar("M")

SAMPLE_BYTES = 16 << 20
"""At most so much of a bucket is encoded to learn its size, and never more than an eighth of it."""
HERE_BYTES = 16 << 20
"""With no more Arrow data than this in all buckets, a job on another engine is not worth its cost."""
AT_ONCE_BYTES = 64 << 20
"""With more files at once than there are threads, they have about so much Arrow data together."""
_LEAST_SAMPLE = 256 << 10
_LEAST_QUARTER = 100
_ROUNDS = 3
_TASKS_PER_SLOT = 2


@dataclass(frozen=True, slots=True)
class FileSize:
    """The estimated size of a bucket's files on disk: `fixed` bytes per file and `per_row` bytes per row.

    `sample` is what else the measurement gave, for example sort keys.
    """

    fixed: float
    per_row: float
    sample: Any = None

    def of(self, rows: int, files: int) -> float:
        """The bytes of `rows` rows in `files` files."""
        return files * self.fixed + rows * self.per_row

    @classmethod
    def measured(cls, rows: pa.Table, encoded: Callable[[pa.Table], int], sample: Any = None) -> FileSize:
        """Measure by encoding some rows, at least 1. `encoded` gives the bytes of a file of them.

        A second file of a quarter of the rows separates `fixed` from `per_row`.
        """
        whole, quarter = encoded(rows), len(rows) // 4
        if quarter >= _LEAST_QUARTER:
            per_row = (whole - encoded(rows.slice(0, quarter))) / (len(rows) - quarter)
            fixed = whole - per_row * len(rows)
            if per_row > 0 and fixed >= 0:
                return cls(fixed, per_row, sample)
        return cls(0.0, whole / len(rows), sample)


class FileMaker(Protocol[M]):
    """Writes the files of a format. Picklable."""

    @property
    def place(self) -> Place:
        """Where rows were staged."""
        ...

    @property
    def at_once(self) -> int:
        """How many files are worth writing at once, where writing them is waiting for a store; 1 for a disk."""
        ...

    def measure(self, bucket: Hashable, run: Run) -> FileSize:
        """Encode the rows of a run and estimate the size of the bucket's files."""
        ...

    def make(self, bucket: Hashable, run: Run) -> M:
        """Write one file with the rows of a run."""
        ...

    def size(self, file: M) -> int:
        """The real size of a file, in bytes."""
        ...

    def remove(self, files: Sequence[M]) -> None:
        """Delete files."""
        ...


class Splitter(Protocol):
    """Cuts buckets into ranges of keys that do not overlap, for tables that ask for that."""

    def split(
        self, buckets: StagedBuckets, counts: Mapping[int, int], sizes: Mapping[int, FileSize], engine: Engine
    ) -> tuple[dict[int, list[Run]], list[str]]:
        """Stage the buckets of `counts` again, each cut into that many ranges.

        Returns the runs of each bucket, one per file, and the paths of what was staged.
        """
        ...


def finalize(
    buckets: StagedBuckets,
    maker: FileMaker[M],
    engine: Engine,
    target: int,
    greatest: int,
    splitter: Splitter | None = None,
) -> list[M]:
    """Write what is staged, and return the files. Those of a bucket are in the order of its rows, or of its ranges.

    Little data is written in this process, whatever the engine, and all data where the engine's tasks would run on this
    machine. On failure, all files that are known are removed. The caller removes what was staged.
    """
    size = int(buckets.sizes.sum())
    engine = nearest(engine)
    if size <= HERE_BYTES and not isinstance(engine, LocalEngine):
        engine = LocalEngine()
    if isinstance(engine, LocalEngine):
        engine = LocalEngine(writers_at_once(engine.parallelism, maker.at_once, len(buckets.buckets), size))
    work = _Work(buckets, maker, engine, target, greatest, splitter)
    try:
        return work.run()
    except BaseException:
        work.give_up()
        raise


def writers_at_once(threads: int, at_once: int, files: int, size: int) -> int:
    """How many of some files to write at once, where `threads` can encode at once and a store takes `at_once`.

    `size` is the Arrow data of all files in bytes. Small files are mostly a wait for the store's answer, large ones
    take memory while they are written.
    """
    return max(threads, min(at_once, AT_ONCE_BYTES * files // max(1, size)))


@dataclass(slots=True)
class _Work(Generic[M]):
    buckets: StagedBuckets
    maker: FileMaker[M]
    engine: Engine
    target: int
    greatest: int
    splitter: Splitter | None
    written: list[M] = field(default_factory=list)
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
        return [file for at in sorted(files) for file in files[at]]

    def give_up(self) -> None:
        self.maker.remove(self.written)

    def _measured(self) -> dict[int, FileSize]:
        """The estimated file sizes of the buckets that may need more than one file."""
        large = np.flatnonzero(self.buckets.sizes > self.target).tolist()
        if not large:
            return {}
        runs, total = [], 0
        for at in large:
            size, rows = int(self.buckets.sizes[at]), int(self.buckets.rows[at])
            wanted = min(size, max(_LEAST_SAMPLE, min(SAMPLE_BYTES, size // 8)))
            runs.append((self.buckets.buckets[at], self.buckets.sample(at, max(1, rows * wanted // size))))
            total += wanted
        engine = LocalEngine() if total <= HERE_BYTES and not isinstance(self.engine, LocalEngine) else self.engine
        return dict(zip(large, engine.map(_Measure(self.maker), runs), strict=True))

    def _count(self, rows: int, size: FileSize) -> int:
        """The number of files for a bucket. The fixed bytes of each file count too."""
        count = 1
        for _ in range(3):
            count = file_count(size.of(rows, count), self.target, self.greatest)
        return min(count, rows)

    def _write(self, counts: dict[int, int], sizes: dict[int, FileSize]) -> dict[int, list[M]]:
        runs = self._runs(counts, sizes)
        jobs = [(at, run) for at, of_bucket in runs.items() for run in of_bucket if run.rows]
        weights = [run.rows * self.buckets.sizes[at] / self.buckets.rows[at] for at, run in jobs]
        shares = share_out(weights, self.engine.parallelism * _TASKS_PER_SLOT)
        tasks = [[(self.buckets.buckets[jobs[item][0]], jobs[item][1]) for item in share] for share in shares]
        file_of_job: dict[int, M] = {}
        for share, files in zip(shares, self.engine.map(_Make(self.maker, self.written), tasks), strict=True):
            self.written += files
            file_of_job |= dict(zip(share, files, strict=True))
        files_of_buckets: dict[int, list[M]] = {at: [] for at in counts}
        for job, (at, _) in enumerate(jobs):
            files_of_buckets[at].append(file_of_job[job])
        return files_of_buckets

    def _runs(self, counts: dict[int, int], sizes: dict[int, FileSize]) -> dict[int, list[Run]]:
        ranged = {at: count for at, count in counts.items() if count > 1} if self.splitter is not None else {}
        runs: dict[int, list[Run]] = {}
        if ranged and self.splitter is not None:
            runs, paths = self.splitter.split(self.buckets, ranged, sizes, self.engine)
            self.restaged += paths
        for at, count in counts.items():
            if at not in ranged:
                cuts = even_cuts(int(self.buckets.rows[at]), count).tolist()
                runs[at] = [self.buckets.run(at, start, end) for start, end in itertools.pairwise(cuts)]
        return runs

    def _wrong(self, counts: dict[int, int], files: dict[int, list[M]], sizes: dict[int, FileSize]) -> dict[int, int]:
        """The buckets that have too many or too few files, with the right number now that their bytes are known.

        The files of these buckets are removed.
        """
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
    """Writes the files of one task, one after the other. A task that fails removes its own.

    In one process, `log` is the driver's own list. So the driver knows the files of tasks that are still running when
    another task fails.
    """

    maker: FileMaker[M]
    log: list[M]

    def __call__(self, task: Sequence[tuple[Hashable, Run]]) -> list[M]:
        files: list[M] = []
        try:
            for bucket, run in task:
                files.append(self.maker.make(bucket, run))
                self.log.append(files[-1])
        except BaseException:
            self.maker.remove(files)
            raise
        return files
