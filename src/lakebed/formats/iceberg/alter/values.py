"""The types and default values that changes of a table name, and which types a column may become.

Rules: the specification's "Schema Evolution" (valid promotions of each version) and "Default values". Beyond what the
reference engine's TypeUtil.isPromotionAllowed has, version 3 lets a date become a timestamp, and an unknown type any
type.
"""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyiceberg import types as T

from lakebed.errors import SchemaError, UnsupportedError, first_line
from lakebed.formats.iceberg.codec.schema import VariantType, arrow_type, with_all_types
from lakebed.formats.iceberg.definition import column_type, refuse_newer_type

DEFAULTS_SINCE = 3
"""The first format version whose columns have default values."""
_ALIASES = {
    "bigint": "long", "integer": "int", "timestamp_ntz": "timestamp", "timestamp_ltz": "timestamptz",
    "bool": "boolean", "bytes": "binary",
}  # fmt: skip
"""What Spark calls a type -> its name in Iceberg."""
_WITHOUT_DEFAULT = (
    VariantType, T.GeometryType, T.GeographyType, T.UnknownType, T.TimestampNanoType, T.TimestamptzNanoType,
)  # fmt: skip


def type_of(given: object, column: str, ids: Iterator[int], version: int, table: str) -> T.IcebergType:
    """The Iceberg type that a change names. Fields inside it get the next `ids`. SchemaError where there is none, and
    for one that the format version does not have."""
    if isinstance(given, pa.DataType):
        return column_type(given, column, ids, version, table)
    if not isinstance(given, str):
        raise SchemaError(
            f"the type of column {column!r} is a {type(given).__name__}", todo="Give a pyarrow type or a text"
        )
    word = given.strip()
    named = _named(_ALIASES.get(word.lower(), word))
    if named is not None:
        refuse_newer_type(named, column, version, table)
        return named
    try:
        return column_type(pa.type_for_alias(word), column, ids, version, table)
    except ValueError as error:
        raise SchemaError(
            f"column {column!r} has the unknown type {given!r}",
            table=table,
            todo='Give a type such as "long", "decimal(10, 2)" or "timestamptz", or a pyarrow type',
        ) from error


def _named(word: str) -> T.PrimitiveType | None:
    """The primitive type of a name in Iceberg's own spelling."""
    for spelling in (word, word.lower()):
        known = with_all_types({"type": spelling})["type"]
        if isinstance(known, T.PrimitiveType):
            return known
        try:
            kind = T.IcebergType.model_validate(spelling)
        except Exception:  # noqa: BLE001  # it raises several kinds of errors for what is no type
            continue
        if isinstance(kind, T.PrimitiveType):
            return kind
    return None


def check_promotion(old: T.IcebergType, new: T.IcebergType, version: int, column: str) -> None:
    """Raise SchemaError for a type that a column of another type may not become."""
    if old == new:
        return
    allowed = (
        (isinstance(old, T.IntegerType) and isinstance(new, T.LongType))
        or (isinstance(old, T.FloatType) and isinstance(new, T.DoubleType))
        or (
            isinstance(old, T.DecimalType)
            and isinstance(new, T.DecimalType)
            and old.scale == new.scale
            and old.precision <= new.precision
        )
    )
    from_date = isinstance(old, T.DateType) and isinstance(new, T.TimestampType | T.TimestampNanoType)
    of_version_3 = from_date or isinstance(old, T.UnknownType)
    if allowed or (of_version_3 and version >= DEFAULTS_SINCE):
        return
    raise SchemaError(
        f"column {column!r} cannot change from {old} to {new}",
        why="format version 3 has this change, and the table has an earlier one"
        if of_version_3
        else "Iceberg widens int to long, float to double, and the precision of decimals; in version 3 also date to "
        "timestamp, and unknown to any type",
        todo="Set the option format-version to 3 first" if of_version_3 else "Add another column, and fill it",
    )


def default_of(given: object, kind: T.IcebergType, version: int, column: str) -> Any:
    """A default value as pyiceberg keeps it for a type; None for None.

    SchemaError for a value that does not fit, and below version 3; UnsupportedError for a type whose defaults lakebed
    does not write.
    """
    if given is None:
        return None
    if version < DEFAULTS_SINCE:
        raise SchemaError(
            f"column {column!r} cannot have a default value",
            why=f"the table has format version {version}, and defaults came with version {DEFAULTS_SINCE}",
            todo="Set the option format-version to 3 first",
        )
    if isinstance(kind, _WITHOUT_DEFAULT) or not isinstance(kind, T.PrimitiveType):
        raise UnsupportedError(
            f"column {column!r} cannot have a default value",
            why=f"lakebed writes no defaults of the type {kind}",
            todo="Leave the default out",
        )
    try:
        return _value(given, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise SchemaError(
            f"column {column!r} cannot have the default {given!r}",
            why=first_line(error) or f"it is no {kind}",
            todo=f"Give a value that is a {kind}",
        ) from error


def _value(given: Any, kind: T.PrimitiveType) -> Any:
    if isinstance(kind, T.UUIDType):
        return given if isinstance(given, uuid.UUID) else uuid.UUID(given)
    target = arrow_type(kind)
    if isinstance(given, bool) is not isinstance(kind, T.BooleanType) and not isinstance(given, str):
        raise TypeError(f"it is a {type(given).__name__}")
    if isinstance(given, float) and isinstance(kind, T.IntegerType | T.LongType):
        raise TypeError("it is a float")
    if isinstance(given, datetime.datetime) and given.tzinfo is not None and not isinstance(kind, T.TimestamptzType):
        raise TypeError("it has a time zone")
    if isinstance(given, str) and isinstance(kind, T.TimeType):
        return datetime.time.fromisoformat(given)
    scalar = pa.scalar(given)
    as_it_is = not pa.types.is_string(scalar.type) or pa.types.is_string(target)
    value = (pa.scalar(given, target) if as_it_is else scalar.cast(target)).as_py()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("metadata cannot hold it")
    if isinstance(kind, T.FixedType) and len(value) != len(kind):
        raise ValueError(f"it has {len(value)} bytes")
    return value


def widened_default(value: Any, kind: T.IcebergType) -> Any:
    """A default value of a column that was widened to a type."""
    return None if value is None else pa.scalar(value).cast(arrow_type(kind)).as_py()
