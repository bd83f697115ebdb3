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
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

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
