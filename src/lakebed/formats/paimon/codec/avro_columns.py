"""The Avro schema of Paimon's data files, for whole Arrow columns.

Rules: Paimon's AvroSchemaConverter. A nullable type is a union with null first. TIMESTAMP is `timestamp-millis` or
`-micros`, and TIMESTAMP WITH LOCAL TIME ZONE is `local-timestamp-…`, which is the reverse of the Avro specification.
Timestamps of more than six digits have no Avro type, and maps need text keys.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.kernel.avro.encode import encode_records

__all__ = ["RECORD", "avro_schema", "can_hold", "encode_records"]

RECORD = "org.apache.paimon.avro.generated.record"


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """The Avro schema of data files with these columns. UnsupportedError names a column that Avro cannot hold."""
    return _record(RECORD, "record", schema, "")


def can_hold(schema: pa.Schema) -> bool:
    """Whether Avro files can hold these columns."""
    try:
        avro_schema(schema)
    except UnsupportedError:
        return False
    return True


# ---- schema ----------------------------------------------------------------------------------------------------------


def _record(name: str, path: str, fields: Any, column: str) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {
                "name": field.name,
                "type": _schema(field, f"{path}_{field.name}", column or field.name),
                **({"default": None} if field.nullable else {}),
            }
            for field in fields
        ],
    }


def _schema(field: pa.Field, path: str, column: str) -> Any:
    kind = _type(field.type, path, column)
    return ["null", kind] if field.nullable else kind


def _type(kind: pa.DataType, path: str, column: str) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_timestamp(kind) and kind.unit in ("ms", "us"):
        word = f"{'local-' if kind.tz else ''}timestamp-{'millis' if kind.unit == 'ms' else 'micros'}"
        return {"type": "long", "logicalType": word}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return {"type": "map", "values": _schema(kind.item_field, path, column)}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _schema(kind.value_field, path, column)}
    if pa.types.is_struct(kind):
        return _record(path, path, [kind.field(i) for i in range(kind.num_fields)], column)
    raise UnsupportedError(
        f"Avro files cannot hold the {kind} of column {column!r}", todo="Use file.format=parquet, or another type"
    )


_PLAIN: dict[pa.DataType, Any] = {
    pa.bool_(): "boolean", pa.int8(): "int", pa.int16(): "int", pa.int32(): "int", pa.int64(): "long",
    pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"}, pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
}  # fmt: skip
