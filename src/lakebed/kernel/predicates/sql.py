"""SQL predicates as Arrow expressions.

SQL is parsed by sqlglot (Spark's dialect) and turned into Arrow kernels with SQL's three-valued logic. Constants
compare by value (`literals.py`); a timestamp without a zone is UTC against a column that has one. Where this is not
Spark: double quotes name a column, as in standard SQL, and never a text; NaN compares as in IEEE 754 (it equals
nothing), a division by zero is null, and a text column is not compared with a number.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import expressions as sql
from sqlglot.errors import ParseError, SqlglotError

from lakebed.errors import PredicateError, first_line
from lakebed.kernel.predicates.literals import both_zeros, exactly, of_hex, typed
from lakebed.kernel.predicates.where import find_column

_COMPARE: dict[type[sql.Expr], Callable[[Any, Any], Any]] = {
    sql.EQ: operator.eq, sql.NEQ: operator.ne,
    sql.GT: operator.gt, sql.GTE: operator.ge, sql.LT: operator.lt, sql.LTE: operator.le,
}  # fmt: skip
_MATH: dict[type[sql.Expr], Callable[[Any, Any], Any]] = {
    sql.Add: operator.add, sql.Sub: operator.sub, sql.Mul: operator.mul,
}  # fmt: skip
_KNOWN_ARGS = {"this", "expression", "expressions", "low", "high", "negate"}
"""What `boolean` looks at; a node with more to it (ESCAPE, SYMMETRIC, a subquery) is refused, not half understood."""
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`""", re.DOTALL)
_TEXTS_IN_SINGLE_QUOTES = "Write texts in single quotes: double quotes name a column"
_UNKNOWN = pa.scalar(None, pa.bool_())


def expression_of(where: str, schema: pa.Schema) -> pc.Expression:
    """The Arrow expression that a SQL text means for rows of `schema`. Raises PredicateError as `parse_where` does."""
    return _Translation(where, schema).boolean(_parsed(where))


def _parsed(where: str) -> sql.Expr:
    if not where.strip():
        raise PredicateError("where is empty", todo="Leave it out to read every row")
    try:
        return sqlglot.parse_one(_QUOTED.sub(_escaped, where), dialect="spark", into=sql.Condition)
    except SqlglotError as error:
        found = error.errors if isinstance(error, ParseError) else []
        why = str(found[0].get("description") or error) if found else str(error)
        todo = _TEXTS_IN_SINGLE_QUOTES if _has_double_quotes(where) else ""
        raise PredicateError(f"cannot parse where {where!r}", why=why, todo=todo) from error
    except RecursionError as error:
        raise PredicateError("where is nested too deeply", todo="Use IN, or fewer parentheses") from error


def _escaped(quoted: re.Match[str]) -> str:
    """A quoted piece as the parser reads it.

    It takes `''` inside a text, which is a quote in standard SQL and Spark 4, for two texts, and a name in double
    quotes for a text.
    """
    text = quoted[0]
    if text[0] == '"':
        return "`" + text[1:-1].replace('""', '"').replace("`", "``") + "`"
    if text[0] == "`":
        return text
    inner = re.sub(r"\\.|''", lambda part: r"\'" if part[0] == "''" else part[0], text[1:-1], flags=re.DOTALL)
    return f"'{inner}'"


