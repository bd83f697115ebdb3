"""Which of many things (files, row groups, manifests, partitions) can hold a row that a predicate keeps.

`Facts` say what is known of a column in each thing: bounds, nulls, hash buckets. They are whole columns with one value
per thing, so one pass over the tree answers for all things at once.

Each node of a predicate is asked two questions about each thing: can it be true for a row there, and can it be false? A
node that is not understood can be both. So a thing is ruled out only when no row of it can be kept. A bound may be
wider than the values are (a truncated text), and what is unknown rules out nothing.

Where every row of a thing has the same value in a column, as partition columns have, the bounds are that value. Then
Arrow computes what the rules for ranges cannot judge, such as `lower(dt) = 'x'`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import Bools
from lakebed.kernel.predicates.computed import computed
from lakebed.kernel.predicates.facts import (
    Answer,
    Facts,
    Known,
    compare,
    is_in,
    is_nan,
    is_null,
    is_valid,
    like,
    starts_with,
)
from lakebed.kernel.predicates.tree import Call, Column, Literal, Node, Pattern, ValueSet

_FLIPPED = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "greater",
    "greater": "less",
    "less_equal": "greater_equal",
    "greater_equal": "less_equal",
}
"""Each comparison with its sides swapped."""
_MOST_VALUES = 1000
"""Members of a list that are each held against the bounds. Of longer lists the least and the greatest are."""


def can_hold(node: Node | None, known: Known, count: int) -> Bools:
    """Which of `count` things can hold a row for which the predicate is true; None is true for every row."""
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
            return self._computed(node)
        arguments = node.arguments
        match node.function:
            case "and_kleene" | "and_":
                true, false = zip(*map(self.answer, arguments), strict=True)
                return reduce(operator.and_, true), reduce(operator.or_, false)
            case "or_kleene" | "or_":
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
                return _both((reduce(operator.or_, true), reduce(operator.or_, false)), self._computed(node))
        return self._of_column(node)

    def _of_column(self, node: Call) -> Answer:
        """The answers of a call on one column and constants."""
        first, *others = node.arguments
        function, other = node.function, others[0] if others else None
        if isinstance(first, Literal) and isinstance(other, Column) and function in _FLIPPED:
            first, other, function = other, first, _FLIPPED[function]
        if isinstance(first, Literal) and function in ("is_null", "is_valid"):
            answer = first.value.is_valid == (function == "is_valid")
            return self._all(answer), self._all(not answer)
        if not isinstance(first, Column):
            return self._computed(node)
        if isinstance(other, Literal) and function in _FLIPPED:
            value = other.value
            return self._by_facts(first, lambda facts: compare(function, facts, value))
        match function, node.options:
            case "is_null", rule:
                nan_is_null = bool(getattr(rule, "nan_is_null", False))
                return self._by_facts(first, lambda facts: is_null(facts, nan_is_null))
            case "is_valid", None:
                return self._by_facts(first, is_valid)
            case "is_nan", None:
                return self._by_facts(first, is_nan)
            case "is_in", ValueSet(values=values, skip_nulls=skip):
                listed = self._by_facts(first, lambda facts: is_in(facts, values, skip, _MOST_VALUES))
                return listed if len(values) <= _MOST_VALUES else _both(listed, self._computed(node))
            case "starts_with", Pattern(text=str(prefix), ignore_case=False):
                return _both(self._by_facts(first, lambda facts: starts_with(facts, prefix)), self._computed(node))
            case "match_like", Pattern(text=str(pattern), ignore_case=False):
                return _both(self._by_facts(first, lambda facts: like(facts, pattern)), self._computed(node))
        return self._computed(node)

    def _by_facts(self, column: Column, rule: Callable[[Facts], Answer]) -> Answer:
        """What a rule says by all that is known of a column; where it cannot be computed, both answers are possible."""
        try:
            answers = [rule(facts) for facts in self.known(column.path)]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError, OverflowError):
            return self._unknown()
        return reduce(_both, answers, self._unknown())

    def _computed(self, node: Node) -> Answer:
        """The answers where each column of a node has one value per thing; elsewhere both are possible."""
        return computed(node, self.known, self.count) or self._unknown()

    def _unknown(self) -> Answer:
        return self._all(True), self._all(True)

    def _all(self, answer: bool) -> Bools:
        return np.full(self.count, answer)


def _both(one: Answer, other: Answer) -> Answer:
    """The answer that two sources of facts allow together."""
    return one[0] & other[0], one[1] & other[1]
