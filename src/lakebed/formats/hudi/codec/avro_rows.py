"""Rows in the form that an Avro schema has for them, so that `kernel/avro/encode.py` writes what its readers expect.

An Arrow type does not tell how Avro stores a value: a decimal may be bytes or a fixed, a timestamp may count
milliseconds, and what stands inside a list, map or record may be without a union with null. The schema of the block
decides, at every depth. Unions have null first (`null_first.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError
from lakebed.kernel.avro.encode import encode_framed
from lakebed.kernel.decoding import parsed_json

Node = Any
"""A type of an Avro schema: its parsed JSON."""


def framed_rows(batch: pa.RecordBatch, schema: str) -> bytes:
    """The rows as records of an Avro schema (JSON text), each after its length. Columns are found by their names.

    SchemaError for a null where the schema has none, and for a type that rows of the table cannot have.
    """
    return encode_framed(_Fitter(_names(schema)).record(batch, parsed_json(schema), ""))


@functools.lru_cache(64)
def _names(schema: str) -> Mapping[str, Node]:
    """The named types of a schema, by their full names and, for references from the same namespace, by their names."""
    nodes: dict[str, Node] = {}

    def look(node: Node, space: str) -> None:
        if isinstance(node, list):
            for branch in node:
                look(branch, space)
        if not isinstance(node, dict):
            return
        if "name" in node and node.get("type") in ("record", "error", "fixed", "enum"):
            space = node.get("namespace") or space
            named = {**node, "namespace": space}
            nodes.setdefault(node["name"], named)
            nodes[node["name"] if "." in node["name"] else f"{space}.{node['name']}"] = named
        for key in ("type", "items", "values"):
            look(node.get(key), space)
        for field in node.get("fields", ()):
            look(field["type"], space)

    look(parsed_json(schema), "")
    return nodes


@dataclass(frozen=True, slots=True)
class _Fitter:
    names: Mapping[str, Node]

    def record(self, batch: pa.RecordBatch, node: Node, space: str) -> pa.RecordBatch:
        space = node.get("namespace") or space
        fitted = [self.field(batch.column(f["name"]), f["name"], f["type"], space) for f in node["fields"]]
        return pa.RecordBatch.from_arrays([array for array, _ in fitted], schema=pa.schema([f for _, f in fitted]))

    def field(self, column: pa.Array, name: str, node: Node, space: str) -> tuple[pa.Array, pa.Field]:
        """A column, or a column inside it, with a field that says whether Avro has a union with null for it."""
        nullable = isinstance(node, list)
        if nullable:
            branches = [branch for branch in node if branch != "null"]
            if len(branches) != 1 or len(node) != 2:
                raise self._refused(name, column.type, "a union of several types")
            node = branches[0]
        array = self.values(column, name, node, space)
        return array, pa.field(name, array.type, nullable)

    def values(self, column: pa.Array, name: str, node: Node, space: str) -> pa.Array:
        while isinstance(node, dict) and isinstance(node["type"], dict):
            node = node["type"]
        kind = node if isinstance(node, str) else node["type"]
        reference = kind if "." in kind or not space else f"{space}.{kind}"
        named = self.names.get(reference) or self.names.get(kind)
        if named is not None and not isinstance(node, dict):
            node, kind = named, named["type"]
        if not isinstance(node, dict):
            return column
        logical = node.get("logicalType", "")
        if kind in ("record", "error"):
            return self._struct(column, node, space)
        if kind == "array":
            return self._list(column, node, name, space)
        if kind == "map":
            return self._map(column, node, name, space)
        if kind == "enum":
            return pc.index_in(column, value_set=pa.array(node["symbols"])).cast(pa.int32())
        if kind == "fixed":
            return _fixed(column, node["size"]) if logical == "decimal" else column.cast(pa.binary(node["size"]))
        if logical.endswith("timestamp-millis") and pa.types.is_timestamp(column.type):
            return column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        return column

    def _struct(self, column: pa.Array, node: Node, space: str) -> pa.Array:
        space = node.get("namespace") or space
        inner = [self.field(pc.struct_field(column, f["name"]), f["name"], f["type"], space) for f in node["fields"]]
        return pa.StructArray.from_arrays(
            [array for array, _ in inner], fields=[field for _, field in inner], mask=column.is_null()
        )

    def _list(self, column: pa.Array, node: Node, name: str, space: str) -> pa.Array:
        if not pa.types.is_list(column.type):
            column = column.cast(pa.list_(column.type.value_type))
        array, field = self.field(column.values, name, node["items"], space)
        buffers = column.buffers()[:2]
        return pa.Array.from_buffers(
            pa.list_(field), len(column), buffers, column.null_count, column.offset, children=[array]
        )

    def _map(self, column: pa.Array, node: Node, name: str, space: str) -> pa.Array:
        items, field = self.field(column.items, name, node["values"], space)
        kind = pa.map_(pa.field("key", pa.string(), False), field.with_name("value"))
        entries = pa.StructArray.from_arrays(
            [column.keys.cast(pa.string()), items], fields=[kind.key_field, kind.item_field]
        )
        buffers = column.buffers()[:2]
        return pa.Array.from_buffers(kind, len(column), buffers, column.null_count, column.offset, children=[entries])

    @staticmethod
    def _refused(name: str, kind: pa.DataType, what: str) -> SchemaError:
        return SchemaError(f"column {name!r} is {kind} and in the table's schema {what}", todo="Leave the column out")


def _fixed(column: pa.Array, width: int) -> pa.Array:
    """Decimals in two's complement, the highest byte first, in `width` bytes."""
    words = np.frombuffer(column.buffers()[1], np.uint8)[16 * column.offset : 16 * (column.offset + len(column))]
    digits = words.reshape(-1, 16)[:, ::-1]
    if width <= 16:
        raw = np.ascontiguousarray(digits[:, 16 - width :])
    else:
        sign = np.where(digits[:, :1] >= 128, np.uint8(255), np.uint8(0))
        raw = np.concatenate([np.repeat(sign, width - 16, axis=1), digits], axis=1)
    bits = pa.py_buffer(np.packbits(column.is_valid().to_numpy(zero_copy_only=False), bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.binary(width), len(column), [bits, pa.py_buffer(raw.tobytes())])
