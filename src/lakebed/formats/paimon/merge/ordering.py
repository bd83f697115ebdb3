"""The order in which rows of a bucket are merged, and where the rows of each key lie in it.

Rules: Paimon's key comparators and UserDefinedSeqComparator: by key, then by the sequence fields (null first), then by
sequence number or arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Int32s, Int64s


def sort_order(keys: Sequence[pa.Array], then: Sequence[tuple[pa.Array, bool]] = ()) -> Int64s:
    """The stable order of rows by key columns (ascending, as Java compares them), then by columns with whether they
    descend.

    Rows equal in all of them keep their order.
    """
    if len(keys) == 1 and not then:
        numbers = _as_integers(keys[0])
        if numbers is not None:
            return _integer_order(numbers)
    columns: list[pa.Array] = []
    orders: list[str] = []
    for column, down in [*((key, False) for key in keys), *then]:
        if column.null_count:  # a key before it puts nulls first, whichever way the column is sorted
            columns.append(column.is_valid())
            orders.append("ascending")
        columns.append(column)
        orders.append("descending" if down else "ascending")
    names = [f"c{place}" for place in range(len(columns))]
    order = pc.sort_indices(pa.table(columns, names=names), sort_keys=list(zip(names, orders, strict=True)))
    found: Int64s = order.to_numpy().astype(np.int64)
    return found


@dataclass(frozen=True, slots=True)
class Runs:
    """The rows of each key in sorted rows: run i is `[starts[i], ends[i])`."""

    starts: Int64s
    ends: Int64s

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def last(self) -> Int64s:
        """The position of each run's last row."""
        return self.ends - 1

    def ids(self) -> Int64s:
        """The number of its run for each row."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.ends - self.starts)


def by_rank(values: pa.Array, runs: Runs) -> Iterator[tuple[Int64s, Int64s]]:
    """The rows with a value, one of each run at a time: the runs, and the row of each. What must be done in the order
    of the rows is done so for all runs at once."""
    places = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    owner = runs.ids()[places]
    rank = np.arange(len(places)) - np.searchsorted(owner, owner)
    order = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[order], np.arange(int(rank.max(initial=-1)) + 2))
    for begin, end in pairwise(bounds):
        some = order[begin:end]
        yield owner[some], places[some]


def key_runs(keys: Sequence[pa.Array]) -> Runs:
    """The runs of equal keys in rows sorted by them. NaN is one key, and so are the two zeros."""
    rows = len(keys[0])
    if not rows:
        return Runs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    differs = np.zeros(rows - 1, np.bool_)
    for key in keys:
        numbers = _as_integers(key)
        if numbers is not None:
            differs |= numbers[1:] != numbers[:-1]
        elif pa.types.is_floating(key.type):
            floats = key.to_numpy()
            differs |= (floats[1:] != floats[:-1]) & ~(np.isnan(floats[1:]) & np.isnan(floats[:-1]))
        else:
            differs |= pc.not_equal(key.slice(1), key.slice(0, rows - 1)).to_numpy(zero_copy_only=False)
    bounds = np.flatnonzero(differs) + 1
    return Runs(np.concatenate([[0], bounds]), np.append(bounds, rows))


def _as_integers(column: pa.Array) -> Int64s | Int32s | None:
    """The numbers by which a column without nulls is ordered, None when its order is not that of integers."""
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        return None
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    numbers: Int64s = column.to_numpy()
    return numbers


def _integer_order(numbers: Int64s | Int32s) -> Int64s:
    """A stable order by numpy's fast unstable sort: equal numbers are put in their order of arrival afterwards."""
    rows = len(numbers)
    if rows < 2 or (numbers[1:] >= numbers[:-1]).all():
        return np.arange(rows, dtype=np.int64)
    order: Int64s = np.argsort(numbers)
    ordered = numbers[order]
    fresh = ordered[1:] != ordered[:-1]
    if fresh.all():
        return order
    run = np.concatenate([np.zeros(1, np.int64), np.cumsum(fresh, dtype=np.int64)])
    stable: Int64s = np.sort(run * rows + order) - run * rows
    return stable
