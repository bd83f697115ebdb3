"""Reads a user's pyarrow expression into a predicate tree.

An expression shows its parts to Python only in its pickled form: an Arrow file whose schema metadata lists the nodes in
prefix order and whose one row holds the constants. pyarrow does not return metadata with repeated keys, so this module
reads the few flatbuffer tables around it itself.

A call whose function or options are not known becomes an `Opaque` leaf. So does the whole expression when its pickled
form is not the one that we know. Rows are then filtered exactly, but statistics rule nothing out by that part.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.predicates.tree import (
    AND,
    OR,
    Call,
    CallOptions,
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
)

_MAGIC = b"ARROW1"
_MOST_DEPTH = 200
"""Calls inside calls, after chains of AND and OR are flattened. Deeper expressions are opaque: trees are walked by
recursion."""
_MATCH, _SKIP = 0, 1
"""The values of `null_matching_behavior` that pyarrow's own options can express."""

Token: TypeAlias = tuple[str, str]


def tree_of(expression: pc.Expression, schema: pa.Schema) -> Node:
    """The expression as a tree; `Opaque` parts stand for what cannot be read.

    Raises ArrowNotImplementedError for an expression that Arrow itself cannot pickle, such as one that names a column
    by its position.
    """
    rebuild, (data, *_) = expression.__reduce__()
    try:
        reading = _Reading(rebuild, _metadata(bytes(data)), pa.ipc.open_file(pa.py_buffer(bytes(data))).get_batch(0))
        return reading.tree()
    except (pa.ArrowInvalid, struct.error, ValueError, LookupError, TypeError, AttributeError):
        return Opaque(expression, tuple(schema.names))


@dataclass(slots=True)
class _OpenCall:
    """A call whose arguments are being read. `start` is the place of its first token."""

    function: str
    start: int
    arguments: list[Node] = field(default_factory=list)
    depth: int = 0
    options: pa.StructScalar | None = None


@dataclass(frozen=True, slots=True)
class _Reading:
    """The tokens of one expression and the row of its constants."""

    rebuild: Any
    tokens: Sequence[Token]
    constants: pa.RecordBatch

    def tree(self) -> Node:
        """All tokens as one tree. Without recursion, since a chain of `|` is as deep as it is long."""
        root = _OpenCall("", 0)
        calls = [root]
        place = 0
        while place < len(self.tokens):
            kind, text = self.tokens[place]
            if kind == "call":
                calls.append(_OpenCall(text, place))
            elif kind == "options":
                calls[-1].options = self.constants.column(int(text))[0]
            elif kind == "end":
                call = calls.pop()
                node = self._call(call, place + 1)
                chained = call.function in (AND, OR)
                _add(calls[-1], node, call.depth + (not chained))
            elif kind == "literal":
                _add(calls[-1], Literal(self.constants.column(int(text))[0]), 0)
            else:
                path, place = self._path(place)
                _add(calls[-1], Column(path), 0)
            place += 1
        (node,) = root.arguments
        return node

    def _path(self, place: int) -> tuple[tuple[str, ...], int]:
        """The names of a column reference, and the place of its last token."""
        kind, text = self.tokens[place]
        if kind == "field_ref":
            return (text,), place
        if kind != "nested_field_ref":
            raise ValueError(kind)
        names: tuple[str, ...] = ()
        for _ in range(int(text)):
            inner, place = self._path(place + 1)
            names += inner
        return names, place

    def _call(self, call: _OpenCall, end: int) -> Node:
        if call.function in (AND, OR):
            return (all_of if call.function == AND else any_of)(*call.arguments)
        options = _options(call.options)
        if not hasattr(pc, call.function) or (options is None and call.options is not None):
            names = Call("", tuple(call.arguments)).columns()
            return Opaque(self._expression(call.start, end), names)
        return Call(call.function, tuple(call.arguments), options)

    def _expression(self, start: int, end: int) -> pc.Expression:
        """The part of the expression that some of the tokens make."""
        schema = self.constants.schema.with_metadata(pa.KeyValueMetadata(self.tokens[start:end]))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as file:
            file.write_batch(pa.RecordBatch.from_arrays(self.constants.columns, schema=schema))
        return self.rebuild(sink.getvalue())


def _add(call: _OpenCall, node: Node, depth: int) -> None:
    call.arguments.append(node)
    call.depth = max(call.depth, depth)
    if call.depth > _MOST_DEPTH:
        raise ValueError("nested too deeply")


def _options(given: pa.StructScalar | None) -> CallOptions | None:
    """The options of a call, None where it has none or they are of no known class."""
    if given is None:
        return None
    values = dict(given.items())
    match values.pop("_type_name").as_py():
        case b"MatchSubstringOptions":
            return Pattern(values["pattern"].as_py(), values["ignore_case"].as_py())
        case b"NullOptions":
            return NullRule(values["nan_is_null"].as_py())
        case b"CastOptions":
            kind = values.pop("to_type").type
            return CastRule(kind, tuple(name for name, allowed in values.items() if allowed.as_py()))
        case b"SetLookupOptions" if values["null_matching_behavior"].as_py() in (_MATCH, _SKIP):
            return ValueSet(values["value_set"].values, values["null_matching_behavior"].as_py() == _SKIP)
    return None


# ---- the flatbuffer of an Arrow file ---------------------------------------------------------------------------------


def _metadata(data: bytes) -> list[Token]:
    """The key and value pairs of the schema of an Arrow file, with repeats and in order."""
    (size,) = struct.unpack("<i", data[-10:-6])
    if data[-6:] != _MAGIC:
        raise ValueError("not an Arrow file")
    footer = data[-10 - size : -10]
    root = struct.unpack_from("<I", footer)[0]
    schema = _child(footer, root, 1)
    pairs = _child(footer, schema, 2)
    (count,) = struct.unpack_from("<I", footer, pairs)
    tokens = []
    for number in range(count):
        place = pairs + 4 + 4 * number
        pair = place + struct.unpack_from("<I", footer, place)[0]
        tokens.append((_text(footer, _child(footer, pair, 0)), _text(footer, _child(footer, pair, 1))))
    return tokens


def _child(data: bytes, table: int, number: int) -> int:
    """The place that field `number` of a flatbuffer table points to."""
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
