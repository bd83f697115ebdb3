"""Avro files of Iceberg's metadata with other paths in them.

Manifests and manifest lists are written anew record by record, with their own schema and header: nothing but the fields
that a caller changes is touched, whatever engine and format version wrote them.
"""

from __future__ import annotations

import io
import json
import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import fastavro

from lakebed.kernel.avro.container import avro_long, header, take_apart
from lakebed.kernel.avro.records import numbers_schema, read_records
from lakebed.kernel.decoding import decoding

_BLOCK_RECORDS = 2000
Names = Mapping[int, str]
"""The names of a record's fields by field id."""


def rewritten(data: bytes, change: Callable[[dict[str, Any], Names], None], file: str) -> bytes:
    """An Avro file whose records went through `change`, which alters them in place. It is told the names of the fields,
    those of records inside the record among them.

    Raises CorruptError and UnsupportedError as every reader of such files does; `file` names it.
    """
    with decoding("an Avro file cannot be read", file=file):
        container = take_apart(data)
        names = dict(_names(container.schema))
        schema = numbers_schema(container.metadata["avro.schema"])
        sync = secrets.token_bytes(16)
        chunks = [header({**container.metadata, "avro.codec": b"deflate"}, sync)]
        block, count = io.BytesIO(), 0
        for record in read_records(data, numbers=True):
            change(record, names)
            fastavro.schemaless_writer(block, schema, record)
            count += 1
            if count == _BLOCK_RECORDS:
                chunks += _block(block, count, sync)
                block, count = io.BytesIO(), 0
        if count:
            chunks += _block(block, count, sync)
        return b"".join(chunks)


def visit(data: bytes, look: Callable[[dict[str, Any], Names], None], file: str) -> None:
    """Shows the records of an Avro file to `look`, as `rewritten` does, and writes nothing."""
    with decoding("an Avro file cannot be read", file=file):
        names = dict(_names(take_apart(data).schema))
        for record in read_records(data, numbers=True):
            look(record, names)


def _block(block: io.BytesIO, count: int, sync: bytes) -> tuple[bytes, ...]:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    data = deflate.compress(block.getvalue()) + deflate.flush()
    return avro_long(count), avro_long(len(data)), data, sync


def _names(record: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for field in record["fields"]:
        yield int(field["field-id"]), str(field["name"])
        kind = field["type"]
        if isinstance(kind, dict) and kind.get("type") == "record" and field["name"] != "partition":
            yield from _names(kind)


def as_json(document: Any) -> Any:
    """A copy of a metadata document that may be altered."""
    return json.loads(json.dumps(document))
