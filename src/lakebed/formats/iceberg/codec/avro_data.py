"""The Avro schema of Iceberg data files, and columns in the form in which Avro records store them.

Rule: the specification's appendix "Avro". Ids are attributes of fields, elements, keys and values. Decimals, UUIDs and
fixed bytes are `fixed`. A map whose keys are not text is an array of records with the logical type `map`.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.codec.schema import FIELD_ID


def avro_data_schema(schema: pa.Schema) -> dict[str, Any]:
    """The Avro schema of files with these columns, which carry their field ids. UnsupportedError for other types."""
    return _record("table", list(schema))


def plain_avro_field(field: pa.Field) -> pa.Field:
    """The field of the column that `plain_avro` returns."""
    return pa.field(field.name, _plain_type(field.type), field.nullable)


def plain_avro(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """A column with decimals and UUIDs as the fixed bytes that Avro stores.

    UnsupportedError for a decimal or UUID inside a struct, list or map.
    """
    kind = field.type
    if pa.types.is_decimal(kind):
        return pa.chunked_array([_decimal_bytes(chunk, kind) for chunk in column.chunks], _plain_type(kind))
    if isinstance(kind, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
    if pa.types.is_nested(kind) and _plain_type(kind) != kind:
        raise UnsupportedError(
            f"lakebed does not write decimals or UUIDs inside {field.name!r} to Avro files",
            todo="Set write.format.default=parquet for this table",
        )
    return column


def _decimal_bytes(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decimals as big-endian two's complement, in the smallest width that the precision needs."""
    width = decimal_width(kind.precision)
    raw = np.frombuffer(column.buffers()[1], np.uint8)[16 * column.offset : 16 * (column.offset + len(column))]
    data = np.ascontiguousarray(raw.reshape(-1, 16)[:, :width][:, ::-1])
    mask = column.is_null().to_numpy(zero_copy_only=False)
    values = pa.Array.from_buffers(pa.binary(width), len(column), [None, pa.py_buffer(data)])
    return values if not mask.any() else pa.array(values).filter(pa.array(~mask)).take(_places(mask))


def _places(mask: Any) -> pa.Array:
    """The place of each value among those that are not null; null for a null."""
    return pa.array(np.cumsum(~mask) - 1, mask=mask)


def decimal_width(precision: int) -> int:
    """How many bytes the unscaled value of a decimal with this precision takes."""
    return int((10**precision - 1).bit_length() // 8 + 1)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.binary(decimal_width(kind.precision))
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([plain_avro_field(kind.field(n)) for n in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(plain_avro_field(kind.key_field), plain_avro_field(kind.item_field))
    return pa.list_(plain_avro_field(kind.value_field)) if pa.types.is_list(kind) else kind


def _record(name: str, fields: list[pa.Field]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(field) for field in fields]}


def avro_name(name: str) -> str:
    """A column's name as Avro allows it: letters, digits and `_`, no digit first (AvroSchemaUtil.sanitize).

    Java looks at UTF-16 units. A unit that is not a letter or digit becomes `_xHEX`; a leading digit gets a `_`.
    """
    raw = name.encode("utf-16-be", "surrogatepass")
    units = [chr(int.from_bytes(raw[at : at + 2], "big")) for at in range(0, len(raw), 2)]
    return "".join(_unit(unit, at == 0) for at, unit in enumerate(units))


def _unit(unit: str, is_first: bool) -> str:
    kind = unicodedata.category(unit)
    if unit == "_" or kind in ("Lu", "Ll", "Lt", "Lm", "Lo"):
        return unit
    if kind == "Nd":
        return f"_{unit}" if is_first else unit
    return f"_x{ord(unit):X}"


def _field(field: pa.Field) -> dict[str, Any]:
    id = _id(field)
    name = avro_name(field.name)
    avro: dict[str, Any] = {"name": name, "type": _optional(field, id)}
    if name != field.name:
        avro["iceberg-field-name"] = field.name
    if field.nullable:
        avro["default"] = None
    return {**avro, "field-id": id}


def _id(field: pa.Field) -> int:
    return int((field.metadata or {})[FIELD_ID])


def _optional(field: pa.Field, id: int) -> Any:
    kind = _type(field.type, id)
    return ["null", kind] if field.nullable else kind


def _type(kind: pa.DataType, id: int) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_timestamp(kind):
        logical_type = f"timestamp-{'nanos' if kind.unit == 'ns' else 'micros'}"
        return {"type": "long", "logicalType": logical_type, "adjust-to-utc": kind.tz is not None}
    if pa.types.is_decimal(kind):
        name = f"decimal_{kind.precision}_{kind.scale}_{id}"
        fixed = {"type": "fixed", "name": name, "size": decimal_width(kind.precision)}
        return {**fixed, "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if isinstance(kind, pa.BaseExtensionType):
        return {"type": "fixed", "name": f"uuid_fixed_{id}", "size": 16, "logicalType": "uuid"}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": f"fixed_{id}", "size": kind.byte_width}
    if pa.types.is_struct(kind):
        return _record(f"r{id}", [kind.field(n) for n in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_list(kind):
        element = kind.value_field
        return {"type": "array", "items": _optional(element, _id(element)), "element-id": _id(element)}
    raise UnsupportedError(f"Avro files cannot hold {kind}")


def _map(kind: pa.MapType) -> dict[str, Any]:
    key, value = kind.key_field, kind.item_field
    if pa.types.is_string(kind.key_type):
        return {"type": "map", "values": _optional(value, _id(value)), "key-id": _id(key), "value-id": _id(value)}
    return {"type": "array", "logicalType": "map", "items": _record(f"k{_id(key)}_v{_id(value)}", [key, value])}


_PLAIN: dict[pa.DataType, Any] = {
    pa.bool_(): "boolean", pa.int32(): "int", pa.int64(): "long", pa.float32(): "float", pa.float64(): "double",
    pa.string(): "string", pa.binary(): "bytes", pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
}  # fmt: skip
