"""Merges sorted runs of batches by key, with only a few rows of each run in memory at a time.

The caller decides which row of a key wins: it gets all rows of a key at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.codec.manifest import DataFileMeta


def oldest_first(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """The files of a bucket, the oldest first: the highest level, then by sequence numbers.

    Two writers at once, or two tasks of one write, may draw the same numbers. Then the file that was created later is
    the newer one, for reads and compactions alike. It is also the one that stays at level 0 when a compaction takes
    only one of the two, since `level_0_runs` has the other one first.
    """
    return sorted(files, key=lambda file: (-file.level, file.max_sequence_number, *_made(file)))


def level_0_runs(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """Files of level 0 in the order in which compactions take them. Rule: Paimon's Levels."""
    return sorted(files, key=lambda file: (-file.max_sequence_number, *_made(file)))


def _made(file: DataFileMeta) -> tuple[int, int, str]:
    return file.min_sequence_number, file.creation_time or 0, file.file_name


def merge_sorted(runs: Sequence[Iterator[pa.RecordBatch]], keys: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the pieces of `key_ranges`, each as one table: its rows come run after run, and a column is one chunk."""
    for rows_of_runs in key_ranges(runs, keys):
        yield pa.concat_tables(rows_of_runs).combine_chunks()


def key_ranges(runs: Sequence[Iterator[pa.RecordBatch]], keys: Sequence[str]) -> Iterator[list[pa.Table]]:
    """Yield pieces that each hold all rows of their keys: a table of each run that has some, in the order given. Keys
    ascend from piece to piece.

    Rows are not copied. Each run must be sorted ascending by `keys`, in Arrow's order; these columns have no nulls.
    Memory holds one batch per run, and more only where a key has more rows than a batch.
    """
    heads = [_Head(run, keys) for run in runs]
    while True:
        heads = [head for head in heads if head.fetch()]
        unfinished = [head for head in heads if not head.ended]
        if not unfinished:
            if heads:
                yield [head.rest() for head in heads]
            return
        cut = pa.concat_tables([head.last() for head in unfinished]).select(keys)
        cut = cut.rename_columns([f"c{place}" for place in range(len(keys))])  # Arrow takes a name like ".x" for a path
        cut = cut.sort_by([(name, "ascending") for name in cut.column_names])
        bound = [column[0] for column in cut.columns]
        ready = [rows for rows in (head.before(bound) for head in heads) if len(rows)]
        if ready:
            yield ready
        else:  # a run has only one key in memory, and more rows of that key may follow
            for head in unfinished:
                head.grow()


class _Head:
    """The next rows of a run, those that are in memory."""

    def __init__(self, run: Iterator[pa.RecordBatch], keys: Sequence[str]) -> None:
        self._run, self._keys = run, keys
        self._rows: pa.Table | None = None
        self.ended = False
        """Whether the run has no rows beyond those in memory."""

    def fetch(self) -> bool:
        """Load rows unless some are in memory. False when the run has no more."""
        while not self.ended and not self._rows:
            self.grow()
        return bool(self._rows)

    def grow(self) -> None:
        """Load one more batch."""
        batch = next(self._run, None)
        if batch is None:
            self.ended = True
            return
        rows = pa.Table.from_batches([batch])
        self._rows = pa.concat_tables([self._rows, rows]) if self._rows else rows

    def last(self) -> pa.Table:
        """The keys of the last row in memory."""
        assert self._rows is not None
        return self._rows.slice(len(self._rows) - 1).select(list(self._keys))

    def before(self, bound: Sequence[pa.Scalar]) -> pa.Table:
        """Remove and return the rows whose key is less than a bound."""
        assert self._rows is not None
        less: pa.ChunkedArray | None = None
        for name, value in zip(reversed(self._keys), reversed(bound), strict=True):
            column = self._rows.column(name)
            lower = _lower(column, value)
            less = lower if less is None else pc.or_(lower, pc.and_(_same(column, value), less))
        count = pc.sum(less).as_py() or 0
        taken, self._rows = self._rows.slice(0, count), self._rows.slice(count)
        return taken

    def rest(self) -> pa.Table:
        """Remove and return all rows in memory."""
        assert self._rows is not None
        taken, self._rows = self._rows, None
        return taken


def _lower(column: pa.ChunkedArray, value: pa.Scalar) -> pa.ChunkedArray:
    """Whether each value of a column is less than a value. NaN is the greatest number."""
    return pc.invert(pc.is_nan(column)) if _is_nan(column, value) else pc.less(column, value)


def _same(column: pa.ChunkedArray, value: pa.Scalar) -> pa.ChunkedArray:
    """Whether each value of a column is equal to a value. NaN is equal to itself."""
    return pc.is_nan(column) if _is_nan(column, value) else pc.equal(column, value)


def _is_nan(column: pa.ChunkedArray, value: pa.Scalar) -> bool:
    return bool(pa.types.is_floating(column.type) and value.as_py() != value.as_py())
