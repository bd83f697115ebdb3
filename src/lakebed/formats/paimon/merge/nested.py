"""The aggregate functions of arrays and maps: collect, merge_map and nested_update, whole columns at once.

Rules: Paimon's FieldCollectAgg, FieldMergeMapAgg and FieldNestedUpdateAgg (release 1.3.1). The elements of all arrays
of a key are events in merge order: of a +I or +U row they come, of a -U or -D row they go. What stands at the end is
worked out from each element's first and last event. Where the reference keeps elements in a hash map, their order means
nothing; here it is the order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.merge.ordering import Runs
from lakebed.kernel.arrays import Bools, Int64s


@dataclass(frozen=True, slots=True)
class Events:
    """The elements of arrays: `owner` is the run of each, `adds` whether it comes or goes, `group` a number that equal
    elements of one run share."""

    owner: Int64s
    adds: Bools
    group: Int64s

    @property
    def last_retraction(self) -> Int64s:
        """For each element, the place of the last one of its group that goes, -1 for none."""
        found = np.full(int(self.group.max(initial=-1)) + 1, -1, np.int64)
        gone = np.flatnonzero(~self.adds)
        found[self.group[gone]] = gone  # the last of several writes to one place stands
        return found[self.group]

    @property
    def is_last(self) -> Bools:
        """Whether an element is the last one of its group."""
        places = np.arange(len(self.group))
        found = np.zeros(int(self.group.max(initial=-1)) + 1, np.int64)
        found[self.group] = places
        last: Bools = found[self.group] == places
        return last


def collect(values: pa.ListArray, retracts: Bools, runs: Runs, distinct: bool) -> pa.Array:
    """The elements of all arrays; with `distinct` each once. A retracted element takes the oldest equal one away."""
    elements, owner, adds = _flat(values, retracts, runs)
    if not distinct and adds.all():
        return _lists(values, elements, owner, np.arange(len(owner)), retracts, runs)
    events = Events(owner, adds, _groups(owner, codes(elements)))
    kept = _each_once(events) if distinct else _oldest_gone(events)
    return _lists(values, elements, owner, kept, retracts, runs)


def nested_update(
    values: pa.ListArray, retracts: Bools, runs: Runs, keys: Sequence[str], limit: int | None, column: str
) -> pa.Array:
    """The rows of all arrays; with `keys` the last one of a key. A key's only array stays as it is."""
    elements, owner, adds = _flat(values, retracts, runs)
    if limit is not None and (keys or not adds.all()):
        raise UnsupportedError(
            f"lakebed lacks count-limit of column {column!r} together with nested-key or with -U and -D rows"
        )
    given = elements.is_valid().to_numpy(zero_copy_only=False)
    if keys:
        parts = [elements.field(elements.type.get_field_index(name)) for name in keys]
        events = Events(owner, adds, _groups(owner, *map(codes, parts)))
        keep = events.is_last & adds
    elif adds.all():
        keep = np.ones(len(owner), np.bool_)
    else:
        events = Events(owner, adds, _groups(owner, codes(elements)))
        keep = adds & (events.last_retraction < np.arange(len(owner)))
    keep &= given
    alone = _only_array(values, retracts, runs)
    if limit is not None:  # an array that reaches the limit at once is never added to
        sizes = np.append(pc.fill_null(pc.list_value_length(values), 0).to_numpy(), 0)
        first = sizes[_first_add(values, retracts, runs)]
        whole = _rank(adds, owner) < first[owner]
        keep = np.where((first >= limit)[owner], whole, keep & (_rank(keep, owner) < limit))
    return _lists(values, elements, owner, np.flatnonzero(np.where(alone[owner], adds, keep)), retracts, runs)


def merge_map(values: pa.MapArray, retracts: Bools, runs: Runs) -> pa.Array:
    """The entries of all maps, the last one of a key; the keys of a retracted map go."""
    kind = pa.struct([pa.field("key", values.type.key_type, False), values.type.item_field])
    elements, owner, adds = _flat(values.cast(pa.list_(kind)), retracts, runs)
    events = Events(owner, adds, _groups(owner, codes(elements.field(0))))
    return _lists(values, elements, owner, np.flatnonzero(events.is_last & adds), retracts, runs)


def codes(values: pa.Array) -> Int64s:
    """A number for each value, equal for equal values; null is a value. UnsupportedError for maps."""
    kind = values.type
    if pa.types.is_struct(kind):
        fields = [codes(values.field(place)) for place in range(kind.num_fields)]
        return _dense(values.is_valid().to_numpy(zero_copy_only=False).astype(np.int64), *fields)
    if pa.types.is_map(kind):
        raise UnsupportedError("lakebed does not compare maps inside the arrays that an aggregate function folds")
    if pa.types.is_list(kind):
        return _list_codes(values)
    if not len(values):
        return np.zeros(0, np.int64)
    found: Int64s = values.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    return found


