"""Which row of a key wins, for rows within one write and for the sorted runs of a read.

Rules: Paimon's MergeFunction family and UserDefinedSeqComparator. Rows come sorted by key, then by the sequence
fields (null first), then by sequence number; all rows of one key lie together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Indices = npt.NDArray[np.int64]


def sort_order(keys: Sequence[pa.Array], then: Sequence[tuple[pa.Array, bool]] = ()) -> Indices:
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
    found: Indices = order.to_numpy().astype(np.int64)
    return found


def last_of_runs(keys: Sequence[pa.Array]) -> Indices | None:
    """For sorted rows the positions of the last row of each key; None when every row has a key of its own."""
    rows = len(keys[0])
    if rows < 2:
        return None
    differs = np.zeros(rows - 1, np.bool_)
    for key in keys:
        numbers = _as_integers(key)
        if numbers is not None:
            differs |= numbers[1:] != numbers[:-1]
        else:
            differs |= pc.not_equal(key.slice(1), key.slice(0, rows - 1)).to_numpy(zero_copy_only=False)
    if differs.all():
        return None
    return np.append(np.flatnonzero(differs), rows - 1)


def _as_integers(column: pa.Array) -> npt.NDArray[np.int64] | npt.NDArray[np.int32] | None:
    """The numbers by which a column without nulls is ordered, None when its order is not that of integers."""
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        return None
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    numbers: npt.NDArray[np.int64] = column.to_numpy()
    return numbers


def _integer_order(numbers: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> Indices:
    """A stable order by numpy's fast unstable sort: equal numbers are put in their order of arrival afterwards."""
    rows = len(numbers)
    if rows < 2 or (numbers[1:] >= numbers[:-1]).all():
        return np.arange(rows, dtype=np.int64)
    order: Indices = np.argsort(numbers)
    ordered = numbers[order]
    fresh = ordered[1:] != ordered[:-1]
    if fresh.all():
        return order
    run = np.concatenate([np.zeros(1, np.int64), np.cumsum(fresh, dtype=np.int64)])
    stable: Indices = np.sort(run * rows + order) - run * rows
    return stable
