"""Default values of arrays, maps and rows, read from a text: `[1, 2]`, `{a -> 1, b -> 2}` and `{1, x}`.

Rules: Paimon's StringToArrayCastRule, StringToMapCastRule and StringToRowCastRule. `ARRAY(1, 2)`, `MAP(a, 1, b, 2)` and
`STRUCT(1, x)` say the same. Brackets and double quotes keep commas together, and quotes stay part of a text. Empty
parts are left out, and `null` is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa

from lakebed.errors import SchemaError, UnsupportedError
from lakebed.formats.paimon.codec.types import DataType, arrow_type

Leaf = Callable[[str, DataType], pa.Array]
"""Gives the value of a text in a type that is not nested, as an array of one."""

_SPACE = "".join(map(chr, range(33)))
_FORMS = {
    "ARRAY": (re.compile(r"\[(.*)\]"), re.compile(r"ARRAY\s*\((.*)\)", re.IGNORECASE)),
    "MAP": (re.compile(r"\{(.*)\}"), re.compile(r"MAP\s*\((.*)\)", re.IGNORECASE)),
    "ROW": (re.compile(r"\{(.*)\}"), re.compile(r"STRUCT\s*\((.*)\)", re.IGNORECASE)),
}
_PAIR = re.compile(r"(.+?)\s*->\s*(.+)")


def nested_value(text: str, kind: DataType, leaf: Leaf) -> pa.Array:
    """The value of a text as an array of one. SchemaError for a text of another form, UnsupportedError for one that
    Paimon's releases do not read alike."""
    if kind.root not in _FORMS:
        return leaf(text, kind)
    content, is_call = _content(text, kind)
    parts = [part.strip(_SPACE) for part in _split(content) if part]
    target = arrow_type(kind)
    match kind.root:
        case "ARRAY":
            assert kind.element is not None
            values = _joined([_value(part, kind.element, leaf) for part in parts if part], kind.element)
            return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values, type=target)
        case "MAP":
            assert kind.key is not None and kind.element is not None
            pairs = dict(_pairs(text, parts, is_call))
            keys = _joined([_value(key, kind.key, leaf) for key in pairs], kind.key)
            if keys.null_count:
                raise SchemaError(f"the map {text!r} has a key that is null")
            items = _joined([_value(value, kind.element, leaf) for value in pairs.values()], kind.element)
            return pa.MapArray.from_arrays(pa.array([0, len(keys)], pa.int32()), keys, items, type=target)
    values_of = parts if content else ["null"] * len(kind.fields)
    if len(values_of) != len(kind.fields):
        raise SchemaError(f"{text!r} has {len(values_of)} fields, not {len(kind.fields)}")
    children = [_value(part, field.type, leaf) for part, field in zip(values_of, kind.fields, strict=True)]
    return pa.StructArray.from_arrays(children, fields=[target.field(place) for place in range(target.num_fields)])


def _content(text: str, kind: DataType) -> tuple[str, bool]:
    """What a text has between its brackets, and whether it is a function call."""
    bracketed, call = (form.fullmatch(text.strip(_SPACE)) for form in _FORMS[kind.root])
    match = bracketed or call
    if match is None:
        raise SchemaError(f"{text!r} is not a value of {kind}")
    return match[1].strip(_SPACE), bracketed is None


def _split(text: str) -> list[str]:
    """The parts between commas that are neither in brackets nor in quotes."""
    parts, depth, quoted, escaped = [""], 0, False, False
    for char in text:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in "([{":
            depth += 1
        elif not quoted and char in ")]}":
            depth = max(0, depth - 1)
        elif not quoted and char == "," and not depth:
            parts.append("")
            continue
        parts[-1] += char
    return parts


def _pairs(text: str, parts: Sequence[str], is_call: bool) -> list[tuple[str, str]]:
    """The keys and values of a map."""
    if '"' in text or "\\" in text:
        raise UnsupportedError(
            f"the map {text!r} has quotes or backslashes", why="Paimon's releases do not read them in the same way"
        )
    if is_call:
        if len(parts) % 2:
            raise SchemaError(f"the map {text!r} has a key without a value")
        return [*zip(parts[::2], parts[1::2], strict=True)]
    matches = [_PAIR.fullmatch(part) for part in parts]
    if None in matches:
        raise SchemaError(f"the map {text!r} has an entry that is not KEY -> VALUE")
    return [(match[1].strip(_SPACE), match[2].strip(_SPACE)) for match in matches if match]


def _value(text: str, kind: DataType, leaf: Leaf) -> pa.Array:
    return pa.nulls(1, arrow_type(kind)) if text == "null" else nested_value(text, kind, leaf)


def _joined(values: Sequence[pa.Array], kind: DataType) -> pa.Array:
    target = arrow_type(kind)
    return pa.concat_arrays([pa.array([], target), *values])
