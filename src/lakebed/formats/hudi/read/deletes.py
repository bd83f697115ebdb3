"""Delete blocks as Arrow columns of the table's ordering types."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.log import LogBlock
from lakebed.formats.hudi.merge import Bools


def _wrapper(name: str, kind: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": kind}]}


_WRAPPERS = [
    _wrapper(f"{name}Wrapper", kind)
    for name, kind in (
        ("Boolean", "boolean"),
        ("Int", "int"),
        ("Long", "long"),
        ("Float", "float"),
        ("Double", "double"),
        ("Bytes", "bytes"),
        ("String", "string"),
        ("Date", "int"),
        ("Decimal", "bytes"),
        ("TimeMicros", "long"),
        ("TimestampMicros", "long"),
    )
]
_WRAPPED = ["null", *(wrapper["name"] for wrapper in _WRAPPERS), _wrapper("LocalDateWrapper", "int")]
_ARRAY = {
    "type": "record",
    "name": "ArrayWrapper",
    "fields": [{"name": "wrappedValues", "type": ["null", {"type": "array", "items": _WRAPPED}]}],
}
_RECORD = {
    "type": "record",
    "name": "HoodieDeleteRecord",
    "fields": [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": ["null", *_WRAPPERS, _ARRAY]},
    ],
}
_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "fields": [{"name": "deleteRecordList", "type": {"type": "array", "items": _RECORD}}],
    }
)


@dataclass(frozen=True, slots=True)
class Deletes:
    """One delete block: its keys, their ordering values in the columns' types, and which have none."""

    keys: pa.Array
    ordering: tuple[pa.Array, ...]
    natural: Bools

    @classmethod
    def of(cls, block: LogBlock, types: tuple[pa.DataType, ...]) -> Deletes:
        """Decoded from its block."""
        version, length = struct.unpack_from(">ii", block.content)
        if version != 3:
            raise UnsupportedError(f"delete block version {version} is not supported", instant=block.instant_time)
        content = io.BytesIO(bytes(block.content[8 : 8 + length]))
        records: Any = fastavro.schemaless_reader(content, _SCHEMA, return_record_name=True)
        found = records["deleteRecordList"]
        values = [_values(record["orderingVal"], len(types)) for record in found]
        natural = np.array([value is None for value in values], bool)
        ordering = tuple(
            pa.array([None if value is None else value[place] for value in values]).cast(kind)
            for place, kind in enumerate(types)
        )
        return cls(pa.array([record["recordKey"] for record in found], pa.string()), ordering, natural)


def _values(ordering: Any, count: int) -> list[Any] | None:
    if ordering is None or (ordering[0] == "IntWrapper" and ordering[1]["value"] == 0):
        return None
    if ordering[0] == "ArrayWrapper":
        return [None if item is None else item[1]["value"] for item in ordering[1]["wrappedValues"]]
    return [ordering[1]["value"]] * count
