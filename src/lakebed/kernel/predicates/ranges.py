"""Which of many things (files, row groups, manifests) can hold a row that a predicate keeps, by what is known of their
columns: bounds, nulls, hash buckets. Whole columns at a time, one place a thing.

Each node of a predicate is asked two questions of each thing: can it be true for a row there, can it be false. A node
that is not understood can be both. So a thing is ruled out only when no row of it can be kept: a bound may be wider
than the values are (a truncated text), and what is unknown rules out nothing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Bools
from lakebed.kernel.predicates.arrow import Call, Field, Literal, Node

Answer = tuple[Bools, Bools]
"""Where it can be true, where it can be false."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What one source knows of one column, one place a thing.

    `lower` and `upper` hold null where a bound is unknown; NaN lies outside of them. `nulls`, `values` and `nans` say
    whether there may be nulls, other values, NaN among these. `bucket`, where given, hashes an array of values to the
    numbers in `buckets`, null for unknown.
    """

    lower: pa.Array
    upper: pa.Array
    nulls: Bools
    values: Bools
    nans: Bools
    bucket: Callable[[pa.Array], pa.Array] | None = None
    buckets: pa.Array | None = None


Known = Callable[[tuple[str, ...]], Sequence[Facts]]
"""The facts of a column by its path; none for one of which nothing is known."""
_MOST_VALUES = 1000


def can_hold(node: Node | None, known: Known, count: int) -> Bools:
    """Which of `count` things can hold a row for which the predicate is true."""
    if node is None:
        return np.ones(count, np.bool_)
    return _Evaluation(known, count).answer(node)[0]


@dataclass(frozen=True, slots=True)
class _Evaluation:
    known: Known
    count: int

    def answer(self, node: Node) -> Answer:
        """The two answers for a node that is true, false or null."""
        if isinstance(node, Literal):
            value = node.value.as_py() if pa.types.is_boolean(node.value.type) else None
            if pa.types.is_boolean(node.value.type) or not node.value.is_valid:
                return self._all(value is True), self._all(value is False)
        if not isinstance(node, Call):
            return self._unknown()
        arguments = node.arguments
        match node.function:
            case "and_kleene" | "and":
                true, false = zip(*map(self.answer, arguments), strict=True)
                return reduce(operator.and_, true), reduce(operator.or_, false)
            case "or_kleene" | "or":
                true, false = zip(*map(self.answer, arguments), strict=True)
                return reduce(operator.or_, true), reduce(operator.and_, false)
            case "invert":
                return self.answer(arguments[0])[::-1]
            case "if_else":
                condition, then, other = map(self.answer, arguments)
                return (
                    (condition[0] & then[0]) | (condition[1] & other[0]),
                    (condition[0] & then[1]) | (condition[1] & other[1]),
                )
            case "coalesce":
                true, false = zip(*map(self.answer, arguments), strict=True)
                return reduce(operator.or_, true), reduce(operator.or_, false)
        return self._of_column(node)

    def _of_column(self, node: Call) -> Answer:
        first, *others = node.arguments
        function, other = node.function, others[0] if others else None
        if isinstance(first, Literal) and isinstance(other, Field) and function in _FLIPPED:
            first, other, function = other, first, _FLIPPED[function]
        if isinstance(first, Literal) and function in ("is_null", "is_valid"):
            answer = first.value.is_valid == (function == "is_valid")
            return self._all(answer), self._all(not answer)
        if not isinstance(first, Field):
            return self._unknown()
        one: Callable[[Facts], Answer] | None = None
        if isinstance(other, Literal) and function in _FLIPPED:
            value = other.value
            one = lambda facts: _compare(function, facts, value)  # noqa: E731
        elif function in _BY_OPTIONS:
            one = lambda facts: _BY_OPTIONS[function](facts, node)  # noqa: E731
        if one is None:
            return self._unknown()
        try:
            answers = [one(facts) for facts in self.known(first.path)]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError, OverflowError):
            return self._unknown()
        return reduce(lambda a, b: (a[0] & b[0], a[1] & b[1]), answers, self._unknown())

    def _unknown(self) -> Answer:
        return self._all(True), self._all(True)

    def _all(self, answer: bool) -> Bools:
        return np.full(self.count, answer)


_FLIPPED = {
    "equal": "equal", "not_equal": "not_equal", "less": "greater", "greater": "less", "less_equal": "greater_equal",
    "greater_equal": "less_equal",
}  # fmt: skip


def _compare(function: str, facts: Facts, value: pa.Scalar) -> Answer:
    """A comparison with a constant; one with null is null, one with NaN is left alone."""
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
            true = _may(pc.less_equal, low, value) & _may(pc.greater_equal, high, value) & _in_bucket(facts, value)
            false = _may(pc.not_equal, low, value) | _may(pc.not_equal, high, value)
            if function == "not_equal":
                return (false | facts.nans) & facts.values, true & facts.values
    return true & facts.values, (false | facts.nans) & facts.values


def _may(compare: Callable[..., pa.Array], bound: pa.Array, value: pa.Scalar) -> Bools:
    """Where a bound stands so to the value, or is unknown."""
    found: Bools = pc.fill_null(compare(bound, value), True).to_numpy(zero_copy_only=False)
    return found


def _in_bucket(facts: Facts, value: pa.Scalar) -> Bools:
    if facts.bucket is None or facts.buckets is None:
        return np.ones_like(facts.values)
    exact = value.cast(facts.lower.type)
    return _may(pc.equal, facts.buckets, facts.bucket(pa.array([exact.as_py()], exact.type))[0])


def _is_null(facts: Facts, node: Call) -> Answer:
    option = node.options.get("nan_is_null")
    nan = facts.nans if option is not None and option.as_py() else np.zeros_like(facts.nans)
    return facts.nulls | nan, facts.values


def _is_in(facts: Facts, node: Call) -> Answer:
    """IN is never null here: a null in the list matches nulls, else they are misses."""
    values: pa.Array = node.options["value_set"].values
    exact = values.drop_null()
    has_null = exact.null_count != values.null_count
    true = np.zeros_like(facts.values)
    if pa.types.is_floating(exact.type) or len(exact) > _MOST_VALUES:
        if pa.types.is_floating(exact.type) and pc.any(pc.is_nan(exact)).as_py():
            return facts.values | facts.nulls, facts.values | facts.nulls
        ends = pc.min_max(exact)
        if len(exact):
            true = _may(pc.less_equal, facts.lower, ends["max"]) & _may(pc.greater_equal, facts.upper, ends["min"])
    else:
        for value in exact:
            true |= _may(pc.less_equal, facts.lower, value) & _may(pc.greater_equal, facts.upper, value) & _in_bucket(
                facts, value
            )  # fmt: skip
    return (true & facts.values) | (facts.nulls if has_null else np.zeros_like(true)), facts.values | facts.nulls


def _starts_with(facts: Facts, node: Call) -> Answer:
    if node.options["ignore_case"].as_py():
        return facts.values, facts.values
    return _prefixed(facts, str(node.options["pattern"]))


def _like(facts: Facts, node: Call) -> Answer:
    pattern = str(node.options["pattern"])
    prefix = pattern
    for wild in "%_\\":
        prefix = prefix.partition(wild)[0]
    if node.options["ignore_case"].as_py():
        return facts.values, facts.values
    if prefix == pattern:
        return _compare("equal", facts, pa.scalar(pattern))
    return _prefixed(facts, prefix)


def _prefixed(facts: Facts, prefix: str) -> Answer:
    """A text that begins with a prefix is not below it, and above it only as one that begins so too."""
    value = pa.scalar(prefix)
    begins: Bools = pc.fill_null(pc.starts_with(facts.lower, prefix), True).to_numpy(zero_copy_only=False)
    true = _may(pc.greater_equal, facts.upper, value) & (_may(pc.less_equal, facts.lower, value) | begins)
    return true & facts.values, facts.values


_BY_OPTIONS: dict[str, Callable[[Facts, Call], Answer]] = {
    "is_null": _is_null,
    "is_valid": lambda facts, node: (facts.values, facts.nulls),
    "is_nan": lambda facts, node: (facts.nans & facts.values, facts.values),
    "is_in": _is_in,
    "starts_with": _starts_with,
    "match_like": _like,
}
