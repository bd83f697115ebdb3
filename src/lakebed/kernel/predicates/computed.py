"""A condition computed by Arrow, for things (partitions, files) in which its columns have one value in every row.

Equal bounds are that value. Floats are left out: the bounds 0.0 and -0.0 are equal and their values are not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Bools, filled, to_numpy
from lakebed.kernel.predicates.facts import Answer, Facts, Known
from lakebed.kernel.predicates.tree import Call, Column, Node, Opaque


def computed(node: Node, known: Known, count: int) -> Answer | None:
    """Where the node can be true and where it can be false, None when it cannot be computed for any of `count` things.

    Both are possible in things where the value of a column is not certain.
    """
    names = _names(node)
    if not names or not count:
        return None
    certain = np.ones(count, np.bool_)
    columns: list[pa.Array] = []
    try:
        for name in names:
            values, has_one = _constants(known((name,)), count)
            certain &= has_one
            if not certain.any():
                return None
            columns.append(values)
        true, false = _evaluated(node, names, columns, certain)
    except (pa.ArrowException, ValueError, OverflowError):
        return None
    return true | ~certain, false | ~certain


def _names(node: Node) -> tuple[str, ...]:
    """The columns to compute it from; none where it reads a field inside a column, or columns that are not certain."""
    if any(isinstance(leaf, Column) and len(leaf.path) > 1 for leaf in node.leaves()):
        return ()
    return node.columns() if isinstance(node, Call | Column | Opaque) else ()


def _constants(sources: Sequence[Facts], count: int) -> tuple[pa.Array, Bools]:
    """The one value of a column in each thing, and where there is one."""
    certain = np.zeros(count, np.bool_)
    values = pa.nulls(count)
    for facts in sources:
        if pa.types.is_floating(facts.lower.type) or (pa.types.is_null(facts.lower.type) and facts.values.any()):
            continue
        equal: Bools = to_numpy(filled(pc.equal(facts.lower, facts.upper), False))
        has_one = ((equal & ~facts.nulls & ~facts.nans) & facts.values) | ~facts.values
        if pa.types.is_null(values.type):
            values = values.cast(facts.lower.type)
        chosen = pa.array(has_one & facts.values & ~certain)
        values = pc.if_else(chosen, facts.lower, values)
        certain |= has_one
    return values, certain


def _evaluated(node: Node, names: Sequence[str], columns: Sequence[pa.Array], certain: Bools) -> Answer:
    """Where the node is true and where it is false, in the things whose values are certain."""
    places = np.flatnonzero(certain)
    place_name = "place of " + " ".join(names)  # unlike each of the names
    chosen = pa.array(places)
    rows = pa.Table.from_arrays([*(column.take(chosen) for column in columns), chosen], [*names, place_name])
    true, false = np.zeros(len(certain), np.bool_), np.zeros(len(certain), np.bool_)
    expression = node.to_arrow()
    true[to_numpy(rows.filter(expression)[place_name])] = True
    false[to_numpy(rows.filter(~expression)[place_name])] = True
    return true, false
