"""The types of partition values, and the values themselves out of a manifest's records.

Rule: the specification's "Partition Specs": a partition is a struct of the transforms' result types; its fields are
found by id in what a manifest wrote, whatever they are called by now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyiceberg import types as T
from pyiceberg.partitioning import PartitionSpec

from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.codec.metadata import TableMetadata

_ARROW: Mapping[type[Any], pa.DataType] = {
    T.BooleanType: pa.bool_(), T.IntegerType: pa.int32(), T.LongType: pa.int64(), T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(), T.DateType: pa.date32(), T.TimeType: pa.time64("us"), T.StringType: pa.string(),
    T.TimestampType: pa.timestamp("us"), T.TimestamptzType: pa.timestamp("us", "UTC"), T.BinaryType: pa.binary(),
    T.TimestampNanoType: pa.timestamp("ns"), T.TimestamptzNanoType: pa.timestamp("ns", "UTC"),
    T.UUIDType: pa.binary(16), T.UnknownType: pa.null(),
}  # fmt: skip


def partition_types(metadata: TableMetadata, spec: PartitionSpec) -> list[tuple[str, Any]]:
    """(name, Iceberg type) of each field of a spec: the transform's result type.

    A source column that was dropped is looked up in older schemas; UnsupportedError when none has it, or for a
    transform that this build does not know.
    """
    schemas = [metadata.schema, *list(metadata.schemas.values())[::-1]]
    found: list[tuple[str, Any]] = []
    for field in spec.fields:
        source = next((s.find_type(field.source_id) for s in schemas if field.source_id in s.field_ids), None)
        if source is None and str(field.transform) != "void":
            raise UnsupportedError(
                f"partition field {field.name!r} comes from column {field.source_id}, which no schema has",
                table=metadata.location,
            )
        found.append((field.name, T.UnknownType() if source is None else field.transform.result_type(source)))
    return found


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
        pa.nulls(rows, wanted.type) if column is None else _value(_one(column), wanted.type)
        for column, wanted in zip(found, kind, strict=True)
    ]
    return pa.chunked_array([pa.Array.from_buffers(kind, rows, [None], 0, 0, whole)])


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _value(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A physical partition value as its type: whole numbers become dates, times and timestamps."""
    if array.type == kind:
        return array
    if pa.types.is_null(kind):
        return pa.nulls(len(array))
    if pa.types.is_temporal(kind):
        return array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return array.cast(kind)
