"""The aggregate functions of columns, over the rows of each key at once.

Rules: Paimon's FieldAggregator family (release 1.3.1). Rows of a key come in merge order; a row may be a retraction
(-U, -D), which some functions can take back and others refuse, as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lakebed.errors import OptionError, UnsupportedError, UsageError
from lakebed.formats.paimon.codec.types import DataType
from lakebed.formats.paimon.merge.nested import collect, merge_map, nested_update
from lakebed.formats.paimon.merge.order import Indices, Runs
from lakebed.formats.paimon.merge.texts import listagg

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column's function. `delimiter` and `distinct` are listagg's and collect's, `nested_key` and `count_limit`
    nested_update's; `ignore_retract` leaves -U and -D rows out."""

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
        """Raise OptionError when the function does not take a column of this type."""
        roots = _TAKES.get(self.function)
        if roots is not None and kind.root not in roots:
            raise self._ill_typed(f"it takes {', '.join(sorted(roots))}, and the column is {kind}")
        if self.function == "nested_update":
            element = kind.element
            if element is None or element.root != "ROW":
                raise self._ill_typed(f"it takes an array of rows, and the column is {kind}")
            for name in self.nested_key:
                if name not in [field.name for field in element.fields]:
                    raise self._ill_typed(f"its nested-key names {name!r}, which the rows of the column do not have")

    def _ill_typed(self, why: str) -> OptionError:
        key = f"fields.{self.column}.aggregate-function"
        return OptionError(f"option {key!r} is {self.function!r}", key=key, why=why)

    def apply(self, values: pa.Array, retracts: Mask, runs: Runs) -> pa.Array:
        """The result for each run. UsageError when a retraction meets a function that cannot take back."""
        if retracts.any():
            if self.ignore_retract:
                if self.function in _AT_ENDS:
                    return take_or_null(values, _AT_ENDS[self.function](~retracts, runs))
                values, retracts = _nulled(values, retracts), np.zeros(len(retracts), np.bool_)
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
    return values.take(pa.array(np.arange(len(values)), mask=where))


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


def _sum(values: pa.Array, retracts: Mask, runs: Runs, how: Aggregate) -> pa.Array:
    """The sum, less what is taken back. Integers wrap round as Java's do."""
    if retracts.any():
        values = pc.if_else(pa.array(retracts), pc.negate(values), values)
    return _folded(values, runs, "sum", how)


def _product(values: pa.Array, retracts: Mask, runs: Runs, how: Aggregate) -> pa.Array:
    """The product; a value that is taken back divides it, in the order of the rows."""
    if pa.types.is_decimal(values.type):
        if retracts.any():
            raise UnsupportedError(f"lakebed lacks -U and -D rows for the product of the decimal column {how.column!r}")
        return _decimal_product(values, runs)
    return _divided_product(values, retracts, runs, how) if retracts.any() else _folded(values, runs, "product", how)


def _folded(values: pa.Array, runs: Runs, name: str, how: Aggregate) -> pa.Array:
    """Arrow's own aggregation; nulls do not count, and a run of nulls gives null."""
    if not len(runs):
        return values
    table = pa.table({"run": pa.array(runs.ids()), "value": values})
    options = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
    made = table.group_by("run", use_threads=False).aggregate([("value", name, options)])
    found = pa.concat_arrays(made.column(f"value_{name}").chunks)
    try:
        return found.cast(values.type, safe=pa.types.is_decimal(values.type))
    except pa.ArrowInvalid as error:
        raise UsageError(
            f"the {name} of column {how.column!r} does not fit {values.type}", why=str(error).splitlines()[0],
            todo="Give the column more digits",
        ) from error  # fmt: skip


def _by_rank(values: pa.Array, runs: Runs) -> Iterator[tuple[Indices, Indices]]:
    """The rows with a value, one of each run at a time: the runs, and the row of each."""
    places = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    owner = runs.ids()[places]
    rank = np.arange(len(places)) - np.searchsorted(owner, owner)
    order = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[order], np.arange(int(rank.max(initial=-1)) + 2))
    for begin, end in pairwise(bounds):
        some = order[begin:end]
        yield owner[some], places[some]


def _divided_product(values: pa.Array, retracts: Mask, runs: Runs, how: Aggregate) -> pa.Array:
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    found, given = np.ones(len(runs), numbers.dtype), np.zeros(len(runs), np.bool_)
    for owner, rows in _by_rank(values, runs):
        before, now = found[owner], numbers[rows]
        back = retracts[rows] & given[owner]  # the first value stands, whatever its kind
        if (back & (now == 0)).any() and np.issubdtype(numbers.dtype, np.integer):
            raise UsageError(f"a -U or -D row takes the factor 0 back from the product of column {how.column!r}")
        divisor = np.where(back, now, 1)
        quotient = before / divisor if numbers.dtype.kind == "f" else _towards_zero(before, divisor)
        found[owner] = np.where(back, quotient, np.where(given[owner], before, 1) * now)
        given[owner] = True
    return pa.array(found, values.type, mask=~given)


