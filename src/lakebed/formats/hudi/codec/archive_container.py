"""Avro object container files of the timeline, one record each, taken apart without decoding the record.

Hudi keeps plans, cleans and rollbacks so, and from table version 8 on commits too. The frame is that of the Avro
specification ("Object Container Files"). A table's files of one kind have one schema, so that it is compared once.
"""

from __future__ import annotations

import io
import json
from functools import lru_cache
from typing import Any, NamedTuple

import fastavro
from fastavro.schema import to_parsing_canonical_form

from lakebed.formats.hudi.codec.archive_schema import parsed_type

AVRO_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_MOST_LONG = 10
"""The most bytes of an Avro long."""


class Container(NamedTuple):
    """A whole container file: its schema as JSON bytes, its codec, and (records, bytes) of each block as they stand."""

    schema: bytes
    codec: bytes
    blocks: tuple[tuple[int, bytes], ...]

    @property
    def records(self) -> int:
        """How many there are."""
        return sum(count for count, _ in self.blocks)


def read_container(data: bytes) -> Container:
    """The parts of a container file. Raises ValueError or IndexError unless it is whole, to its last byte; whether the
    records are what the schema says is not looked at."""
    if not data.startswith(AVRO_MAGIC):
        raise ValueError("it is no Avro container file")
    header, at = _header(data, len(AVRO_MAGIC))
    sync = data[at : at + _SYNC_BYTES]
    at += _SYNC_BYTES
    blocks: list[tuple[int, bytes]] = []
    while at < len(data):
        count, at = _long(data, at)
        size, at = _long(data, at)
        end = at + size
        if count < 0 or size < 0 or data[end : end + _SYNC_BYTES] != sync:
            raise ValueError(f"no whole block at {at}")
        blocks.append((count, data[at:end]))
        at = end + _SYNC_BYTES
    if at != len(data) or "avro.schema" not in header:
        raise ValueError("it ends inside its header")
    return Container(header["avro.schema"], header.get("avro.codec", b"null"), tuple(blocks))


def check_container(data: bytes) -> None:
    """Raises ValueError or IndexError unless it is whole and holds a record; compressed blocks are opened, by fastavro,
    which lets through whatever its C code meets."""
    found = read_container(data)
    if found.codec != b"null":
        for block in fastavro.block_reader(io.BytesIO(data)):
            block.bytes_.read()  # type: ignore[attr-defined]  # the stub leaves it out
    if not found.records:
        raise ValueError("it holds no record")


def container_datum(name: str, data: bytes) -> bytes:
    """The one record of a container file as a datum of a record type of the archive's schema: its own bytes where the
    schemas are the same. Raises what `check_container` does."""
    found = read_container(data)
    if found.codec == b"null" and found.records == 1 and _is_same(name, found.schema):
        return next(body for count, body in found.blocks if count)
    record: Any = next(iter(fastavro.reader(io.BytesIO(data))))
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, parsed_type(name), record)
    return sink.getvalue()


@lru_cache(maxsize=64)
def _is_same(name: str, schema: bytes) -> bool:
    theirs = to_parsing_canonical_form(fastavro.parse_schema(json.loads(schema)))
    ours = to_parsing_canonical_form(parsed_type(name))
    return _without_namespaces(theirs) == _without_namespaces(ours)


def _without_namespaces(canonical: str) -> str:
    return canonical.replace("org.apache.hudi.avro.model.", "")


def _header(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    found: dict[str, bytes] = {}
    while True:
        count, at = _long(data, at)
        if not count:
            return found, at
        if count < 0:  # then the block's size in bytes follows
            count = -count
            _, at = _long(data, at)
        for _ in range(count):
            key, at = _bytes(data, at)
            found[key.decode()], at = _bytes(data, at)


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if not 0 <= size <= len(data) - at:
        raise ValueError(f"a length of {size} at {at}")
    return data[at : at + size], at + size


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(_MOST_LONG):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise ValueError(f"no number at {at}")
