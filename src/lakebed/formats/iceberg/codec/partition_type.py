"""The types of partition values, and the values themselves from a manifest's records.

Rule: the specification's "Partition Specs". A partition is a struct of the transforms' result types. Its fields are
found by id in a manifest, whatever their names are now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyiceberg import types as T
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.schema import arrow_type as schema_type
from lakebed.formats.iceberg.codec.schema import with_all_types
from lakebed.kernel.arrays import one_chunk
from lakebed.kernel.decoding import decoding, parsed_json

_ARROW: Mapping[type[Any], pa.DataType] = {
    T.BooleanType: pa.bool_(), T.IntegerType: pa.int32(), T.LongType: pa.int64(), T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(), T.DateType: pa.date32(), T.TimeType: pa.time64("us"), T.StringType: pa.string(),
    T.TimestampType: pa.timestamp("us"), T.TimestamptzType: pa.timestamp("us", "UTC"), T.BinaryType: pa.binary(),
    T.TimestampNanoType: pa.timestamp("ns"), T.TimestamptzNanoType: pa.timestamp("ns", "UTC"),
    T.UUIDType: pa.binary(16), T.UnknownType: pa.null(),
}  # fmt: skip


def partition_types(metadata: TableMetadata, spec: PartitionSpec) -> list[tuple[str, Any]]:
    """(name, Iceberg type) of each field of a spec: the transform's result type.

    A dropped source column is looked up in older schemas, then in what was learned from manifests (`learn`).
    UnsupportedError when none has it, or for a transform that this build does not know.
    """
    schemas = [metadata.schema, *list(metadata.schemas.values())[::-1]]
    types: list[tuple[str, Any]] = []
    for field in spec.fields:
        source = next((s.find_type(field.source_id) for s in schemas if field.source_id in s.field_ids), None)
        source = source or metadata.lost_columns.get(field.source_id)
        if source is None and str(field.transform) != "void":
            raise UnsupportedError(
                f"partition field {field.name!r} comes from column {field.source_id}, which no schema has",
                table=metadata.location,
            )
        types.append((field.name, T.UnknownType() if source is None else field.transform.result_type(source)))
    return types


def knows_partitions(metadata: TableMetadata, spec_id: int) -> bool:
    """Whether the metadata has a spec and the source columns of its fields."""
    if spec_id not in metadata.specs:
        return False
    columns = {id for schema in metadata.schemas.values() for id in schema.field_ids} | metadata.lost_columns.keys()
    fields = metadata.specs[spec_id].fields
    return all(str(field.transform) == "void" or field.source_id in columns for field in fields)


def learn(metadata: TableMetadata, spec_id: int, header: Mapping[str, bytes], file: str) -> None:
    """Take from a manifest's header what the metadata does not know about a spec.

    A number gets the widest type that it may have been promoted to, so that it fits all manifests of the spec.
    CorruptError for a manifest of an unknown spec without a description of that spec.
    """
    with decoding("a manifest's header cannot be read", file=file):
        if spec_id not in metadata.specs:
            fields = parsed_json(header["partition-spec"])
            fields = fields["fields"] if isinstance(fields, dict) else fields
            metadata.lost_specs[spec_id] = PartitionSpec.model_validate({"spec-id": spec_id, "fields": fields})
        schema = Schema.model_validate(with_all_types(parsed_json(header["schema"])))
        for field in metadata.specs[spec_id].fields:
            if field.source_id in schema.field_ids:
                metadata.lost_columns.setdefault(field.source_id, _widest(schema.find_type(field.source_id)))


def _widest(kind: Any) -> Any:
    """The widest type to which the specification lets a column be promoted."""
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
        return schema_type(kind)
    return _ARROW[type(kind)]


def partition_structs(
    columns: Mapping[int, pa.ChunkedArray], spec: PartitionSpec, kind: pa.StructType, rows: int
) -> pa.ChunkedArray:
    """The partitions of `rows` entries. `columns` are the partition fields in their manifests, by id; missing ones are
    null."""
    by_field = [columns.get(field.field_id) for field in spec.fields]
    values = [
        pa.nulls(rows, wanted.type) if column is None else _value(one_chunk(column), wanted.type)
        for column, wanted in zip(by_field, kind, strict=True)
    ]
    return pa.chunked_array([pa.Array.from_buffers(kind, rows, [None], 0, 0, values)])


def _value(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Stored partition values in their type: integers become dates, times and timestamps."""
    if array.type == kind:
        return array
    if pa.types.is_null(kind):
        return pa.nulls(len(array))
    if pa.types.is_temporal(kind):
        return array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return array.cast(kind)
