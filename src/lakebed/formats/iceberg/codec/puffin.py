"""Puffin files and their deletion vectors, decoded and encoded.

Rules: the Puffin specification (magic, blobs, footer) and its blob type `deletion-vector-v1`, which has four parts: the
length of magic number and bitmap as 4 bytes, big-endian; the magic number D1 D3 39 64; a 64-bit Roaring bitmap in its
portable form; the CRC-32 of magic number and bitmap, big-endian.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from lakebed.errors import CorruptError
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.bitmaps import positions_of
from lakebed.kernel.decoding import decoding, parsed_json
from lakebed.kernel.inflate import inflated

DELETION_VECTOR = "deletion-vector-v1"
_MAGIC = b"PFA1"
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_COMPRESSED_FOOTER = 1


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob of a Puffin file, as the footer describes it; offset and length in bytes."""

    type: str
    offset: int
    length: int
    fields: tuple[int, ...] = ()
    snapshot_id: int = -1
    sequence_number: int = -1
    properties: Mapping[str, str] = field(default_factory=dict)
    compression: str = ""
    """The codec that the stored bytes are compressed with: zstd, lz4 or none."""


def decode_vector(data: bytes, file: str, rows: int | None = None, stated: int | None = None) -> Int64s:
    """The deleted positions of a deletion vector.

    CorruptError when length, magic number or checksum are wrong, when the number of positions is not `stated`, or when
    a position is beyond the `rows` of the data file.
    """
    with decoding("a deletion vector cannot be read", file=file):
        (length,) = struct.unpack_from(">I", data)
        body = data[4 : 4 + length]
        (checksum,) = struct.unpack_from(">I", data, 4 + length)
        if len(body) != length or body[:4] != _VECTOR_MAGIC:
            raise CorruptError("a deletion vector has a wrong length or magic number")
        if zlib.crc32(body) != checksum:
            raise CorruptError("a deletion vector has a wrong checksum")
        return positions_of(body[4:], True, rows, stated)


def encode_vector(positions: Int64s) -> bytes:
    """The blob of a deletion vector with these positions."""
    bitmap = BitMap64(positions.tolist())
    bitmap.run_optimize()
    body = _VECTOR_MAGIC + bitmap.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def compressed(blob: Blob, data: bytes) -> tuple[Blob, bytes]:
    """A blob, and its bytes compressed with Zstandard."""
    return replace(blob, compression="zstd"), pa.compress(data, "zstd", asbytes=True)


def write_puffin(
    blobs: Sequence[tuple[Blob, bytes]], properties: Mapping[str, str] = {}
) -> tuple[bytes, tuple[Blob, ...]]:
    """The bytes of a Puffin file, and its blobs with their offsets and lengths."""
    out = bytearray(_MAGIC)
    placed: list[Blob] = []
    for blob, data in blobs:
        placed.append(replace(blob, offset=len(out), length=len(data)))
        out += data
    payload = json.dumps({"blobs": [_json(blob) for blob in placed], "properties": dict(properties)}).encode()
    out += _MAGIC + payload + struct.pack("<II", len(payload), 0) + _MAGIC
    return bytes(out), tuple(placed)


def read_footer(data: bytes, file: str) -> tuple[tuple[Blob, ...], Mapping[str, str]]:
    """The blobs and properties in the footer of a Puffin file. `data` is the file, or enough of its end.

    CorruptError when it is not a Puffin file.
    """
    with decoding("a Puffin file cannot be read", file=file):
        if data[-4:] != _MAGIC:
            raise ValueError("it does not end with the magic bytes")
        size, flags = struct.unpack("<II", data[-12:-4])
        footer = data[-12 - size - 4 : -12]
        if len(footer) != size + 4 or footer[:4] != _MAGIC:
            raise ValueError("its footer does not begin with the magic bytes")
        payload = inflated(footer[4:], "lz4") if flags & _COMPRESSED_FOOTER else footer[4:]
        document = parsed_json(payload)
        return tuple(_blob(blob) for blob in document["blobs"]), dict(document.get("properties") or {})


def _json(blob: Blob) -> dict[str, Any]:
    return {
        "type": blob.type, "fields": list(blob.fields), "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number, "offset": blob.offset, "length": blob.length,
        "properties": dict(blob.properties),
        **({"compression-codec": blob.compression} if blob.compression else {}),
    }  # fmt: skip


def _blob(document: Mapping[str, Any]) -> Blob:
    return Blob(
        document["type"], int(document["offset"]), int(document["length"]), tuple(document.get("fields") or ()),
        int(document["snapshot-id"]), int(document["sequence-number"]), document.get("properties") or {},
        document.get("compression-codec") or "",
    )  # fmt: skip
