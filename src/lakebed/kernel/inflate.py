"""Decompress bytes, up to a bound.

A few compressed bytes can stand for any number of bytes. No function here produces more than its bound, whatever the
bytes say, and none starts on data that states a larger size.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError

INFLATED_BYTES = 256 << 20
"""The most bytes that one compressed block or metadata file may hold."""
_CHUNK = 1 << 20
_LZMA_MEMORY = 256 << 20
_CRC_BYTES = 4


def inflated(data: bytes | memoryview, codec: str, most: int = INFLATED_BYTES) -> bytes | memoryview:
    """The content of a block. `codec` is gzip, lz4, or one of Avro's: null, deflate, snappy, zstandard, bzip2, xz.

    UnsupportedError when it holds more than `most` bytes or the codec is unknown, CorruptError when it is cut short or
    its checksum is wrong. Other damage raises whatever the codec's library raises: call it inside `decoding`.
    """
    if codec not in _CODECS:
        raise UnsupportedError(f"the compression {codec!r} is not supported")
    return _CODECS[codec](data, most)


def too_large(most: int) -> UnsupportedError:
    """The error for data that holds more than its bound."""
    return UnsupportedError(
        f"compressed bytes hold more than {most >> 20} MiB",
        why="lakebed decompresses no more of one block or file",
        todo="If the file is genuine, configure its writer to make smaller blocks",
    )


def _null(data: bytes | memoryview, most: int) -> bytes | memoryview:
    return data


def _deflate(window: int) -> Callable[[bytes | memoryview, int], bytes]:
    def inflate(data: bytes | memoryview, most: int) -> bytes:
        parts: list[bytes] = []
        left = most
        rest: bytes | memoryview = data
        while True:  # a gzip file may have several members
            stream = zlib.decompressobj(window)
            part = stream.decompress(rest, left + 1)
            parts.append(part)
            left -= len(part)
            if left < 0:
                raise too_large(most)
            if not stream.eof:
                raise _cut_short()
            rest = stream.unused_data
            if not rest.strip(b"\0") or window < 0:
                return parts[0] if len(parts) == 1 else b"".join(parts)

    return inflate


def _snappy(data: bytes | memoryview, most: int) -> bytes:
    """Avro's form of snappy: the block, then the CRC-32 of its content."""
    if len(data) <= _CRC_BYTES:
        raise _cut_short()
    body, stated = data[:-_CRC_BYTES], int.from_bytes(data[-_CRC_BYTES:], "big")
    size = shift = 0
    for byte in body[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > most:
        raise too_large(most)
    content: bytes = pa.Codec("snappy").decompress(body, size, asbytes=True)
    if zlib.crc32(content) != stated:
        raise CorruptError("a compressed block has a wrong checksum")
    return content


def _arrow(name: str) -> Callable[[bytes | memoryview, int], bytes]:
    def inflate(data: bytes | memoryview, most: int) -> bytes:
        parts: list[bytes] = []
        left = most
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), name) as stream:
            size = min(_CHUNK, 8 * len(data) + 64)
            while part := stream.read(size):
                parts.append(part)
                left -= len(part)
                if left < 0:
                    raise too_large(most)
                size = _CHUNK
        return parts[0] if len(parts) == 1 else b"".join(parts)

    return inflate


def _by_object(new: Callable[[], Any]) -> Callable[[bytes | memoryview, int], bytes]:
    def inflate(data: bytes | memoryview, most: int) -> bytes:
        stream = new()
        content: bytes = stream.decompress(data, most + 1)
        if len(content) > most:
            raise too_large(most)
        if not stream.eof:
            raise _cut_short()
        return content

    return inflate


def _cut_short() -> CorruptError:
    return CorruptError("compressed bytes are cut short")


_CODECS: Mapping[str, Callable[[bytes | memoryview, int], bytes | memoryview]] = {
    "null": _null,
    "deflate": _deflate(-15),
    "gzip": _deflate(31),
    "snappy": _snappy,
    "zstandard": _arrow("zstd"),
    "lz4": _arrow("lz4"),
    "bzip2": _by_object(bz2.BZ2Decompressor),
    "xz": _by_object(lambda: lzma.LZMADecompressor(memlimit=_LZMA_MEMORY)),
}
