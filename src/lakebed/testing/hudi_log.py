"""Write blocks of Hudi log files for tests: correct ones, and ones with any fault that a test wants.

    write_block(BlockKind.AVRO_DATA, {HeaderKey.INSTANT_TIME: "001"}, content)     any block
    avro_data_block(schema, rows, "001")                                           rows as dicts or an Arrow table
    parquet_data_block(schema, table, "001")
    delete_block([Delete("k1", "p", OrderingBranch.LONG, 5)], "002")
    rollback_block("003", target="002")

The bytes are those of Hudi 0.14 and later (content version 3). A log file is a sequence of such blocks.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.formats.hudi.codec.delete_rows import OrderingBranch
from lakebed.formats.hudi.codec.delete_schema import LIST_SCHEMA
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey
from lakebed.formats.hudi.codec.log_write import record_content, write_block

Rows: TypeAlias = pa.Table | Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Delete:
    """One deleted key. By default its ordering value is what the delete operation writes: natural order."""

    record_key: str
    partition_path: str = ""
    branch: OrderingBranch = OrderingBranch.INT
    ordering: Any = 0


def avro_data_block(
    schema: str,
    rows: Rows,
    instant: str,
    *,
    headers: Mapping[HeaderKey, str] | None = None,
    kind: BlockKind = BlockKind.AVRO_DATA,
    content_version: int = 3,
) -> bytes:
    """An AVRO_DATA (or CDC_DATA) block. `headers` are added to those of the instant and the schema."""
    return write_block(
        kind,
        {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema, **(headers or {})},
        avro_content(schema, rows, content_version),
    )


def avro_content(schema: str, rows: Rows, content_version: int = 3) -> bytes:
    """The content of an AVRO_DATA block alone."""
    parsed = fastavro.parse_schema(json.loads(schema))
    records = [_datum(parsed, row) for row in (rows.to_pylist() if isinstance(rows, pa.Table) else rows)]
    return struct.pack(">i", content_version) + record_content(records)[4:]


def parquet_data_block(
    schema: str, table: pa.Table, instant: str, *, headers: Mapping[HeaderKey, str] | None = None
) -> bytes:
    """A PARQUET_DATA block. Its pages have checksums, as the Parquet writer of Hudi makes them."""
    sink = io.BytesIO()
    pq.write_table(table, sink, write_page_checksum=True)
    return write_block(
        BlockKind.PARQUET_DATA,
        {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema, **(headers or {})},
        sink.getvalue(),
    )


def delete_block(deletes: Sequence[Delete], instant: str, *, headers: Mapping[HeaderKey, str] | None = None) -> bytes:
    """A DELETE block."""
    return write_block(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: instant, **(headers or {})}, delete_content(deletes))


def delete_content(deletes: Sequence[Delete]) -> bytes:
    """The content of a DELETE block alone.

    An ordering value of branch ARRAY is a list of (branch, value).
    """
    rows = [
        {
            "recordKey": delete.record_key,
            "partitionPath": delete.partition_path,
            "orderingVal": _wrapped(delete.branch, delete.ordering),
        }
        for delete in deletes
    ]
    body = _datum(LIST_SCHEMA, {"deleteRecordList": rows})
    return struct.pack(">ii", 3, len(body)) + body


def rollback_block(instant: str, target: str) -> bytes:
    """A COMMAND block with which `instant` rolls back what `target` wrote."""
    return write_block(
        BlockKind.COMMAND,
        {
            HeaderKey.INSTANT_TIME: instant,
            HeaderKey.TARGET_INSTANT_TIME: target,
            HeaderKey.COMMAND_BLOCK_TYPE: "0",
        },
        b"",
    )


def _datum(schema: Any, value: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, schema, value)
    return sink.getvalue()


def _wrapped(branch: OrderingBranch, value: Any) -> Any:
    if branch is OrderingBranch.NULL:
        return None
    if branch is OrderingBranch.ARRAY:
        return _WRAPPERS[branch], {"wrappedValues": [_wrapped(inner, item) for inner, item in value]}
    return _WRAPPERS[branch], {"value": value}


_WRAPPERS = {
    OrderingBranch.BOOLEAN: "BooleanWrapper",
    OrderingBranch.INT: "IntWrapper",
    OrderingBranch.LONG: "LongWrapper",
    OrderingBranch.FLOAT: "FloatWrapper",
    OrderingBranch.DOUBLE: "DoubleWrapper",
    OrderingBranch.BYTES: "BytesWrapper",
    OrderingBranch.STRING: "StringWrapper",
    OrderingBranch.DATE: "DateWrapper",
    OrderingBranch.DECIMAL: "DecimalWrapper",
    OrderingBranch.TIME: "TimeMicrosWrapper",
    OrderingBranch.TIMESTAMP: "TimestampMicrosWrapper",
    OrderingBranch.ARRAY: "ArrayWrapper",
}