class _Translation:
    """One SQL text against one schema."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text, self._schema = text, schema

    def boolean(self, node: sql.Expr) -> pc.Expression:
        """A node that is true, false or null."""
        positive = self._boolean(node)
        return ~positive if node.args.get("negate") else positive

    def _boolean(self, node: sql.Expr) -> pc.Expression:
        if not isinstance(node, sql.Column) and any(node.args[arg] for arg in node.args.keys() - _KNOWN_ARGS):
            raise self._unsupported(node)
        match node:
            case sql.Paren():
                return self.boolean(node.this)
            case sql.And():
                return functools.reduce(operator.and_, map(self.boolean, node.flatten()))
            case sql.Or():
                return functools.reduce(operator.or_, map(self.boolean, node.flatten()))
            case sql.Not():
                return ~self.boolean(node.this)
            case sql.Boolean():
                return pc.scalar(bool(node.this))
            case sql.Null():
                return pc.scalar(_UNKNOWN)
            case sql.Is():
                return self._is(node)
            case sql.In():
                return self._in(node)
            case sql.Between():
                low, high = self._pair(node.this, node.args["low"]), self._pair(node.this, node.args["high"])
                return operator.ge(*low) & operator.le(*high)
            case sql.Like() | sql.ILike():
                field, _ = self._value(node.this, None)
                return pc.match_like(field, self._text_of(node.expression), ignore_case=isinstance(node, sql.ILike))
            case sql.StartsWith():
                return pc.starts_with(self._value(node.this, None)[0], self._text_of(node.expression))
            case sql.IsNan():
                return self._is_nan(node)
            case sql.NullSafeEQ():
                return self._same(node)
            case sql.NullSafeNEQ():
                return ~self._same(node)
            case sql.Column():
                return self._column(node)[0]
            case _ if type(node) in _COMPARE:
                return _COMPARE[type(node)](*self._pair(node.args["this"], node.args["expression"]))
        raise self._unsupported(node)

    def _pair(self, left: sql.Expr, right: sql.Expr) -> tuple[pc.Expression, pc.Expression]:
        """Two sides of a comparison; a constant takes the type of the other side."""
        if isinstance(left, sql.Null) and isinstance(right, sql.Null):
            return pc.scalar(_UNKNOWN), pc.scalar(_UNKNOWN)
        if _is_constant(left) and (not _is_constant(right) or isinstance(left, sql.Null)):
            field, kind = self._value(right, None)
            return pc.scalar(self._constant(left, kind)), field
        field, kind = self._value(left, None)
        return field, self._value(right, kind)[0]

    def _same(self, node: sql.Expr) -> pc.Expression:
        left, right = self._pair(node.args["this"], node.args["expression"])
        return (left.is_null() & right.is_null()) | (left.is_valid() & right.is_valid() & (left == right))

    def _value(self, node: sql.Expr, kind: pa.DataType | None) -> tuple[pc.Expression, pa.DataType | None]:
        """A node that has a value, and its type; a constant is made of type `kind`."""
        match node:
            case sql.Column():
                return self._column(node)
            case _ if _is_constant(node):
                value = self._constant(node, kind)
                return pc.scalar(value), kind or value.type
            case sql.Paren():
                return self._value(node.this, kind)
            case sql.Neg():
                value, kind = self._number(node.this, kind)
                return pc.negate_checked(value), kind
            case sql.Div():
                return self._quotient(node), pa.float64()
            case sql.Lower() | sql.Upper():
                value, kind = self._value(node.this, kind)
                return (pc.utf8_lower if isinstance(node, sql.Lower) else pc.utf8_upper)(value), kind
            case _ if type(node) in _MATH:
                left, left_kind = self._number(node.args["this"], kind)
                right, right_kind = self._number(node.args["expression"], left_kind)
                widest = right_kind if pa.types.is_integer(left_kind) else left_kind
                return _MATH[type(node)](left, right), widest
        raise self._unsupported(node)

    def _number(self, node: sql.Expr, kind: pa.DataType | None) -> tuple[pc.Expression, pa.DataType]:
        """An operand of arithmetic; whole numbers are computed in 64 bits, where an overflow is an error."""
        if _is_constant(node):
            constant = self._constant(node, kind)
            value, found = pc.scalar(constant), constant.type
        else:
            value, found = self._value(node, kind)
        if found is not None and pa.types.is_integer(found):
            return value.cast(pa.int64()), pa.int64()
        if found is None or not (pa.types.is_floating(found) or pa.types.is_decimal(found)):
            raise self._error(f"{node.sql(dialect='spark')} is no number")
        return value, found

    def _quotient(self, node: sql.Div) -> pc.Expression:
        """`/` divides fractions, as Spark's does; by zero it is null."""
        left, right = (self._number(node.args[side], None)[0].cast(pa.float64()) for side in ("this", "expression"))
        return left / pc.if_else(right == pc.scalar(0.0), pc.scalar(pa.scalar(None, pa.float64())), right)

    def _column(self, node: sql.Column) -> tuple[pc.Expression, pa.DataType]:
        parts = [part.name for part in node.parts]
        name = find_column(parts[0], self._schema.names)
        if name is None:
            near = [known for known in self._schema.names if known.lower() == parts[0].lower()]
            raise PredicateError(
                f"where names the {'ambiguous' if near else 'unknown'} column {parts[0]!r}",
                why="" if near else self._hint,
                todo=f"Columns: {', '.join(near or self._schema.names)}",
            )
        kind = self._schema.field(name).type
        path = [name]
        for part in parts[1:]:
            child = find_column(part, [field.name for field in kind]) if pa.types.is_struct(kind) else None
            if child is None:
                raise self._error(f"{node.sql()} names no field")
            path.append(child)
            kind = kind.field(child).type
        return pc.field(*path) if len(path) > 1 else pc.field(name), kind

    def _is(self, node: sql.Is) -> pc.Expression:
        if isinstance(node.expression, sql.Null):
            return self._value(node.this, None)[0].is_null()
        if isinstance(node.expression, sql.Boolean):
            value = self.boolean(node.this)
            return pc.coalesce(value if node.expression.this else ~value, pc.scalar(False))
        raise self._unsupported(node)

    def _is_nan(self, node: sql.IsNan) -> pc.Expression:
        """`isnan(x)`, which is false for null as in Spark."""
        value, kind = self._value(node.this, None)
        if kind is None or not pa.types.is_floating(kind):
            raise self._error(f"isnan takes a float or double, {node.this.sql(dialect='spark')} is {kind}")
        return pc.coalesce(pc.is_nan(value), pc.scalar(False))

    def _in(self, node: sql.In) -> pc.Expression:
        field, kind = self._value(node.this, None)
        if kind is None or pa.types.is_null(kind) or not node.expressions:
            raise self._error("IN takes a column and a list of values")
        values = [self._constant(item, kind) for item in node.expressions]
        known = [exact for value in values if value.is_valid and (exact := exactly(value, kind)) is not None]
        if pa.types.is_floating(kind):
            known = both_zeros(known)
        found = pc.is_in(field, value_set=pa.array(known, kind.value_type if pa.types.is_dictionary(kind) else kind))
        # null IN (...) is null, and so is a miss when the list holds a null
        has_null = any(not value.is_valid for value in values)
        unknown = field.is_null() | ~found if has_null else field.is_null()
        return pc.if_else(unknown, pc.scalar(_UNKNOWN), found)

    def _text_of(self, node: sql.Expr) -> str:
        if not isinstance(node, sql.Literal) or not node.is_string:
            raise self._error("a pattern must be a text")
        return str(node.this)

    def _constant(self, node: sql.Expr, kind: pa.DataType | None) -> pa.Scalar:
        """A constant, for a comparison with a column of type `kind`."""
        if isinstance(node, sql.Paren):
            return self._constant(node.this, kind)
        if isinstance(node, sql.Null):
            return pa.scalar(None, kind.value_type if kind is not None and pa.types.is_dictionary(kind) else kind)
        if isinstance(node, sql.Boolean):
            return pa.scalar(bool(node.this))
        if isinstance(node, sql.HexString):
            return self._bytes(node, kind)
        negative = isinstance(node, sql.Neg)
        inner = node.this if negative else node
        if not negative and isinstance(inner, sql.Cast | sql.Date | sql.Timestamp | sql.TsOrDsToDate):
            return self._cast(inner, kind)
        if not isinstance(inner, sql.Literal) or (negative and inner.is_string):
            raise self._error(f"{node.sql(dialect='spark')} is not a constant")
        return self._typed(f"-{inner.this}" if negative else str(inner.this), inner.is_string, kind)

    def _bytes(self, node: sql.HexString, kind: pa.DataType | None) -> pa.Scalar:
        is_bytes = (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        )
        if kind is not None and not any(is_kind(kind) for is_kind in is_bytes):
            raise self._error(f"{node.sql(dialect='spark')} is binary, the column is {kind}")
        try:
            return of_hex(str(node.this))
        except ValueError as error:
            raise self._error(f"{node.sql(dialect='spark')} has other letters than hexadecimal digits") from error

    def _cast(self, node: sql.Expr, kind: pa.DataType | None) -> pa.Scalar:
        """`DATE '...'`, `TIMESTAMP '...'` and CAST of a constant."""
        target = _cast_type(node)
        if target is None:
            raise self._unsupported(node)
        if pa.types.is_timestamp(target) and kind is not None and pa.types.is_timestamp(kind):
            target = kind
        elif pa.types.is_timestamp(target) and kind is not None and pa.types.is_date(kind):
            target = pa.timestamp("us")
        value = self._constant(node.this, target)
        if pa.types.is_date(target) and kind is not None and pa.types.is_timestamp(kind) and value.is_valid:
            return self._typed(value.as_py().isoformat(), True, kind)
        return value

    def _typed(self, text: str, quoted: bool, kind: pa.DataType | None) -> pa.Scalar:
        try:
            return typed(text, quoted, kind)
        except (ValueError, pa.ArrowNotImplementedError) as error:
            raise self._error(f"{text!r} is no {kind} ({first_line(error)})") from error

    def _unsupported(self, node: sql.Expr) -> PredicateError:
        return self._error(f"{node.sql(dialect='spark')} is not supported in where")

    def _error(self, why: str) -> PredicateError:
        return PredicateError(f"cannot use where {self._text!r}", why=why, todo=self._hint)

    @property
    def _hint(self) -> str:
        """What to do about double quotes, where the text has some; "" elsewhere."""
        return _TEXTS_IN_SINGLE_QUOTES if _has_double_quotes(self._text) else ""


