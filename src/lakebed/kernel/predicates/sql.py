"""SQL predicates as predicate trees.

sqlglot parses the text (`sql_parse.py`), and this module turns its syntax tree into calls of Arrow's kernels with SQL's
three-valued logic. Constants compare by value (`literals.py`). A timestamp without a zone is UTC against a column that
has one. The whole subset is described in docs/where.md, and so are the differences from Spark: double quotes name a
column, NaN compares as in IEEE 754 (it equals nothing), a division by zero is null, and a text column is not compared
with a number.
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from lakebed.errors import PredicateError, first_line, known_columns
from lakebed.kernel.predicates.as_written import as_written
from lakebed.kernel.predicates.literals import equal_floats, exactly, of_hex, typed
from lakebed.kernel.predicates.sql_parse import nested_too_deeply, parsed, quoting_hint
from lakebed.kernel.predicates.tree import (
    FALSE,
    UNKNOWN,
    Call,
    CastRule,
    Column,
    Literal,
    Node,
    Pattern,
    ValueSet,
    all_of,
    any_of,
    is_null,
    is_valid,
    negated,
)
from lakebed.kernel.predicates.where import find_column

Typed: TypeAlias = tuple[Node, pa.DataType | None]
"""A node with a value, and the type of that value; None for an untyped null."""

_COMPARE: dict[type[sql.Expr], str] = {
    sql.EQ: "equal",
    sql.NEQ: "not_equal",
    sql.GT: "greater",
    sql.GTE: "greater_equal",
    sql.LT: "less",
    sql.LTE: "less_equal",
}
_MATH: dict[type[sql.Expr], str] = {sql.Add: "add_checked", sql.Sub: "subtract_checked", sql.Mul: "multiply_checked"}
_SERVED = (
    "Use comparisons, IN, BETWEEN, LIKE, IS NULL, AND, OR, NOT, + - * /, lower and upper (docs/where.md), and filter "
    "the rows that you read by the rest"
)
"""The advice in errors about SQL that `where` does not support."""
_UNDERSTOOD = {"this", "expression", "expressions", "low", "high", "negate"}
"""The arguments that `boolean` looks at. A node with others (ESCAPE, SYMMETRIC, a subquery) is refused."""


def predicate_of(where: str, schema: pa.Schema) -> Node:
    """The tree that a SQL text means for rows of `schema`. Raises PredicateError as `parse_where` does."""
    try:
        return _Translation(where, schema).boolean(parsed(where))
    except RecursionError as error:
        raise nested_too_deeply() from error
    except SqlglotError as error:  # sqlglot may also fail to spell a part of the text for an error
        raise PredicateError(f"cannot use where {where[:200]!r}", why=first_line(error)) from error


class _Translation:
    """One SQL text against one schema."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text, self._schema = text, schema

    def boolean(self, node: sql.Expr) -> Node:
        """A node that is true, false or null."""
        positive = self._boolean(node)
        return negated(positive) if node.args.get("negate") else positive

    def _boolean(self, node: sql.Expr) -> Node:
        if not isinstance(node, sql.Column) and any(node.args[arg] for arg in node.args.keys() - _UNDERSTOOD):
            raise self._unsupported(node)
        match node:
            case sql.Paren():
                return self.boolean(node.this)
            case sql.And():
                return all_of(*map(self.boolean, node.flatten()))
            case sql.Or():
                return any_of(*map(self.boolean, node.flatten()))
            case sql.Not():
                return negated(self.boolean(node.this))
            case sql.Boolean():
                return Literal.of(bool(node.this))
            case sql.Null():
                return UNKNOWN
            case sql.Is():
                return self._is(node)
            case sql.In():
                return self._in(node)
            case sql.Between():
                low, high = self._pair(node.this, node.args["low"]), self._pair(node.this, node.args["high"])
                return all_of(Call("greater_equal", low), Call("less_equal", high))
            case sql.Like() | sql.ILike():
                pattern = Pattern(self._text_of(node.expression), ignore_case=isinstance(node, sql.ILike))
                return Call("match_like", (self._value(node.this, None)[0],), pattern)
            case sql.StartsWith():
                prefix = Pattern(self._text_of(node.expression))
                return Call("starts_with", (self._value(node.this, None)[0],), prefix)
            case sql.IsNan():
                return self._is_nan(node)
            case sql.NullSafeEQ():
                return self._same(node)
            case sql.NullSafeNEQ():
                return negated(self._same(node))
            case sql.Column():
                return self._column(node)[0]
            case _ if type(node) in _COMPARE:
                return Call(_COMPARE[type(node)], self._pair(node.args["this"], node.args["expression"]))
        raise self._unsupported(node)

    def _pair(self, left: sql.Expr, right: sql.Expr) -> tuple[Node, Node]:
        """Two sides of a comparison; a constant takes the type of the other side."""
        if isinstance(left, sql.Null) and isinstance(right, sql.Null):
            return UNKNOWN, UNKNOWN
        if _is_constant(left) and (not _is_constant(right) or isinstance(left, sql.Null)):
            value, kind = self._value(right, None)
            return Literal(self._constant(left, kind)), value
        value, kind = self._value(left, None)
        return value, self._value(right, kind)[0]

    def _same(self, node: sql.Expr) -> Node:
        """`<=>`: equality for which null equals null."""
        left, right = self._pair(node.args["this"], node.args["expression"])
        equal = all_of(is_valid(left), is_valid(right), Call("equal", (left, right)))
        return any_of(all_of(is_null(left), is_null(right)), equal)

    def _value(self, node: sql.Expr, kind: pa.DataType | None) -> Typed:
        """A node that has a value, and its type. A constant takes the type `kind`."""
        match node:
            case sql.Column():
                return self._column(node)
            case _ if _is_constant(node):
                constant = self._constant(node, kind)
                return Literal(constant), kind or constant.type
            case sql.Paren():
                return self._value(node.this, kind)
            case sql.Neg():
                value, kind = self._number(node.this, kind)
                return Call("negate_checked", (value,)), kind
            case sql.Div():
                return self._quotient(node), pa.float64()
            case sql.Lower() | sql.Upper():
                value, kind = self._value(node.this, kind)
                return Call("utf8_lower" if isinstance(node, sql.Lower) else "utf8_upper", (value,)), kind
            case _ if type(node) in _MATH:
                left, left_kind = self._number(node.args["this"], kind)
                right, right_kind = self._number(node.args["expression"], left_kind)
                widest = right_kind if pa.types.is_integer(left_kind) else left_kind
                return Call(_MATH[type(node)], (left, right)), widest
        raise self._unsupported(node)

    def _number(self, node: sql.Expr, kind: pa.DataType | None) -> tuple[Node, pa.DataType]:
        """An operand of arithmetic. Whole numbers are computed in 64 bits, and an overflow is an error."""
        if _is_constant(node):
            constant = self._constant(node, kind)
            value: Node = Literal(constant)
            own: pa.DataType | None = constant.type
        else:
            value, own = self._value(node, kind)
        if own is not None and pa.types.is_integer(own):
            return _as_type(value, pa.int64()), pa.int64()
        if own is None or not (pa.types.is_floating(own) or pa.types.is_decimal(own)):
            raise self._error(f"{as_written(node, self._text)} is not a number")
        return value, own

    def _quotient(self, node: sql.Div) -> Node:
        """`/` divides as doubles, as Spark does. A division by zero is null."""
        left, right = (
            _as_type(self._number(node.args[side], None)[0], pa.float64()) for side in ("this", "expression")
        )
        is_zero = Call("equal", (right, Literal.of(0.0)))
        divisor = Call("if_else", (is_zero, Literal.of(None, pa.float64()), right))
        return Call("divide_checked", (left, divisor))

    def _column(self, node: sql.Column) -> tuple[Column, pa.DataType]:
        parts = [part.name for part in node.parts]
        name = find_column(parts[0], self._schema.names)
        if name is None:
            near = [other for other in self._schema.names if other.lower() == parts[0].lower()]
            raise PredicateError(
                f"where names the {'ambiguous' if near else 'unknown'} column {parts[0]!r}",
                why="" if near else quoting_hint(self._text),
                todo=known_columns(parts[0], near or self._schema.names),
            )
        kind = self._schema.field(name).type
        path = [name]
        for part in parts[1:]:
            child = find_column(part, [field.name for field in kind]) if pa.types.is_struct(kind) else None
            if child is None:
                raise self._error(f"{as_written(node, self._text)} names no field of a struct")
            path.append(child)
            kind = kind.field(child).type
        return Column(tuple(path)), kind

    def _is(self, node: sql.Is) -> Node:
        if isinstance(node.expression, sql.Null):
            return is_null(self._value(node.this, None)[0])
        if isinstance(node.expression, sql.Boolean):
            value = self.boolean(node.this)
            return Call("coalesce", (value if node.expression.this else negated(value), FALSE))
        raise self._unsupported(node)

    def _is_nan(self, node: sql.IsNan) -> Node:
        """`isnan(x)`, which is false for null as in Spark."""
        value, kind = self._value(node.this, None)
        if kind is None or not pa.types.is_floating(kind):
            raise self._error(f"isnan takes a float or double, {as_written(node.this, self._text)} is {kind}")
        return Call("coalesce", (Call("is_nan", (value,)), FALSE))

    def _in(self, node: sql.In) -> Node:
        """`x IN (...)`, which is null for a null `x`, and for a miss where the list holds a null."""
        value, kind = self._value(node.this, None)
        if kind is None or pa.types.is_null(kind) or not node.expressions:
            raise self._error("IN takes a column and a list of values")
        listed = [self._constant(item, kind) for item in node.expressions]
        has_null = not all(item.is_valid for item in listed)
        members = [exact for item in listed if item.is_valid and (exact := exactly(item, kind)) is not None]
        if pa.types.is_floating(kind):
            members = equal_floats(members)
        values = pa.array(members, kind.value_type if pa.types.is_dictionary(kind) else kind)
        is_in = Call("is_in", (value,), ValueSet(values))
        unknown = any_of(is_null(value), negated(is_in)) if has_null else is_null(value)
        return Call("if_else", (unknown, UNKNOWN, is_in))

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
            raise self._error(f"{as_written(node, self._text)} is not a constant")
        return self._typed(f"-{inner.this}" if negative else str(inner.this), inner.is_string, kind)

    def _bytes(self, node: sql.HexString, kind: pa.DataType | None) -> pa.Scalar:
        is_bytes = (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        )
        if kind is not None and not any(is_kind(kind) for is_kind in is_bytes):
            raise self._error(f"{as_written(node, self._text)} is binary, the column is {kind}")
        try:
            return of_hex(str(node.this))
        except ValueError as error:
            raise self._error(f"{as_written(node, self._text)} has digits that are not hexadecimal") from error

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
            raise self._error(f"{text!r} is not of type {kind} ({first_line(error)})") from error

    def _unsupported(self, node: sql.Expr) -> PredicateError:
        return self._error(f"{as_written(node, self._text)} is not supported in where", _SERVED)

    def _error(self, why: str, todo: str = "") -> PredicateError:
        hint = quoting_hint(self._text) or todo
        return PredicateError(f"cannot use where {self._text!r}", why=why, todo=hint)


def _as_type(value: Node, kind: pa.DataType) -> Node:
    return Call("cast", (value,), CastRule(kind))


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
