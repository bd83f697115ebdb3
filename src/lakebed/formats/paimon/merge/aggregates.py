"""The aggregate functions of columns, over the rows of each key at once.

Rules: Paimon's FieldAggregator family. Rows of a key come in merge order; a row may be a retraction (-U, -D), which
some functions can take back and others refuse, as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError, UsageError
from lakebed.formats.paimon.merge.order import Indices, Runs

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column's function. `delimiter` and `distinct` are listagg's and collect's; `ignore_retract` leaves -U and
    -D rows out."""

    column: str
    function: str
    ignore_retract: bool = False
    delimiter: str = ","
    distinct: bool = False

    def __post_init__(self) -> None:
        if self.function not in _FUNCTIONS:
            raise UnsupportedError(
                f"lakebed lacks the aggregate function {self.function!r} of column {self.column!r}",
                todo=f"Functions: {', '.join(_FUNCTIONS)}",
            )

    def apply(self, values: pa.Array, retracts: Mask, runs: Runs) -> pa.Array:
        """The result for each run. UsageError when a retraction meets a function that cannot take back."""
        if retracts.any():
            if self.ignore_retract:
                values, retracts = _nulled(values, retracts), np.zeros(len(retracts), np.bool_)
                if self.function in ("last_value", "first_value"):
                    raise UnsupportedError(
                        f"lakebed lacks ignore-retract for {self.function} of column {self.column!r}"
                    )
            elif self.function not in _RETRACTING:
                raise UsageError(
                    f"the aggregate function {self.function} of column {self.column!r} cannot take back a -U or -D row",
                    todo=f"Set fields.{self.column}.ignore-retract=true, or filter such rows",
                )
        return _FUNCTIONS[self.function](values, retracts, runs, self)


def last_valid(values: pa.Array, runs: Runs) -> Indices:
    """The position of each run's last row that is not null, -1 where all are."""
    return _last_where(values.is_valid().to_numpy(zero_copy_only=False), runs)


def take_or_null(values: pa.Array, positions: Indices) -> pa.Array:
    """The values at positions, null where a position is negative."""
    return values.take(pa.array(positions, mask=positions < 0))


def _last_where(mask: Mask, runs: Runs) -> Indices:
    marked = np.where(mask, np.arange(len(mask)), -1)
    found: Indices = np.maximum.reduceat(marked, runs.starts) if len(runs) else marked
    return found


def _first_where(mask: Mask, runs: Runs) -> Indices:
    rows = len(mask)
    marked = np.where(mask, np.arange(rows), rows)
    found = np.minimum.reduceat(marked, runs.starts) if len(runs) else marked
    return np.where(found == rows, -1, found)


def _nulled(values: pa.Array, where: Mask) -> pa.Array:
    return pc.if_else(pa.array(where), pa.scalar(None, values.type), values)


def _last_value(values: pa.Array, retracts: Mask, runs: Runs, _: Aggregate) -> pa.Array:
    return take_or_null(values, np.where(retracts[runs.last], -1, runs.last))


def _last_non_null(values: pa.Array, retracts: Mask, runs: Runs, _: Aggregate) -> pa.Array:
    found = last_valid(values, runs)
    return take_or_null(values, np.where((found >= 0) & retracts[np.maximum(found, 0)], -1, found))


def _first_value(values: pa.Array, retracts: Mask, runs: Runs, _: Aggregate) -> pa.Array:
    return values.take(pa.array(runs.starts))


def _first_non_null(values: pa.Array, retracts: Mask, runs: Runs, _: Aggregate) -> pa.Array:
    return take_or_null(values, _first_where(values.is_valid().to_numpy(zero_copy_only=False), runs))


def _primary_key(values: pa.Array, retracts: Mask, runs: Runs, _: Aggregate) -> pa.Array:
    return values.take(pa.array(runs.last))


def _grouped(name: str) -> Callable[[pa.Array, Mask, Runs, Aggregate], pa.Array]:
    """Arrow's own aggregation; nulls do not count, and a run of nulls gives null."""

    def apply(values: pa.Array, retracts: Mask, runs: Runs, how: Aggregate) -> pa.Array:
        if retracts.any():
            values = pc.if_else(pa.array(retracts), pc.negate(values), values)
        table = pa.table({"run": pa.array(runs.ids()), "value": values})
        options = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
        made = table.group_by("run", use_threads=False).aggregate([("value", name, options)])
        found = made.column(f"value_{name}").combine_chunks()
        return (found.chunk(0) if isinstance(found, pa.ChunkedArray) else found).cast(values.type, safe=False)

    return apply


