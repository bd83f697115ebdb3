"""Arrow schemas as Avro schemas, under the names and in the forms that Hudi's Spark writers give them.

Rules: Spark's `SchemaConverters` and Hudi's `AvroConversionUtils`. The record is `<table>_record` in the namespace
`hoodie.<table>`; a nested record or a decimal is named by its column, in the namespace of the record around it. What
may be null is `["null", T]` with the default null. Decimals are fixed, timestamps count microseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

import pyarrow as pa

from lakebed.errors import SchemaError
from lakebed.kernel.decoding import decoding, parsed_json
from lakebed.kernel.rows.columns import check_struct

META_FIELDS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


def avro_schema(schema: pa.Schema, table: str) -> str:
    """The Avro schema (JSON text) of a table's own columns. SchemaError names a column that Avro cannot hold."""
    name = _sanitised(table)
    fields = [avro_field(field, f"{name}_record", f"hoodie.{name}") for field in schema]
    record = {"type": "record", "name": f"{name}_record", "namespace": f"hoodie.{name}", "fields": fields}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


@decoding("a schema cannot be read")
def without_fields(text: str, names: Collection[str]) -> str:
    """A schema that lacks the fields of these names; the same text where it has none of them."""
    record = parsed_json(text) if text else {"fields": []}
    fields = [field for field in record["fields"] if field["name"] not in names]
    if len(fields) == len(record["fields"]):
        return text
    return json.dumps({**record, "fields": fields}, ensure_ascii=False, separators=(",", ":"))


@decoding("a schema cannot be read")
def with_meta_fields(text: str) -> str:
    """The schema that base files and data blocks have: the meta columns before the table's own."""
    record = parsed_json(without_fields(text, META_FIELDS))
    own = record["fields"]
    meta = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_FIELDS]
    return json.dumps({**record, "fields": [*meta, *own]}, ensure_ascii=False, separators=(",", ":"))


def avro_field(field: pa.Field, record: str, namespace: str) -> dict[str, Any]:
    """One field of the record `record` in `namespace`. The comment in its metadata becomes its doc, as in Hudi's
    AvroConversionUtils."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", field.name):
        raise SchemaError(
            f"column {field.name!r} has a name that Avro does not allow",
            why="a name begins with a letter or _ and has only letters, digits and _",
            todo="Rename the column",
        )
    kind = _type(field.type, field.name, f"{namespace}.{record}")
    typed = {"type": ["null", kind], "default": None} if field.nullable else {"type": kind}
    comment = (field.metadata or {}).get(b"comment", b"").decode()
    return {"name": field.name, **typed, **({"doc": comment} if comment else {})}


_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.int64(): "long",
    pa.uint32(): "long",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "bytes",
    pa.large_binary(): "bytes",
    pa.binary_view(): "bytes",
}


def _type(kind: pa.DataType, name: str, namespace: str) -> Any:
    types = pa.types
    if kind in _PLAIN:
        return _PLAIN[kind]
    if types.is_fixed_size_binary(kind):
        return "bytes"
    if types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": decimal_bytes(kind.precision),
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return {"type": "array", "items": ["null", _type(kind.value_type, name, namespace)]}
    if types.is_map(kind) and (types.is_string(kind.key_type) or types.is_large_string(kind.key_type)):
        return {"type": "map", "values": ["null", _type(kind.item_type, name, namespace)]}
    if types.is_dictionary(kind):
        return _type(kind.value_type, name, namespace)
    if types.is_struct(kind):
        check_struct(kind, name)
        fields = [avro_field(field.with_nullable(True), name, namespace) for field in kind]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields}
    raise SchemaError(
        f"column {name!r} is {kind}, which Hudi tables cannot hold",
        why="maps have texts as keys" if types.is_map(kind) else "",
        todo="Cast it to another type",
    )


def decimal_bytes(precision: int) -> int:
    """The bytes of a fixed that holds a decimal of so many digits."""
    return next(size for size in range(1, 17) if 2 ** (8 * size - 1) > 10**precision - 1)


def _sanitised(name: str) -> str:
    """A table's name as part of an Avro name: other characters become `__`, as a digit at the start."""
    return re.sub(r"[^A-Za-z0-9_]", "__", re.sub(r"^[^A-Za-z_]", "__", name))
