"""The aggregate functions of arrays and maps, on whole columns: collect, merge_map and nested_update.

Rules: Paimon's FieldCollectAgg, FieldMergeMapAgg and FieldNestedUpdateAgg (release 1.3.1). The elements of all arrays
of a key are events in merge order: a +I or +U row adds its elements, a -U or -D row removes them. The result follows
from the first and last event of each element. Where the reference keeps elements in a hash map, their order has no
meaning; here they are in order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.merge.ordering import Runs
from lakebed.kernel.arrays import Bools, Int64s, from_numpy, to_numpy


@dataclass(frozen=True, slots=True)
class Events:
    """The elements of arrays, in merge order.

    `owner` is the run of each element, `adds` whether its row adds or removes it, and `group` a number that equal
    elements of one run share.
    """

    owner: Int64s
    adds: Bools
    group: Int64s

    @property
    def last_retraction(self) -> Int64s:
        """For each element, the position of the last removal in its group, -1 for none."""
        last = np.full(int(self.group.max(initial=-1)) + 1, -1, np.int64)
        removals = np.flatnonzero(~self.adds)
        last[self.group[removals]] = removals  # of several writes to one position the last stays
        return last[self.group]

    @property
    def is_last(self) -> Bools:
        """Whether each element is the last of its group."""
        places = np.arange(len(self.group))
        last = np.zeros(int(self.group.max(initial=-1)) + 1, np.int64)
        last[self.group] = places
        is_last: Bools = last[self.group] == places
        return is_last


def collect(values: pa.ListArray, retracts: Bools, runs: Runs, distinct: bool) -> pa.Array:
    """Collect the elements of all arrays, with `distinct` each once. A retraction removes the oldest equal element."""
    elements, owner, adds = _flat(values, retracts, runs)
    if not distinct and adds.all():
        return _lists(values, elements, owner, np.arange(len(owner)), retracts, runs)
    events = Events(owner, adds, _dense(owner, codes(elements)))
    kept = _distinct(events) if distinct else _oldest_removed(events)
    return _lists(values, elements, owner, kept, retracts, runs)


def nested_update(
    values: pa.ListArray, retracts: Bools, runs: Runs, keys: Sequence[str], limit: int | None, column: str
) -> pa.Array:
    """Collect the rows of all arrays, with `keys` the last row per key. The only array of a run stays as it is.

    `limit` is the most elements of an array that rows are still added to. Raises UnsupportedError for a `limit`
    together with `keys` or retractions.
    """
    elements, owner, adds = _flat(values, retracts, runs)
    if limit is not None and (keys or not adds.all()):
        raise UnsupportedError(
            f"lakebed does not support count-limit of column {column!r} together with nested-key or with -U and -D rows"
        )
    given = to_numpy(elements.is_valid())
    if keys:
        parts = [elements.field(elements.type.get_field_index(name)) for name in keys]
        events = Events(owner, adds, _dense(owner, *map(codes, parts)))
        keep = events.is_last & adds
    elif adds.all():
        keep = np.ones(len(owner), np.bool_)
    else:
        events = Events(owner, adds, _dense(owner, codes(elements)))
        keep = adds & (events.last_retraction < np.arange(len(owner)))
    keep &= given
    alone = _only_array(values, retracts, runs)
    if limit is not None:  # nothing is added to a first array that reaches the limit
        sizes = np.append(to_numpy(pc.fill_null(pc.list_value_length(values), 0)), 0)
        first = sizes[_first_add(values, retracts, runs)]
        whole = _kept_before(adds, owner) < first[owner]
        keep = np.where((first >= limit)[owner], whole, keep & (_kept_before(keep, owner) < limit))
    return _lists(values, elements, owner, np.flatnonzero(np.where(alone[owner], adds, keep)), retracts, runs)


def merge_map(values: pa.MapArray, retracts: Bools, runs: Runs) -> pa.Array:
    """Merge all maps: the last entry of each key stays. A retracted map removes its keys."""
    kind = pa.struct([pa.field("key", values.type.key_type, False), values.type.item_field])
    elements, owner, adds = _flat(values.cast(pa.list_(kind)), retracts, runs)
    events = Events(owner, adds, _dense(owner, codes(elements.field(0))))
    return _lists(values, elements, owner, np.flatnonzero(events.is_last & adds), retracts, runs)


def codes(values: pa.Array) -> Int64s:
    """A number per value, the same for equal values. Null counts as a value. Raises UnsupportedError for maps."""
    kind = values.type
    if pa.types.is_struct(kind):
        fields = [codes(values.field(place)) for place in range(kind.num_fields)]
        return _dense(to_numpy(values.is_valid()).astype(np.int64), *fields)
    if pa.types.is_map(kind):
        raise UnsupportedError("lakebed cannot compare maps inside the arrays that an aggregate function folds")
    if pa.types.is_list(kind):
        return _list_codes(values)
    if not len(values):
        return np.zeros(0, np.int64)
    indices: Int64s = to_numpy(values.dictionary_encode(null_encoding="encode").indices).astype(np.int64)
    return indices


def _list_codes(values: pa.ListArray) -> Int64s:
    lengths = to_numpy(pc.fill_null(pc.list_value_length(values), -1)).astype(np.int64)
    inner = codes(values.flatten())
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    numbers = _dense(lengths)
    for place in range(int(lengths.max(initial=0))):
        has = lengths > place
        element = np.zeros(len(lengths), np.int64)
        element[has] = inner[starts[has] + place] + 1
        numbers = _dense(numbers, element)
    return numbers


def _dense(*parts: Int64s) -> Int64s:
    """A number per combination of numbers, counted from 0 without gaps."""
    numbers = parts[0]
    for part in parts[1:]:
        if len(part):
            numbers = np.unique(numbers * (int(part.max()) + 1) + part, return_inverse=True)[1].astype(np.int64)
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64) if len(numbers) else numbers


def _flat(values: pa.ListArray, retracts: Bools, runs: Runs) -> tuple[pa.Array, Int64s, Bools]:
    """The elements of arrays, the run of each, and whether it is added. Null arrays have none.

    Removals before the first addition of a run are left out.
    """
    lengths = to_numpy(pc.fill_null(pc.list_value_length(values), 0)).astype(np.int64)
    elements = values.flatten()
    early = retracts & (np.arange(len(values)) < np.repeat(_first_add(values, retracts, runs), runs.ends - runs.starts))
    owner, adds = np.repeat(runs.ids(), lengths), np.repeat(~retracts, lengths)
    if not early.any():
        return elements, owner, adds
    keep = np.flatnonzero(~np.repeat(early, lengths))
    return elements.take(from_numpy(keep)), owner[keep], adds[keep]


def _first_add(values: pa.Array, retracts: Bools, runs: Runs) -> Int64s:
    """The position of the first array that each run adds, the number of rows where it adds none."""
    rows = len(values)
    added = to_numpy(values.is_valid()) & ~retracts
    marked = np.where(added, np.arange(rows), rows)
    return np.minimum.reduceat(marked, runs.starts) if len(runs) else marked


def _only_array(values: pa.Array, retracts: Bools, runs: Runs) -> Bools:
    """Whether each run has one array only, counted from the first that it adds."""
    if not len(runs):
        return np.zeros(0, np.bool_)
    counted = to_numpy(values.is_valid())
    first = np.repeat(_first_add(values, retracts, runs), runs.ends - runs.starts)
    counted &= np.arange(len(values)) >= first
    only: Bools = np.add.reduceat(counted.astype(np.int64), runs.starts) == 1
    return only


def _distinct(events: Events) -> Int64s:
    """The first element of each group after its last removal, in order of arrival."""
    remaining = np.flatnonzero(events.adds & (events.last_retraction < np.arange(len(events.adds))))
    _, first = np.unique(events.group[remaining], return_index=True)
    return np.sort(remaining[first])


def _oldest_removed(events: Events) -> Int64s:
    """The elements that stay when each removal takes the oldest equal element, if there is one."""
    order = np.argsort(events.group, kind="stable")
    group, adds = events.group[order], events.adds[order]
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    sums = np.cumsum(np.where(adds, 1, -1))
    counts = np.diff(np.append(starts, len(group)))
    sums -= np.repeat(np.where(starts > 0, sums[starts - 1], 0), counts)
    additions = np.add.reduceat(adds.astype(np.int64), starts)
    left = sums[starts + counts - 1] - np.minimum(0, np.minimum.reduceat(sums, starts))
    added_before: Int64s = np.cumsum(adds) - adds
    added_before -= np.repeat(added_before[starts], counts)
    return np.sort(order[adds & (added_before >= np.repeat(additions - left, counts))])


def _kept_before(keep: Bools, owner: Int64s) -> Int64s:
    """For each element, how many kept elements of its run come before it. `owner` is ascending."""
    before: Int64s = np.cumsum(keep) - keep
    return before - before[np.searchsorted(owner, owner)]


def _lists(values: pa.Array, elements: pa.Array, owner: Int64s, kept: Int64s, retracts: Bools, runs: Runs) -> pa.Array:
    """One array of the kept elements per run, null where the run never added an array."""
    offsets = pa.array(np.searchsorted(owner[kept], np.arange(len(runs) + 1)), pa.int32())
    none = pa.array(_first_add(values, retracts, runs) == len(values))
    chosen = elements.take(from_numpy(kept))
    if pa.types.is_map(values.type):
        return pa.MapArray.from_arrays(offsets, chosen.field(0), chosen.field(1), values.type, mask=none)
    return pa.ListArray.from_arrays(offsets, chosen, values.type, mask=none)