def _towards_zero(dividend: npt.NDArray[Any], divisor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Java's division of integers."""
    floor = dividend // divisor
    rounded: npt.NDArray[Any] = floor + ((dividend % divisor != 0) & ((dividend < 0) != (divisor < 0))).astype(
        floor.dtype
    )
    return rounded


def _decimal_product(values: pa.Array, runs: Runs) -> pa.Array:
    """Rounded half up to the column's scale after each factor; null where it outgrows the column."""
    wide, kind = pa.decimal256(37, values.type.scale), values.type
    found = pa.nulls(len(runs), wide)
    for owner, rows in _by_rank(values, runs):
        now = values.take(pa.array(rows)).cast(wide)
        both = pc.multiply(found.take(pa.array(owner)), now)
        rounded = pc.round(both, ndigits=kind.scale, round_mode="half_towards_infinity")
        fits = pc.less(pc.abs(rounded), pa.scalar(10 ** (kind.precision - kind.scale), pa.decimal256(38, 0)))
        rounded = pc.if_else(pc.fill_null(fits, True), rounded, pa.scalar(None, both.type)).cast(wide)
        made = pc.if_else(found.take(pa.array(owner)).is_valid(), rounded, now)
        place = np.arange(len(runs))
        place[owner] = len(runs) + np.arange(len(owner))
        found = pa.concat_arrays([found, made]).take(pa.array(place))
    return found.cast(kind)


def _bitmap(values: pa.Array, retracts: Mask, runs: Runs, how: Aggregate) -> pa.Array:
    """The union of Roaring bitmaps in their portable form. A value is a whole bitmap: the loop is over those."""
    found: list[bytes | None] = [None] * len(runs)
    unions: dict[int, BitMap] = {}
    for owner, rows in _by_rank(values, runs):
        for run, data in zip(owner.tolist(), values.take(pa.array(rows)).to_pylist(), strict=True):
            known = found[run]
            if known is None:
                found[run] = data
            else:
                unions.setdefault(run, BitMap.deserialize(known)).__ior__(BitMap.deserialize(data))
    for run, union in unions.items():
        union.run_optimize()
        found[run] = union.serialize()
    return pa.array(found, values.type)


_Function = Callable[[pa.Array, Mask, Runs, Aggregate], pa.Array]
_FUNCTIONS: dict[str, _Function] = {
    "sum": _sum,
    "product": _product,
    "max": lambda values, _, runs, how: _folded(values, runs, "max", how),
    "min": lambda values, _, runs, how: _folded(values, runs, "min", how),
    "bool_and": lambda values, _, runs, how: _folded(values, runs, "all", how),
    "bool_or": lambda values, _, runs, how: _folded(values, runs, "any", how),
    "last_value": _last_value,
    "last_non_null_value": _last_non_null,
    "first_value": _first_value,
    "first_non_null_value": _first_non_null,
    "first_not_null_value": _first_non_null,
    "listagg": lambda values, _, runs, how: listagg(values, runs, how.delimiter, how.distinct),
    "collect": lambda values, retracts, runs, how: collect(values, retracts, runs, how.distinct),
    "merge_map": lambda values, retracts, runs, _: merge_map(values, retracts, runs),
    "nested_update": lambda values, retracts, runs, how: nested_update(
        values, retracts, runs, how.nested_key, how.count_limit, how.column
    ),
    "rbm32": _bitmap,
    "primary_key": _primary_key,
}
_RETRACTING = {
    "sum", "product", "last_value", "last_non_null_value", "collect", "merge_map", "nested_update", "primary_key",
}  # fmt: skip
"""Functions that take back a row."""
_AT_ENDS: dict[str, Callable[[Mask, Runs], Indices]] = {
    "last_value": _last_where,
    "first_value": _first_where,
    "primary_key": _last_where,
}
"""Functions for which a null is a value: a row left out is looked past."""
_SKETCH = "its values are sketches of Apache DataSketches, whose bytes only that library makes"
_LATER = "it came after release 1.3.1 of Paimon, which lakebed follows"
_LACKING = {
    "hll_sketch": _SKETCH,
    "theta_sketch": _SKETCH,
    "rbm64": "Paimon keeps 64-bit bitmaps in a form of Java's own, not in the portable one",
    "merge_map_with_keytime": _LATER,
    "nested_partial_update": _LATER,
}
"""Functions that Paimon has and lakebed has not, and why."""
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
    "rbm32": frozenset({"VARBINARY"}),
}
"""The types that a function takes; all where it is not named."""