def _list_codes(values: pa.ListArray) -> Int64s:
    lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy().astype(np.int64)
    inner = codes(values.flatten())
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    found = _dense(lengths)
    for place in range(int(lengths.max(initial=0))):
        has = lengths > place
        element = np.zeros(len(lengths), np.int64)
        element[has] = inner[starts[has] + place] + 1
        found = _dense(found, element)
    return found


def _dense(*parts: Int64s) -> Int64s:
    """One number for each combination of numbers."""
    found = parts[0]
    for part in parts[1:]:
        if len(part):
            found = np.unique(found * (int(part.max()) + 1) + part, return_inverse=True)[1].astype(np.int64)
    return np.unique(found, return_inverse=True)[1].astype(np.int64) if len(found) else found


def _groups(owner: Int64s, *parts: Int64s) -> Int64s:
    return _dense(owner, *parts)


def _flat(values: pa.ListArray, retracts: Bools, runs: Runs) -> tuple[pa.Array, Int64s, Bools]:
    """The elements of the arrays that are not null, the run of each, and whether it comes. What goes before anything
    has come is left out."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy().astype(np.int64)
    elements = values.flatten()
    early = retracts & (np.arange(len(values)) < np.repeat(_first_add(values, retracts, runs), runs.ends - runs.starts))
    owner, adds = np.repeat(runs.ids(), lengths), np.repeat(~retracts, lengths)
    if not early.any():
        return elements, owner, adds
    keep = np.flatnonzero(~np.repeat(early, lengths))
    return elements.take(pa.array(keep)), owner[keep], adds[keep]


def _first_add(values: pa.Array, retracts: Bools, runs: Runs) -> Int64s:
    """The place of each run's first array that comes, the number of rows where none does."""
    rows = len(values)
    coming = values.is_valid().to_numpy(zero_copy_only=False) & ~retracts
    marked = np.where(coming, np.arange(rows), rows)
    return np.minimum.reduceat(marked, runs.starts) if len(runs) else marked


def _only_array(values: pa.Array, retracts: Bools, runs: Runs) -> Bools:
    """The runs in which one array comes and none after it."""
    if not len(runs):
        return np.zeros(0, np.bool_)
    counted = values.is_valid().to_numpy(zero_copy_only=False)
    first = np.repeat(_first_add(values, retracts, runs), runs.ends - runs.starts)
    counted &= np.arange(len(values)) >= first
    only: Bools = np.add.reduceat(counted.astype(np.int64), runs.starts) == 1
    return only


def _each_once(events: Events) -> Int64s:
    """The first element of a group since the last that goes, in order of arrival."""
    waiting = np.flatnonzero(events.adds & (events.last_retraction < np.arange(len(events.adds))))
    _, first = np.unique(events.group[waiting], return_index=True)
    return np.sort(waiting[first])


def _oldest_gone(events: Events) -> Int64s:
    """What is left when each element that goes takes the oldest equal one away, if there is one."""
    order = np.argsort(events.group, kind="stable")
    group, adds = events.group[order], events.adds[order]
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    sums = np.cumsum(np.where(adds, 1, -1))
    counts = np.diff(np.append(starts, len(group)))
    sums -= np.repeat(np.where(starts > 0, sums[starts - 1], 0), counts)
    came = np.add.reduceat(adds.astype(np.int64), starts)
    left = sums[starts + counts - 1] - np.minimum(0, np.minimum.reduceat(sums, starts))
    ranks: Int64s = np.cumsum(adds) - adds
    ranks -= np.repeat(ranks[starts], counts)
    return np.sort(order[adds & (ranks >= np.repeat(came - left, counts))])


def _rank(keep: Bools, owner: Int64s) -> Int64s:
    """The number of kept elements of the same run before each; `owner` ascends."""
    before: Int64s = np.cumsum(keep) - keep
    return before - before[np.searchsorted(owner, owner)]


def _lists(values: pa.Array, elements: pa.Array, owner: Int64s, kept: Int64s, retracts: Bools, runs: Runs) -> pa.Array:
    """One array a run of the kept elements; null where none ever came."""
    offsets = pa.array(np.searchsorted(owner[kept], np.arange(len(runs) + 1)), pa.int32())
    none = pa.array(_first_add(values, retracts, runs) == len(values))
    chosen = elements.take(pa.array(kept))
    if pa.types.is_map(values.type):
        return pa.MapArray.from_arrays(offsets, chosen.field(0), chosen.field(1), values.type, mask=none)
    return pa.ListArray.from_arrays(offsets, chosen, values.type, mask=none)
