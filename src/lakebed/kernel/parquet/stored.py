"""What the footer of a Parquet file says that decides whether any Parquet reader reads the file alike.

Rules: the Parquet format's LogicalTypes and its rules of backward compatibility for lists. Readers agree on a column
whose physical and logical type have one meaning, in a codec and in encodings that all of them know. They disagree on
dates and times of old Spark writers, which counted by the Julian calendar, on unsigned and unlabelled values, and on
unusual lists: such columns have no `kind` here.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
_ENCODINGS = frozenset(
    {
        "PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED",
        "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
    }
)  # fmt: skip
_JULIAN = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_VERSION = b"org.apache.spark.version"
_UNITS = {"milliseconds": "ms", "microseconds": "us"}
_MISLEADING = frozenset({"FLOAT", "DOUBLE", "MILLISECONDS"})
_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A top-level column of a file.

    `kind` is the type in which every reader gives its values, None where readers differ. Inside it everything may be
    null, and the parts of lists and maps have no names of the file. INT96 timestamps are microseconds.

    `misleads`: whether the statistics of the column, or of a field of it, let Spark rule out rows that a filter keeps.
    They leave NaN out, which Spark takes for the greatest number, and it cuts what instants are compared with to the
    milliseconds of the file.
    """

    name: str
    kind: pa.DataType | None
    has_int96: bool = False
    misleads: bool = False


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file by its footer. `arrow` is its schema as Arrow reads it, with the ids of fields in their metadata."""

    rows: int
    arrow: pa.Schema
    columns: tuple[StoredColumn, ...]

    def column(self, name: str) -> StoredColumn | None:
        """The column of that name, None where there is none."""
        return next((column for column in self.columns if column.name == name), None)


def stored_file(metadata: pq.FileMetaData) -> StoredFile:
    """What a footer says. Files that readers read differently as a whole have no column with a kind."""
    arrow = metadata.schema.to_arrow_schema()
    leaves = [metadata.schema.column(number) for number in range(len(metadata.schema))]
    described = tuple((leaf.path, leaf.physical_type, leaf.logical_type.to_json()) for leaf in leaves)
    columns = _columns(arrow, described)
    if _is_unusual(metadata):
        columns = tuple(StoredColumn(column.name, None) for column in columns)
    return StoredFile(metadata.num_rows, arrow, columns)


def same_values(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types hold the same values: equal but for nullability and for the names inside lists and maps."""
    types = pa.types
    if types.is_struct(stored) and types.is_struct(wanted):
        return [field.name for field in stored] == [field.name for field in wanted] and all(
            same_values(one.type, other.type) for one, other in zip(stored, wanted, strict=True)
        )
    if types.is_list(stored) and types.is_list(wanted):
        return same_values(stored.value_type, wanted.value_type)
    if types.is_map(stored) and types.is_map(wanted):
        return same_values(stored.key_type, wanted.key_type) and same_values(stored.item_type, wanted.item_type)
    return bool(stored == wanted)


