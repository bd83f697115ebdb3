"""The aggregate functions of columns, applied to the rows of all keys at once.

Rules: Paimon's FieldAggregator family (release 1.3.1). The rows of a key are in merge order. A row may be a retraction
(-U, -D). Some functions can undo a row; the others refuse retractions, as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import OptionError, UnsupportedError, UsageError, first_line
from lakebed.formats.paimon.codec.types import DataType
from lakebed.formats.paimon.merge.nested import collect, merge_map, nested_update
from lakebed.formats.paimon.merge.ordering import Runs
from lakebed.formats.paimon.merge.products import decimal_product, divided_product
from lakebed.formats.paimon.merge.sets import SET_FUNCTIONS, unions
from lakebed.formats.paimon.merge.texts import listagg
from lakebed.kernel.arrays import Bools, Int64s, from_numpy, one_chunk, to_numpy


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The aggregate function of one column, with its options.

    `ignore_retract` leaves -U and -D rows out. `delimiter` is for listagg, `distinct` for listagg and collect,
    `nested_key` and `count_limit` for nested_update.
    """

    column: str
    function: str
    ignore_retract: bool = False
    delimiter: str = ","
    distinct: bool = False
    nested_key: tuple[str, ...] = ()
    count_limit: int | None = None

    def __post_init__(self) -> None:
        if self.function in _LACKING:
            raise UnsupportedError(
                f"lakebed lacks the aggregate function {self.function} of column {self.column!r}",
                why=_LACKING[self.function],
                todo="Write and read this table with Paimon's own engine",
            )
        if self.function not in _FUNCTIONS:
            raise OptionError.ill_typed(
                f"fields.{self.column}.aggregate-function", self.function, f"one of {', '.join(_FUNCTIONS)}"
            )

    def check(self, kind: DataType) -> None:
        """Check that the function takes a column of this type.

        Raises OptionError when it does not, UnsupportedError when a package that it needs is not installed.
        """
        roots = _TAKES.get(self.function)
        if roots is not None and kind.root not in roots:
            raise self._ill_typed(f"it takes {', '.join(sorted(roots))}, but the column is {kind}")
        if self.function in SET_FUNCTIONS:
            SET_FUNCTIONS[self.function].check(self.column)
        if self.function == "nested_update":
            element = kind.element
            if element is None or element.root != "ROW":
                raise self._ill_typed(f"it takes an array of rows, but the column is {kind}")
            for name in self.nested_key:
                if name not in [field.name for field in element.fields]:
                    raise self._ill_typed(f"its nested-key names {name!r}, which the rows of the column do not have")

    def _ill_typed(self, why: str) -> OptionError:
        key = f"fields.{self.column}.aggregate-function"
        return OptionError(f"option {key!r} is {self.function!r}", key=key, why=why)

    def apply(self, values: pa.Array, retracts: Bools, runs: Runs) -> pa.Array:
        """One value per run. Raises UsageError for a retraction that the function cannot undo."""
        if retracts.any():
            if self.ignore_retract:
                if self.function in _AT_ENDS:
                    return take_or_null(values, _AT_ENDS[self.function](~retracts, runs))
                values, retracts = _nulled(values, retracts), np.zeros(len(retracts), np.bool_)
            elif self.function not in _RETRACTING:
                raise UsageError(
                    f"the aggregate function {self.function} of column {self.column!r} cannot undo a -U or -D row",
                    todo=f"Set fields.{self.column}.ignore-retract=true, or filter out such rows",
                )
        return _FUNCTIONS[self.function](values, retracts, runs, self)


def last_valid(values: pa.Array, runs: Runs) -> Int64s:
    """The position of the last value of each run that is not null, -1 for a run of nulls."""
    return _last_where(to_numpy(values.is_valid()), runs)


def take_or_null(values: pa.Array, positions: Int64s) -> pa.Array:
    """The values at positions, null where a position is negative."""
    return values.take(pa.array(positions, mask=positions < 0))


def _last_where(mask: Bools, runs: Runs) -> Int64s:
    marked = np.where(mask, np.arange(len(mask)), -1)
    positions: Int64s = np.maximum.reduceat(marked, runs.starts) if len(runs) else marked
    return positions


def _first_where(mask: Bools, runs: Runs) -> Int64s:
    rows = len(mask)
    marked = np.where(mask, np.arange(rows), rows)
    positions = np.minimum.reduceat(marked, runs.starts) if len(runs) else marked
    return np.where(positions == rows, -1, positions)


def _nulled(values: pa.Array, where: Bools) -> pa.Array:
    return values.take(pa.array(np.arange(len(values)), mask=where))


def _last_value(values: pa.Array, retracts: Bools, runs: Runs, _: Aggregate) -> pa.Array:
    return take_or_null(values, np.where(retracts[runs.last], -1, runs.last))


def _last_non_null(values: pa.Array, retracts: Bools, runs: Runs, _: Aggregate) -> pa.Array:
    last = last_valid(values, runs)
    return take_or_null(values, np.where((last >= 0) & retracts[np.maximum(last, 0)], -1, last))


