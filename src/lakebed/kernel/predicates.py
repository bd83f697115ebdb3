"""`where`, as SQL text or as a pyarrow expression: one canonical form, the pyarrow expression.

SQL is parsed by sqlglot (Spark's dialect) and turned into Arrow kernels with SQL's three-valued logic; a row is kept when the predicate is
true, neither when it is false nor when it is null. Literals take the type of the column that they are held against.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import expressions as sql

from lakebed.errors import PredicateError

Where = str | pc.Expression | None
"""What users hand in."""

_COMPARE: dict[type[sql.Expression], Callable[[Any, Any], Any]] = {
    sql.EQ: operator.eq, sql.NEQ: operator.ne, sql.GT: operator.gt, sql.GTE: operator.ge, sql.LT: operator.lt, sql.LTE: operator.le,
}  # fmt: skip
_MIRROR = {sql.GT: sql.LT, sql.LT: sql.GT, sql.GTE: sql.LTE, sql.LTE: sql.GTE, sql.EQ: sql.EQ, sql.NEQ: sql.NEQ}
_MATH: dict[type[sql.Expression], Callable[[Any, Any], Any]] = {
    sql.Add: operator.add, sql.Sub: operator.sub, sql.Mul: operator.mul, sql.Div: operator.truediv,
}  # fmt: skip


def parse_where(where: Where, schema: pa.Schema) -> pc.Expression | None:
    """The canonical predicate, None for "every row".

    Raises PredicateError when the text does not parse, names no column of `schema` (the nearest is named), or compares what cannot be compared.
    """
    if where is None:
        return None
    if isinstance(where, pc.Expression):
        predicate = where
    else:
        try:
            tree = sqlglot.parse_one(where, dialect="spark", into=sql.Condition) if where.strip() else None
        except sqlglot.ParseError as error:
            raise PredicateError(
                f"cannot parse where {where!r}", why=error.errors[0]["description"] if error.errors else str(error)
            ) from error
        if tree is None:
            raise PredicateError("where is empty", todo="Leave it out to read every row")
        predicate = _Translation(where, schema).boolean(tree)
    try:
        pa.Table.from_batches([], schema=schema).filter(predicate)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise PredicateError(f"where {where!s} does not fit the table", why=str(error).splitlines()[0]) from error
    return predicate


def columns_of(where: Where, schema: pa.Schema) -> tuple[str, ...]:
    """The columns of `schema` that a predicate reads, in the schema's order."""
    predicate = parse_where(where, schema)
    if predicate is None:
        return ()
    return tuple(name for name in schema.names if not _binds(predicate, schema.remove(schema.get_field_index(name))))


def _binds(predicate: pc.Expression, schema: pa.Schema) -> bool:
    try:
        pa.Table.from_batches([], schema=schema).filter(predicate)
    except pa.ArrowInvalid:
        return False
    return True


def find_column(name: str, names: list[str]) -> str | None:
    """The column of that name: as written, else the only one that differs in case alone."""
    if name in names:
        return name
    near = [known for known in names if known.lower() == name.lower()]
    return near[0] if len(near) == 1 else None