def widens(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether each value of a type is, unchanged, one of a wider type."""
    types = pa.types
    if types.is_signed_integer(stored) and types.is_signed_integer(wanted):
        return bool(stored.bit_width <= wanted.bit_width)
    if types.is_decimal128(stored) and types.is_decimal128(wanted):
        return bool(stored.scale == wanted.scale and stored.precision <= wanted.precision)
    return False


def _is_unusual(metadata: pq.FileMetaData) -> bool:
    texts = metadata.metadata or {}
    version = texts.get(_SPARK_VERSION, b"3").split(b".")[0]
    if any(key in texts for key in _JULIAN) or not version.isdigit() or int(version) < 3:
        return True
    leaves = range(metadata.num_columns)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for leaf in leaves:
            chunk = group.column(leaf)
            if chunk.compression not in _CODECS or not _ENCODINGS.issuperset(chunk.encodings):
                return True
    return False


Described = tuple[tuple[str, str, str], ...]
"""Each leaf's path, physical type, and logical type as JSON."""


def _columns(arrow: pa.Schema, leaves: Described) -> tuple[StoredColumn, ...]:
    names = Counter(name.lower() for name in arrow.names)
    left = list(reversed(leaves))
    columns = []
    for field in arrow:
        own: list[str] = []
        kind = _kind(field.type, field.name, left, own)
        # Spark finds columns without case: of two that differ in case alone it reads neither.
        known = kind if names[field.name.lower()] == 1 else None
        columns.append(StoredColumn(field.name, known, "INT96" in own, not _MISLEADING.isdisjoint(own)))
    return tuple(columns)


def _kind(arrow: pa.DataType, path: str, leaves: list[tuple[str, str, str]], physical: list[str]) -> pa.DataType | None:
    """The common type of a column or a part of one, whose leaves are taken off the end of `leaves`. `physical` gets
    their physical types, MILLISECONDS for instants of that unit. Of leaves of lists and maps it gets only INT96: no row
    is ruled out by them."""
    types = pa.types
    if types.is_struct(arrow):
        parts = [(field.name, _kind(field.type, f"{path}.{field.name}", leaves, physical)) for field in arrow]
        unique = len({name.lower() for name, _ in parts}) == len(parts)
        known = unique and parts and all(kind is not None for _, kind in parts)
        return pa.struct(parts) if known else None
    if types.is_map(arrow):
        inside: list[str] = []
        key = _kind(arrow.key_type, f"{path}.key_value.key", leaves, inside)
        item = _kind(arrow.item_type, f"{path}.key_value.value", leaves, inside)
        physical += _int96(inside)
        return None if key is None or item is None else pa.map_(key, item)
    if types.is_list(arrow) or types.is_large_list(arrow):
        inside = []
        element = _kind(arrow.value_type, _element_path(path, leaves[-1][0]), leaves, inside)
        physical += _int96(inside)
        return None if element is None else pa.list_(element)
    if types.is_fixed_size_list(arrow) or types.is_list_view(arrow) or types.is_large_list_view(arrow):
        _kind(arrow.value_type, "", leaves, physical)
        return None
    if isinstance(arrow, pa.BaseExtensionType) and types.is_nested(arrow.storage_type):
        _kind(arrow.storage_type, "", leaves, physical)
        return None
    leaf_path, kind, logical = leaves.pop()
    physical.append("MILLISECONDS" if _is_instant_of_milliseconds(logical) else kind)
    return _primitive(kind, logical) if leaf_path == path else None


def _int96(physical: list[str]) -> list[str]:
    return [kind for kind in physical if kind == "INT96"]


@lru_cache(maxsize=256)
def _is_instant_of_milliseconds(logical: str) -> bool:
    says: dict[str, Any] = json.loads(logical)
    return says["Type"] == "Timestamp" and says["timeUnit"] == "milliseconds" and bool(says["isAdjustedToUTC"])


def _element_path(path: str, leaf: str) -> str:
    """The path of a list's element, as the leaf below it shows: in three levels, or in the two of old writers."""
    if leaf == f"{path}.array" or leaf.startswith(f"{path}.array."):
        return f"{path}.array"
    inner = leaf.removeprefix(f"{path}.list.").partition(".")[0]
    return f"{path}.list.{inner}"


@lru_cache(maxsize=256)
def _primitive(physical: str, logical: str) -> pa.DataType | None:
    says: dict[str, Any] = json.loads(logical)
    kind = says["Type"]
    match physical, kind:
        case "BOOLEAN", "None":
            return pa.bool_()
        case ("INT32", "None") | ("INT64", "None"):
            return pa.int32() if physical == "INT32" else pa.int64()
        case ("INT32", "Int") | ("INT64", "Int"):
            return _SIGNED[says["bitWidth"]] if says["isSigned"] else None
        case "FLOAT", "None":
            return pa.float32()
        case "DOUBLE", "None":
            return pa.float64()
        case "BYTE_ARRAY", "String":
            return pa.string()
        case "BYTE_ARRAY", "None":
            return pa.binary()
        case "INT32", "Date":
            return pa.date32()
        case "INT96", "None":
            return pa.timestamp("us", "UTC")
        case "INT64", "Timestamp" if says["timeUnit"] in _UNITS:
            return pa.timestamp("us", "UTC" if says["isAdjustedToUTC"] else None)
        case (("INT32" | "INT64" | "FIXED_LEN_BYTE_ARRAY" | "BYTE_ARRAY"), "Decimal"):
            precision, scale = says["precision"], says["scale"]
            return pa.decimal128(precision, scale) if precision <= _MOST_DIGITS and 0 <= scale <= precision else None
    return None
