"""The order of versions: how the rows of a bucket are sorted before a merge, and the run of rows that each key has.

Rules: Paimon's key comparators and UserDefinedSeqComparator. Rows are sorted by key, then by the sequence fields (null
first), then by sequence number or arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Int32s, Int64s, to_numpy

_LEAST_RUN = 4096
"""Sorted runs of so many rows are merged faster than their rows are sorted."""


def sort_order(keys: Sequence[pa.Array], then: Sequence[tuple[pa.Array, bool]] = ()) -> Int64s:
    """The positions of rows in merge order; rows that are equal in all columns keep their order.

    Rows are sorted by `keys`, ascending as Java compares them, and then by the columns of `then`, each given with
    whether it descends. Rows that come as a few sorted runs, the oldest first, take a fraction of the time where the
    key is one number.
    """
    numbers = _as_integers(keys[0]) if len(keys) == 1 else None
    if numbers is not None:
        arrived = _integer_order(numbers)
        if not then or _arrived_in_order(numbers, arrived, then):
            return arrived
    columns: list[pa.Array] = []
    orders: list[str] = []
    for column, descends in [*((key, False) for key in keys), *then]:
        if column.null_count:  # a validity column before it sorts nulls first in both directions
            columns.append(column.is_valid())
            orders.append("ascending")
        columns.append(column)
        orders.append("descending" if descends else "ascending")
    names = [f"c{place}" for place in range(len(columns))]
    indices = pc.sort_indices(pa.table(columns, names=names), sort_keys=list(zip(names, orders, strict=True)))
    order: Int64s = to_numpy(indices).astype(np.int64)
    return order


@dataclass(frozen=True, slots=True)
class Runs:
    """The rows of each key among sorted rows: run i has the positions `[starts[i], ends[i])`."""

    starts: Int64s
    ends: Int64s

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def last(self) -> Int64s:
        """The position of each run's last row."""
        return self.ends - 1

    def ids(self) -> Int64s:
        """For each row, the number of its run."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.ends - self.starts)


def nth_rows(values: pa.Array, runs: Runs) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the first row of every run that has a value, then the second of every run, and so on.

    Each step gives run numbers and, for each, the position of its row. This lets a caller take the rows of a run in
    order, but those of all runs at once. Nulls are skipped.
    """
    places = np.flatnonzero(to_numpy(values.is_valid()))
    owner = runs.ids()[places]
    nth = np.arange(len(places)) - np.searchsorted(owner, owner)
    order = np.argsort(nth, kind="stable")
    bounds = np.searchsorted(nth[order], np.arange(int(nth.max(initial=-1)) + 2))
    for begin, end in pairwise(bounds):
        step = order[begin:end]
        yield owner[step], places[step]


def key_runs(keys: Sequence[pa.Array]) -> Runs:
    """The runs of equal keys in rows sorted by key. All NaNs are one key, and so are the two zeros."""
    rows = len(keys[0])
    if not rows:
        return Runs(np.zeros(0, np.int64), np.zeros(0, np.int64))
    differs = np.zeros(rows - 1, np.bool_)
    for key in keys:
        numbers = _as_integers(key)
        if numbers is not None:
            differs |= numbers[1:] != numbers[:-1]
        elif pa.types.is_floating(key.type):
            floats = to_numpy(key)
            differs |= (floats[1:] != floats[:-1]) & ~(np.isnan(floats[1:]) & np.isnan(floats[:-1]))
        else:
            differs |= to_numpy(pc.not_equal(key.slice(1), key.slice(0, rows - 1)))
    bounds = np.flatnonzero(differs) + 1
    return Runs(np.concatenate([[0], bounds]), np.append(bounds, rows))


def _as_integers(column: pa.Array) -> Int64s | Int32s | None:
    """The integers that a column without nulls sorts by, None for a column that does not sort like integers."""
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        return None
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    numbers: Int64s = to_numpy(column)
    return numbers


def _integer_order(numbers: Int64s | Int32s) -> Int64s:
    """A stable order. Sorted runs are merged; others take numpy's fast unstable sort, and equal numbers are put back in
    order of arrival afterwards."""
    rows = len(numbers)
    descents = int(np.count_nonzero(numbers[1:] < numbers[:-1]))
    if not descents:
        return np.arange(rows, dtype=np.int64)
    if descents < rows // _LEAST_RUN:
        merged: Int64s = np.argsort(numbers, kind="stable")
        return merged
    order: Int64s = np.argsort(numbers)
    ordered = numbers[order]
    is_new = ordered[1:] != ordered[:-1]
    if is_new.all():
        return order
    run = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_new, dtype=np.int64)])
    stable: Int64s = np.sort(run * rows + order) - run * rows
    return stable


def _arrived_in_order(numbers: Int64s | Int32s, order: Int64s, then: Sequence[tuple[pa.Array, bool]]) -> bool:
    """Whether the rows of each number already stand in the order of `then`, which is the case for sorted runs that were
    written one after the other. False where `then` has more than one ascending column of integers."""
    values = _as_integers(then[0][0]) if len(then) == 1 and not then[0][1] else None
    if values is None:
        return False
    ordered = numbers[order]
    newer = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    return bool((values[order[newer]] >= values[order[newer - 1]]).all())