def _listagg(values: pa.Array, retracts: Mask, runs: Runs, how: Aggregate) -> pa.Array:
    """Texts that are neither null nor empty, joined; null when all are null."""
    used = pc.fill_null(pc.greater(pc.binary_length(values), 0), False).to_numpy(zero_copy_only=False)
    any_text = _last_where(values.is_valid().to_numpy(zero_copy_only=False), runs) >= 0
    kept = np.flatnonzero(used)
    offsets = np.searchsorted(kept, np.append(runs.starts, runs.ends[-1:]))
    texts = values.take(pa.array(kept))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
    if how.distinct:
        lists = _distinct(lists)
    return pc.if_else(pa.array(any_text), pc.binary_join(lists, how.delimiter), pa.scalar(None, values.type))


def _collect(values: pa.Array, retracts: Mask, runs: Runs, how: Aggregate) -> pa.Array:
    """The elements of all arrays, in order; null when all arrays are null."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    offsets = bounds[np.append(runs.starts, runs.ends[-1:])]
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.flatten())
    if how.distinct:
        lists = _distinct(lists)
    some = _last_where(values.is_valid().to_numpy(zero_copy_only=False), runs) >= 0
    return pa.ListArray.from_arrays(lists.offsets, lists.values, values.type, mask=pa.array(~some))


def _distinct(lists: pa.ListArray) -> pa.ListArray:
    """Lists with only the first of equal elements."""
    elements = lists.flatten()
    if not len(elements):
        return lists
    lengths = lists.value_lengths().to_numpy()
    owner = np.repeat(np.arange(len(lists), dtype=np.int64), lengths)
    codes = elements.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    _, first = np.unique(owner * (int(codes.max()) + 1) + codes, return_index=True)
    first.sort()
    offsets = np.searchsorted(owner[first], np.arange(len(lists) + 1))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements.take(pa.array(first)))


def _merge_map(values: pa.Array, retracts: Mask, runs: Runs, how: Aggregate) -> pa.Array:
    """All entries of a run's maps, the last one of a key."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    owner = np.repeat(runs.ids(), lengths)
    keys, items = _entries(values)
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    both = owner * (int(codes.max(initial=0)) + 1) + codes
    _, back = np.unique(both[::-1], return_index=True)
    kept = np.sort(len(both) - 1 - back)
    offsets = np.searchsorted(owner[kept], np.arange(len(runs) + 1))
    some = _last_where(values.is_valid().to_numpy(zero_copy_only=False), runs) >= 0
    at = pa.array(kept)
    made = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys.take(at), items.take(at), values.type)
    return pc.if_else(pa.array(some), made, pa.scalar(None, values.type))


def _entries(values: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """The keys and items of the maps that are not null, in order."""
    kept = values.drop_null()
    start, end = kept.offsets[0].as_py() if len(kept) else 0, kept.offsets[-1].as_py() if len(kept) else 0
    return kept.keys[start:end] if len(kept) else values.keys[:0], kept.items[start:end] if len(kept) else values.items[
        :0
    ]


_FUNCTIONS: dict[str, Callable[[pa.Array, Mask, Runs, Aggregate], pa.Array]] = {
    "sum": _grouped("sum"),
    "product": _grouped("product"),
    "max": _grouped("max"),
    "min": _grouped("min"),
    "bool_and": _grouped("all"),
    "bool_or": _grouped("any"),
    "last_value": _last_value,
    "last_non_null_value": _last_non_null,
    "first_value": _first_value,
    "first_non_null_value": _first_non_null,
    "first_not_null_value": _first_non_null,
    "listagg": _listagg,
    "collect": _collect,
    "merge_map": _merge_map,
    "primary_key": _primary_key,
}
_RETRACTING = {"sum", "last_value", "last_non_null_value", "primary_key"}
"""Functions that take back a row."""
