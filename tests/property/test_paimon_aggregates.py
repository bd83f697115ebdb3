"""Aggregate functions over whole columns, against the reference's own way: one row after the other, into an
accumulator (Paimon's FieldAggregator classes, release 1.3.1). Where the reference keeps a hash map, order is not
compared."""

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lakebed.errors import UsageError
from lakebed.formats.paimon.codec.roaring64 import chunks_from_bytes, chunks_to_bytes
from lakebed.formats.paimon.merge.aggregates import Aggregate
from lakebed.formats.paimon.merge.ordering import Runs

Fold = Callable[[Any, Any], Any]
EXACT = Context(prec=40)
NESTED = pa.list_(pa.struct([("k", pa.int32()), ("j", pa.string()), ("v", pa.int32())]))
small = st.integers(0, 2)
row = st.fixed_dictionaries({"k": st.none() | small, "j": st.none() | st.sampled_from("ab"), "v": small})


def runs_of(values: st.SearchStrategy[Any], kinds: bool) -> st.SearchStrategy[list[list[tuple[bool, Any]]]]:
    """Keys, each with its rows: whether it is a retraction, and its value."""
    retracts = st.booleans() if kinds else st.just(False)
    return st.lists(st.lists(st.tuples(retracts, st.none() | values), min_size=1, max_size=6), max_size=4)


def folded(runs: list[list[tuple[bool, Any]]], agg: Fold, retract: Fold) -> list[Any]:
    found = []
    for rows in runs:
        accumulator = None
        for back, value in rows:
            accumulator = (retract if back else agg)(accumulator, value)
        found.append(accumulator)
    return found


def applied(how: Aggregate, runs: list[list[tuple[bool, Any]]], kind: pa.DataType) -> list[Any]:
    ends = np.cumsum([len(rows) for rows in runs], dtype=np.int64)
    lengths = np.array([len(rows) for rows in runs], np.int64)
    flat = [item for rows in runs for item in rows]
    values = pa.array([value for _, value in flat], kind)
    retracts = np.array([back for back, _ in flat], np.bool_)
    made = how.apply(values, retracts, Runs(ends - lengths, ends))
    made.validate(full=True)
    assert made.type == kind
    return made.to_pylist()


def either(fold: Fold) -> Fold:
    return lambda one, two: two if one is None else one if two is None else fold(one, two)


def without(fold: Fold) -> Fold:
    """A retraction that does nothing when there is nothing, or nothing to take back."""
    return lambda one, two: one if one is None or two is None else fold(one, two)


def sorted_rows(values: list[Any]) -> list[Any]:
    return [None if value is None else sorted(value, key=spelled) for value in values]


def spelled(item: Any) -> str:
    return repr(sorted(item.items()) if isinstance(item, dict) else item)


@settings(max_examples=150, deadline=None)
@given(runs_of(st.lists(st.none() | small, max_size=4), kinds=True))
def test_collect(runs: Any) -> None:
    def take_back(have: list[Any], gone: list[Any]) -> list[Any]:
        gone, left = list(gone), []
        for item in have:
            if item in gone:
                gone.remove(item)
            else:
                left.append(item)
        return left

    kind = pa.list_(pa.int32())
    assert applied(Aggregate("c", "collect"), runs, kind) == folded(
        runs, either(lambda a, b: a + b), without(take_back)
    )

    def once(have: list[Any] | None, new: list[Any] | None) -> list[Any] | None:
        return None if have is None and new is None else list(dict.fromkeys([*(have or []), *(new or [])]))

    found = applied(Aggregate("c", "collect", distinct=True), runs, kind)
    assert sorted_rows(found) == sorted_rows(folded(runs, once, without(take_back)))


@settings(max_examples=100, deadline=None)
@given(runs_of(st.lists(row, max_size=3), kinds=False))
def test_collect_of_rows(runs: Any) -> None:
    def once(have: list[Any] | None, new: list[Any] | None) -> list[Any] | None:
        if have is None and new is None:
            return None
        made: list[Any] = []
        for item in [*(have or []), *(new or [])]:
            if item not in made:
                made.append(item)
        return made

    assert applied(Aggregate("c", "collect", distinct=True), runs, NESTED) == folded(runs, once, once)


