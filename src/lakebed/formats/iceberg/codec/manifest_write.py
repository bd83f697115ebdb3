"""Manifests and manifest lists as bytes, for every format version, encoded whole columns at a time.

Rule: the specification's "Manifests" and "Manifest Lists"; names, order of fields and header are those that the
reference engine writes (ManifestWriter, V1Metadata to V3Metadata, PartitionSummary).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as T
from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionSpec

from lakebed.formats.iceberg.codec.manifest import ADDED, DELETED, EXISTING
from lakebed.formats.iceberg.codec.manifest_fields import (
    ManifestField,
    arrow_fields,
    entry_avro_schema,
    list_fields,
    physical_type,
)
from lakebed.formats.iceberg.codec.manifest_list import FieldSummary, ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.partition_type import partition_types
from lakebed.kernel.arrays import from_numpy, from_values, to_numpy, whole_columns
from lakebed.kernel.avro.container import Framing
from lakebed.kernel.avro.encode import encode_records
from lakebed.kernel.engine import LocalEngine

_BLOCK_ROWS = 2000
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Written:
    """A manifest: its bytes, and its description for the manifest list (without path and sequence number)."""

    data: bytes
    file: ManifestFile


class ManifestEncoder:
    """Encodes manifests of one spec and content for one table. `content` is 0 for data files, 1 for delete files."""

    def __init__(self, metadata: TableMetadata, spec: PartitionSpec, content: int, snapshot_id: int) -> None:
        self._version, self._spec, self._content = metadata.format_version, spec, content
        self._snapshot_id = snapshot_id
        self._types = partition_types(metadata, spec)
        self._partition = pa.struct([pa.field(n, physical_type(t)) for n, t in self._types])
        self._arrow = arrow_fields(self._version, self._partition)
        self._header = {
            "schema": json.dumps(metadata.schema_documents[metadata.current_schema_id]).encode(),
            "partition-spec": json.dumps([f.model_dump(by_alias=True, mode="json") for f in spec.fields]).encode(),
            "partition-spec-id": str(spec.spec_id).encode(),
            "format-version": str(self._version).encode(),
            **({"content": b"deletes" if content else b"data"} if self._version > 1 else {}),
            "avro.schema": json.dumps(entry_avro_schema(self._version, spec, self._types)).encode(),
        }

    def write(self, entries: pa.Table, target_bytes: int | None = None) -> Iterator[Written]:
        """Encode entries in order, into a new manifest whenever one has `target_bytes`.

        `entries` has the columns of `codec.manifest.entry_schema`, including column metrics. Missing columns
        are null. Null sequence numbers and row ids are inherited.
        """
        start = size = 0
        blocks: list[tuple[int, bytes]] = []
        firsts = range(0, len(entries), _BLOCK_ROWS)

        def block(first: int) -> tuple[int, bytes]:
            part = entries.slice(first, _BLOCK_ROWS)
            return len(part), _framing().compressed(self._encoded(part))

        encoded = LocalEngine().map(block, firsts) if len(firsts) > 1 else map(block, firsts)
        for first, (count, data) in zip(firsts, encoded, strict=True):
            blocks.append((count, data))
            size += len(data)
            if target_bytes is not None and size >= target_bytes:
                yield self._manifest(entries.slice(start, first + count - start), blocks)
                start, size, blocks = first + count, 0, []
        if blocks:
            yield self._manifest(entries.slice(start), blocks)

    def _manifest(self, entries: pa.Table, blocks: Sequence[tuple[int, bytes]]) -> Written:
        framing = _framing()
        data = b"".join([framing.header(self._header), *(framing.framed(*block) for block in blocks)])
        status, rows = to_numpy(entries["status"]), to_numpy(entries["record_count"])
        counts: dict[str, Any] = {}
        for name, kind in _COUNTED:
            counts[f"{name}_files_count"] = int((status == kind).sum())
            counts[f"{name}_rows_count"] = int(rows[status == kind].sum())
        live = entries["sequence_number"].filter(from_numpy(status != DELETED)).drop_null()
        file = ManifestFile(
            path="",
            length=len(data),
            spec_id=self._spec.spec_id,
            content=self._content,
            min_sequence_number=pc.min(live).as_py() if len(live) else UNASSIGNED,
            added_snapshot_id=self._snapshot_id,
            partitions=summaries(entries["partition"], self._types),
            **counts,
        )
        return Written(data, file)

    def _encoded(self, entries: pa.Table) -> bytes:
        rows = len(entries)
        columns = whole_columns(entries)
        columns["partition"] = _physical_partition(columns["partition"], self._types, self._partition, rows)
        columns["block_size_in_bytes"] = from_numpy(np.full(rows, 64 << 20, np.int64))
        outer, inner = self._arrow
        arrays = [_as(columns.get(f.name), f, rows) for f in inner]
        data_file = pa.StructArray.from_arrays(arrays, fields=inner)
        batch = pa.RecordBatch.from_arrays(
            [*(_as(columns.get(f.name), f, rows) for f in outer), data_file],
            schema=pa.schema([*outer, pa.field("data_file", data_file.type, nullable=False)]),
        )
        return encode_records(batch)


UNASSIGNED = -1
"""Stands for the least sequence number of a manifest whose entries inherit it from the commit."""
_COUNTED = (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED))


def assigned(file: ManifestFile, path: str, sequence_number: int) -> ManifestFile:
    """A new manifest as the manifest list of a commit with that sequence number describes it."""
    least = sequence_number if file.min_sequence_number == UNASSIGNED else file.min_sequence_number
    return replace(file, path=path, sequence_number=sequence_number, min_sequence_number=least)


# ---- manifest lists --------------------------------------------------------------------------------------------------


def encode_manifest_list(
    version: int, manifests: Sequence[ManifestFile], snapshot_id: int, parent_id: int | None, sequence_number: int,
    first_row_id: int | None = None,
) -> bytes:  # fmt: skip
    """The bytes of a snapshot's manifest list."""
    fields = list_fields(version)
    values = {f.name: from_values([_listed(m, f.name) for m in manifests], f.kind) for f in fields}
    schema = pa.schema([pa.field(f.name, f.kind, f.nullable) for f in fields])
    batch = pa.RecordBatch.from_arrays([values[f.name] for f in fields], schema=schema)
    meta = {
        "snapshot-id": str(snapshot_id), "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        **({"sequence-number": str(sequence_number)} if version > 1 else {}), "format-version": str(version),
        **({"first-row-id": str(first_row_id)} if version > 2 else {}),
        "avro.schema": json.dumps({
            "type": "record", "name": "manifest_file", "fields": [f.avro() for f in fields],
        }),
    }  # fmt: skip
    framing = _framing()
    head = framing.header({key: value.encode() for key, value in meta.items()})
    return head + framing.block(len(manifests), encode_records(batch)) if manifests else head


