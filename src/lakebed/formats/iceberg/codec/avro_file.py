"""Avro object container files as Iceberg uses them: header, blocks, and one file made of the blocks of many.

Rule: the Avro specification, "Object Container Files". Nothing is decoded here: blocks are checked for their ends and
moved whole, so that many small manifests are decoded at once (`codec/manifest.py`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakebed.errors import CorruptError

_MAGIC = b"Obj\x01"
_SYNC = b"lakebed-manifest"


@dataclass(frozen=True, slots=True)
class Container:
    """A file, taken apart. `metadata` is the header's, `body` the blocks, `rows` the records of all blocks."""

    metadata: Mapping[str, bytes]
    sync: bytes
    body: memoryview
    blocks: tuple[tuple[int, int, int], ...]
    """(records, start, end) of each block's bytes within `body`."""

    @property
    def rows(self) -> int:
        """Records in all blocks."""
        return sum(count for count, _, _ in self.blocks)

    @property
    def schema(self) -> Any:
        """The Avro schema."""
        return json.loads(self.metadata["avro.schema"])

    @property
    def codec(self) -> str:
        """The name of the compression of its blocks."""
        return self.metadata.get("avro.codec", b"null").decode()


def open_container(data: bytes, file: str = "") -> Container:
    """Header and blocks of a file. CorruptError when it is none, or is cut short."""
    try:
        if data[:4] != _MAGIC:
            raise ValueError("it does not begin as an Avro file")
        at = 4
        metadata: dict[str, bytes] = {}
        while True:
            count, at = _long(data, at)
            if count == 0:
                break
            if count < 0:
                count, (_, at) = -count, _long(data, at)
            for _ in range(count):
                key, at = _bytes(data, at)
                metadata[key.decode()], at = _bytes(data, at)
        sync = data[at : at + 16]
        body = memoryview(data)[at + 16 :]
        return Container(metadata, sync, body, tuple(_blocks(data, at + 16, sync)))
    except (ValueError, IndexError) as error:
        raise CorruptError("an Avro file cannot be read", file=file, why=str(error)) from error


def joined(containers: Sequence[Container], schema: Any) -> list[bytes | memoryview]:
    """The bytes of one file with the blocks of many, in order. All must have one codec; `schema` replaces their own
    and must have the same layout."""
    metadata = {"avro.schema": json.dumps(schema).encode(), "avro.codec": containers[0].codec.encode()}
    chunks: list[bytes | memoryview] = [header(metadata, _SYNC)]
    for container in containers:
        for count, start, end in container.blocks:
            chunks += (avro_long(count), avro_long(end - start), container.body[start:end], _SYNC)
    return chunks


def header(metadata: Mapping[str, bytes], sync: bytes) -> bytes:
    """The begin of a file."""
    out = io.BytesIO()
    out.write(_MAGIC)
    out.write(avro_long(len(metadata)))
    for key, value in metadata.items():
        for part in (key.encode(), value):
            out.write(avro_long(len(part)))
            out.write(part)
    out.write(avro_long(0))
    out.write(sync)
    return out.getvalue()


def avro_long(value: int) -> bytes:
    """Avro's zig-zag variable-length integer."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _blocks(data: bytes, at: int, sync: bytes) -> Iterator[tuple[int, int, int]]:
    base = at
    while at < len(data):
        count, at = _long(data, at)
        size, at = _long(data, at)
        end = at + size
        if count < 0 or size < 0 or data[end : end + 16] != sync:
            raise ValueError("a block does not end where it should")
        if count:
            yield count, at - base, end - base
        at = end + 16


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("it is cut short")
    return data[at : at + size], at + size
