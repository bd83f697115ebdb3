"""Decode a few Avro records to Arrow columns with fastavro, record by record, in the types that DataFusion gives.

DataFusion takes 4 ms to plan, so below `FEW_BYTES` fastavro is faster. And it takes half a second to load, which is
most of what a small table's read or commit takes: until it is loaded, runs up to `UNLOADED_BYTES` are decoded here too,
as long as all of them together stay below `ALL_BYTES`. What fastavro may meet is bounded as in `decode.py`: types are
checked before, so no value takes up no bytes, and the records of each block must take up the block.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.kernel.arrays import from_values
from lakebed.kernel.decoding import decoding

FEW_BYTES = 8 << 10
"""The most bytes of records that are always decoded one by one."""
UNLOADED_BYTES, ALL_BYTES = 128 << 10, 1 << 20
"""The most bytes of records that are decoded one by one while DataFusion is not loaded: at once, and in all."""
_spent = 0
_ARROW: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "bytes": pa.binary(),
}  # fmt: skip


def decode_few(
    fields: Sequence[Any], wanted: Sequence[int], blocks: Sequence[tuple[int, bytes | memoryview]]
) -> pa.RecordBatch | None:
    """The records of blocks as one batch with the fields at the places `wanted`, as `decode.decode_run` gives them.

    `blocks` are the number of records and the bytes of each, `fields` what `schema.plain_fields` gives. None where they
    are too large, or have a type that is left to DataFusion. CorruptError when a block's records do not fit its bytes.
    """
    size = sum(len(content) for _, content in blocks)
    if not wanted or not _are_few(size):
        return None
    schema, all_kinds = _parsed(json.dumps({"type": "record", "name": "row", "fields": _named(fields)}))
    if all_kinds is None:
        return None
    kinds = [all_kinds[place] for place in wanted]
    with decoding("an Avro block is damaged"):
        records = [record for count, content in blocks for record in _records(schema, count, content)]
        columns = [from_values([record[kind.name] for record in records], kind.type) for kind in kinds]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(kinds))


def _are_few(size: int) -> bool:
    global _spent
    if size <= FEW_BYTES:
        return True
    if size > UNLOADED_BYTES or "datafusion" in sys.modules or _spent + size > ALL_BYTES:
        return False
    _spent += size  # that two threads count at once does no harm
    return True


def _records(schema: Any, count: int, content: bytes | memoryview) -> list[dict[str, Any]]:
    block, read = io.BytesIO(content), _fastavro().schemaless_reader
    records = [read(block, schema, None) for _ in range(count)]
    if block.tell() != len(content):
        raise CorruptError("an Avro block is damaged", why="its records take up more or fewer bytes than it has")
    return records


def _named(kinds: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"name": f"c{place}", "type": kind} for place, kind in enumerate(kinds)]


def _arrow_field(name: str, kind: Any) -> pa.Field | None:
    """The field as DataFusion has it; None for a type that is left to DataFusion."""
    if isinstance(kind, list):
        branches = [branch for branch in kind if branch != "null"]
        inner = _arrow_type(branches[0]) if len(branches) == 1 and len(kind) == 2 else None
        return None if inner is None else pa.field(name, inner)
    inner = _arrow_type(kind)
    return None if inner is None else pa.field(name, inner, nullable=False)


def _arrow_type(kind: Any) -> pa.DataType | None:
    if isinstance(kind, str):
        return _ARROW.get(kind)
    if kind["type"] == "fixed" and "logicalType" not in kind:
        return pa.binary(kind["size"]) if kind["size"] else None
    if kind["type"] == "array":
        item = _arrow_field("item", kind["items"])
        return None if item is None else pa.list_(item)
    if kind["type"] == "record":
        fields = [_arrow_field(field["name"], field["type"]) for field in kind["fields"]]
        return None if not fields or any(field is None for field in fields) else pa.struct(fields)
    return None


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[Any, Sequence[pa.Field] | None]:
    """A schema for fastavro, and the columns of its records; None for the latter where a type is left to DataFusion."""
    schema = json.loads(text)
    kinds = [_arrow_field(field["name"], field["type"]) for field in schema["fields"]]
    known = [kind for kind in kinds if kind is not None]
    return (_fastavro().parse_schema(schema), known) if len(known) == len(kinds) else (None, None)


def _fastavro() -> Any:
    return import_module("fastavro")
