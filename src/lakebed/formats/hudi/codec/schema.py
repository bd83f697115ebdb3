"""Avro schemas as Arrow schemas, with the types that Hudi's Spark reader shows.

The mapping is that of Spark's and Hudi's `SchemaConverters`:

    int, long, float, double, boolean, string, bytes    the same
    enum, uuid                                          string
    fixed                                               binary
    decimal (bytes or fixed)                            decimal128(precision, scale)
    date                                                date32
    timestamp-millis, timestamp-micros                  timestamp[us, UTC]
    local-timestamp-millis, local-timestamp-micros      timestamp[us]
    record, array, map                                  struct, list, map
    [null, T] and [T, null]                             T, nullable
    any other logical type (time-millis, ...)           its physical type

Columns are nullable where Avro says so. Values inside a struct, list or map are always nullable, as in Spark's file
sources, since pyarrow's casts cannot handle a null struct over a field that may not be null.

A union of several types and a decimal of more than 38 digits have no such type. A column of that kind is refused when
it is asked for, and the others stay readable. A record that contains itself makes the whole schema unreadable, as in
Spark.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakebed.errors import SchemaError, UnsupportedError
from lakebed.kernel.decoding import decoding, parsed_json

MISSING = object()
"""The default of a field that has no default. None is a default of its own."""


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """One field of a writer's record.

    `physical` is its Avro type written out in full, without names that refer elsewhere and without logical types that
    the mapping ignores; None for a record that contains itself. `type` is its Arrow type, or None, and then `refusal`
    says why there is none. `default` is the JSON default, or MISSING.
    """

    name: str
    physical: Any
    type: pa.DataType | None
    nullable: bool
    default: Any
    refusal: str = ""

    def field(self) -> pa.Field:
        """The Arrow field. UnsupportedError, which names the column, if there is none."""
        if self.type is None:
            raise UnsupportedError(
                f"column {self.name!r} cannot be read",
                why=self.refusal,
                todo="Leave the column out of `columns`",
            )
        return pa.field(self.name, self.type, self.nullable)


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """The schema that a block's records were written with; columns are in the order of the bytes."""

    name: str
    columns: tuple[AvroColumn, ...]

    def column(self, name: str) -> AvroColumn:
        """The column of exactly that name. SchemaError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(
            f"no column {name!r}",
            why=f"the record has {', '.join(column.name for column in self.columns)}",
            todo="Name one of them",
        )


def arrow_schema(text: str) -> pa.Schema:
    """The Arrow schema of an Avro record schema (JSON text).

    Raises CorruptError for a text that is not a record schema, UnsupportedError for a column without an Arrow type.
    """
    return pa.schema([column.field() for column in writer_schema(text).columns])


@functools.lru_cache(maxsize=256)
def writer_schema(text: str) -> WriterSchema:
    """The columns of an Avro record schema (JSON text). CorruptError if the text is not one."""
    with decoding("not an Avro record schema"):
        record = parsed_json(text)
        fields = record["fields"]
        if record["type"] not in ("record", "error"):
            raise ValueError(f"its type is {record['type']!r}")
        resolver = _Resolver()
        name, namespace = resolver.declare(record, "")
        if not all(isinstance(field["name"], str) for field in fields):
            raise ValueError("the name of a column is not text")
        columns = tuple(resolver.column(field, namespace) for field in fields)
        return WriterSchema(name, columns)


@dataclass(frozen=True, slots=True)
class _Resolved:
    physical: Any
    type: pa.DataType | None
    nullable: bool = False
    refusal: str = ""


_PLAIN: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}

_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}

# Names that refer to each other can unfold to more types than any memory holds.
_MOST_TYPES = 100_000


class _Resolver:
    """Unfolds one schema: writes out named types where they are used."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[dict[str, Any], str]] = {}
        self._open: set[str] = set()
        self._count = 0

    def declare(self, node: dict[str, Any], namespace: str) -> tuple[str, str]:
        """The full name of a named type, and the namespace inside it."""
        name = node["name"]
        if "." in name:
            inner = name.rpartition(".")[0]
        else:
            inner = node.get("namespace", namespace) or ""
            name = f"{inner}.{name}" if inner else name
        self._named[name] = (node, inner)
        self._open.add(name)
        return name, inner

    def column(self, field: dict[str, Any], namespace: str) -> AvroColumn:
        kind = self._resolve(field["type"], namespace)
        default = field.get("default", MISSING)
        return AvroColumn(field["name"], kind.physical, kind.type, kind.nullable, default, kind.refusal)

    def _resolve(self, node: Any, namespace: str) -> _Resolved:
        self._count += 1
        if self._count > _MOST_TYPES:
            raise ValueError(f"it unfolds to more than {_MOST_TYPES} types")
        if isinstance(node, list):
            return self._union(node, namespace)
        if isinstance(node, str):
            return self._by_name(node, namespace)
        kind = node["type"]
        if isinstance(kind, (dict, list)):
            return self._resolve(kind, namespace)
        if kind in ("record", "error"):
            return self._record(node, namespace)
        if kind == "array":
            return _array(self._resolve(node["items"], namespace))
        if kind == "map":
            return _map(self._resolve(node["values"], namespace))
        if kind in ("enum", "fixed"):
            name, _ = self.declare(node, namespace)
            self._open.discard(name)
            return self._enum(node) if kind == "enum" else self._fixed(node)
        if kind in _PLAIN:
            return _primitive(node)
        return self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> _Resolved:
        if name in _PLAIN:
            return _plain(name)
        for full in (name,) if "." in name or not namespace else (f"{namespace}.{name}", name):
            if full in self._open:
                return _Resolved(None, None, refusal=f"the record {full} contains itself")
            if full in self._named:
                node, inner = self._named[full]
                return self._resolve({**node, "name": full}, inner)
        raise ValueError(f"it names a type {name!r} that it does not define")

    def _union(self, branches: list[Any], namespace: str) -> _Resolved:
        types = [self._resolve(branch, namespace) for branch in branches]
        recursive = next((kind.refusal for kind in types if kind.physical is None), "")
        if recursive:
            return _Resolved(None, None, refusal=recursive)
        physical = [kind.physical for kind in types]
        others = [kind for kind in types if kind.physical != "null"]
        if len(types) == 2 and len(others) == 1:
            return _Resolved(physical, others[0].type, True, others[0].refusal)
        return _Resolved(physical, None, refusal=f"it is a union of {len(types)} types, {_shown(branches)}")

    def _record(self, node: dict[str, Any], namespace: str) -> _Resolved:
        name, inner = self.declare(node, namespace)
        columns = [self.column(field, inner) for field in node["fields"]]
        self._open.discard(name)
        fields = [{"name": column.name, "type": column.physical} for column in columns]
        recursive = any(column.physical is None for column in columns)
        physical = None if recursive else {"type": "record", "name": self._fresh_name(), "fields": fields}
        refused = next((column for column in columns if column.type is None), None)
        if refused:
            return _Resolved(physical, None, refusal=f"in its field {refused.name!r}: {refused.refusal}")
        return _Resolved(physical, pa.struct([(column.name, column.type) for column in columns]))

    def _enum(self, node: dict[str, Any]) -> _Resolved:
        return _Resolved({"type": "enum", "name": self._fresh_name(), "symbols": node["symbols"]}, pa.string())

    def _fixed(self, node: dict[str, Any]) -> _Resolved:
        physical = {"type": "fixed", "name": self._fresh_name(), "size": node["size"]}
        if node.get("logicalType") == "decimal":
            return _decimal(node, physical)
        return _Resolved(physical, pa.binary())

    def _fresh_name(self) -> str:
        return f"type{self._count}"


