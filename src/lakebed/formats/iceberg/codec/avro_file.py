"""Manifests and manifest lists as Avro container files, decoded to Arrow columns by field id.

Rule: the Avro specification and Iceberg's appendix on it. Fields are identified by id, and maps are arrays of key-value
records. Blocks are moved whole, so many small files of one schema are decoded together. A record inside a record (an
entry's data file, a file's partition) has no bytes of its own, so its fields are read as fields of the outer record:
DataFusion skips outer fields that are not requested, but builds all inner ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.kernel.avro.container import Container, take_apart
from lakebed.kernel.avro.decode import decode_blocks
from lakebed.kernel.avro.schema import KEPT_BYTES, checked_schema
from lakebed.kernel.decoding import decoding
from lakebed.kernel.scratch import Scratch

_BATCH_ROWS = 65536


def open_container(data: bytes, file: str = "") -> Container:
    """The header and blocks of a file. CorruptError when it is not an Avro file, or is cut short."""
    with decoding("an Avro file cannot be read", file=file):
        container = take_apart(data)
        checked_schema(container.metadata["avro.schema"])
        return container


def decode_columns(containers: Sequence[Container], wanted: Collection[int], file: str) -> dict[int, pa.ChunkedArray]:
    """The columns of files of one schema and codec by field id, one file after the other, in DataFusion's own types.

    Fields of inner records count as fields of the outer one. Ids that the files lack are left out. CorruptError names
    `file`.
    """
    with decoding("a manifest cannot be read", file=file):
        text = containers[0].metadata["avro.schema"]
        fields = _fields(text) if len(text) <= KEPT_BYTES else _fields.__wrapped__(text)
        chosen = [id for id in fields if id in wanted]
        places = [place for place, id in enumerate(fields) if id in wanted]
        if not chosen:
            return {}
        batches = [*decode_blocks(containers, [*fields.values()], places, _BATCH_ROWS, Scratch())]
        return {id: pa.chunked_array([batch.column(n) for batch in batches]) for n, id in enumerate(chosen)}


@lru_cache(maxsize=16)
def _fields(text: bytes) -> dict[int, Any]:
    """The outer fields of a schema by id, which all files of a table have in common."""
    return dict(_outer_fields(checked_schema(text)))


def cast_columns(
    columns: Mapping[int, pa.ChunkedArray], kinds: Mapping[str, tuple[int, pa.DataType]], rows: int
) -> dict[str, pa.ChunkedArray]:
    """Decoded columns by name, each in its type. A column that no file has is null.

    `kinds` has the field id and the type of each name.
    """
    return {
        name: _cast(columns[id], kind) if id in columns else pa.chunked_array([pa.nulls(rows, kind)])
        for name, (id, kind) in kinds.items()
    }


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column in another type. An array of key-value records becomes a map, which has the same layout."""
    if column.type == kind:
        return column
    if not pa.types.is_map(kind):
        return column.cast(kind)
    chunks = [_map(chunk, kind) for chunk in column.chunks]
    return pa.chunked_array(chunks, kind)


def _outer_fields(record: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """The fields of a record by id. An inner record is replaced by its fields, whose names are made of ids.

    CorruptError for an inner record that may be null: its fields would be lost. The specification has no such record.
    """
    for field in record["fields"]:
        kind = field["type"]
        if isinstance(kind, dict) and kind["type"] == "record":
            yield from _outer_fields(kind)
        elif isinstance(kind, list) and any(isinstance(branch, dict) and branch["type"] == "record" for branch in kind):
            raise CorruptError("a manifest cannot be read", why=f"its {field['name']!r} may be null")
        else:
            id = int(field["field-id"])
            yield id, _plain(kind, f"t{id}")


def _plain(schema: Any, name: str) -> Any:
    """A schema with the same layout, with names made of field ids and without logical types other than decimals."""
    if isinstance(schema, list):
        return [_plain(kind, name) for kind in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema["type"]
    if kind == "record":
        fields = [
            {"name": f"f{f['field-id']}", "type": _plain(f["type"], f"{name}_{f['field-id']}")}
            for f in schema["fields"]
        ]
        return {"type": "record", "name": name, "fields": fields}
    if kind == "array":
        return {"type": "array", "items": _plain(schema["items"], f"{name}_e")}
    if kind == "map":
        return {"type": "map", "values": _plain(schema["values"], f"{name}_v")}
    plain = {"type": kind}
    if kind == "fixed":
        plain |= {"name": name, "size": schema["size"]}
    if schema.get("logicalType") == "decimal":
        plain |= {key: schema[key] for key in ("logicalType", "precision", "scale") if key in schema}
    return plain if len(plain) > 1 else kind


def _map(pairs: pa.Array, kind: pa.MapType) -> pa.Array:
    values = pairs.values
    keys, items = values.field(0).cast(kind.key_type), values.field(1).cast(kind.item_type)
    entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    buffers = pairs.buffers()[:2]
    return pa.Array.from_buffers(kind, len(pairs), buffers, -1, pairs.offset, [entries])
