"""Manifests and manifest lists as bytes, for every format version, encoded whole columns at a time.

Rule: the specification's "Manifests" and "Manifest Lists"; names, order of fields and header are those that the
reference engine writes (ManifestWriter, V1Metadata to V3Metadata, PartitionSummary).
"""

from __future__ import annotations

import json
import re
import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as T
from pyiceberg.conversions import to_bytes
from pyiceberg.partitioning import PartitionSpec

from lakebed.formats.iceberg.codec.manifest import (
    ADDED,
    DELETED,
    EXISTING,
    FieldSummary,
    ManifestFile,
    partition_types,
)  # fmt: skip
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.kernel.avro import encoded
from lakebed.kernel.avro_container import avro_long, header

_BLOCK_ROWS = 2000
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Written:
    """One manifest: its bytes, and what the manifest list says of it (without path and sequence number)."""

    data: bytes
    file: ManifestFile


class ManifestEncoder:
    """Writes manifests of one spec and content for one table. `content` is 0 for data files, 1 for delete files."""

    def __init__(self, metadata: TableMetadata, spec: PartitionSpec, content: int, snapshot_id: int) -> None:
        self._version, self._spec, self._content = metadata.format_version, spec, content
        self._snapshot_id = snapshot_id
        self._types = partition_types(metadata, spec)
        self._partition = pa.struct([pa.field(n, _physical(t)) for n, t in self._types])
        self._fields = _entry_fields(self._version)
        self._header = {
            "schema": json.dumps(metadata.schema_documents[metadata.current_schema_id]).encode(),
            "partition-spec": json.dumps([f.model_dump(by_alias=True, mode="json") for f in spec.fields]).encode(),
            "partition-spec-id": str(spec.spec_id).encode(),
            "format-version": str(self._version).encode(),
            **({"content": b"deletes" if content else b"data"} if self._version > 1 else {}),
            "avro.schema": json.dumps(entry_avro_schema(self._version, spec, self._types)).encode(),
            "avro.codec": b"deflate",
        }

    def write(self, entries: pa.Table, target_bytes: int | None = None) -> Iterator[Written]:
        """Manifests with these entries, in order; a new one begins when one has `target_bytes`.

        `entries` has the columns that `codec.manifest.entry_schema` names, the per-column figures included (missing
        ones are null); null sequence numbers and row ids are inherited.
        """
        start = size = 0
        blocks: list[tuple[int, bytes]] = []
        for first in range(0, len(entries), _BLOCK_ROWS):
            part = entries.slice(first, _BLOCK_ROWS)
            blocks.append((len(part), _deflated(self._encoded(part))))
            size += len(blocks[-1][1])
            if target_bytes is not None and size >= target_bytes:
                yield self._manifest(entries.slice(start, first + len(part) - start), blocks)
                start, size, blocks = first + len(part), 0, []
        if blocks:
            yield self._manifest(entries.slice(start), blocks)

    def _manifest(self, entries: pa.Table, blocks: Sequence[tuple[int, bytes]]) -> Written:
        sync = secrets.token_bytes(16)
        chunks = [header(self._header, sync)]
        for count, data in blocks:
            chunks += (avro_long(count), avro_long(len(data)), data, sync)
        whole = b"".join(chunks)
        status, rows = entries["status"].to_numpy(), entries["record_count"].to_numpy()
        counts: dict[str, Any] = {}
        for name, kind in _COUNTED:
            counts[f"{name}_files_count"] = int((status == kind).sum())
            counts[f"{name}_rows_count"] = int(rows[status == kind].sum())
        live = entries["sequence_number"].filter(pa.array(status != DELETED)).drop_null()
        file = ManifestFile(
            path="", length=len(whole), spec_id=self._spec.spec_id, content=self._content,
            min_sequence_number=pc.min(live).as_py() if len(live) else UNASSIGNED,
            added_snapshot_id=self._snapshot_id,
            partitions=summaries(entries["partition"], self._types),
            **counts,
        )  # fmt: skip
        return Written(whole, file)

    def _encoded(self, entries: pa.Table) -> bytes:
        rows = len(entries)
        part = entries.combine_chunks()
        columns: dict[str, pa.Array] = {name: _one(part[name]) for name in part.column_names}
        columns["partition"] = _physical_partition(columns["partition"], self._types, self._partition, rows)
        columns["block_size_in_bytes"] = pa.array(np.full(rows, 64 << 20, np.int64))
        inner = [f.arrow(self._partition) for f in self._fields if f.in_file]
        arrays = [_as(columns.get(f.name), f, rows) for f in inner]
        data_file = pa.StructArray.from_arrays(arrays, fields=inner)
        outer = [f.arrow(self._partition) for f in self._fields if not f.in_file]
        batch = pa.RecordBatch.from_arrays(
            [*(_as(columns.get(f.name), f, rows) for f in outer), data_file],
            schema=pa.schema([*outer, pa.field("data_file", data_file.type, nullable=False)]),
        )
        return encoded(batch).data.tobytes()


