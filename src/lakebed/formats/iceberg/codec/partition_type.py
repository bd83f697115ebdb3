"""The types of partition values, and the values themselves out of a manifest's records.

Rule: the specification's "Partition Specs": a partition is a struct of the transforms' result types; its fields are
found by id in what a manifest wrote, whatever they are called by now.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyiceberg import types as T
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.schema import with_variants
from lakebed.kernel.arrays import one_chunk
from lakebed.kernel.decoding import decoding

_ARROW: Mapping[type[Any], pa.DataType] = {
    T.BooleanType: pa.bool_(), T.IntegerType: pa.int32(), T.LongType: pa.int64(), T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(), T.DateType: pa.date32(), T.TimeType: pa.time64("us"), T.StringType: pa.string(),
    T.TimestampType: pa.timestamp("us"), T.TimestamptzType: pa.timestamp("us", "UTC"), T.BinaryType: pa.binary(),
    T.TimestampNanoType: pa.timestamp("ns"), T.TimestamptzNanoType: pa.timestamp("ns", "UTC"),
    T.UUIDType: pa.binary(16), T.UnknownType: pa.null(),
}  # fmt: skip


def partition_types(metadata: TableMetadata, spec: PartitionSpec) -> list[tuple[str, Any]]:
    """(name, Iceberg type) of each field of a spec: the transform's result type.

    A source column that was dropped is looked up in older schemas, then in what manifests told (`learn`);
    UnsupportedError when none has it, or for a transform that this build does not know.
    """
    schemas = [metadata.schema, *list(metadata.schemas.values())[::-1]]
    found: list[tuple[str, Any]] = []
    for field in spec.fields:
        source = next((s.find_type(field.source_id) for s in schemas if field.source_id in s.field_ids), None)
        source = source or metadata.lost_columns.get(field.source_id)
        if source is None and str(field.transform) != "void":
            raise UnsupportedError(
                f"partition field {field.name!r} comes from column {field.source_id}, which no schema has",
                table=metadata.location,
            )
        found.append((field.name, T.UnknownType() if source is None else field.transform.result_type(source)))
    return found


def knows_partitions(metadata: TableMetadata, spec_id: int) -> bool:
    """Whether the metadata has a spec, and the columns that its fields come from."""
    if spec_id not in metadata.specs:
        return False
    known = {id for schema in metadata.schemas.values() for id in schema.field_ids} | metadata.lost_columns.keys()
    fields = metadata.specs[spec_id].fields
    return all(str(field.transform) == "void" or field.source_id in known for field in fields)


def learn(metadata: TableMetadata, spec_id: int, header: Mapping[str, bytes], file: str) -> None:
    """Take from a manifest's header what the metadata does not know of a spec. Numbers are taken as the widest type
    that they may have been promoted to, so that all manifests of the spec fit.

    CorruptError for a manifest of an unknown spec that does not say what it is.
    """
    with decoding("a manifest's header cannot be read", file=file):
        if spec_id not in metadata.specs:
            fields = json.loads(header["partition-spec"])
            fields = fields["fields"] if isinstance(fields, dict) else fields
            metadata.lost_specs[spec_id] = PartitionSpec.model_validate({"spec-id": spec_id, "fields": fields})
        schema = Schema.model_validate(with_variants(json.loads(header["schema"])))
        for field in metadata.specs[spec_id].fields:
            if field.source_id in schema.field_ids:
                metadata.lost_columns.setdefault(field.source_id, _widest(schema.find_type(field.source_id)))


def _widest(kind: Any) -> Any:
    """The type that the specification lets a column be promoted to."""
    if isinstance(kind, T.IntegerType):
        return T.LongType()
    if isinstance(kind, T.FloatType):
        return T.DoubleType()
    return T.DecimalType(38, kind.scale) if isinstance(kind, T.DecimalType) else kind


def partition_type(metadata: TableMetadata, spec: PartitionSpec) -> pa.StructType:
    """The Arrow struct of a spec's partition values, all nullable; UUIDs are 16 bytes."""
    return pa.struct([pa.field(name, arrow_type(kind)) for name, kind in partition_types(metadata, spec)])


def arrow_type(kind: Any) -> pa.DataType:
    """The Arrow type of partition values of a primitive type; UnsupportedError for others."""
    if not kind.is_primitive:
        raise UnsupportedError(f"a partition field has values of the type {kind}")
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, T.FixedType):
        return pa.binary(len(kind))
    return _ARROW[type(kind)]


def partition_structs(
    columns: Mapping[int, pa.ChunkedArray], spec: PartitionSpec, kind: pa.StructType, rows: int
) -> pa.ChunkedArray:
    """The partitions of some entries: `columns` are the partition fields of their manifests by id. Fields that these
    lack are null."""
    found = [columns.get(field.field_id) for field in spec.fields]
    whole = [
        pa.nulls(rows, wanted.type) if column is None else _value(one_chunk(column), wanted.type)
        for column, wanted in zip(found, kind, strict=True)
    ]
    return pa.chunked_array([pa.Array.from_buffers(kind, rows, [None], 0, 0, whole)])


def _value(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A physical partition value as its type: whole numbers become dates, times and timestamps."""
    if array.type == kind:
        return array
    if pa.types.is_null(kind):
        return pa.nulls(len(array))
    if pa.types.is_temporal(kind):
        return array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return array.cast(kind)
