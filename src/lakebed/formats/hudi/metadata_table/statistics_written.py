"""The records of the part `column_stats`: the range of each indexed column in each file.

A file has records of all indexed columns that it has, or none at all. Hudi's readers keep a file without records; of a
file that has some they take a column without a record for one that is all null, and leave the file out.

Rules: Hudi's `HoodieMetadataPayload.createColumnStatsRecords`, `HoodieAvroWrapperUtils` (version V1), `ValueType`
(version V2, of release 1.1).
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from lakebed.formats.hudi.codec.metadata_keys import file_hash, hash_of, partition_hash
from lakebed.formats.hudi.codec.metadata_records import RecordType, encode_records
from lakebed.formats.hudi.codec.schema import arrow_schema
from lakebed.formats.hudi.codec.wrapped_values import ValueType
from lakebed.formats.hudi.metadata_table.change import ColumnRange, MetadataChange, WrittenFile
from lakebed.formats.hudi.metadata_table.definitions import definition_of
from lakebed.formats.hudi.metadata_table.grouped import groups_of, spread
from lakebed.formats.hudi.metadata_table.records import GroupRecords
from lakebed.formats.hudi.metadata_table.statistics import COLUMN_STATS
from lakebed.formats.hudi.metadata_table.target import Target

_NAMESPACE = "org.apache.hudi.avro.model."
_EPOCH = datetime.date(1970, 1, 1)
_V1_SCALE = 15
_V1_DIGITS = 30
INDEXED_META = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")
"""Meta columns that are always indexed from table version 8 on."""


def column_stats_of(target: Target, instant: str, change: MetadataChange) -> list[GroupRecords]:
    """The records of a change."""
    definition = definition_of(target.outer, target.described, COLUMN_STATS)
    typed = str(definition.get("version", "V1")) == "V2"
    ids, columns = groups_of(target, COLUMN_STATS), tuple(definition.get("sourceFields") or ())
    return column_stats_records(target.described.version, change, ids, columns, typed=typed)


def column_stats_records(
    version: int, change: MetadataChange, ids: Sequence[str], columns: Sequence[str], *, typed: bool
) -> list[GroupRecords]:
    """The records of a change in file groups of these ids: ranges of new files, and the end of those of `columns` in
    files that go."""
    encoder = RangeEncoder(version, typed, change.schema)
    keys: list[bytes] = []
    records: list[Mapping[str, Any]] = []
    for file in change.written:
        column_records = encoder.records(file, columns)
        keys += (hash_of(name) + partition_hash(file.partition) + file_hash(file.name) for name in column_records)
        records += column_records.values()
    for partition, names in change.deleted.items():
        for name in names:
            for column in columns:
                keys.append(hash_of(column) + partition_hash(partition) + file_hash(name))
                records.append(_gone(name, column))
    values = encode_records(version, ((RecordType.COLUMN_STATS, {"ColumnStatsMetadata": each}) for each in records))
    return spread(COLUMN_STATS, ids, pa.array(keys, pa.binary()), values)


def has_statistics(field: pa.Field) -> bool:
    """Whether a column has statistics where none are named."""
    return _value_type(field.type) is not None and not pa.types.is_binary(field.type)


class RangeEncoder:
    """Makes records of ranges, for a table version; `typed` says that the type stands beside the bounds. `schema` is
    the Avro schema of the table."""

    def __init__(self, version: int, typed: bool, schema: str) -> None:
        self._typed = typed and version >= 9
        self._schema = arrow_schema(schema) if schema else pa.schema([])

    def records(self, file: WrittenFile, columns: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """The records of a file by column, {} where one of `columns` cannot have one: readers keep such a file."""
        records = {}
        for each in file.ranges:
            record = self.record(file.name, each)
            if record is None:
                return {}
            records[each.column] = record
        known = {*self._schema.names}
        lacking = (name for name in columns if name not in records)
        return {} if any(name.partition(".")[0] in known for name in lacking) else records

    def has(self, column: str) -> bool:
        """Whether the table has a column, of Hudi's own or the user's."""
        return column.startswith("_hoodie_") or column in self._schema.names

    def kind(self, column: str) -> pa.DataType:
        """The type of a column."""
        return self._schema.field(column).type if column in self._schema.names else pa.string()

    def gone(self, name: str, column: str) -> Mapping[str, Any]:
        """The record that ends the statistics of a column."""
        return _gone(name, column)

    def record(self, name: str, each: ColumnRange) -> Mapping[str, Any] | None:
        """The record of a column in a file, None where its range cannot be told."""
        kind = self.kind(each.column)
        typed = _value_type(kind)
        if typed is None:
            return None
        ends = [self._wrapped(value, kind) for value in (each.least, each.greatest)]
        if each.least is not None and None in ends:
            return None
        record: dict[str, Any] = {
            "fileName": name,
            "columnName": each.column,
            "minValue": ends[0],
            "maxValue": ends[1],
            "valueCount": each.values,
            "nullCount": each.nulls,
            "totalSize": each.size,
            "totalUncompressedSize": each.uncompressed,
            "isDeleted": False,
        }
        if self._typed:
            info = f"{kind.precision},{kind.scale}" if typed is ValueType.DECIMAL else None
            record["valueType"] = {"typeOrdinal": int(typed), "additionalInfo": info}
        return record

    def _wrapped(self, value: Any, kind: pa.DataType) -> tuple[str, dict[str, Any]] | None:
        if value is None:
            return None
        if isinstance(value, bool):
            return _wrapper("Boolean", value)
        if isinstance(value, float):
            if math.isnan(value):
                return None
            return _wrapper("Float" if pa.types.is_float32(kind) else "Double", value)
        if isinstance(value, bytes):
            return _wrapper("Bytes", value)
        if isinstance(value, int):
            return _wrapper("Int" if kind.bit_width == 32 else "Long", value)
        if isinstance(value, datetime.datetime):
            micros = pa.scalar(value, pa.timestamp("us", "UTC" if value.tzinfo else None)).cast(pa.int64()).as_py()
            return _wrapper("Long", micros)
        if isinstance(value, datetime.date):
            return _wrapper("Int" if self._typed else "Date", (value - _EPOCH).days)
        if isinstance(value, Decimal):
            return self._decimal(value, kind)
        return _wrapper("String", str(value))

    def _decimal(self, value: Decimal, kind: pa.DataType) -> tuple[str, dict[str, Any]] | None:
        if self._typed:
            number = int(value.scaleb(kind.scale, context=Context(prec=60)))
            return _wrapper("Bytes", number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True))
        if kind.scale > _V1_SCALE or kind.precision - kind.scale > _V1_DIGITS - _V1_SCALE:
            return None
        return _wrapper("Decimal", value.quantize(Decimal(f"1e-{_V1_SCALE}"), context=Context(prec=60)))


def _wrapper(name: str, value: Any) -> tuple[str, dict[str, Any]]:
    return f"{_NAMESPACE}{name}Wrapper", {"value": value}


def _value_type(kind: pa.DataType) -> ValueType | None:
    """The type that is recorded beside bounds; None for a type whose bounds are not recorded."""
    for is_kind, value_type in _TYPES:
        if is_kind(kind):
            return value_type
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return ValueType.TIMESTAMP_MICROS if kind.tz else ValueType.LOCAL_MICROS
    return None


_TYPES = (
    (pa.types.is_boolean, ValueType.BOOLEAN),
    (pa.types.is_int32, ValueType.INT),
    (pa.types.is_int64, ValueType.LONG),
    (pa.types.is_float32, ValueType.FLOAT),
    (pa.types.is_float64, ValueType.DOUBLE),
    (pa.types.is_string, ValueType.STRING),
    (pa.types.is_binary, ValueType.BYTES),
    (pa.types.is_date32, ValueType.DATE),
    (pa.types.is_decimal128, ValueType.DECIMAL),
)


def _gone(name: str, column: str) -> Mapping[str, Any]:
    nothing = {"minValue": None, "maxValue": None, "valueCount": -1, "nullCount": -1}
    return {
        "fileName": name,
        "columnName": column,
        **nothing,
        "totalSize": -1,
        "totalUncompressedSize": -1,
        "isDeleted": True,
    }
