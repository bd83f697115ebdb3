"""The definition of a new table: Iceberg's schema, partition spec and metadata from an Arrow schema and transforms.

Rules: field ids are assigned as by the reference engine (AssignFreshIds: all fields of a struct before the fields
inside them). Partition field ids start at 1000. Partition fields are named as by PartitionSpec.Builder (`id_bucket`,
`ts_day`, `name_trunc`). Identifier fields are required.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg import types as T
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import Transform, parse_transform

from lakebed.errors import OptionError, SchemaError, UsageError, known_columns
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.codec.encryption import refuse_encrypted
from lakebed.formats.iceberg.codec.schema import METADATA_COLUMNS
from lakebed.formats.iceberg.unserved import RESERVED
from lakebed.kernel import clock
from lakebed.kernel.predicates.where import find_column
from lakebed.kernel.rows.columns import check_struct
from lakebed.model.rowkind import ROW_KIND_COLUMN

FORMAT_VERSION = "format-version"
_DEFAULT_VERSION = 2


def new_schema(schema: pa.Schema, primary_key: Sequence[str], version: int, table: str) -> Schema:
    """The Iceberg schema of Arrow columns, with fresh field ids. The columns of the primary key are identifier fields.

    SchemaError for a type that Iceberg, or this format version, does not have, for a name that occurs twice, and for
    the name of a metadata column.
    """
    for number, name in enumerate(schema.names):
        if name in schema.names[:number]:
            raise SchemaError(f"two columns have the name {name!r}", table=table, todo="Rename one of them")
        if name in METADATA_COLUMNS or name == ROW_KIND_COLUMN:
            raise SchemaError(
                f"the column name {name!r} is reserved for metadata of rows", table=table, todo="Rename the column"
            )
    ids = itertools.count(1)
    keys = [_column(name, schema, table) for name in primary_key]
    columns = [field.with_nullable(False) if field.name in keys else field for field in schema]
    fields = _fields(columns, ids, version, table)
    by_name = {field.name: field for field in fields}
    for key in keys:
        kind = by_name[key].field_type
        if not isinstance(kind, T.PrimitiveType) or isinstance(kind, (T.FloatType, T.DoubleType)):
            raise SchemaError(f"column {key!r} cannot be part of a primary key", table=table, why=f"it is a {kind}")
    return Schema(*fields, schema_id=0, identifier_field_ids=[by_name[key].field_id for key in keys])


def new_spec(schema: Schema, partition_by: Sequence[str], table: str) -> PartitionSpec:
    """The partition spec from texts such as `bucket(8, id)`, `truncate(4, name)`, `day(ts)` or a column's name.

    UsageError for a transform that Iceberg does not have, or that does not apply to the column's type.
    """
    fields: list[PartitionField] = []
    for number, text in enumerate(partition_by):
        name, transform, column = _parsed(text, schema, table)
        source = schema.find_field(column)
        if not (source.field_type.is_primitive and transform.can_transform(source.field_type)):
            raise UsageError(f"{text!r} cannot partition a column of type {source.field_type}", table=table)
        if any(f.source_id == source.field_id and f.transform == transform for f in fields):
            raise UsageError(f"{text!r} is given twice", table=table)
        taken = {f.name for f in fields} | {f.name for f in schema.fields if f.name != source.name}
        if name in taken:
            raise UsageError(f"the partition field {name!r} of {text!r} has the name of another field", table=table)
        fields.append(PartitionField(source.field_id, 1000 + number, transform, name))
    return PartitionSpec(*fields, spec_id=0)


def new_metadata(
    location: str, schema: Schema, spec: PartitionSpec, version: int, properties: Mapping[str, str]
) -> dict[str, Any]:
    """The metadata document of a table without a snapshot."""
    columns = schema.model_dump(by_alias=True, mode="json", exclude_none=True)
    if not columns.get("identifier-field-ids"):
        columns.pop("identifier-field-ids", None)
    fields = [field.model_dump(by_alias=True, mode="json") for field in spec.fields]
    old = {"schema": columns, "partition-spec": fields} if version == 1 else {}
    return {
        "format-version": version, "table-uuid": str(uuid.uuid4()), "location": location,
        **({"last-sequence-number": 0} if version > 1 else {}), "last-updated-ms": clock.now_ms(),
        "last-column-id": schema.highest_field_id, **old, "current-schema-id": 0, "schemas": [columns],
        "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": fields}],
        "last-partition-id": max((field.field_id for field in spec.fields), default=999), "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}], "properties": dict(properties), "current-snapshot-id": -1,
        **({"next-row-id": 0} if version > 2 else {}), "refs": {}, "snapshots": [], "statistics": [],
        "partition-statistics": [], "snapshot-log": [], "metadata-log": [],
    }  # fmt: skip


def table_properties(options: Mapping[str, str]) -> tuple[int, dict[str, str]]:
    """The format version and the table properties from the options of `create`.

    As in Iceberg, any key is a table property, except those that only say how to open a table. `read.split.target-size`
    is both. OptionError for a value of the wrong type, and for a key that metadata reserves.
    """
    text = options.get(FORMAT_VERSION, str(_DEFAULT_VERSION))
    if text not in ("1", "2", "3"):
        raise OptionError.ill_typed(FORMAT_VERSION, text, "1, 2 or 3")
    split = opt.SPLIT_SIZE.key
    properties = {k: v for k, v in options.items() if k != FORMAT_VERSION and (k == split or not opt.OPENING.knows(k))}
    if split in properties:
        opt.SPLIT_SIZE.read(properties[split])
    for key in RESERVED:
        if key in properties:
            raise OptionError(
                f"option {key!r} is given", key=key, why="the metadata has a field for that", todo="Leave it out"
            )
    opt.properties(properties)
    opt.refuse_secrets(properties)
    refuse_encrypted({"properties": properties})
    return int(text), properties


# ---- columns ---------------------------------------------------------------------------------------------------------


def _column(name: str, schema: pa.Schema, table: str) -> str:
    column = find_column(name, schema.names)
    if column is None:
        raise SchemaError(f"unknown column {name!r}", table=table, todo=known_columns(name, schema.names))
    return column


def _fields(columns: Sequence[pa.Field], ids: Iterator[int], version: int, table: str) -> list[T.NestedField]:
    numbers = [next(ids) for _ in columns]
    return [
        T.NestedField(
            number,
            field.name,
            column_type(field.type, field.name, ids, version, table),
            required=not field.nullable,
            doc=(field.metadata or {}).get(b"comment", b"").decode() or None,
        )
        for number, field in zip(numbers, columns, strict=True)
    ]


def column_type(kind: pa.DataType, column: str, ids: Iterator[int], version: int, table: str) -> T.IcebergType:
    """The Iceberg type of an Arrow type; fields inside get the next `ids`. SchemaError for a type that Iceberg, or this
    format version, does not have."""
    if pa.types.is_dictionary(kind):
        return column_type(kind.value_type, column, ids, version, table)
    if pa.types.is_struct(kind):
        check_struct(kind, column, table)
        return T.StructType(*_fields([kind.field(n) for n in range(kind.num_fields)], ids, version, table))
    if pa.types.is_map(kind):
        key, value = next(ids), next(ids)
        return T.MapType(
            key,
            column_type(kind.key_type, column, ids, version, table),
            value,
            column_type(kind.item_type, column, ids, version, table),
            not kind.item_field.nullable,
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        number = next(ids)
        inside = column_type(kind.value_type, column, ids, version, table)
        return T.ListType(number, inside, not kind.value_field.nullable)
    primitive = _primitive(kind)
    if primitive is None:
        raise SchemaError(f"column {column!r} has the type {kind}, which Iceberg does not have", table=table)
    refuse_newer_type(primitive, column, version, table)
    return primitive


def refuse_newer_type(kind: T.PrimitiveType, column: str, version: int, table: str) -> None:
    """SchemaError for a type that a format version does not have yet."""
    if kind.minimum_format_version() > version:
        raise SchemaError(
            f"column {column!r} has the type {kind}",
            table=table,
            why=f"Iceberg has it from format version {kind.minimum_format_version()} on",
            todo="Use another type, or format-version=3: an option of a new table, and of an alteration",
        )


def _primitive(kind: pa.DataType) -> T.PrimitiveType | None:
    if isinstance(kind, pa.UuidType):
        return T.UUIDType()
    if pa.types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= 38:
        return T.DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return T.FixedType(kind.byte_width)
    if pa.types.is_timestamp(kind):
        nanos = kind.unit == "ns"
        if kind.tz is None:
            return T.TimestampNanoType() if nanos else T.TimestampType()
        return T.TimestamptzNanoType() if nanos else T.TimestamptzType()
    if pa.types.is_time(kind) and kind.unit != "ns":
        return T.TimeType()
    primitive = _PRIMITIVES.get(kind)
    return primitive() if primitive is not None else None


_PRIMITIVES: Mapping[pa.DataType, Callable[[], T.PrimitiveType]] = {
    pa.bool_(): T.BooleanType, pa.int8(): T.IntegerType, pa.int16(): T.IntegerType, pa.int32(): T.IntegerType,
    pa.uint8(): T.IntegerType, pa.uint16(): T.IntegerType, pa.uint32(): T.LongType, pa.int64(): T.LongType,
    pa.float16(): T.FloatType, pa.float32(): T.FloatType, pa.float64(): T.DoubleType, pa.date32(): T.DateType,
    pa.date64(): T.DateType, pa.string(): T.StringType, pa.large_string(): T.StringType,
    pa.string_view(): T.StringType, pa.binary(): T.BinaryType, pa.large_binary(): T.BinaryType,
    pa.binary_view(): T.BinaryType, pa.null(): T.UnknownType,
}  # fmt: skip

# ---- transforms ------------------------------------------------------------------------------------------------------

_CALL = re.compile(r"^\s*([A-Za-z]+)\s*\(\s*(?:(\d+)\s*,\s*)?([^,()]+?)(?:\s*,\s*(\d+))?\s*\)\s*$")
_SUFFIXES = {
    "bucket": "bucket", "truncate": "trunc", "trunc": "trunc", "year": "year", "years": "year", "month": "month",
    "months": "month", "day": "day", "days": "day", "date": "day", "hour": "hour", "hours": "hour",
    "date_hour": "hour", "identity": "", "void": "null", "always_null": "null",
}  # fmt: skip
"""Transforms as Iceberg and Spark spell them -> the suffix of the partition field's name."""
_NAMES = {"trunc": "truncate", "null": "void", "": "identity"}


