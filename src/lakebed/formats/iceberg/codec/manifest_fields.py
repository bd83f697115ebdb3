"""The fields of manifests and manifest lists in each format version, and the Avro types of partition values.

Rule: the specification's "Manifests" and "Manifest Lists". The names and the order of fields are those that the
reference engine writes (V1Metadata to V3Metadata, AvroSchemaUtil).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg import types as T
from pyiceberg.partitioning import PartitionSpec


@dataclass(frozen=True, slots=True)
class ManifestField:
    """A field of a manifest's Avro schema. With `in_file` it lies in the entry's data file, else in the entry."""

    name: str
    number: int
    kind: pa.DataType
    avro_type: Any
    nullable: bool = True
    in_file: bool = True

    def avro(self) -> dict[str, Any]:
        """The field's Avro schema."""
        kind: dict[str, Any] = {"name": _LIST_NAMES.get(self.name, self.name)}
        if self.nullable:
            return {**kind, "type": ["null", self.avro_type], "default": None, "field-id": self.number}
        return {**kind, "type": self.avro_type, "field-id": self.number}

    def arrow(self, partition: pa.StructType) -> pa.Field:
        """The field's Arrow field, which says whether it may be null."""
        return pa.field(self.name, partition if self.name == "partition" else self.kind, self.nullable)


def arrow_fields(version: int, partition: pa.StructType) -> tuple[list[pa.Field], list[pa.Field]]:
    """The Arrow fields of an entry in a format version: its own, and those of its data file."""
    fields = [(field, field.arrow(partition)) for field in entry_fields(version)]
    return [arrow for field, arrow in fields if not field.in_file], [arrow for field, arrow in fields if field.in_file]


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
    ManifestField("column_sizes", 108, _COUNTS, _pairs(117, 118, "long")),
    ManifestField("value_counts", 109, _COUNTS, _pairs(119, 120, "long")),
    ManifestField("null_value_counts", 110, _COUNTS, _pairs(121, 122, "long")),
    ManifestField("nan_value_counts", 137, _COUNTS, _pairs(138, 139, "long")),
    ManifestField("lower_bounds", 125, _BOUNDS, _pairs(126, 127, "bytes")),
    ManifestField("upper_bounds", 128, _BOUNDS, _pairs(129, 130, "bytes")),
)


def entry_fields(version: int) -> list[ManifestField]:
    """The fields of an entry and of its file, in the order of a format version."""
    fields = [
        ManifestField("status", 0, pa.int32(), "int", False, False),
        ManifestField("snapshot_id", 1, pa.int64(), "long", True, False),
    ]
    if version > 1:
        fields += [
            ManifestField("sequence_number", 3, pa.int64(), "long", True, False),
            ManifestField("file_sequence_number", 4, pa.int64(), "long", True, False),
            ManifestField("content", 134, pa.int32(), "int", False),
        ]
    fields += [
        ManifestField("file_path", 100, pa.string(), "string", False),
        ManifestField("file_format", 101, pa.string(), "string", False),
        ManifestField("partition", 102, pa.struct([]), None, False),
        ManifestField("record_count", 103, pa.int64(), "long", False),
        ManifestField("file_size_in_bytes", 104, pa.int64(), "long", False),
        *([ManifestField("block_size_in_bytes", 105, pa.int64(), "long", False)] if version == 1 else []),
        *_STAT_FIELDS,
        ManifestField("key_metadata", 131, pa.binary(), "bytes"),
        ManifestField("split_offsets", 132, _list(pa.int64()), {"type": "array", "items": "long", "element-id": 133}),
    ]
    if version > 1:
        array = {"type": "array", "items": "int", "element-id": 136}
        fields.append(ManifestField("equality_ids", 135, _list(pa.int32()), array))
    fields.append(ManifestField("sort_order_id", 140, pa.int32(), "int"))
    if version > 2:
        fields.append(ManifestField("first_row_id", 142, pa.int64(), "long"))
    if version > 1:
        fields.append(ManifestField("referenced_data_file", 143, pa.string(), "string"))
    if version > 2:
        fields += [
            ManifestField("content_offset", 144, pa.int64(), "long"),
            ManifestField("content_size_in_bytes", 145, pa.int64(), "long"),
        ]
    return fields


