"""What ranges of values say of a predicate: never that no row is kept where one is."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.kernel.predicates.arrow import tree_of
from lakebed.kernel.predicates.facts import Facts
from lakebed.kernel.predicates.ranges import can_hold
from lakebed.kernel.predicates.where import parse_where

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("p", pa.string()),
        ("in", pa.struct([("x", pa.int32())])),
    ]
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_no_row_is_ever_lost(seed: int) -> None:
    """Random predicates over random groups of rows whose facts are true, and as wide as facts may be."""
    chance = random.Random(seed)
    groups = [_group(chance) for _ in range(12)]
    facts = {("i",): [_facts(groups, "i", chance)], ("s",): [_facts(groups, "s", chance)]}
    facts[("f",)] = [_facts(groups, "f", chance)]
    facts[("p",)] = [_facts(groups, "p", None), _constants(groups, "p", chance)]
    for _ in range(25):
        predicate = _predicate(chance, 3)
        kept = can_hold(tree_of(predicate, SCHEMA), lambda path: facts.get(path, []), len(groups))
        for group, may in zip(groups, kept, strict=True):
            assert may or group.filter(predicate).num_rows == 0, str(predicate)


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("i = 5", [True, False]), ("i > 9", [False, True]), ("not i > 9", [True, False]),
        ("i in (3, 99)", [True, False]),
        ("i not in (3, null)", [True, False]), ("i is null", [False, True]), ("i is not null", [True, True]),
        ("s like 'a%'", [True, False]), ("s like 'ab'", [True, False]), ("s like '%a'", [True, True]),
        ("startswith(s, 'zz')", [False, True]), ("i + 1 > 99", [True, True]), ("in.x > 3", [True, True]),
        ("null", [False, False]), ("i = null", [False, False]), ("i <=> null", [False, True]),
        ("i = 5 or s = 'zz'", [True, True]), ("i = 5 and s = 'zz'", [False, False]), ("5 < i", [True, True]),
        ("f > 1", [True, True]), ("f = 'NaN'", [True, True]),
    ],
)  # fmt: skip
def test_what_is_ruled_out(where: str, kept: list[bool]) -> None:
    rows = [{"i": [1, 9], "s": ["ab", "b"]}, {"i": [10, 20, None], "s": ["z", "zzz"]}]
    groups = [
        pa.table({"i": pa.array(g["i"], pa.int64()), "s": pa.array(g["s"] + [None] * (len(g["i"]) - 2))}) for g in rows
    ]
    facts = {("i",): [_facts(groups, "i", None)], ("s",): [_facts(groups, "s", None)]}
    predicate = parse_where(where, SCHEMA)
    assert predicate is not None
    assert can_hold(predicate, lambda path: facts.get(path, []), 2).tolist() == kept


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("lower(p) = 'ab'", [False, True, False, True]),
        ("not lower(p) = 'ab'", [True, False, False, True]),
        ("p like '%b'", [False, True, False, True]),
        ("p like '%b' or p is null", [False, True, True, True]),
        (pc.round(pc.utf8_length(pc.field("p")), 1) == 2, [False, True, False, True]),
        (pc.coalesce(pc.match_substring(pc.field("p"), "b"), True), [False, True, True, True]),
        (pc.field("p").isin([f"{n}" for n in range(2000)]), [False, False, False, True]),
        (pc.field("p") == pc.field("s"), [True, True, True, True]),
        (pc.field("p").cast(pa.int64()) == 5, [True, True, True, True]),  # cannot be computed
    ],
    ids=str,
)
def test_arrow_computes_what_columns_of_one_value_say(where: Any, kept: list[bool]) -> None:
    values, unknown = pa.array(["a", "Ab", None, "b"]), np.array([False, False, False, True])
    facts = Facts.constant(values, unknown)
    predicate = parse_where(where, SCHEMA)
    assert can_hold(predicate, lambda path: [facts] if path == ("p",) else [], 4).tolist() == kept


def test_a_nan_is_no_bound() -> None:
    facts = Facts.constant(pa.array([float("nan"), 1.0]), np.zeros(2, np.bool_))
    predicate = parse_where("not f > 0", SCHEMA)
    assert can_hold(predicate, lambda path: [facts], 2).tolist() == [True, False]


def test_nothing_is_ruled_out_without_a_tree() -> None:
    assert can_hold(None, lambda path: [], 3).tolist() == [True, True, True]


def _group(chance: random.Random) -> pa.Table:
    count, base = chance.randrange(0, 5), chance.randrange(-20, 20)
    some = lambda value: None if chance.random() < 0.2 else value  # noqa: E731
    some_part = some(chance.choice(["a", "Ab", "b"]))
    return pa.table(
        {
            "i": pa.array([some(base + chance.randrange(4)) for _ in range(count)], pa.int64()),
            "s": pa.array([some(chance.choice("abz") * chance.randrange(3)) for _ in range(count)], pa.string()),
            "f": pa.array([some(chance.choice([base / 2, float("nan"), -0.0])) for _ in range(count)], pa.float64()),
            "p": pa.array([some_part] * count, pa.string()),
        }
    )


def _facts(groups: list[pa.Table], name: str, chance: random.Random | None) -> Facts:
    lows: list[Any] = []
    highs: list[Any] = []
    for group in groups:
        values = [v for v in group[name].to_pylist() if v is not None and v == v]
        known = values and (chance is None or chance.random() < 0.8)
        lows.append(min(values) if known else None)
        highs.append(max(values) if known else None)
        if known and name == "s" and chance is not None and chance.random() < 0.5:
            lows[-1], highs[-1] = lows[-1][:1], highs[-1][:1] + "\U0010ffff"
    kind = groups[0][name].type
    columns = [group[name] for group in groups]
    nulls = np.array([c.null_count > 0 for c in columns])
    nans = np.full(len(groups), pa.types.is_floating(kind))
    values_there = np.array([c.null_count < len(c) for c in columns])
    return Facts(pa.array(lows, kind), pa.array(highs, kind), nulls, values_there, nans)


def _constants(groups: list[pa.Table], name: str, chance: random.Random) -> Facts:
    """The one value of each group, as partition values are; of some groups it is unknown."""
    values = [group[name][0].as_py() if len(group) else "empty" for group in groups]
    return Facts.constant(pa.array(values, pa.string()), np.array([chance.random() < 0.3 for _ in groups]))


def _predicate(chance: random.Random, depth: int) -> pc.Expression:
    if depth and chance.random() < 0.6:
        one, other = _predicate(chance, depth - 1), _predicate(chance, depth - 1)
        return chance.choice([one & other, one | other, ~one, pc.if_else(one, other, ~other)])
    if chance.random() < 0.2:
        part = pc.field("p")
        return chance.choice(
            [
                pc.utf8_lower(part) == "ab", pc.match_like(part, "%b"), part == "a", part > "a", part.is_null(),
                pc.utf8_length(part) == 1, part != pc.field("s"), pc.round(pc.utf8_length(part), 1) > 1,
                pc.coalesce(pc.match_substring(part, "b"), pc.scalar(True)),
            ]
        )  # fmt: skip
    name = chance.choice("isf")
    field = pc.field(name)
    value = {
        "i": chance.randrange(-22, 26),
        "s": chance.choice(["", "a", "aa", "z"]),
        "f": chance.randrange(-11, 11) / 2,
    }[name]
    compare = [field == value, field != value, field < value, field <= value, field > value, field >= value]
    compare += [field.is_null(), field.is_valid(), field.isin([value, None]), field.isin([value])]
    compare += [pc.starts_with(field, str(value)), pc.match_like(field, f"{value}%")] if name == "s" else []
    compare += [pc.is_nan(field), field == float("nan"), field.is_null(nan_is_null=True)] if name == "f" else []
    return chance.choice(compare)
