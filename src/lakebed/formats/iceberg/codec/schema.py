"""Iceberg's types and schemas as Arrow types and schemas, and the metadata columns that every table has.

Rules: the specification's "Schemas and Data Types", "Reserved Field IDs" and "Row Lineage". A variant is its two binary
parts, `metadata` and `value`. Geometry and geography are well-known binary.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field, ModelWrapValidatorHandler, model_serializer, model_validator
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DEFAULT_GEOGRAPHY_ALGORITHM,
    DEFAULT_GEOGRAPHY_CRS,
    DEFAULT_GEOMETRY_CRS,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from lakebed.errors import UnsupportedError
from lakebed.kernel.arrays import scalar_of

FIELD_ID = b"PARQUET:field_id"
"""The metadata key in which Arrow's Parquet reader and writer keep a field's id."""

ROW_ID = NestedField(2147483540, "_row_id", LongType())
LAST_UPDATED = NestedField(2147483539, "_last_updated_sequence_number", LongType())
FILE = NestedField(2147483646, "_file", StringType(), required=True)
POS = NestedField(2147483645, "_pos", LongType(), required=True)
SPEC_ID = NestedField(2147483643, "_spec_id", IntegerType(), required=True)
METADATA_COLUMNS: Mapping[str, NestedField] = {f.name: f for f in (FILE, POS, SPEC_ID, ROW_ID, LAST_UPDATED)}
"""Columns that a read returns only by name: the place of a row, its spec, its id, its last change."""


class VariantType(PrimitiveType):
    """Semi-structured values of format version 3, which pyiceberg has no type for."""

    root: Literal["variant"] = Field(default="variant")

    def minimum_format_version(self) -> Literal[1, 2, 3]:
        """The first format version with this type: 3."""
        return 3


class SpelledGeometry(GeometryType):
    """A geometry with the text that the specification and the reference have; pyiceberg puts its system in quotes."""

    @model_validator(mode="wrap")
    @classmethod
    def handle_primitive_type(cls, value: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        """Take the coordinate reference system as it is, in place of pyiceberg's reading of it as a type."""
        return handler(value)

    @model_serializer
    def ser_model(self) -> str:
        """`geometry`, or `geometry(CRS)` for another coordinate reference system than the default."""
        return str(self)

    def __str__(self) -> str:
        return "geometry" if self.crs == DEFAULT_GEOMETRY_CRS else f"geometry({self.crs})"


class SpelledGeography(GeographyType):
    """A geography with the text that the specification and the reference have; pyiceberg puts its system in quotes."""

    def __init__(self, crs: str = DEFAULT_GEOGRAPHY_CRS, algorithm: str = DEFAULT_GEOGRAPHY_ALGORITHM) -> None:
        super().__init__(crs, algorithm)

    @model_serializer
    def ser_model(self) -> str:
        """`geography`, `geography(CRS)` or `geography(CRS, ALGORITHM)`."""
        return str(self)

    def __str__(self) -> str:
        if self.algorithm != DEFAULT_GEOGRAPHY_ALGORITHM:
            return f"geography({self.crs}, {self.algorithm})"
        return "geography" if self.crs == DEFAULT_GEOGRAPHY_CRS else f"geography({self.crs})"


_PLACED = re.compile(r"(geometry|geography)\s*(?:\(\s*([^),]*?)\s*(?:,\s*([^),]*?)\s*)?\))?", re.IGNORECASE)
UNKNOWN_TO_PYICEBERG = (b"variant", b"geometry", b"geography")
"""The names of types that pyiceberg does not know, as a document spells them."""
_TYPE_KEYS = ("type", "element", "key", "value")
_QUOTES = "'\""


def with_all_types(document: Any) -> Any:
    """A schema as JSON, with objects for the types that pyiceberg does not know by the text of the specification."""
    return _replaced(document, _type)


