"""Pairs the rows of two tables that are equal: the rows that copy-on-write carried over. Each row has one partner.

Rows of any type are found by a hash of all their values and then compared value by value, so that equal hashes never
hide a change. Null equals null and NaN equals NaN; 0.0 and -0.0 are two values.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Bools, Int64s, UInt64s, filled, from_numpy, one_chunk, to_numpy
from lakebed.kernel.keys.murmur import hash_bytes

_NULL = np.uint64(0x9E3779B97F4A7C15)
_SEEDS = (0x1B873593, 0x52DCE729)


def carried_over(before: pa.Table, after: pa.Table) -> tuple[Bools, Bools]:
    """Which rows of each table have an equal partner in the other. Both tables have the same schema."""
    left, right = (table.combine_chunks() for table in (before, after))
    rows, partners = _pairs(row_hashes(left), row_hashes(right))
    same = rows_equal(left.take(from_numpy(rows)), right.take(from_numpy(partners)))
    masks = np.zeros(len(left), np.bool_), np.zeros(len(right), np.bool_)
    masks[0][rows[same]] = True
    masks[1][partners[same]] = True
    return masks


def row_hashes(rows: pa.Table | pa.RecordBatch) -> UInt64s:
    """A hash of each row, equal for equal rows."""
    hashes = np.zeros(len(rows), np.uint64)
    for place, column in enumerate(rows.columns):
        hashes = _mixed(hashes ^ _mixed(_numbers(one_chunk(column)) + np.uint64(place)))
    return hashes


def _pairs(left: UInt64s, right: UInt64s) -> tuple[Int64s, Int64s]:
    """The places of equal hashes, each place in one pair at most."""
    order_left, order_right = np.argsort(left, kind="stable"), np.argsort(right, kind="stable")
    values_left, first_left, count_left = np.unique(left[order_left], return_index=True, return_counts=True)
    values_right, first_right, count_right = np.unique(right[order_right], return_index=True, return_counts=True)
    _, at_left, at_right = np.intersect1d(values_left, values_right, assume_unique=True, return_indices=True)
    both = np.minimum(count_left[at_left], count_right[at_right])
    within = np.arange(both.sum()) - np.repeat(np.cumsum(both) - both, both)
    return (
        order_left[np.repeat(first_left[at_left], both) + within],
        order_right[np.repeat(first_right[at_right], both) + within],
    )


def rows_equal(left: pa.Table, right: pa.Table) -> Bools:
    """Which rows of two tables of the same length have the same values."""
    same = np.ones(len(left), np.bool_)
    for column, other in zip(left.columns, right.columns, strict=True):
        same &= _equal(one_chunk(column), one_chunk(other))
    return same


def _equal(left: pa.Array, right: pa.Array) -> Bools:
    left, right = _plain(left), _plain(right)
    nulls, other_nulls = (to_numpy(array.is_null()) for array in (left, right))
    if pa.types.is_null(left.type):
        return np.ones(len(left), np.bool_)
    if pa.types.is_struct(left.type):
        same = np.ones(len(left), np.bool_)
        for number in range(left.type.num_fields):
            same &= _equal(left.field(number), right.field(number))
    elif _is_list(left.type):
        same = _lists_equal(left, right)
    elif pa.types.is_floating(left.type):
        same = np.equal(_bits(left), _bits(right))
    else:
        same = to_numpy(filled(pc.equal(left, right), False))
    equal: Bools = np.where(nulls | other_nulls, nulls & other_nulls, same)
    return equal


def _lists_equal(left: pa.Array, right: pa.Array) -> Bools:
    lengths, other_lengths = (_lengths(array) for array in (left, right))
    same: Bools = np.equal(lengths, other_lengths)
    rows = from_numpy(np.flatnonzero(same & (lengths > 0)))
    if not len(rows):
        return same
    values, other_values = _items(left.take(rows)), _items(right.take(rows))
    starts = np.cumsum(lengths[rows]) - lengths[rows]
    same[rows] = np.logical_and.reduceat(_equal(values, other_values), starts)
    return same


def _numbers(array: pa.Array) -> UInt64s:
    array = _plain(array)
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), _NULL)
    if pa.types.is_struct(kind):
        hashes = np.zeros(len(array), np.uint64)
        for number in range(kind.num_fields):
            hashes = _mixed(hashes ^ _mixed(_numbers(array.field(number)) + np.uint64(number)))
    elif _is_list(kind):
        hashes = _list_numbers(array)
    elif _is_text(kind):
        high, low = (hash_bytes(array.cast(pa.binary()), seed).view(np.uint32).astype(np.uint64) for seed in _SEEDS)
        hashes = (high << np.uint64(32)) | low
    else:
        hashes = _bits(array)
    nulls = to_numpy(array.is_null())
    return np.where(nulls, _NULL, hashes)


def _list_numbers(array: pa.Array) -> UInt64s:
    lengths = _lengths(array)
    hashes = lengths.astype(np.uint64)
    rows = np.flatnonzero(lengths > 0)
    if len(rows):
        counts = lengths[rows]
        starts = np.cumsum(counts) - counts
        place = np.arange(counts.sum()) - np.repeat(starts, counts)
        items = _mixed(_numbers(_items(array.take(from_numpy(rows)))) + place.astype(np.uint64))
        hashes[rows] += np.add.reduceat(items, starts)
    return hashes


def _bits(array: pa.Array) -> UInt64s:
    """The bits of fixed-width values as numbers. All NaN have the same bits."""
    kind = array.type
    if pa.types.is_floating(kind):
        values = to_numpy(filled(array, 0.0)).astype(np.float64)
        return np.where(np.isnan(values), np.nan, values).view(np.uint64)
    if pa.types.is_decimal(kind):
        words = np.frombuffer(array.buffers()[1], np.uint64).reshape(-1, kind.byte_width // 8)
        words = words[array.offset : array.offset + len(array)]
        return _mixed(words[:, 0]) ^ words[:, 1]
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif not pa.types.is_integer(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    numbers: UInt64s = to_numpy(filled(array, 0)).astype(np.int64).view(np.uint64)
    return numbers


def _mixed(numbers: UInt64s) -> UInt64s:
    """Hashes with well-mixed bits: the finaliser of splitmix64."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _plain(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _lengths(array: pa.Array) -> Int64s:
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(offsets).astype(np.int64) if len(array) else np.empty(0, np.int64)
    lengths[to_numpy(array.is_null())] = 0
    return lengths


def _items(array: pa.Array) -> pa.Array:
    """The items of lists without nulls. The items of maps are pairs."""
    if pa.types.is_map(array.type):
        begin = array.offsets[0].as_py() if len(array) else 0
        end = array.offsets[len(array)].as_py() if len(array) else 0
        pairs = [array.keys.slice(begin, end - begin), array.items.slice(begin, end - begin)]
        return pa.StructArray.from_arrays(pairs, names=["key", "value"])
    return array.flatten()


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_map(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))
