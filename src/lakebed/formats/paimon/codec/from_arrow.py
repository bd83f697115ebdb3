"""The Paimon types of a new table's columns, from their Arrow types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from lakebed.errors import SchemaError
from lakebed.formats.paimon.codec.types import MAX_LENGTH, DataField, DataType, arrow_type
from lakebed.kernel.rows.columns import check_struct


def type_from_arrow(kind: pa.DataType, next_id: Callable[[], int], column: str) -> DataType:
    """The Paimon type for an Arrow type. Without one, SchemaError names the column and what to cast it to."""
    if pa.types.is_dictionary(kind):
        return type_from_arrow(kind.value_type, next_id, column)
    if kind in _FROM_ARROW:
        return _FROM_ARROW[kind]
    if pa.types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= 38:
        return DataType("DECIMAL", precision=kind.precision, scale=kind.scale)
    if pa.types.is_timestamp(kind):
        return DataType("TIMESTAMP_LTZ" if kind.tz else "TIMESTAMP", precision=_PRECISION[kind.unit])
    if pa.types.is_time32(kind):
        return DataType("TIME", precision=_PRECISION[kind.unit])
    if pa.types.is_fixed_size_binary(kind):
        return DataType("BINARY", length=kind.byte_width)
    if pa.types.is_map(kind):
        key = type_from_arrow(kind.key_type, next_id, column).required()
        value = _nullable(type_from_arrow(kind.item_type, next_id, column), kind.item_field.nullable)
        return DataType("MAP", key=key, element=value)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = type_from_arrow(kind.value_type, next_id, column)
        return DataType("ARRAY", element=_nullable(element, kind.value_field.nullable))
    if pa.types.is_struct(kind):
        check_struct(kind, column)
        return DataType("ROW", fields=tuple(field_from_arrow(kind.field(i), next_id) for i in range(kind.num_fields)))
    raise SchemaError(
        f"column {column!r} has the type {kind}, which Paimon does not have",
        todo=_INSTEAD.get(str(kind), "Cast it"),
    )


def field_from_arrow(field: pa.Field, next_id: Callable[[], int]) -> DataField:
    """A new column. It takes its id before its nested fields do, as in Paimon's Schema builder."""
    number = next_id()
    kind = type_from_arrow(field.type, next_id, field.name)
    description = (field.metadata or {}).get(b"comment")
    return DataField(number, field.name, _nullable(kind, field.nullable), description.decode() if description else None)


_STRING = DataType("VARCHAR", length=MAX_LENGTH)
_BYTES = DataType("VARBINARY", length=MAX_LENGTH)
_FROM_ARROW: dict[pa.DataType, DataType] = {
    **{
        arrow_type(DataType(root)): DataType(root)
        for root in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE")
    },
    pa.string(): _STRING, pa.large_string(): _STRING, pa.string_view(): _STRING,
    pa.binary(): _BYTES, pa.large_binary(): _BYTES, pa.binary_view(): _BYTES, pa.date64(): DataType("DATE"),
}  # fmt: skip
_PRECISION = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_INSTEAD = {
    "uint8": "Cast it to int16",
    "uint16": "Cast it to int32",
    "uint32": "Cast it to int64",
    "uint64": "Cast it to decimal128(20, 0)",
    "halffloat": "Cast it to float32",
    "null": "Give the column a type",
    "time64[us]": "Paimon keeps milliseconds of the day: cast it to time32('ms')",
    "time64[ns]": "Paimon keeps milliseconds of the day: cast it to time32('ms')",
}


def _nullable(kind: DataType, nullable: bool) -> DataType:
    return replace(kind, nullable=nullable)