UNASSIGNED = -1
"""The least sequence number of a manifest whose entries inherit it: it is that of the commit."""
_COUNTED = (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED))


def assigned(file: ManifestFile, path: str, sequence_number: int) -> ManifestFile:
    """A new manifest in the list of a commit of that sequence number."""
    least = sequence_number if file.min_sequence_number == UNASSIGNED else file.min_sequence_number
    return replace(file, path=path, sequence_number=sequence_number, min_sequence_number=least)


# ---- manifest lists --------------------------------------------------------------------------------------------------


def encode_manifest_list(
    version: int, manifests: Sequence[ManifestFile], snapshot_id: int, parent_id: int | None, sequence_number: int,
    first_row_id: int | None = None,
) -> bytes:  # fmt: skip
    """The bytes of a snapshot's manifest list."""
    fields = _list_fields(version)
    values = {f.name: pa.array([_listed(m, f.name) for m in manifests], f.kind) for f in fields}
    schema = pa.schema([pa.field(f.name, f.kind, f.nullable) for f in fields])
    batch = pa.RecordBatch.from_arrays([values[f.name] for f in fields], schema=schema)
    meta = {
        "snapshot-id": str(snapshot_id), "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        **({"sequence-number": str(sequence_number)} if version > 1 else {}), "format-version": str(version),
        **({"first-row-id": str(first_row_id)} if version > 2 else {}),
        "avro.schema": json.dumps({
            "type": "record", "name": "manifest_file", "fields": [f.avro() for f in fields],
        }),
        "avro.codec": "deflate",
    }  # fmt: skip
    sync = secrets.token_bytes(16)
    chunks = [header({key: value.encode() for key, value in meta.items()}, sync)]
    if manifests:
        data = _deflated(encoded(batch).data.tobytes())
        chunks += (avro_long(len(manifests)), avro_long(len(data)), data, sync)
    return b"".join(chunks)


def _listed(manifest: ManifestFile, name: str) -> Any:
    if name == "partitions":
        found = manifest.partitions
        return None if found is None else [{k: getattr(s, k) for k in s.__slots__} for s in found]
    return getattr(manifest, name)


# ---- partition summaries ---------------------------------------------------------------------------------------------


def summaries(partitions: pa.ChunkedArray, types: Sequence[tuple[str, Any]]) -> tuple[FieldSummary, ...]:
    """One summary a partition field over all entries of a manifest."""
    found = []
    for place, (_, kind) in enumerate(types):
        column = pc.struct_field(partitions, [place])
        floats = isinstance(kind, (T.FloatType, T.DoubleType))
        nans = bool(pc.any(pc.is_nan(column)).as_py()) if floats else False
        known = column.drop_null()
        if nans:
            known = known.filter(pc.invert(pc.is_nan(known)))
        low = high = None
        if len(known) and not pa.types.is_null(known.type):
            if pa.types.is_temporal(known.type):
                known = known.cast(pa.int32() if known.type.bit_width == 32 else pa.int64())
            bounds = pc.min_max(known.cast(pa.binary()) if pa.types.is_fixed_size_binary(known.type) else known)
            low, high = (to_bytes(kind, bounds[name].as_py()) for name in ("min", "max"))
        found.append(FieldSummary(column.null_count > 0, nans, low, high))
    return tuple(found)


