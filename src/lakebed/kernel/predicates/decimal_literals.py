"""Whole numbers that meet decimals, in a predicate that a user gave as a pyarrow expression.

Arrow gives such a number the precision of every int64 and then refuses the comparison. It also looks decimals up in a
list of integers by cutting off their fractions. So the numbers become decimals. SQL needs none of this: its constants
take the type of their column (`literals.py`).
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from lakebed.kernel.predicates.literals import exactly
from lakebed.kernel.predicates.tree import Call, Column, Literal, Node, ValueSet


def with_decimal_literals(node: Node, schema: pa.Schema) -> Node:
    """The same predicate, with whole numbers as decimals wherever they meet a decimal column of `schema` or a value
    computed from one."""
    return _mended(node, schema)[0]


def _mended(node: Node, schema: pa.Schema) -> tuple[Node, pa.DataType | None]:
    """A node with its decimals, and its type where that is a decimal, else None."""
    if isinstance(node, Column):
        kind = type_of(node, schema)
        return node, kind if kind is not None and pa.types.is_decimal(kind) else None
    if not isinstance(node, Call):
        return node, None
    mended = [_mended(argument, schema) for argument in node.arguments]
    kind = next((kind for _, kind in mended if kind is not None), None)
    arguments = tuple(argument for argument, _ in mended)
    if kind is None:
        return (node if arguments == node.arguments else replace(node, arguments=arguments)), None
    arguments = tuple(_as_decimal(argument) for argument in arguments)
    options = node.options
    listed = isinstance(arguments[0], Column)
    if listed and isinstance(options, ValueSet) and pa.types.is_integer(options.values.type):
        options = ValueSet(_decimals(options.values, kind), options.skip_nulls)
    return Call(node.function, arguments, options), kind if node.function != "cast" else None


def _as_decimal(node: Node) -> Node:
    if isinstance(node, Literal) and pa.types.is_integer(node.value.type):
        return Literal(_decimal(node.value.as_py()))
    return node


def _decimals(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Whole numbers in a decimal type; those that it cannot hold are left out, for they equal nothing."""
    exact = [value for number in values if (value := exactly(_decimal(number.as_py()), kind)) is not None]
    return pa.array([value.as_py() for value in exact], kind)


def _decimal(number: int | None) -> pa.Scalar:
    """A whole number as the narrowest decimal."""
    if number is None:
        return pa.scalar(None, pa.decimal128(1, 0))
    return pa.scalar(Decimal(number), pa.decimal128(len(str(abs(number))), 0))


def type_of(column: Column, schema: pa.Schema) -> pa.DataType | None:
    """The type of a column, or of a field inside one; None for a name that the schema lacks."""
    place = schema.get_field_index(column.path[0])
    if place < 0:
        return None
    kind = schema.field(place).type
    for name in column.path[1:]:
        index = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if index < 0:
            return None
        kind = kind.field(index).type
    return kind