class _Translation:
    """One SQL text against one schema."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text, self._schema = text, schema

    def boolean(self, node: sql.Expression) -> pc.Expression:
        """A node that is true, false or null."""
        match node:
            case sql.Paren():
                return self.boolean(node.this)
            case sql.And():
                return self.boolean(node.left) & self.boolean(node.right)
            case sql.Or():
                return self.boolean(node.left) | self.boolean(node.right)
            case sql.Not():
                return ~self.boolean(node.this)
            case sql.Boolean():
                return pc.scalar(bool(node.this))
            case sql.Is():
                return self._is(node)
            case sql.In():
                return self._in(node)
            case sql.Between():
                field, kind = self._value(node.this, None)
                return (field >= self._literal(node.args["low"], kind)) & (
                    field <= self._literal(node.args["high"], kind)
                )
            case sql.Like() | sql.ILike():
                field, _ = self._value(node.this, None)
                return pc.match_like(field, self._text_of(node.expression), ignore_case=isinstance(node, sql.ILike))
            case sql.StartsWith():
                return pc.starts_with(self._value(node.this, None)[0], self._text_of(node.expression))
            case sql.NullSafeEQ():
                left, right = self._pair(node)
                return (left.is_null() & right.is_null()) | (left.is_valid() & right.is_valid() & (left == right))
            case sql.Column():
                return self._column(node)[0]
            case _ if type(node) in _COMPARE:
                left, right = self._pair(node)
                return _COMPARE[type(node)](left, right)
        raise self._error(f"{node.sql(dialect='spark')} is not supported in where")

    def _pair(self, node: sql.Expression) -> tuple[pc.Expression, pc.Expression]:
        left, right = node.args["this"], node.args["expression"]
        if _is_constant(left) and not _is_constant(right):
            field, kind = self._value(right, None)
            return self._literal(left, kind), field
        field, kind = self._value(left, None)
        return field, self._value(right, kind)[0]

    def _value(self, node: sql.Expression, kind: pa.DataType | None) -> tuple[pc.Expression, pa.DataType | None]:
        if isinstance(node, sql.Paren):
            return self._value(node.this, kind)
        if isinstance(node, sql.Column):
            return self._column(node)
        if _is_constant(node):
            return self._literal(node, kind), kind
        if type(node) in _MATH:
            left, kind = self._value(node.args["this"], kind)
            return _MATH[type(node)](left, self._value(node.args["expression"], kind)[0]), kind
        if isinstance(node, sql.Lower | sql.Upper):
            field, kind = self._value(node.this, kind)
            return (pc.utf8_lower if isinstance(node, sql.Lower) else pc.utf8_upper)(field), kind
        raise self._error(f"{node.sql(dialect='spark')} is not supported in where")

    def _column(self, node: sql.Column) -> tuple[pc.Expression, pa.DataType]:
        parts = [part.name for part in node.parts]
        name = find_column(parts[0], self._schema.names)
        if name is None:
            raise PredicateError(
                f"where names the unknown column {parts[0]!r}", todo=f"Columns: {', '.join(self._schema.names)}"
            )
        kind = self._schema.field(name).type
        for part in parts[1:]:
            if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
                raise self._error(f"{node.sql()} names no field")
            kind = kind.field(part).type
        return pc.field(name, *parts[1:]) if len(parts) > 1 else pc.field(name), kind

    def _is(self, node: sql.Is) -> pc.Expression:
        if isinstance(node.expression, sql.Null):
            return self._value(node.this, None)[0].is_null()
        if isinstance(node.expression, sql.Boolean):
            return pc.fill_null(self.boolean(node.this) == pc.scalar(bool(node.expression.this)), False)
        raise self._error(f"{node.sql()} is not supported in where")

    def _in(self, node: sql.In) -> pc.Expression:
        field, kind = self._value(node.this, None)
        if kind is None or not node.expressions:
            raise self._error("IN takes a column and a list of values")
        values = [self._constant(item, kind) for item in node.expressions]
        known = [value for value in values if value.is_valid]
        found = pc.is_in(field, value_set=pa.array([v.as_py() for v in known], kind))
        # null IN (...) is null, and so is a miss when the list holds a null
        miss_is_null = len(known) < len(values)
        unknown = field.is_null() | ~found if miss_is_null else field.is_null()
        return pc.if_else(unknown, pc.scalar(pa.scalar(None, pa.bool_())), found)

    def _text_of(self, node: sql.Expression) -> str:
        if not isinstance(node, sql.Literal) or not node.is_string:
            raise self._error("a pattern must be a text")
        return str(node.this)

    def _literal(self, node: sql.Expression, kind: pa.DataType | None) -> pc.Expression:
        return pc.scalar(self._constant(node, kind))

    def _constant(self, node: sql.Expression, kind: pa.DataType | None) -> pa.Scalar:
        """A constant in the type that it is compared with; a fraction against a whole number keeps its fraction."""
        if isinstance(node, sql.Paren):
            return self._constant(node.this, kind)
        if isinstance(node, sql.Null):
            return pa.scalar(None, kind)
        if isinstance(node, sql.Boolean):
            return pa.scalar(bool(node.this))
        negative = isinstance(node, sql.Neg)
        inner = node.this if negative else node
        if isinstance(inner, sql.Cast):
            return self._constant(inner.this, _CASTS.get(inner.to.this, kind))
        if isinstance(inner, sql.Date | sql.Timestamp | sql.TsOrDsToDate) and inner.this is not None:
            return self._constant(inner.this, kind)
        if not isinstance(inner, sql.Literal):
            raise self._error(f"{node.sql(dialect='spark')} is not a constant")
        text = f"-{inner.this}" if negative else str(inner.this)
        try:
            return _typed(text, inner.is_string, kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise self._error(f"{text!r} is no {kind}") from error

    def _error(self, why: str) -> PredicateError:
        return PredicateError(f"cannot use where {self._text!r}", why=why)


_CASTS = {
    sql.DataType.Type.DATE: pa.date32(), sql.DataType.Type.TIMESTAMP: pa.timestamp("us", "UTC"), sql.DataType.Type.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    sql.DataType.Type.TIMESTAMPNTZ: pa.timestamp("us"), sql.DataType.Type.BIGINT: pa.int64(), sql.DataType.Type.INT: pa.int32(),
    sql.DataType.Type.TEXT: pa.string(), sql.DataType.Type.DOUBLE: pa.float64(),
}  # fmt: skip


def _is_constant(node: sql.Expression) -> bool:
    if isinstance(node, sql.Literal | sql.Null | sql.Boolean):
        return True
    return isinstance(
        node, sql.Neg | sql.Cast | sql.Paren | sql.Date | sql.Timestamp | sql.TsOrDsToDate
    ) and _is_constant(node.this)


def _typed(text: str, is_string: bool, kind: pa.DataType | None) -> pa.Scalar:
    if kind is None:
        return (
            pa.scalar(text)
            if is_string
            else (pa.scalar(float(text)) if not text.lstrip("-").isdigit() else pa.scalar(int(text)))
        )
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind) and not is_string and not text.lstrip("-").isdigit():
        return pa.scalar(float(text))
    if pa.types.is_integer(kind) and not is_string and not -(2**31) <= int(text) < 2**31:
        return pa.scalar(int(text), pa.int64())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.scalar(text.encode(), kind)
    if pa.types.is_decimal(kind) and not is_string:
        return (
            pa.scalar(text).cast(pa.decimal128(38, kind.scale))
            if "." not in text
            else pa.scalar(text).cast(pa.decimal128(38, max(kind.scale, len(text.rpartition(".")[2]))))
        )
    if pa.types.is_timestamp(kind) and kind.tz:
        return (
            pa.scalar(text).cast(pa.timestamp(kind.unit)).cast(pa.timestamp(kind.unit, "UTC")).cast(kind)
            if not text.endswith("Z")
            else pa.scalar(text).cast(kind)
        )
    return pa.scalar(text).cast(kind)