# ---- fields ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of an Avro schema."""

    name: str
    number: int
    kind: pa.DataType
    avro_type: Any
    nullable: bool = True
    in_file: bool = True

    def avro(self) -> dict[str, Any]:
        """Its Avro schema."""
        kind: dict[str, Any] = {"name": _LIST_NAMES.get(self.name, self.name)}
        if self.nullable:
            return {**kind, "type": ["null", self.avro_type], "default": None, "field-id": self.number}
        return {**kind, "type": self.avro_type, "field-id": self.number}

    def arrow(self, partition: pa.StructType) -> pa.Field:
        """Its Arrow field, which says what may be null."""
        return pa.field(self.name, partition if self.name == "partition" else self.kind, self.nullable)


def _pairs(key: int, value: int, kind: str) -> Any:
    fields = [{"name": "key", "type": "int", "field-id": key}, {"name": "value", "type": kind, "field-id": value}]
    items = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return {"type": "array", "items": items, "logicalType": "map"}


def _map(value: pa.DataType) -> pa.MapType:
    return pa.map_(pa.int32(), pa.field("value", value, nullable=False))


def _list(value: pa.DataType) -> pa.ListType:
    return pa.list_(pa.field("item", value, nullable=False))


_COUNTS, _BOUNDS = _map(pa.int64()), _map(pa.binary())
_STAT_FIELDS = (
    _Field("column_sizes", 108, _COUNTS, _pairs(117, 118, "long")),
    _Field("value_counts", 109, _COUNTS, _pairs(119, 120, "long")),
    _Field("null_value_counts", 110, _COUNTS, _pairs(121, 122, "long")),
    _Field("nan_value_counts", 137, _COUNTS, _pairs(138, 139, "long")),
    _Field("lower_bounds", 125, _BOUNDS, _pairs(126, 127, "bytes")),
    _Field("upper_bounds", 128, _BOUNDS, _pairs(129, 130, "bytes")),
)


def _entry_fields(version: int) -> list[_Field]:
    """The fields of an entry and of its file, in the order of that version."""
    fields = [
        _Field("status", 0, pa.int32(), "int", False, False),
        _Field("snapshot_id", 1, pa.int64(), "long", True, False),
    ]
    if version > 1:
        fields += [
            _Field("sequence_number", 3, pa.int64(), "long", True, False),
            _Field("file_sequence_number", 4, pa.int64(), "long", True, False),
            _Field("content", 134, pa.int32(), "int", False),
        ]
    fields += [
        _Field("file_path", 100, pa.string(), "string", False),
        _Field("file_format", 101, pa.string(), "string", False),
        _Field("partition", 102, pa.struct([]), None, False),
        _Field("record_count", 103, pa.int64(), "long", False),
        _Field("file_size_in_bytes", 104, pa.int64(), "long", False),
        *([_Field("block_size_in_bytes", 105, pa.int64(), "long", False)] if version == 1 else []),
        *_STAT_FIELDS,
        _Field("key_metadata", 131, pa.binary(), "bytes"),
        _Field("split_offsets", 132, _list(pa.int64()), {"type": "array", "items": "long", "element-id": 133}),
    ]
    if version > 1:
        array = {"type": "array", "items": "int", "element-id": 136}
        fields.append(_Field("equality_ids", 135, _list(pa.int32()), array))
    fields.append(_Field("sort_order_id", 140, pa.int32(), "int"))
    if version > 2:
        fields.append(_Field("first_row_id", 142, pa.int64(), "long"))
    if version > 1:
        fields.append(_Field("referenced_data_file", 143, pa.string(), "string"))
    if version > 2:
        fields += [
            _Field("content_offset", 144, pa.int64(), "long"), _Field("content_size_in_bytes", 145, pa.int64(), "long"),
        ]  # fmt: skip
    return fields