def entry_avro_schema(version: int, spec: PartitionSpec, types: Sequence[tuple[str, Any]]) -> Any:
    """The Avro schema of a manifest."""
    seen: set[str] = set()
    partition = {
        "type": "record",
        "name": "r102",
        "fields": [
            {
                **_avro_name(field.name),
                "type": ["null", _avro_type(kind, seen)],
                "default": None,
                "field-id": field.field_id,
            }
            for field, (_, kind) in zip(spec.fields, types, strict=True)
        ],
    }
    fields = entry_fields(version)
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
        "type": "record",
        "name": "r508",
        "fields": [
            {"name": "contains_null", "type": "boolean", "field-id": 509},
            {"name": "contains_nan", "type": ["null", "boolean"], "default": None, "field-id": 518},
            {"name": "lower_bound", "type": ["null", "bytes"], "default": None, "field-id": 510},
            {"name": "upper_bound", "type": ["null", "bytes"], "default": None, "field-id": 511},
        ],
    },
    "element-id": 508,
}
_LIST_NAMES = {"path": "manifest_path", "length": "manifest_length", "spec_id": "partition_spec_id"}


def list_fields(version: int) -> list[ManifestField]:
    """The fields of a manifest list, in the order of a format version."""
    counts = [
        ManifestField(f"{name}_files_count", number, pa.int32(), "int", version == 1)
        for name, number in (("added", 504), ("existing", 505), ("deleted", 506))
    ]
    rows = [
        ManifestField(f"{name}_rows_count", number, pa.int64(), "long", version == 1)
        for name, number in (("added", 512), ("existing", 513), ("deleted", 514))
    ]
    partitions = ManifestField("partitions", 507, pa.list_(pa.field("item", _SUMMARY, nullable=False)), _SUMMARY_AVRO)
    numbers = [
        ManifestField("content", 517, pa.int32(), "int", False),
        ManifestField("sequence_number", 515, pa.int64(), "long", False),
        ManifestField("min_sequence_number", 516, pa.int64(), "long", False),
    ]
    return [
        ManifestField("path", 500, pa.string(), "string", False),
        ManifestField("length", 501, pa.int64(), "long", False),
        ManifestField("spec_id", 502, pa.int32(), "int", False),
        *(numbers if version > 1 else []),
        ManifestField("added_snapshot_id", 503, pa.int64(), "long", False),
        *counts,
        *([*rows, partitions] if version > 1 else [partitions, *rows]),
        ManifestField("key_metadata", 519, pa.binary(), "bytes"),
        *([ManifestField("first_row_id", 520, pa.int64(), "long")] if version > 2 else []),
    ]


# ---- partition values ------------------------------------------------------------------------------------------------


def _avro_name(name: str) -> dict[str, str]:
    """A field's Avro name, and its own name if that differs (AvroSchemaUtil.makeCompatibleName)."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return {"name": name}
    first, rest = name[:1], name[1:]
    avro_name = first if re.fullmatch(r"[A-Za-z_]", first) else _escaped(first)
    avro_name += "".join(c if re.fullmatch(r"[A-Za-z0-9_]", c) else _escaped(c) for c in rest)
    return {"name": avro_name, "iceberg-field-name": name}


def _escaped(character: str) -> str:
    return f"_{character}" if character.isascii() and character.isdigit() else f"_x{ord(character):X}"


def _avro_type(kind: Any, seen: set[str]) -> Any:
    """The Avro type of a partition value. A `fixed` type is defined where it first occurs, later only named."""
    avro = _avro_of(kind)
    if isinstance(avro, dict) and avro["type"] == "fixed":
        if avro["name"] in seen:
            return avro["name"]
        seen.add(avro["name"])
    return avro


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
    """How many bytes the greatest unscaled value of a precision takes."""
    greatest: int = 10**precision - 1
    return (greatest.bit_length() + 8) // 8


def physical_type(kind: Any) -> pa.DataType:
    """The Arrow type with the Avro encoding of a partition value."""
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
