"""Facts about a column in many files, row groups or partitions, and what they tell about simple conditions.

Each rule answers two questions about each thing: can the condition be true for a row there, and can it be false?
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Bools, filled, from_numpy, to_numpy

Answer: TypeAlias = tuple[Bools, Bools]
"""Where a condition can be true, and where it can be false: one value per thing."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What one source knows of one column. All arrays hold one value per thing.

    `lower` and `upper` are inclusive bounds, null where they are unknown; NaN lies outside of them. `nulls`, `values`
    and `nans` say whether there may be nulls, other values, and NaN among these. `bucket`, where given, hashes an array
    of values to the numbers in `buckets`, which are null where they are unknown. `may_relate`, where given, says where
    a value may stand in a relation (`equal`, `less_equal`, ...) to one of some constants, by an index of the values.
    """

    lower: pa.Array
    upper: pa.Array
    nulls: Bools
    values: Bools
    nans: Bools
    bucket: Callable[[pa.Array], pa.Array] | None = None
    buckets: pa.Array | None = None
    may_relate: Callable[[str, pa.Array], Bools] | None = None

    @classmethod
    def constant(cls, values: pa.Array, unknown: Bools) -> Facts:
        """Facts of a column with one value (or null) in all rows of a thing; nothing is known of the things in
        `unknown`."""
        nans = np.full(len(values), pa.types.is_floating(values.type))
        if nans.any():
            unknown = unknown | to_numpy(filled(pc.is_nan(values), False))
        valid = to_numpy(values.is_valid())
        bounds = pc.if_else(from_numpy(unknown), pa.nulls(1, values.type)[0], values)
        return cls(bounds, bounds, ~valid | unknown, valid | unknown, nans & unknown)


_OPPOSITE = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "greater_equal": "less",
    "greater": "less_equal",
    "less_equal": "greater",
}
"""The negation of each comparison."""

Known: TypeAlias = Callable[[tuple[str, ...]], Sequence[Facts]]
"""The facts of a column by its path, from each source that has some; none when nothing is known of it."""


def compare(function: str, facts: Facts, value: pa.Scalar) -> Answer:
    """A comparison of the column with a constant. With null it is null; with NaN it may be anything."""
    true, false = _compare(function, facts, value)
    if facts.may_relate is None or not value.is_valid:
        return true, false
    values = pa.repeat(value, 1)
    related = facts.may_relate(function, values), facts.may_relate(_OPPOSITE[function], values)
    return true & related[0], false & (related[1] | facts.nans)


def _compare(function: str, facts: Facts, value: pa.Scalar) -> Answer:
    if not value.is_valid:
        return np.zeros_like(facts.values), np.zeros_like(facts.values)
    if pa.types.is_floating(value.type) and math.isnan(value.as_py()):
        return facts.values, facts.values
    low, high = facts.lower, facts.upper
    match function:
        case "less":
            true, false = _may(pc.less, low, value), _may(pc.greater_equal, high, value)
        case "less_equal":
            true, false = _may(pc.less_equal, low, value), _may(pc.greater, high, value)
        case "greater":
            true, false = _may(pc.greater, high, value), _may(pc.less_equal, low, value)
        case "greater_equal":
            true, false = _may(pc.greater_equal, high, value), _may(pc.less, low, value)
        case _:
            true = _within(facts, value)
            false = _may(pc.not_equal, low, value) | _may(pc.not_equal, high, value)
            if function == "not_equal":
                return (false | facts.nans) & facts.values, true & facts.values
    return true & facts.values, (false | facts.nans) & facts.values


def is_null(facts: Facts, nan_is_null: bool) -> Answer:
    """`x IS NULL`."""
    nan = facts.nans if nan_is_null else np.zeros_like(facts.nans)
    return facts.nulls | nan, facts.values


def is_valid(facts: Facts) -> Answer:
    """`x IS NOT NULL`."""
    return facts.values, facts.nulls


def is_nan(facts: Facts) -> Answer:
    """Whether a float is NaN; null for null."""
    return facts.nans & facts.values, facts.values


def is_in(facts: Facts, values: pa.Array, skip_nulls: bool, most: int) -> Answer:
    """Whether the column's value is in a list, as Arrow answers it: never null. A null in the list matches nulls,
    unless they are skipped. Of a list of more than `most` values, only the least and the greatest are looked at."""
    members = values.drop_null()
    can_match_nulls = len(members) != len(values) and not skip_nulls
    true = np.zeros_like(facts.values)
    if pa.types.is_floating(members.type) or len(members) > most:
        if pa.types.is_floating(members.type) and pc.any(pc.is_nan(members)).as_py():
            return facts.values | facts.nulls, facts.values | facts.nulls
        ends = pc.min_max(members)
        if len(members):
            true = _may(pc.less_equal, facts.lower, ends["max"]) & _may(pc.greater_equal, facts.upper, ends["min"])
    else:
        for value in members:
            true |= _within(facts, value)
    if facts.may_relate is not None and len(members) <= most:
        true = true & facts.may_relate("equal", members)
    nulls = facts.nulls if can_match_nulls else np.zeros_like(true)
    return (true & facts.values) | nulls, facts.values | facts.nulls


def starts_with(facts: Facts, prefix: str) -> Answer:
    """A text that begins with a prefix is not less than it, and greater only as a text that begins with it too."""
    value = pa.scalar(prefix)
    begins: Bools = to_numpy(filled(pc.starts_with(facts.lower, prefix), True))
    true = _may(pc.greater_equal, facts.upper, value) & (_may(pc.less_equal, facts.lower, value) | begins)
    return true & facts.values, facts.values


def like(facts: Facts, pattern: str) -> Answer:
    """`x LIKE pattern`, by the text before the first wildcard or escape."""
    prefix = pattern
    for wild in "%_\\":
        prefix = prefix.partition(wild)[0]
    return compare("equal", facts, pa.scalar(pattern)) if prefix == pattern else starts_with(facts, prefix)


def _may(comparison: Callable[..., pa.Array], bound: pa.Array, value: pa.Scalar) -> Bools:
    """A mask of files whose bound compares with the value as asked, or is unknown."""
    may: Bools = to_numpy(filled(comparison(bound, value), True))
    return may


def _within(facts: Facts, value: pa.Scalar) -> Bools:
    """A mask of files whose bounds and hash bucket admit the value."""
    inside = _may(pc.less_equal, facts.lower, value) & _may(pc.greater_equal, facts.upper, value)
    if facts.bucket is None or facts.buckets is None:
        return inside
    exact = value.cast(facts.lower.type)
    return inside & _may(pc.equal, facts.buckets, facts.bucket(pa.array([exact.as_py()], exact.type))[0])
