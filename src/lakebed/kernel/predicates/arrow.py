"""What a pyarrow expression says, as a tree: for planners that rule out files by it, which Arrow itself does only one
file at a time.

An expression shows its parts to Python in no other way than by its pickled form: an Arrow file whose schema metadata
lists the nodes in prefix order and whose one row holds the constants. Metadata with repeated keys is not given out by
pyarrow either, so that the few flatbuffer tables around it are read here. A form that is not known gives no tree, and
then nothing is ruled out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.predicates.literals import exactly

_MAGIC = b"ARROW1"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field inside one."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function of Arrow's compute registry, with its arguments and options."""

    function: str
    arguments: tuple[Node, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


Node: TypeAlias = Literal | Field | Call


def tree_of(expression: pc.Expression) -> Node | None:
    """The expression as a tree, None where its form is not known."""
    try:
        data = bytes(expression.__reduce__()[1][0])
        constants = pa.ipc.open_file(pa.py_buffer(data)).get_batch(0)
        tokens = iter(_metadata(data))
        return _node(*next(tokens), tokens, constants)
    except (pa.ArrowInvalid, struct.error, StopIteration, ValueError, IndexError, TypeError, AttributeError):
        return None


def fields_of(node: Node) -> set[str]:
    """The top-level columns that a tree reads."""
    if isinstance(node, Field):
        return {node.path[0]}
    return set().union(*map(fields_of, node.arguments)) if isinstance(node, Call) else set()


def with_decimal_constants(expression: pc.Expression, schema: pa.Schema) -> pc.Expression:
    """The same expression with its whole numbers as decimals wherever they meet a decimal of `schema`.

    Arrow gives such a number the precision of every int64 and then refuses the comparison, and it looks decimals up in
    a list of integers by cutting their fractions. An expression without such a place comes back as it is.
    """
    tree = tree_of(expression)
    if tree is None:
        return expression
    decimals: dict[int, pa.Scalar] = {}
    _find_decimals(tree, schema, count(), decimals)
    if not decimals:
        return expression
    rebuild, (data, *_) = expression.__reduce__()
    constants = pa.ipc.open_file(pa.py_buffer(bytes(data))).get_batch(0)
    columns = [
        pa.array([decimals[place].as_py()], decimals[place].type) if place in decimals else column
        for place, column in enumerate(constants.columns)
    ]
    shape = pa.schema(
        [pa.field(name, column.type) for name, column in zip(constants.schema.names, columns, strict=True)],
        metadata=pa.KeyValueMetadata(_metadata(bytes(data))),
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, shape) as file:
        file.write_batch(pa.RecordBatch.from_arrays(columns, schema=shape))
    return rebuild(sink.getvalue())


def _find_decimals(node: Node, schema: pa.Schema, places: Iterator[int], decimals: dict[int, pa.Scalar]) -> Any:
    """The type of a node that is a decimal column or computed from one, else None.

    `places` numbers the constants as the pickled form does: in prefix order, a call's options after its arguments.
    """
    if isinstance(node, Literal):
        next(places)
        return None
    if isinstance(node, Field):
        kind = _type_of(node, schema)
        return kind if kind is not None and pa.types.is_decimal(kind) else None
    whole: dict[int, int | None] = {}
    kind = None
    for argument in node.arguments:
        if isinstance(argument, Literal) and pa.types.is_integer(argument.value.type):
            whole[next(places)] = argument.value.as_py()
        else:
            found = _find_decimals(argument, schema, places, decimals)
            kind = kind or found
    options = next(places) if node.options else None
    if kind is None:
        return None
    for place, number in whole.items():
        decimals[place] = _decimal(number)
    if node.function == "is_in" and options is not None and isinstance(node.arguments[0], Field):
        _exact_list(node, kind, options, decimals)
    return kind if node.function != "cast" else None


def _exact_list(node: Call, kind: pa.DataType, place: int, decimals: dict[int, pa.Scalar]) -> None:
    values = pa.array(node.options["value_set"].values)
    if pa.types.is_integer(values.type):
        known = [exact for value in values if (exact := exactly(_decimal(value.as_py()), kind)) is not None]
        options = {**node.options, "value_set": pa.scalar([value.as_py() for value in known], pa.list_(kind))}
        fields = [pa.field(name, value.type) for name, value in options.items()]
        decimals[place] = pa.scalar({name: value.as_py() for name, value in options.items()}, pa.struct(fields))


def _decimal(number: int | None) -> pa.Scalar:
    """A whole number as the narrowest decimal."""
    if number is None:
        return pa.scalar(None, pa.decimal128(1, 0))
    return pa.scalar(Decimal(number), pa.decimal128(len(str(abs(number))), 0))


def _type_of(node: Field, schema: pa.Schema) -> pa.DataType | None:
    kind: pa.DataType = pa.struct(list(schema))
    for name in node.path:
        index = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if index < 0:
            return None
        kind = kind.field(index).type
    return kind


Tokens = Iterator[tuple[str, str]]


def _node(kind: str, text: str, tokens: Tokens, constants: pa.RecordBatch) -> Node:
    if kind == "literal":
        return Literal(constants.column(int(text))[0])
    if kind == "field_ref":
        return Field((text,))
    if kind == "nested_field_ref":
        parts = [_node(*next(tokens), tokens, constants) for _ in range(int(text))]
        return Field(tuple(name for part in parts if isinstance(part, Field) for name in part.path))
    if kind != "call":
        raise ValueError(kind)
    arguments: list[Node] = []
    options: Mapping[str, Any] = {}
    for kind, value in tokens:
        if kind == "end":
            return Call(text, tuple(arguments), options)
        if kind == "options":
            options = dict(constants.column(int(value))[0].items())
        else:
            arguments.append(_node(kind, value, tokens, constants))
    raise ValueError("a call does not end")


def _metadata(data: bytes) -> list[tuple[str, str]]:
    """The key and value pairs of the schema of an Arrow file, repeats and order kept."""
    (size,) = struct.unpack("<i", data[-10:-6])
    if data[-6:] != _MAGIC:
        raise ValueError("this is no Arrow file")
    footer = data[-10 - size : -10]
    root = struct.unpack_from("<I", footer)[0]
    schema = _child(footer, root, 1)
    pairs = _child(footer, schema, 2)
    (count,) = struct.unpack_from("<I", footer, pairs)
    found = []
    for number in range(count):
        place = pairs + 4 + 4 * number
        pair = place + struct.unpack_from("<I", footer, place)[0]
        found.append((_text(footer, _child(footer, pair, 0)), _text(footer, _child(footer, pair, 1))))
    return found


def _child(data: bytes, table: int, number: int) -> int:
    """Where the field of that number of a flatbuffer table points to."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    if 4 + 2 * number >= struct.unpack_from("<H", data, vtable)[0]:
        raise ValueError("a field is missing")
    (offset,) = struct.unpack_from("<H", data, vtable + 4 + 2 * number)
    if not offset:
        raise ValueError("a field is missing")
    return table + int(offset) + int(struct.unpack_from("<I", data, table + offset)[0])


def _text(data: bytes, place: int) -> str:
    (length,) = struct.unpack_from("<I", data, place)
    return data[place + 4 : place + 4 + length].decode()
