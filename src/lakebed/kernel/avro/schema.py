"""Make the Avro schemas of files safe to decode with: checked, and with names that every reader accepts.

DataFusion takes the text of a schema literally, so it fails on names with quotes, escapes or letters beyond ASCII. Here
names are made from places, and the Arrow columns get the real names back. What a schema can demand of a decoder is
bounded too: an array of values without bytes, for one, would let a count of ten bytes stand for 2^63 items, and a
record of two records of two records, and so on, would have 2^64 values without one byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.kernel.decoding import parsed_json

DEPTH = 64
"""How deeply types may be nested."""
_MOST_EMPTY = 4096
"""How many values without bytes one value may have: columns of the type null, empty records."""
KEPT_BYTES = 64 << 10
"""Up to how many bytes the text of a schema is kept, with what was made of it."""
_PRIMITIVES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
"""The least bytes of a value of each primitive type."""
_RECORD = "r"
"""The first letter of the plain names of records. Those of other types begin with n."""
_KEPT = ("logicalType", "precision", "scale", "size", "symbols")


def record_fields(schema: Any) -> Sequence[Mapping[str, Any]]:
    """The fields of a schema that must be a record. CorruptError otherwise."""
    if not isinstance(schema, dict) or schema.get("type") != "record" or not isinstance(schema.get("fields"), list):
        raise CorruptError("an Avro schema is not a record")
    fields: list[Any] = schema["fields"]
    if not all(isinstance(field, dict) and "type" in field and isinstance(field.get("name"), str) for field in fields):
        raise CorruptError("an Avro schema has a field without name or type")
    return fields


def plain_fields(schema: Any) -> list[Any]:
    """The types of a record's fields with plain names, as `decode.py` takes them.

    Raises CorruptError for a schema that breaks Avro's rules; UnsupportedError for a schema that could not be decoded
    within bounds, or that defines a record once and uses it twice.
    """
    return _plain(schema, inline=True)


def check_schema(schema: Any) -> None:
    """Check a schema as `plain_fields` does, for decoders that take it as it is; a record may be used twice."""
    _plain(schema, inline=False)


def checked_schema(text: bytes) -> Any:
    """The schema in a file's header, which passes `check_schema`. Do not change it: one of few bytes is kept, since
    most files of a table have the same."""
    return _checked(text) if len(text) <= KEPT_BYTES else _checked.__wrapped__(text)


@lru_cache(maxsize=64)
def _checked(text: bytes) -> Any:
    schema = parsed_json(text)
    check_schema(schema)
    return schema


def _plain(schema: Any, inline: bool) -> list[Any]:
    names = _Names(inline)
    types = names.record_types(schema)
    if not any(map(names.width, types)):
        raise UnsupportedError("records of an Avro file have no bytes")
    return types


def named(column: pa.Array, kind: Any) -> pa.Array:
    """A column that was decoded with a plain schema, with the inner names of `kind`, the file's own type."""
    wanted = _named_type(column.type, kind)
    return column if wanted == column.type else column.view(wanted)