def _first_value(values: pa.Array, retracts: Bools, runs: Runs, _: Aggregate) -> pa.Array:
    return values.take(from_numpy(runs.starts))


def _first_non_null(values: pa.Array, retracts: Bools, runs: Runs, _: Aggregate) -> pa.Array:
    return take_or_null(values, _first_where(to_numpy(values.is_valid()), runs))


def _primary_key(values: pa.Array, retracts: Bools, runs: Runs, _: Aggregate) -> pa.Array:
    return values.take(from_numpy(runs.last))


def _sum(values: pa.Array, retracts: Bools, runs: Runs, aggregate: Aggregate) -> pa.Array:
    """The sum, minus retracted values. Integers overflow as Java's do."""
    if retracts.any():
        values = pc.if_else(pa.array(retracts), pc.negate(values), values)
    return _folded(values, runs, "sum", aggregate)


def _product(values: pa.Array, retracts: Bools, runs: Runs, aggregate: Aggregate) -> pa.Array:
    if pa.types.is_decimal(values.type):
        return decimal_product(values, retracts, runs, aggregate.column)
    if retracts.any():
        return divided_product(values, retracts, runs, aggregate.column)
    return _folded(values, runs, "product", aggregate)


def _folded(values: pa.Array, runs: Runs, name: str, aggregate: Aggregate) -> pa.Array:
    """The result of an aggregation by Arrow. Nulls do not count, and a run of nulls gives null."""
    if not len(runs):
        return values
    table = pa.table({"run": pa.array(runs.ids()), "value": values})
    options = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
    results = table.group_by("run", use_threads=False).aggregate([("value", name, options)])
    folded = one_chunk(results.column(f"value_{name}"))
    try:
        return folded.cast(values.type, safe=pa.types.is_decimal(values.type))
    except pa.ArrowInvalid as error:
        raise UsageError(
            f"the {name} of column {aggregate.column!r} does not fit {values.type}",
            why=first_line(error),
            todo="Give the column more digits",
        ) from error


def _union(values: pa.Array, retracts: Bools, runs: Runs, aggregate: Aggregate) -> pa.Array:
    return unions(values, runs, SET_FUNCTIONS[aggregate.function], aggregate.column)


_Function = Callable[[pa.Array, Bools, Runs, Aggregate], pa.Array]
_FUNCTIONS: dict[str, _Function] = {
    "sum": _sum,
    "product": _product,
    "max": lambda values, _, runs, aggregate: _folded(values, runs, "max", aggregate),
    "min": lambda values, _, runs, aggregate: _folded(values, runs, "min", aggregate),
    "bool_and": lambda values, _, runs, aggregate: _folded(values, runs, "all", aggregate),
    "bool_or": lambda values, _, runs, aggregate: _folded(values, runs, "any", aggregate),
    "last_value": _last_value,
    "last_non_null_value": _last_non_null,
    "first_value": _first_value,
    "first_non_null_value": _first_non_null,
    "first_not_null_value": _first_non_null,
    "listagg": lambda values, _, runs, aggregate: listagg(values, runs, aggregate.delimiter, aggregate.distinct),
    "collect": lambda values, retracts, runs, aggregate: collect(values, retracts, runs, aggregate.distinct),
    "merge_map": lambda values, retracts, runs, _: merge_map(values, retracts, runs),
    "nested_update": lambda values, retracts, runs, aggregate: nested_update(
        values, retracts, runs, aggregate.nested_key, aggregate.count_limit, aggregate.column
    ),
    "primary_key": _primary_key,
    **dict.fromkeys(SET_FUNCTIONS, _union),
}
_RETRACTING = {
    "sum", "product", "last_value", "last_non_null_value", "collect", "merge_map", "nested_update", "primary_key",
}  # fmt: skip
"""Functions that can undo a row."""
_AT_ENDS: dict[str, Callable[[Bools, Runs], Int64s]] = {
    "last_value": _last_where,
    "first_value": _first_where,
    "primary_key": _last_where,
}
"""Functions for which null is a value, so that ignored retractions are skipped instead of read as null."""
_LATER = "lakebed follows release 1.3.1 of Paimon, and the function is newer"
_LACKING = {
    "merge_map_with_keytime": _LATER,
    "nested_partial_update": _LATER,
}
"""Functions of Paimon that lakebed lacks, and why."""
_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})
_TAKES: dict[str, frozenset[str]] = {
    "sum": _NUMBERS,
    "product": _NUMBERS,
    "bool_and": frozenset({"BOOLEAN"}),
    "bool_or": frozenset({"BOOLEAN"}),
    "listagg": frozenset({"VARCHAR"}),
    "collect": frozenset({"ARRAY"}),
    "merge_map": frozenset({"MAP"}),
    "nested_update": frozenset({"ARRAY"}),
    **dict.fromkeys(SET_FUNCTIONS, frozenset({"VARBINARY"})),
}
"""The column types that a function takes. A function that is not named takes all."""
