"""Avro object container files, for the small metadata files: records as plain dicts, zstd blocks.

Rule: the Avro specification, "Object Container Files". Logical types are left as the numbers they are stored as. The
blocks are framed here, and compressed by Arrow, since fastavro's own zstd needs one library more.
"""

from __future__ import annotations

import functools
import io
import json
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, cast

import fastavro
import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError

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
_CODECS = {"null": None, "zstandard": "zstd"}


def write_container(schema: Any, records: Iterable[dict[str, Any]]) -> bytes:
    """A whole file; `schema` is a parsed schema."""
    out = io.BytesIO()
    sync = secrets.token_bytes(16)
    text = json.dumps(_plain_schema(schema)).encode()
    meta = {"avro.codec": b"zstandard", "avro.schema": text}
    fastavro.schemaless_writer(out, _HEADER, {"magic": _MAGIC, "meta": meta, "sync": sync})
    block = io.BytesIO()
    count = 0
    codec = pa.Codec("zstd", compression_level=1)

    def flush() -> None:
        fastavro.schemaless_writer(out, "long", count)
        fastavro.schemaless_writer(out, "bytes", codec.compress(block.getvalue(), asbytes=True))
        out.write(sync)

    for record in records:
        fastavro.schemaless_writer(block, schema, record)
        count += 1
        if count == _BLOCK_RECORDS:
            flush()
            block, count = io.BytesIO(), 0
    if count:
        flush()
    return out.getvalue()


def read_container(data: bytes, file: str) -> Iterator[dict[str, Any]]:
    """The records of a file, in order, as its own schema has them. CorruptError when the bytes are no such file."""
    source = io.BytesIO(data)
    try:
        header: Any = fastavro.schemaless_reader(source, _HEADER, None)
        if header["magic"] != _MAGIC:
            raise CorruptError("this is no Avro file", file=file)
        codec = header["meta"].get("avro.codec", b"null").decode()
        if codec not in _CODECS:
            raise UnsupportedError(f"the Avro codec {codec} is not supported", file=file)
        schema = _parsed(header["meta"]["avro.schema"])
        while source.tell() < len(data):
            count: Any = fastavro.schemaless_reader(source, "long", None)
            data_block: Any = fastavro.schemaless_reader(source, "bytes", None)
            block = io.BytesIO(_decompress(data_block, _CODECS[codec]))
            if source.read(16) != header["sync"]:
                raise CorruptError("an Avro block does not end where it should", file=file)
            for _ in range(count):
                yield cast(dict[str, Any], fastavro.schemaless_reader(block, schema, None))
    except (EOFError, ValueError, IndexError, KeyError, TypeError, pa.ArrowException) as error:
        raise CorruptError("an Avro file cannot be read", file=file, why=str(error)) from error


def _decompress(data: bytes, codec: str | None) -> bytes:
    if codec is None:
        return data
    if codec == "zstd":  # the frame does not always say how long its content is
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            return bytes(stream.read())
    raise UnsupportedError(f"the Avro codec {codec} is not supported")


@functools.lru_cache(maxsize=64)
def _parsed(text: bytes) -> Any:
    return fastavro.parse_schema(_plain_schema(json.loads(text), drop=("logicalType",)))


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
