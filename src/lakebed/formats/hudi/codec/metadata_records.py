"""The records of the metadata table: Avro datums of `HoodieMetadataRecord`, as each table version has it.

What is written has the fields of the release that a table version belongs to: 0.15 for version 6, 1.0 for 8, 1.1 for 9.
As in Hudi's log blocks, the five meta fields are null and the field `key` is empty: the key of the entry has it.

Rules: Hudi's `HoodieMetadataRecord` and `HoodieMetadataPayload`, `HoodieHFileDataBlock.serializeRecord`.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cache
from importlib.resources import files
from typing import Any

import fastavro
import pyarrow as pa

from lakebed.kernel.avro.records import RecordSchema, datum, parsed_schema
from lakebed.kernel.decoding import decoding


class RecordType(IntEnum):
    """What a record describes: its field `type`."""

    PARTITIONS = 1
    FILES = 2
    COLUMN_STATS = 3
    BLOOM_FILTER = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7


@cache
def record_schema(version: int) -> RecordSchema:
    """The schema of records in the metadata table of a table version."""
    whole = json.loads(files(__package__).joinpath("metadata_record.avsc").read_text("utf-8"))
    if version < 9:
        _drop(whole, {"valueType", "ArrayWrapper"})
    if version < 8:
        _drop(whole, {"LocalDateWrapper", "isTightBound", "position", "SecondaryIndexMetadata"})
    text = json.dumps(whole, separators=(",", ":")).encode()
    return RecordSchema(fastavro.parse_schema(copy.deepcopy(whole)), text)


def encode_records(version: int, records: Iterable[tuple[RecordType, Mapping[str, Any]]]) -> pa.Array:
    """The datums of records, as a binary array. Each record is its type and the fields that it has: one of
    `filesystemMetadata`, `ColumnStatsMetadata` and so on, with Hudi's names inside."""
    schema, datums = record_schema(version).parsed, []
    for kind, fields in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {"key": "", "type": int(kind), **fields})
        datums.append(out.getvalue())
    return pa.array(datums, pa.binary())


def decode_records(schema: str, values: pa.Array | pa.ChunkedArray) -> list[dict[str, Any]]:
    """The records of datums that were written with a schema. CorruptError for bytes that are none."""
    with decoding("a record of the metadata table cannot be read"):
        parsed = parsed_schema(schema)
        return [datum(io.BytesIO(value), parsed) for value in values.to_pylist()]


def _drop(kind: Any, names: set[str]) -> None:
    """Leave fields and branches of unions of these names out."""
    if isinstance(kind, list):
        kind[:] = [branch for branch in kind if _name(branch) not in names]
        for branch in kind:
            _drop(branch, names)
    elif isinstance(kind, dict):
        if "fields" in kind:
            kind["fields"] = [field for field in kind["fields"] if field["name"] not in names]
            for field in kind["fields"]:
                _drop(field["type"], names)
        for inner in ("items", "values", "type"):
            if isinstance(kind.get(inner), dict | list):
                _drop(kind[inner], names)


def _name(branch: Any) -> str:
    return branch if isinstance(branch, str) else branch.get("name", "") if isinstance(branch, dict) else ""