def _listed(manifest: ManifestFile, name: str) -> Any:
    if name == "partitions":
        summaries = manifest.partitions
        return None if summaries is None else [{k: getattr(s, k) for k in s.__slots__} for s in summaries]
    return getattr(manifest, name)


# ---- partition summaries ---------------------------------------------------------------------------------------------


def summaries(partitions: pa.ChunkedArray, types: Sequence[tuple[str, Any]]) -> tuple[FieldSummary, ...]:
    """One summary per partition field, over all entries of a manifest. `types` are (name, Iceberg type) of each."""
    summaries = []
    for place, (_, kind) in enumerate(types):
        column = pc.struct_field(partitions, [place])
        is_float = isinstance(kind, (T.FloatType, T.DoubleType))
        has_nan = bool(pc.any(pc.is_nan(column)).as_py()) if is_float else False
        values = column.drop_null()
        if has_nan:
            values = values.filter(pc.invert(pc.is_nan(values)))
        low = high = None
        if len(values) and not pa.types.is_null(values.type):
            if pa.types.is_temporal(values.type):
                values = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
            bounds = pc.min_max(values.cast(pa.binary()) if pa.types.is_fixed_size_binary(values.type) else values)
            low, high = (to_bytes(kind, bounds[name].as_py()) for name in ("min", "max"))
        summaries.append(FieldSummary(column.null_count > 0, has_nan, low, high))
    return tuple(summaries)


# ---- columns ---------------------------------------------------------------------------------------------------------


def _physical_partition(
    column: pa.StructArray, types: Sequence[tuple[str, Any]], kind: pa.StructType, rows: int
) -> pa.Array:
    arrays = [
        _physical_value(pc.struct_field(column, [n]), logical, kind.field(n).type)
        for n, (_, logical) in enumerate(types)
    ]
    return pa.Array.from_buffers(kind, rows, [None], 0, 0, arrays)


def _physical_value(array: pa.Array, logical: Any, kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if isinstance(logical, T.DecimalType):
        raw = np.frombuffer(array.cast(pa.decimal128(38, logical.scale)).buffers()[1], np.uint8).reshape(-1, 16)
        big = raw[array.offset : array.offset + len(array), ::-1][:, 16 - kind.byte_width :]
        nulls = to_numpy(array.is_null())
        values = pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(np.ascontiguousarray(big))])
        return pc.if_else(from_numpy(~nulls), values, pa.nulls(1, kind)[0])
    if pa.types.is_temporal(array.type):
        return array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()).cast(kind)
    return array.cast(kind)


def _as(column: pa.Array | None, field: ManifestField | pa.Field, rows: int) -> pa.Array:
    """A column in the type of an Avro field; null when the column is missing."""
    kind = field.kind if isinstance(field, ManifestField) else field.type
    if column is None:
        return pa.nulls(rows, kind)
    if column.type == kind:
        return column
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return _retyped(column, kind)
    return column.cast(kind)


def _retyped(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Maps or lists with the same layout, whose values may not be null."""
    if pa.types.is_map(kind):
        pairs = pa.StructArray.from_arrays(
            [column.keys.cast(kind.key_type), column.items.cast(kind.item_type)],
            fields=[kind.key_field, kind.item_field],
        )
        return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], -1, column.offset, [pairs])
    values = column.values.cast(kind.value_type)
    return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], -1, column.offset, [values])


def _framing() -> Framing:
    return Framing.new("deflate", _LEVEL)
