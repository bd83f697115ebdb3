"""Avro object container files: zstd blocks, and for the small metadata files records as plain dicts.

Rule: the Avro specification, "Object Container Files". Logical types are left as the numbers they are stored as. The
blocks are framed here, and compressed by Arrow, since fastavro's own zstd needs one library more.
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa

from lakebed.kernel.avro.records import read_records
from lakebed.kernel.decoding import decoding

_MAGIC = b"Obj\x01"
_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
        ],
    }
)
_BLOCK_RECORDS = 1000


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A schema of records, made ready once: parsed, and as the text that files begin with."""

    parsed: Any
    text: bytes

    @classmethod
    def of(cls, schema: Any) -> RecordSchema:
        """Of plain JSON."""
        parsed = fastavro.parse_schema(schema)
        return cls(parsed, json.dumps(_plain_schema(parsed)).encode())


def write_container(schema: RecordSchema, records: Iterable[dict[str, Any]]) -> bytes:
    """A whole file."""
    framing = Framing.new()
    out = io.BytesIO()
    out.write(framing.header(schema.text))
    block = io.BytesIO()
    count = 0
    for record in records:
        fastavro.schemaless_writer(block, schema.parsed, record)
        count += 1
        if count == _BLOCK_RECORDS:
            out.write(framing.block(count, block.getvalue()))
            block, count = io.BytesIO(), 0
    if count:
        out.write(framing.block(count, block.getvalue()))
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class Framing:
    """What lies around the records of one file. `level` of zstd, 0 for no compression."""

    sync: bytes
    level: int

    @classmethod
    def new(cls, level: int = 1) -> Framing:
        """That of a new file."""
        return cls(secrets.token_bytes(16), level)

    def header(self, schema: bytes) -> bytes:
        """The begin of the file; `schema` is the text of its JSON."""
        out = io.BytesIO()
        codec = b"zstandard" if self.level else b"null"
        meta = {"avro.codec": codec, "avro.schema": schema}
        fastavro.schemaless_writer(out, _HEADER, {"magic": _MAGIC, "meta": meta, "sync": self.sync})
        return out.getvalue()

    def block(self, count: int, records: bytes) -> bytes:
        """`count` encoded records."""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, "long", count)
        if self.level:
            records = pa.Codec("zstd", compression_level=self.level).compress(records, asbytes=True)
        fastavro.schemaless_writer(out, "bytes", records)
        out.write(self.sync)
        return out.getvalue()


def read_container(data: bytes, file: str) -> Iterator[dict[str, Any]]:
    """The records of a file, in order, as its own schema has them. CorruptError when the bytes are no such file."""
    with decoding("an Avro file cannot be read", file=file):
        yield from read_records(data, numbers=True)


def _plain_schema(schema: Any, drop: tuple[str, ...] = ()) -> Any:
    if isinstance(schema, dict):
        return {
            key: _plain_schema(value, drop)
            for key, value in schema.items()
            if not key.startswith("__") and key not in drop
        }
    if isinstance(schema, list):
        return [_plain_schema(item, drop) for item in schema]
    return schema