def parsed_transform(
    text: str, what: str, table: str, names: Collection[str] = ()
) -> tuple[str, Transform[Any, Any], str]:
    """The suffix that Iceberg gives the name of such a partition field, the transform, and the column as it is written.
    Spaces around a column alone are left out, unless one of the `names` has them.

    UsageError for a text that is no transform of a column; `what` says where it was given.
    """
    match = _CALL.match(text)
    word, column, width = "identity", text if text in names else text.strip(), None
    if match is not None:
        word, column = match[1].lower(), match[3].strip().strip('`"')
        width = match[2] or match[4]
    suffix = _SUFFIXES.get(word)
    sized = suffix in ("bucket", "trunc")
    if suffix is None or not column or sized != (width is not None) or width == "0":
        raise UsageError(
            f"{what} has {text!r}, which is not a transform of a column",
            table=table,
            todo="Write a column, or bucket(N, column), truncate(N, column), year, month, day or hour(column)",
        )
    kind = _NAMES.get(suffix, suffix)
    return suffix, parse_transform(f"{kind}[{width}]" if sized else kind), column


def _parsed(text: str, schema: Schema, table: str) -> tuple[str, Any, str]:
    """The name of the partition field, its transform and its column. UsageError for a text that is not one."""
    names = [field.name for field in schema.fields]
    suffix, transform, column = parsed_transform(text, "partition_by", table, names)
    source = find_column(column, names)
    if source is None:
        raise UsageError(
            f"partition_by names the unknown column {column!r}", table=table, todo=known_columns(column, names)
        )
    return (f"{source}_{suffix}" if suffix else source), transform, source