def _primitive(node: dict[str, Any]) -> _Resolved:
    kind, logical = node["type"], node.get("logicalType", "")
    if kind == "bytes" and logical == "decimal":
        return _decimal(node, {"type": "bytes"})
    arrow = _LOGICAL.get((kind, logical))
    if arrow is None:
        return _plain(kind)
    return _Resolved({"type": kind, "logicalType": logical}, arrow)


def _plain(kind: str) -> _Resolved:
    return _Resolved(kind, _PLAIN[kind], kind == "null")


def _decimal(node: dict[str, Any], physical: dict[str, Any]) -> _Resolved:
    precision, scale = node["precision"], node.get("scale", 0)
    if not 1 <= precision <= _MOST_DIGITS or not 0 <= scale <= precision:
        return _Resolved(physical, None, refusal=f"decimal({precision}, {scale}) is out of range")
    physical = {**physical, "logicalType": "decimal", "precision": precision, "scale": scale}
    return _Resolved(physical, pa.decimal128(precision, scale))


_MOST_DIGITS = 38


def _array(items: _Resolved) -> _Resolved:
    physical = None if items.physical is None else {"type": "array", "items": items.physical}
    if items.type is None:
        return _Resolved(physical, None, refusal=items.refusal)
    return _Resolved(physical, pa.list_(items.type))


def _map(values: _Resolved) -> _Resolved:
    physical = None if values.physical is None else {"type": "map", "values": values.physical}
    if values.type is None:
        return _Resolved(physical, None, refusal=values.refusal)
    return _Resolved(physical, pa.map_(pa.string(), values.type))


def _shown(branches: list[Any]) -> str:
    return ", ".join(branch if isinstance(branch, str) else str(branch.get("type", "?")) for branch in branches)
