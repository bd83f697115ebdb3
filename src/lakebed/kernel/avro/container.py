"""Avro object container files, put together and taken apart without decoding a record.

Rule: the Avro specification, "Object Container Files": a header with a map of metadata, then blocks that each end with
the file's sync marker.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from lakebed.kernel.decoding import parsed_json
from lakebed.kernel.inflate import inflated

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
_MOST_LONG = 10
"""The most bytes of an Avro long."""


@dataclass(frozen=True, slots=True)
class Container:
    """A file, taken apart. `metadata` is that of the header, `body` all bytes after the header."""

    metadata: Mapping[str, bytes]
    sync: bytes
    body: memoryview
    blocks: tuple[tuple[int, int, int], ...]
    """(records, start, end) of the bytes of each block that has records, within `body`."""

    @property
    def rows(self) -> int:
        """The number of records in all blocks."""
        return sum(count for count, _, _ in self.blocks)

    def contents(self) -> Iterator[tuple[int, bytes | memoryview]]:
        """The number of records and the uncompressed bytes of each block. Raises what `kernel/inflate.py` does."""
        codec = self.codec
        for count, start, end in self.blocks:
            yield count, inflated(self.body[start:end], codec)

    @property
    def schema(self) -> Any:
        """The Avro schema."""
        return parsed_json(self.metadata["avro.schema"])

    @property
    def codec(self) -> str:
        """The name of the compression of its blocks."""
        return self.metadata.get("avro.codec", b"null").decode()


def take_apart(data: bytes | memoryview) -> Container:
    """The header and blocks of a file. Raises ValueError or IndexError unless it is whole, to its last byte."""
    if isinstance(data, memoryview):
        data = data.cast("B")  # the bytes of Arrow's buffers are signed
    if data[:4] != MAGIC:
        raise ValueError("it does not begin as an Avro file")
    metadata, at = _metadata(data, len(MAGIC))
    sync = bytes(data[at : at + SYNC_BYTES])
    if len(sync) < SYNC_BYTES:
        raise ValueError("it ends inside its header")
    at += SYNC_BYTES
    metadata.get("avro.codec", b"").decode()  # must be text, which `codec` relies on
    return Container(metadata, sync, memoryview(data)[at:], tuple(_blocks(data, at, sync)))


@dataclass(frozen=True, slots=True)
class Framing:
    """What surrounds the records of a file that is being written: a header, then the frame of each block.

    `codec` is the compression by Avro's name, `level` that of its library (1 to 9 for deflate, 1 to 22 for zstandard;
    null has none). Arrow compresses zstandard, for which fastavro would need one more library.
    """

    codec: Literal["null", "deflate", "zstandard"]
    level: int
    sync: bytes

    @classmethod
    def new(cls, codec: Literal["null", "deflate", "zstandard"] = "null", level: int = 0) -> Framing:
        """The framing of a new file, whose sync marker is drawn."""
        return cls(codec, level, secrets.token_bytes(SYNC_BYTES))

    def header(self, metadata: Mapping[str, bytes]) -> bytes:
        """The beginning of the file. `metadata` must have `avro.schema`; `avro.codec` is set here."""
        return header({**metadata, "avro.codec": self.codec.encode()}, self.sync)

    def block(self, count: int, records: bytes) -> bytes:
        """A block of `count` encoded records, which are compressed first."""
        return self.framed(count, self.compressed(records))

    def compressed(self, records: bytes) -> bytes:
        """Encoded records as they stand in a block: apart, so that several blocks can be compressed at once."""
        if self.codec == "null":
            return records
        if self.codec == "deflate":
            deflate = zlib.compressobj(self.level, zlib.DEFLATED, -zlib.MAX_WBITS)
            return deflate.compress(records) + deflate.flush()
        packed: bytes = pa.Codec("zstd", compression_level=self.level).compress(records, asbytes=True)
        return packed

    def framed(self, count: int, compressed: bytes) -> bytes:
        """A block of `count` records that are compressed already."""
        return b"".join((avro_long(count), avro_long(len(compressed)), compressed, self.sync))


def header(metadata: Mapping[str, bytes], sync: bytes) -> bytes:
    """The beginning of a file: its metadata and its sync marker."""
    chunks = [MAGIC, avro_long(len(metadata))]
    for key, value in metadata.items():
        chunks += (avro_bytes(key.encode()), avro_bytes(value))
    return b"".join((*chunks, avro_long(0), sync))


def avro_long(value: int) -> bytes:
    """Avro's zig-zag variable-length integer."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def avro_bytes(value: bytes) -> bytes:
    """Bytes, or a text in UTF-8, after their length."""
    return avro_long(len(value)) + value


def read_long(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The Avro integer at a place, and the place after it. IndexError where the bytes end inside it, ValueError where
    it has more bytes than a long can have."""
    value = shift = 0
    for _ in range(_MOST_LONG):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise ValueError(f"a number has no end at {at}")


def _metadata(data: bytes | memoryview, at: int) -> tuple[dict[str, bytes], int]:
    metadata: dict[str, bytes] = {}
    while True:
        count, at = read_long(data, at)
        if not count:
            return metadata, at
        if count < 0:  # then the block's size in bytes follows
            count = -count
            _, at = read_long(data, at)
        for _ in range(count):
            key, at = _bytes(data, at)
            metadata[key.decode()], at = _bytes(data, at)


def _blocks(data: bytes | memoryview, at: int, sync: bytes) -> Iterator[tuple[int, int, int]]:
    base = at
    while at < len(data):
        count, at = read_long(data, at)
        size, at = read_long(data, at)
        end = at + size
        if count < 0 or size < 0 or data[end : end + SYNC_BYTES] != sync:
            raise ValueError(f"no whole block at {at}")
        if count:
            yield count, at - base, end - base
        at = end + SYNC_BYTES


def _bytes(data: bytes | memoryview, at: int) -> tuple[bytes, int]:
    size, at = read_long(data, at)
    if not 0 <= size <= len(data) - at:
        raise ValueError(f"a length of {size} at {at}")
    return bytes(data[at : at + size]), at + size