def for_pyiceberg(document: Any) -> Any:
    """A schema as JSON, with `binary` for the types that pyiceberg does not know by the text of the specification.

    It is for pyiceberg's clients of catalogs, which take a table's metadata apart and need none of its columns.
    """
    return _replaced(document, lambda name: "binary" if _type(name) is not name else name)


def _replaced(document: Any, named: Callable[[str], Any]) -> Any:
    if isinstance(document, Mapping):
        return {
            key: named(value) if key in _TYPE_KEYS and isinstance(value, str) else _replaced(value, named)
            for key, value in document.items()
        }
    return [_replaced(item, named) for item in document] if isinstance(document, list) else document


def _type(name: str) -> Any:
    """The type that a text names, where pyiceberg does not know it; else the text."""
    if name == "variant":
        return VariantType()
    match = _PLACED.fullmatch(name)
    if match is None:
        return name
    kind, crs, algorithm = match[1].lower(), *(part.strip(_QUOTES) if part else "" for part in match.group(2, 3))
    if kind == "geography":
        return SpelledGeography(crs or DEFAULT_GEOGRAPHY_CRS, algorithm or DEFAULT_GEOGRAPHY_ALGORITHM)
    return name if algorithm else SpelledGeometry(crs or DEFAULT_GEOMETRY_CRS)


_MOST_FIXED = 1 << 31


def arrow_type(kind: IcebergType, ids: bool = False) -> pa.DataType:
    """The Arrow type of an Iceberg type. With `ids` the fields inside carry their ids, as Parquet files need.

    Raises UnsupportedError for a type that lakebed does not know.
    """
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, FixedType):
        if not 0 < len(kind) < _MOST_FIXED:
            raise UnsupportedError(f"a column has the type {kind}", why=f"Arrow holds at most {_MOST_FIXED - 1} bytes")
        return pa.binary(len(kind))
    if isinstance(kind, StructType):
        return pa.struct([arrow_field(field, ids) for field in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(arrow_field(kind.element_field, ids))
    if isinstance(kind, MapType):
        return pa.map_(arrow_field(kind.key_field, ids), arrow_field(kind.value_field, ids))
    arrow = pa.binary() if isinstance(kind, GeometryType | GeographyType) else _PRIMITIVES.get(type(kind))
    if arrow is None:
        raise UnsupportedError(f"a column has the type {kind}, which lakebed does not know")
    return arrow


_PRIMITIVES: dict[type[IcebergType], pa.DataType] = {
    BooleanType: pa.bool_(), IntegerType: pa.int32(), LongType: pa.int64(), FloatType: pa.float32(),
    DoubleType: pa.float64(), DateType: pa.date32(), TimeType: pa.time64("us"), TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", "UTC"), TimestampNanoType: pa.timestamp("ns"),
    TimestamptzNanoType: pa.timestamp("ns", "UTC"), StringType: pa.string(), BinaryType: pa.binary(),
    UUIDType: pa.uuid(), UnknownType: pa.null(),
    VariantType: pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())]),
}  # fmt: skip


def arrow_field(field: NestedField, ids: bool = False) -> pa.Field:
    """The Arrow field of a column, or of a field inside a column."""
    metadata = {FIELD_ID: str(field.field_id).encode()} if ids else None
    return pa.field(field.name, arrow_type(field.field_type, ids), not field.required, metadata)


def arrow_schema(columns: Schema | Iterable[NestedField], ids: bool = False) -> pa.Schema:
    """The Arrow schema of a table or of columns. With `ids` it is the schema for writing Parquet files."""
    fields = columns.fields if isinstance(columns, Schema) else columns
    return pa.schema([arrow_field(field, ids) for field in fields])


def scalar(value: Any, kind: IcebergType) -> pa.Scalar:
    """A default value or a partition value as an Arrow scalar of a type."""
    target = arrow_type(kind)
    if isinstance(kind, UUIDType):
        raw = value.bytes if isinstance(value, uuid.UUID) else value
        return pa.array([raw], pa.uuid())[0]
    return scalar_of(value, target)