class _Names:
    """The named types so far, by full name. `inline` refuses records that are used by name."""

    def __init__(self, inline: bool) -> None:
        self._inline = inline
        self._known: dict[str, str] = {}
        self._widths: dict[str, int] = {}
        self._empties: dict[str, int] = {}
        self._open: set[str] = set()

    def record_types(self, schema: Any, depth: int = 0, space: str = "") -> list[Any]:
        fields = record_fields(schema)
        name = schema.get("name")
        space = _space(schema, space)
        full = _full(str(name), space)
        self._open.add(full)
        types = [self.plain(field["type"], depth + 1, space) for field in fields]
        self._open.discard(full)
        if sum(map(self.empties, types)) > _MOST_EMPTY:
            raise UnsupportedError(f"a record of an Avro schema has more than {_MOST_EMPTY} values without bytes")
        return types

    def plain(self, kind: Any, depth: int, space: str) -> Any:
        if depth > DEPTH:
            raise UnsupportedError(f"an Avro schema is nested more than {DEPTH} deep")
        if isinstance(kind, list):
            if not kind or any(isinstance(branch, list) for branch in kind):
                raise CorruptError("an Avro schema has a union without branches, or a union inside a union")
            return [self.plain(branch, depth + 1, space) for branch in kind]
        if isinstance(kind, str):
            return kind if kind in _PRIMITIVES else self._reference(kind, space)
        if not isinstance(kind, dict) or "type" not in kind:
            raise CorruptError("an Avro schema has a type that Avro does not know")
        return self._complex(kind, depth, space)

    def _complex(self, kind: Mapping[str, Any], depth: int, space: str) -> Any:
        inner = kind["type"]
        plain = {key: kind[key] for key in _KEPT if key in kind}
        if inner in ("array", "map"):
            key = "items" if inner == "array" else "values"
            held = self.plain(kind[key], depth + 1, space)
            if inner == "array" and not self.width(held):
                raise UnsupportedError("an Avro schema has an array of values without bytes")
            return {"type": inner, key: held, **({"logicalType": "map"} if kind.get("logicalType") == "map" else {})}
        if inner == "record":
            types = self.record_types(kind, depth, space)
            record = {
                "type": "record",
                "name": f"{_RECORD}{len(self._known)}",
                "fields": [{"name": f"f{place}", "type": held} for place, held in enumerate(types)],
            }
            return self._define(kind, space, record)
        if inner in ("fixed", "enum"):
            size = kind.get("size", 0)
            if inner == "fixed" and (not isinstance(size, int) or size < 0):
                raise CorruptError("an Avro schema has a fixed type without a size")
            return self._define(kind, space, {**plain, "type": inner, "name": f"n{len(self._known)}"})
        held = self.plain(inner, depth + 1, space)
        return {**plain, "type": held} if plain and isinstance(held, str) and held in _PRIMITIVES else held

    def _define(self, kind: Mapping[str, Any], space: str, plain: dict[str, Any]) -> dict[str, Any]:
        full = _full(str(kind.get("name")), _space(kind, space))
        self._known[full] = plain["name"]
        self._widths[plain["name"]], self._empties[plain["name"]] = self.width(plain), self.empties(plain)
        return plain

    def _reference(self, name: str, space: str) -> str:
        for full in (_full(name, space), name):
            if full in self._open:
                raise UnsupportedError("an Avro schema has a type that contains itself")
            if full in self._known:
                if self._inline and self._known[full].startswith(_RECORD):
                    raise UnsupportedError(f"an Avro schema uses the record {name!r} in several places")
                return self._known[full]
        raise CorruptError(f"an Avro schema names the type {name!r}, which it does not define")

    def width(self, kind: Any) -> int:
        """The least bytes of a value of a plain type."""
        if isinstance(kind, list):
            return 1
        if isinstance(kind, str):
            return _PRIMITIVES[kind] if kind in _PRIMITIVES else self._widths[kind]
        inner = kind["type"]
        if inner == "record":
            return sum(self.width(field["type"]) for field in kind["fields"])
        if inner == "fixed":
            return int(kind["size"])
        return 1 if inner in ("array", "map", "enum") else self.width(inner)

    def empties(self, kind: Any) -> int:
        """How many values without bytes are in one value of a plain type, itself included."""
        if isinstance(kind, list):
            return max((self.empties(branch) for branch in kind if branch != "null"), default=0)
        if isinstance(kind, str):
            return int(kind == "null") if kind in _PRIMITIVES else self._empties[kind]
        inner = kind["type"]
        if inner == "record":
            return int(not self.width(kind)) + sum(self.empties(field["type"]) for field in kind["fields"])
        if inner in ("array", "map", "enum"):
            return 0
        return int(not kind["size"]) if inner == "fixed" else self.empties(inner)


def _space(kind: Mapping[str, Any], outer: str) -> str:
    name = str(kind.get("name"))
    return name.rpartition(".")[0] if "." in name else str(kind.get("namespace") or outer)


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _named_type(arrow: pa.DataType, kind: Any) -> pa.DataType:
    if isinstance(kind, list):
        kind = next((branch for branch in kind if branch != "null"), "null")
    if not isinstance(kind, dict):
        return arrow
    if pa.types.is_struct(arrow) and kind["type"] == "record" and len(kind["fields"]) == arrow.num_fields:
        pairs = zip((arrow.field(n) for n in range(arrow.num_fields)), kind["fields"], strict=True)
        return pa.struct([f.with_name(own["name"]).with_type(_named_type(f.type, own["type"])) for f, own in pairs])
    if pa.types.is_list(arrow) and kind["type"] == "array":
        return pa.list_(arrow.value_field.with_type(_named_type(arrow.value_type, kind["items"])))
    if pa.types.is_map(arrow) and kind["type"] == "map":
        return pa.map_(arrow.key_field, arrow.item_field.with_type(_named_type(arrow.item_type, kind["values"])))
    return arrow
