"""A part of a SQL text as its author wrote it, for errors.

sqlglot's tree says which function or operator is meant, and spells it in Spark's words: `a >> 3` would come back as
SHIFTRIGHT(a, 3), and `nvl(a, b)` as COALESCE(a, b). Names, constants and most functions keep their place in the text.
So a node is the text from the first to the last of them, with the brackets that these leave open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import expressions as sql
from sqlglot.dialects.spark import Spark

from lakebed.kernel.predicates.sql_parse import requoted

_BETWEEN_ITS_PARTS = (sql.Binary, sql.Between, sql.In, sql.Bracket)
"""Nodes whose text begins with a part of theirs: no word or sign comes before it."""
_OPENING, _CLOSING = frozenset("(["), frozenset(")]")


@dataclass(frozen=True)
class _Token:
    """A token, and the places of its first and last character."""

    text: str
    start: int
    end: int


def as_written(node: sql.Expr, where: str) -> str:
    """What a node of the tree of `where` is in the text; in Spark's words where its place cannot be told."""
    text = requoted(where)
    tokens = [_Token(token.text, token.start, token.end) for token in Spark().tokenize(text)]
    first, last = _tokens_of(node, tokens)
    if first < 0 or last >= len(tokens):
        return node.sql(dialect="spark")
    own = where if len(where) == len(text) else text
    return own[tokens[first].start : tokens[last].end + 1]


def _tokens_of(node: sql.Expr, tokens: Sequence[_Token]) -> tuple[int, int]:
    """The first and the last token of a node; the first is negative where it cannot be told."""
    places = _places(node)
    starts = {token.start: number for number, token in enumerate(tokens)}
    ends = {token.end: number for number, token in enumerate(tokens)}
    if not places or min(places)[0] not in starts or max(end for _, end in places) not in ends:
        return -1, -1
    first, last = starts[min(places)[0]], ends[max(end for _, end in places)]
    following = tokens[last + 1].text if last + 1 < len(tokens) else ""
    if isinstance(node, sql.Cast) and following == "::":
        last += 2
    elif isinstance(node, _BETWEEN_ITS_PARTS):
        if isinstance(node, sql.Binary) and not _places(node.args["expression"]):
            last += 2  # the operator, and a constant that the tree holds in another form
    elif isinstance(node, sql.Func):
        if "start" in node.meta:
            last += following == "("
        elif first >= 2 and tokens[first - 1].text == "(" and tokens[first - 2].text.isidentifier():
            first -= 2
        else:
            return -1, -1
    else:
        return -1, -1
    return _balanced(first, last, tokens)


def _places(node: sql.Expr) -> list[tuple[int, int]]:
    """Where in the text a node and what is below it stand, as far as the tree tells."""
    return [(part.meta["start"], part.meta["end"]) for part in node.walk() if "start" in part.meta]


def _balanced(first: int, last: int, tokens: Sequence[_Token]) -> tuple[int, int]:
    """The tokens with those that close or open what is open among them."""
    before = after = 0
    for token in tokens[first : last + 1]:
        if token.text in _OPENING:
            after += 1
        elif token.text in _CLOSING and after:
            after -= 1
        elif token.text in _CLOSING:
            before += 1
    while after and last + 1 < len(tokens):
        last += 1
        after += (tokens[last].text in _OPENING) - (tokens[last].text in _CLOSING)
    while before and first:
        first -= 1
        before += (tokens[first].text in _CLOSING) - (tokens[first].text in _OPENING)
    return first, last
