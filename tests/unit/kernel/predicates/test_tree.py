"""Predicate trees: what pyarrow expressions become, their Arrow form, and that they travel to tasks."""

import pickle
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.errors import PredicateError
from lakebed.kernel.predicates.arrow import tree_of
from lakebed.kernel.predicates.tree import (
    AND,
    OR,
    Call,
    CastRule,
    Column,
    Literal,
    Node,
    NullRule,
    Opaque,
    Pattern,
    ValueSet,
    all_of,
    any_of,
    is_null,
    is_valid,
    negated,
)
from lakebed.kernel.predicates.where import keep, parse_where, unread_parts

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("at", pa.timestamp("ns", "UTC")),
        ("in", pa.struct([("x", pa.int32())])),
    ]
)
_NANOSECOND = pa.scalar(1_700_000_000_000_000_001, pa.timestamp("ns", "UTC"))


def test_an_expression_is_a_tree() -> None:
    tree = tree_of((pc.field("a") == 5) & ~pc.field(("s", "x")).is_null(), SCHEMA)
    equal = Call("equal", (Column(("a",)), Literal.of(5)))
    assert tree == all_of(equal, negated(is_null(Column(("s", "x")))))
    assert tree.columns() == ("a", "s") and not tree.opaque_parts()


def test_names_and_constants_of_every_kind_survive() -> None:
    for name in ("é", 'a"b', "two words", "line\nbreak", "a.b", "x" * 5000):
        assert tree_of(pc.field(name) == 1, SCHEMA) == Call("equal", (Column((name,)), Literal.of(1)))
    for value in (None, True, 1.5, "é'\n", b"\0\xff", _NANOSECOND):
        literal = Literal(value if isinstance(value, pa.Scalar) else pa.scalar(value))
        assert tree_of(pc.field("a") == literal.value, SCHEMA) == Call("equal", (Column(("a",)), literal))
    assert tree_of(pc.field("a").isin(["x", None]), SCHEMA) == Call(
        "is_in", (Column(("a",)),), ValueSet(pa.array(["x", None]))
    )
    cast = tree_of(pc.field("a").cast(pa.int8(), safe=False), SCHEMA)
    assert isinstance(cast, Call) and isinstance(cast.options, CastRule)
    assert cast.options.type == pa.int8() and "allow_int_overflow" in cast.options.allowed


@pytest.mark.parametrize("seed", range(40))
def test_the_arrow_form_computes_what_the_expression_computes(seed: int) -> None:
    chance = random.Random(seed)
    rows = _rows(chance)
    for _ in range(25):
        expression = _expression(chance, 3)
        tree = tree_of(expression, SCHEMA)
        assert _kept(rows, tree.to_arrow()) == _kept(rows, expression), str(expression)
        assert tree_of(tree.to_arrow(), SCHEMA) == tree
        again = pickle.loads(pickle.dumps(tree))
        assert again == tree and _kept(rows, again.to_arrow()) == _kept(rows, expression)


