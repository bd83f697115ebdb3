"""SQL text to the syntax tree of sqlglot, with our rules for quotes.

sqlglot reads Spark's dialect, where double quotes hold a text. Here they name a column, as in standard SQL, so that
`"dt" = '2026-03-02'` never compares two texts and silently keeps nothing. A quote inside a text is written `''`, as in
standard SQL and Spark 4, or `\\'`.
"""

from __future__ import annotations

import re

import sqlglot
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from lakebed.errors import PredicateError
from lakebed.kernel.sql_mistakes import mistake_in

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`""", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w)\]])[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")
_OPERATOR = re.compile(r"(?i)[-+*/%|&^.:\[<>=]+|\b(?:and|or|not|is|div)\b")
_MOST_OPERATORS = 10_000
"""sqlglot makes a tree as deep as a chain of operators is long, and a tree of 10,000 conditions overflows the stack of
the process when it is freed. Each condition has two operators: its own, and what joins it to the next."""
_TEXTS_IN_SINGLE_QUOTES = "Write texts in single quotes: double quotes name a column"


def parsed(where: str) -> sql.Expr:
    """The syntax tree of a condition. PredicateError when the text is empty, is not one condition, or nests too
    deeply."""
    if not where.strip():
        raise PredicateError("where is empty", todo="Leave it out to read every row")
    plain = _NUMBER.sub("0", _QUOTED.sub("''", where))
    if sum(1 for _ in _OPERATOR.finditer(plain)) > _MOST_OPERATORS:
        raise PredicateError(f"where has more than {_MOST_OPERATORS} operators", todo="Use IN, which has no such limit")
    try:
        return sqlglot.parse_one(requoted(where), dialect="spark", into=sql.Condition)
    except SqlglotError as error:
        raise PredicateError(
            f"cannot parse where {where!r}", why=mistake_in(error), todo=quoting_hint(where)
        ) from error
    except RecursionError as error:
        raise nested_too_deeply() from error


def requoted(where: str) -> str:
    """The text as sqlglot reads it, with our rules for quotes."""
    return _QUOTED.sub(_requoted, where)


def nested_too_deeply() -> PredicateError:
    """The error for a condition whose tree is deeper than Python's stack."""
    return PredicateError("where is nested too deeply", todo="Use IN, or fewer parentheses and chained operators")


def quoting_hint(where: str) -> str:
    """What to do about double quotes, for the error of a text that has some; "" for other texts."""
    has_double_quotes = any(quoted[0].startswith('"') for quoted in _QUOTED.finditer(where))
    return _TEXTS_IN_SINGLE_QUOTES if has_double_quotes else ""


def _requoted(quoted: re.Match[str]) -> str:
    """A quoted piece as sqlglot reads it: names in backticks, and a quote inside a text with a backslash."""
    text = quoted[0]
    if text[0] == '"':
        return "`" + text[1:-1].replace('""', '"').replace("`", "``") + "`"
    if text[0] == "`":
        return text
    inner = re.sub(r"\\.|''", lambda part: r"\'" if part[0] == "''" else part[0], text[1:-1], flags=re.DOTALL)
    return f"'{inner}'"