@settings(max_examples=150, deadline=None)
@given(runs_of(st.dictionaries(small, st.none() | small, max_size=3), kinds=True))
def test_merge_map(runs: Any) -> None:
    def pairs(value: dict[Any, Any] | None) -> list[tuple[Any, Any]] | None:
        return None if value is None else sorted(value.items())

    maps = [[(back, None if value is None else list(value.items())) for back, value in rows] for rows in runs]
    found = applied(Aggregate("m", "merge_map"), maps, pa.map_(pa.int32(), pa.int32()))
    wanted = folded(
        runs,
        either(lambda a, b: {**a, **b}),
        without(lambda a, b: {key: value for key, value in a.items() if key not in b}),
    )
    assert [None if value is None else sorted(value) for value in found] == [pairs(value) for value in wanted]


def by_key(rows: list[Any]) -> dict[Any, Any]:
    return {(item["k"], item["j"]): item for item in rows if item is not None}


@settings(max_examples=150, deadline=None)
@given(runs_of(st.lists(st.none() | row, max_size=3), kinds=True))
def test_nested_update(runs: Any) -> None:
    def some(rows: list[Any]) -> list[Any]:
        return [item for item in rows if item is not None]

    wanted = folded(
        runs,
        either(lambda a, b: some(a) + some(b)),
        without(lambda a, b: [item for item in some(a) if item not in some(b)]),
    )
    assert applied(Aggregate("n", "nested_update"), runs, NESTED) == wanted
    wanted = folded(
        runs,
        either(lambda a, b: list({**by_key(a), **by_key(b)}.values())),
        without(lambda a, b: [item for key, item in by_key(a).items() if key not in by_key(b)]),
    )
    found = applied(Aggregate("n", "nested_update", nested_key=("k", "j")), runs, NESTED)
    assert sorted_rows(found) == sorted_rows(wanted)


@settings(max_examples=60, deadline=None)
@given(runs_of(st.lists(row, max_size=3), kinds=False), st.integers(0, 5))
def test_nested_update_up_to_a_limit(runs: Any, limit: int) -> None:
    wanted = folded(runs, either(lambda a, b: a if len(a) >= limit else (a + b)[: max(limit, len(a))]), either)
    found = applied(Aggregate("n", "nested_update", count_limit=limit), runs, NESTED)
    assert [len(value or []) for value in found] == [len(value or []) for value in wanted]
    assert found == wanted


@settings(max_examples=100, deadline=None)
@given(runs_of(st.integers(1, 9) | st.integers(-3, -1), kinds=True))
def test_product(runs: Any) -> None:
    def towards_zero(a: int, b: int) -> int:
        return int(a / b)

    wanted = folded(runs, either(lambda a, b: a * b), either(towards_zero))
    assert applied(Aggregate("p", "product"), runs, pa.int64()) == wanted


@settings(max_examples=100, deadline=None)
@given(runs_of(st.sampled_from(["", " ", "a", "b", "a;b", "b;;a", "c"]), kinds=False))
def test_listagg(runs: Any) -> None:
    how = Aggregate("t", "listagg", delimiter=";")
    assert applied(how, runs, pa.string()) == folded(runs, either(lambda a, b: f"{a};{b}"), either)

    def distinct(have: str | None, new: str | None) -> str | None:
        if new is None or not new.strip():
            return have
        if have is None or not have.strip():
            return new
        tokens = have.split(";")
        for token in new.split(";"):
            if token.strip() and token not in tokens:
                tokens.append(token)
                have += f";{token}"
        return have

    found = applied(Aggregate("t", "listagg", delimiter=";", distinct=True), runs, pa.string())
    wanted = folded(runs, distinct, distinct)
    assert [value or None for value in found] == [value or None for value in wanted]