@pytest.mark.parametrize("seed", range(20))
def test_trees_come_back_from_arrow(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        tree = _tree(chance, 3)
        assert tree_of(tree.to_arrow(), SCHEMA) == tree
        assert pickle.loads(pickle.dumps(tree)) == tree


def test_sql_and_pyarrow_make_the_same_tree() -> None:
    sql = parse_where("i > 5 and (s = 'a' or s is null) and not in.x <= 3", SCHEMA)
    field = pc.field
    expression = (
        (field("i") > 5)
        & ((field("s") == "a") | field("s").is_null())
        & ~(field("in", "x") <= pa.scalar(3, pa.int32()))
    )
    assert sql == parse_where(expression, SCHEMA)


def test_a_tree_reads_like_sql() -> None:
    def shown(where: Any) -> str:
        return repr(parse_where(where, SCHEMA))

    assert shown("i > 5 and (s = 'a' or s is null)") == "((i > 5) and ((s = 'a') or (s is null)))"
    assert (
        shown("not s like 'a%' or in.x + 1 < 2")
        == "((not (s like 'a%')) or ((cast(in.x as int64) + cast(1 as int64)) < 2))"
    )
    assert shown(pc.field("i").isin(range(12))) == "(i in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... 2 more))"
    assert shown(pc.field("at") == _NANOSECOND) == "(at = '2023-11-14 22:13:20.000000001Z')"
    assert shown(pc.round(pc.field("f"), 1) == 2).startswith("(round(f, {ndigits=1")


def test_a_node_builds_its_arrow_form_once() -> None:
    tree = parse_where("i = 5", SCHEMA)
    assert tree is not None and tree.to_arrow() is tree.to_arrow()


def test_a_long_chain_is_one_flat_node() -> None:
    chain = pc.field("i") == 0
    for number in range(1, 3000):
        chain = chain | (pc.field("i") == number)
    tree = tree_of(chain, SCHEMA)
    assert isinstance(tree, Call) and tree.function == OR and len(tree.arguments) == 3000
    rows = pa.table({"i": [7, 3000]})
    assert rows.filter(pickle.loads(pickle.dumps(tree)).to_arrow())["i"].to_pylist() == [7]


def test_a_part_that_cannot_be_read_is_opaque_and_filters_rows_exactly() -> None:
    rounded = pc.round(pc.field("f"), 1) == 2.5
    tree = parse_where((pc.field("i") > 1) & rounded, SCHEMA)
    assert isinstance(tree, Call) and tree.function == AND
    readable, other = tree.arguments
    assert readable == Call("greater", (Column(("i",)), Literal.of(1)))
    (part,) = other.opaque_parts()
    assert part.names == ("f",) and tree.columns() == ("i", "f")
    rows = pa.RecordBatch.from_pydict({"i": [0, 2, 3], "f": [2.5, 2.52, 2.6]})
    assert keep(rows, tree)["i"].to_pylist() == [2]
    assert keep(rows, pickle.loads(pickle.dumps(tree)))["i"].to_pylist() == [2]
    (sentence,) = unread_parts(tree)
    assert sentence.startswith("lakebed cannot read round(f, {ndigits=1") and "statistics" in sentence
    assert unread_parts(readable) == unread_parts(None) == ()


def test_an_expression_that_is_nested_too_deeply_is_opaque() -> None:
    deep = pc.field("i") == 1
    for _ in range(601):
        deep = ~deep
    tree = parse_where(deep, SCHEMA)
    assert isinstance(tree, Opaque) and set(tree.columns()) == set(SCHEMA.names)
    rows = pa.RecordBatch.from_pydict({"i": [1, 2]})
    assert keep(rows, tree)["i"].to_pylist() == [2]


def test_an_expression_that_arrow_pickles_in_an_unknown_way_is_opaque(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.kernel.predicates.arrow._MAGIC", b"OTHER1")
    tree = parse_where(pc.field("i") == 1, SCHEMA)
    assert isinstance(tree, Opaque) and tree == Opaque(pc.field("i") == 1, tuple(SCHEMA.names))


def test_a_column_by_its_position_is_refused() -> None:
    with pytest.raises(PredicateError, match="not by their positions"):
        parse_where(pc.field(0) == 1, SCHEMA)


def _kept(rows: pa.Table, expression: pc.Expression) -> list[int]:
    return list(rows.filter(expression)["row"].to_pylist())


def _rows(chance: random.Random) -> pa.Table:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    count = 30
    return pa.table(
        {
            "row": range(count),
            "i": pa.array([maybe(chance.randrange(-3, 4)) for _ in range(count)], pa.int64()),
            "s": pa.array([maybe(chance.choice(["", "a", "aa", "Ab", "b"])) for _ in range(count)]),
            "f": pa.array([maybe(chance.choice([0.0, -0.0, 1.5, float("nan")])) for _ in range(count)]),
        }
    )


def _expression(chance: random.Random, depth: int) -> pc.Expression:
    if depth and chance.random() < 0.7:
        one, other = _expression(chance, depth - 1), _expression(chance, depth - 1)
        return chance.choice(
            [
                one & other,
                one | other,
                ~one,
                pc.if_else(one, other, ~other),
                pc.coalesce(one, other),
                pc.xor(one, other),
            ]
        )
    i, s, f = pc.field("i"), pc.field("s"), pc.field("f")
    number = chance.randrange(-4, 5)
    return chance.choice(
        [
            i == number, i != number, i < number, i <= f, number > i, i.is_null(), f.is_null(nan_is_null=True),
            i.is_valid(), i.isin([number, None]), i + 1 > number, i * 2 - 1 <= number, i.cast(pa.float64()) < f,
            pc.is_nan(f), s == "a", s.isin(["a", "b"]), pc.starts_with(s, "a"), pc.match_like(s, "%b"),
            pc.utf8_lower(s) == "ab", pc.match_substring_regex(s, "^a+$"), pc.utf8_length(s) == 1,
            pc.is_in(s, options=pc.SetLookupOptions(pa.array(["a", None]), skip_nulls=True)),
        ]
    )  # fmt: skip


def _tree(chance: random.Random, depth: int) -> Node:
    if depth and chance.random() < 0.7:
        parts = [_tree(chance, depth - 1) for _ in range(chance.randrange(1, 4))]
        joined = chance.choice([all_of, any_of])(*parts)
        return chance.choice([joined, negated(joined), Call("if_else", (parts[0], joined, parts[-1]))])
    column = Column(chance.choice([("i",), ("in", "x")]))
    compared = Call(chance.choice(["equal", "less", "greater_equal"]), (column, Literal.of(chance.randrange(9))))
    text = Column(("s",))
    return chance.choice(
        [
            compared,
            is_null(column),
            Call("is_null", (Column(("f",)),), NullRule(nan_is_null=True)),
            is_valid(column),
            Call("is_in", (column,), ValueSet(pa.array([1, 2]), skip_nulls=chance.random() < 0.5)),
            Call("match_like", (text,), Pattern("a%", ignore_case=chance.random() < 0.5)),
            Call("equal", (Call("cast", (column,), CastRule(pa.string(), ("allow_invalid_utf8",))), text)),
            Call("greater", (Column(("at",)), Literal(_NANOSECOND))),
        ]
    )