def entry_avro_schema(version: int, spec: PartitionSpec, types: Sequence[tuple[str, Any]]) -> Any:
    """The Avro schema of a manifest."""
    seen: set[str] = set()
    partition = {
        "type": "record", "name": "r102",
        "fields": [
            {
                **_avro_name(field.name), "type": ["null", _avro_type(kind, seen)], "default": None,
                "field-id": field.field_id,
            }
            for field, (_, kind) in zip(spec.fields, types, strict=True)
        ],
    }  # fmt: skip
    fields = _entry_fields(version)
    inner = [{**f.avro(), "type": partition} if f.name == "partition" else f.avro() for f in fields if f.in_file]
    data_file = {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": inner}, "field-id": 2}
    outer = [f.avro() for f in fields if not f.in_file]
    return {"type": "record", "name": "manifest_entry", "fields": [*outer, data_file]}


_SUMMARY = pa.struct([
    pa.field("contains_null", pa.bool_(), nullable=False), pa.field("contains_nan", pa.bool_()),
    pa.field("lower_bound", pa.binary()), pa.field("upper_bound", pa.binary()),
])  # fmt: skip
_SUMMARY_AVRO = {
    "type": "array",
    "items": {
        "type": "record", "name": "r508",
        "fields": [
            {"name": "contains_null", "type": "boolean", "field-id": 509},
            {"name": "contains_nan", "type": ["null", "boolean"], "default": None, "field-id": 518},
            {"name": "lower_bound", "type": ["null", "bytes"], "default": None, "field-id": 510},
            {"name": "upper_bound", "type": ["null", "bytes"], "default": None, "field-id": 511},
        ],
    },
    "element-id": 508,
}  # fmt: skip
_LIST_NAMES = {"path": "manifest_path", "length": "manifest_length", "spec_id": "partition_spec_id"}


def _list_fields(version: int) -> list[_Field]:
    counts = [
        _Field(f"{name}_files_count", number, pa.int32(), "int", version == 1)
        for name, number in (("added", 504), ("existing", 505), ("deleted", 506))
    ]
    rows = [
        _Field(f"{name}_rows_count", number, pa.int64(), "long", version == 1)
        for name, number in (("added", 512), ("existing", 513), ("deleted", 514))
    ]
    partitions = _Field("partitions", 507, pa.list_(pa.field("item", _SUMMARY, nullable=False)), _SUMMARY_AVRO)
    numbers = [
        _Field("content", 517, pa.int32(), "int", False), _Field("sequence_number", 515, pa.int64(), "long", False),
        _Field("min_sequence_number", 516, pa.int64(), "long", False),
    ]  # fmt: skip
    return [
        _Field("path", 500, pa.string(), "string", False),
        _Field("length", 501, pa.int64(), "long", False),
        _Field("spec_id", 502, pa.int32(), "int", False),
        *(numbers if version > 1 else []),
        _Field("added_snapshot_id", 503, pa.int64(), "long", False),
        *counts,
        *([*rows, partitions] if version > 1 else [partitions, *rows]),
        _Field("key_metadata", 519, pa.binary(), "bytes"),
        *([_Field("first_row_id", 520, pa.int64(), "long")] if version > 2 else []),
    ]


# ---- partition values ------------------------------------------------------------------------------------------------


def _avro_name(name: str) -> dict[str, str]:
    """An Avro name for a field, and its own beside it where the two differ (AvroSchemaUtil.makeCompatibleName)."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return {"name": name}
    first, rest = name[:1], name[1:]
    made = first if re.fullmatch(r"[A-Za-z_]", first) else _escaped(first)
    made += "".join(c if re.fullmatch(r"[A-Za-z0-9_]", c) else _escaped(c) for c in rest)
    return {"name": made, "iceberg-field-name": name}


def _escaped(character: str) -> str:
    return f"_{character}" if character.isascii() and character.isdigit() else f"_x{ord(character):X}"


def _avro_type(kind: Any, seen: set[str]) -> Any:
    """The Avro type of a partition value; a `fixed` is defined where it is met first, then named."""
    made = _avro_of(kind)
    if isinstance(made, dict) and made["type"] == "fixed":
        if made["name"] in seen:
            return made["name"]
        seen.add(made["name"])
    return made


def _avro_of(kind: Any) -> Any:
    if isinstance(kind, T.DecimalType):
        return {
            "type": "fixed", "name": f"decimal_{kind.precision}_{kind.scale}", "size": _decimal_width(kind.precision),
            "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale,
        }  # fmt: skip
    if isinstance(kind, T.FixedType):
        return {"type": "fixed", "name": f"fixed_{len(kind)}", "size": len(kind)}
    return _AVRO[type(kind)]


def _stamp(unit: str, utc: bool) -> dict[str, Any]:
    return {"type": "long", "logicalType": f"timestamp-{unit}", "adjust-to-utc": utc}


_AVRO: Mapping[type[Any], Any] = {
    T.BooleanType: "boolean", T.IntegerType: "int", T.LongType: "long", T.FloatType: "float", T.DoubleType: "double",
    T.DateType: {"type": "int", "logicalType": "date"}, T.TimeType: {"type": "long", "logicalType": "time-micros"},
    T.TimestampType: _stamp("micros", False), T.TimestamptzType: _stamp("micros", True),
    T.TimestampNanoType: _stamp("nanos", False), T.TimestamptzNanoType: _stamp("nanos", True),
    T.StringType: "string", T.BinaryType: "bytes", T.UnknownType: "string",
    T.UUIDType: {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"},
}  # fmt: skip


def _decimal_width(precision: int) -> int:
    """Bytes of the greatest unscaled value of a precision."""
    greatest: int = 10**precision - 1
    return (greatest.bit_length() + 8) // 8


def _physical(kind: Any) -> pa.DataType:
    """The Arrow type whose Avro encoding a partition value has."""
    if isinstance(kind, T.DecimalType):
        return pa.binary(_decimal_width(kind.precision))
    if isinstance(kind, T.FixedType):
        return pa.binary(len(kind))
    return _PHYSICAL[type(kind)]


_PHYSICAL: Mapping[type[Any], pa.DataType] = {
    T.BooleanType: pa.bool_(), T.IntegerType: pa.int32(), T.LongType: pa.int64(), T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(), T.DateType: pa.int32(), T.TimeType: pa.int64(), T.TimestampType: pa.int64(),
    T.TimestamptzType: pa.int64(), T.TimestampNanoType: pa.int64(), T.TimestamptzNanoType: pa.int64(),
    T.StringType: pa.string(), T.BinaryType: pa.binary(), T.UnknownType: pa.string(), T.UUIDType: pa.binary(16),
}  # fmt: skip


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
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        values = pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(np.ascontiguousarray(big))])
        return pc.if_else(pa.array(~nulls), values, pa.scalar(None, kind))
    if pa.types.is_temporal(array.type):
        return array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()).cast(kind)
    return array.cast(kind)


def _as(column: pa.Array | None, field: _Field | pa.Field, rows: int) -> pa.Array:
    """A column in the type of an Avro field; one that is missing is null."""
    kind = field.kind if isinstance(field, _Field) else field.type
    if column is None:
        return pa.nulls(rows, kind)
    if column.type == kind:
        return column
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return _retyped(column, kind)
    return column.cast(kind)


def _retyped(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Maps and lists of the same layout, whose values may not be null."""
    if pa.types.is_map(kind):
        pairs = pa.StructArray.from_arrays(
            [column.keys.cast(kind.key_type), column.items.cast(kind.item_type)],
            fields=[kind.key_field, kind.item_field],
        )
        return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], -1, column.offset, [pairs])
    values = column.values.cast(kind.value_type)
    return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], -1, column.offset, [values])


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _deflated(data: bytes) -> bytes:
    maker = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
    return maker.compress(data) + maker.flush()
