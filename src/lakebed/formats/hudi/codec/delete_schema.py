"""The Avro schema of delete blocks, Hudi's `HoodieDeleteRecordList`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fastavro

from lakebed.formats.hudi.codec.delete_rows import OrderingBranch

_TEXT = ["null", "string"]


def _wrappers() -> list[dict[str, Any]]:
    plain: Sequence[tuple[str, Any]] = (
        ("Boolean", "boolean"),
        ("Int", "int"),
        ("Long", "long"),
        ("Float", "float"),
        ("Double", "double"),
        ("Bytes", "bytes"),
        ("String", "string"),
        ("Date", "int"),
        ("Decimal", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}),
        ("TimeMicros", "long"),
        ("TimestampMicros", "long"),
        ("LocalDate", "int"),
    )
    return [
        {"type": "record", "name": f"{name}Wrapper", "fields": [{"name": "value", "type": kind}]}
        for name, kind in plain
    ]


def _list_schema() -> Any:
    *single, local_date = _wrappers()
    items = ["null", *(wrapper["name"] for wrapper in single), local_date]
    wrapped = {"name": "wrappedValues", "type": ["null", {"type": "array", "items": items}]}
    array = {"type": "record", "name": "ArrayWrapper", "fields": [wrapped]}
    delete = {
        "type": "record",
        "name": "HoodieDeleteRecord",
        "fields": [
            {"name": "recordKey", "type": _TEXT},
            {"name": "partitionPath", "type": _TEXT},
            {"name": "orderingVal", "type": ["null", *single, array]},
        ],
    }
    deletes = {"name": "deleteRecordList", "type": {"type": "array", "items": delete}}
    return fastavro.parse_schema({"type": "record", "name": "HoodieDeleteRecordList", "fields": [deletes]})


LIST_SCHEMA = _list_schema()
"""`HoodieDeleteRecordList` as fastavro takes it. Date, time and timestamp wrappers hold plain numbers."""
BRANCHES = {
    "BooleanWrapper": OrderingBranch.BOOLEAN,
    "IntWrapper": OrderingBranch.INT,
    "LongWrapper": OrderingBranch.LONG,
    "FloatWrapper": OrderingBranch.FLOAT,
    "DoubleWrapper": OrderingBranch.DOUBLE,
    "BytesWrapper": OrderingBranch.BYTES,
    "StringWrapper": OrderingBranch.STRING,
    "DateWrapper": OrderingBranch.DATE,
    "DecimalWrapper": OrderingBranch.DECIMAL,
    "TimeMicrosWrapper": OrderingBranch.TIME,
    "TimestampMicrosWrapper": OrderingBranch.TIMESTAMP,
    "ArrayWrapper": OrderingBranch.ARRAY,
    "LocalDateWrapper": OrderingBranch.DATE,
}
"""The kind of ordering value in each wrapper record."""