def _has_double_quotes(where: str) -> bool:
    return any(quoted[0].startswith('"') for quoted in _QUOTED.finditer(where))


_TYPE = sql.DataType.Type
_CASTS = {
    _TYPE.DATE: pa.date32(),
    _TYPE.TIMESTAMP: pa.timestamp("us", "UTC"),
    _TYPE.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    _TYPE.TIMESTAMPLTZ: pa.timestamp("us", "UTC"),
    _TYPE.TIMESTAMPNTZ: pa.timestamp("us"),
    _TYPE.BIGINT: pa.int64(),
    _TYPE.INT: pa.int32(),
    _TYPE.TEXT: pa.string(),
    _TYPE.DOUBLE: pa.float64(),
    _TYPE.TIME: pa.time64("us"),
}


def _cast_type(node: sql.Expr) -> pa.DataType | None:
    if isinstance(node, sql.Cast):
        return _CASTS.get(node.to.this)
    return pa.timestamp("us", "UTC") if isinstance(node, sql.Timestamp) else pa.date32()


def _is_constant(node: sql.Expr) -> bool:
    if isinstance(node, sql.Literal | sql.Null | sql.Boolean | sql.HexString):
        return True
    return isinstance(
        node, sql.Neg | sql.Cast | sql.Paren | sql.Date | sql.Timestamp | sql.TsOrDsToDate
    ) and _is_constant(node.this)