@settings(max_examples=100, deadline=None)
@given(runs_of(st.integers(-(10**6), 10**6) | st.sampled_from([1, -2, 5, 40, 10**37, 10**38 - 1]), kinds=True))
@example([[(False, 7), (True, 3)]])
@example([[(False, 10**37), (False, 90), (False, 5)], [(False, 5), (False, 3), (True, -2), (True, 5)]])
@pytest.mark.parametrize("scale", [0, 2, 38])
def test_product_of_decimals(scale: int, runs: Any) -> None:
    """As Java's BigDecimal: exact or refused, then rounded half up; null where it outgrows the column."""
    kind, most = pa.decimal128(38, scale), 10**38

    def fitting(value: Fraction) -> int | None:
        size = math.floor(abs(value) + Fraction(1, 2))
        return None if size >= most else size if value >= 0 else -size

    def divide(one: int, other: int) -> int | None:
        bottom = Fraction(one, other).denominator
        for factor in (2, 5):
            while bottom % factor == 0:
                bottom //= factor
        if bottom > 1:
            raise ZeroDivisionError
        return fitting(Fraction(one, other) * 10**scale)

    times = either(lambda one, other: fitting(Fraction(one * other, 10**scale)))
    blobs = [[(back, None if v is None else Decimal(v).scaleb(-scale, EXACT)) for back, v in rows] for rows in runs]
    try:
        wanted = folded(runs, times, either(divide))
    except ZeroDivisionError:
        with pytest.raises(UsageError, match="product of column 'p'"):
            applied(Aggregate("p", "product"), blobs, kind)
        return
    found = applied(Aggregate("p", "product"), blobs, kind)
    assert [None if value is None else int(value.scaleb(scale, EXACT)) for value in found] == wanted


lows = st.sampled_from([0, 1, 5, 65_535])
wide_numbers = st.integers(0, 2**64 - 1) | st.builds(lambda chunk, low: chunk << 16 | low, st.integers(0, 300), lows)
stretches = st.builds(lambda start, length: set(range(start, start + length)), wide_numbers, st.integers(1, 9000))
wide_sets = st.sets(wide_numbers, max_size=5) | st.sets(wide_numbers, min_size=50, max_size=80) | stretches


@settings(max_examples=60, deadline=None)
@given(runs_of(st.sets(st.integers(0, 2**32 - 1), max_size=5), kinds=False))
def test_bitmaps(runs: Any) -> None:
    blobs = [[(back, None if v is None else BitMap(v).serialize()) for back, v in rows] for rows in runs]
    found = applied(Aggregate("b", "rbm32"), blobs, pa.binary())
    wanted = folded(runs, either(lambda a, b: a | b), either)
    assert [None if data is None else set(BitMap.deserialize(data)) for data in found] == wanted


def chunks(numbers: set[int]) -> dict[bytes, BitMap]:
    made: dict[bytes, BitMap] = {}
    for number in numbers:
        made.setdefault((number >> 16 & (1 << 48) - 1).to_bytes(6, "big"), BitMap()).add(number & 0xFFFF)
    return made


@settings(max_examples=60, deadline=None)
@given(runs_of(wide_sets, kinds=False))
def test_bitmaps_of_64_bits(runs: Any) -> None:
    blobs = [[(back, None if v is None else chunks_to_bytes(chunks(v))) for back, v in rows] for rows in runs]
    found = applied(Aggregate("b", "rbm64"), blobs, pa.binary())
    wanted = folded(runs, either(lambda a, b: a | b), either)
    assert [None if data is None else chunks_from_bytes(data) for data in found] == [
        None if numbers is None else chunks(numbers) for numbers in wanted
    ]


@settings(max_examples=60, deadline=None)
@given(runs_of(st.integers(-9, 9), kinds=True))
def test_retractions_of_single_values(runs: Any) -> None:
    nothing: Fold = lambda have, gone: have  # noqa: E731
    wanted = folded(runs, either(lambda a, b: a + b), lambda a, b: a if b is None else (a or 0) - b)
    assert applied(Aggregate("s", "sum"), runs, pa.int64()) == wanted
    assert applied(Aggregate("l", "last_value"), runs, pa.int64()) == folded(runs, lambda a, b: b, lambda a, b: None)
    assert applied(Aggregate("l", "last_non_null_value"), runs, pa.int64()) == folded(
        runs, either(lambda a, b: b), lambda a, b: a if b is None else None
    )
    for name, agg in (
        ("last_value", lambda a, b: b), ("max", either(max)), ("min", either(min)),
        ("last_non_null_value", either(lambda a, b: b)), ("first_non_null_value", either(lambda a, b: a)),
    ):  # fmt: skip
        found = applied(Aggregate("i", name, ignore_retract=True), runs, pa.int64())
        assert found == folded(runs, agg, nothing), name
