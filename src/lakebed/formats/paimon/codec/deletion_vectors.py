"""Deletion vectors: bitmaps in index files that say which rows of a data file are deleted.

Rules: Paimon's DeletionVectorsIndexFile, BitmapDeletionVector and Bitmap64DeletionVector. A file begins with the
version byte 1. Each block is a size, a magic number, a portable Roaring bitmap, and a CRC32 of magic and bitmap. The
magic number of the 32-bit form is big-endian, that of the 64-bit form little-endian.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from pyroaring import BitMap, BitMap64

from lakebed.errors import CorruptError
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.bitmaps import positions_of
from lakebed.kernel.decoding import decoding

VERSION = b"\x01"
_MAGIC_32, _MAGIC_64 = 1581511376, 1681511377
BLOCK_SLACK = 8
"""Bytes to read beyond the length in an index manifest, which excludes size and checksum in the 32-bit form."""


def decode_vector(data: bytes, file: str, rows: int | None = None, stated: int | None = None) -> Int64s:
    """Decode the deleted row positions of one block, ascending.

    `data` begins with the block's size and may continue after its end. Raises CorruptError for a wrong size, magic
    number or checksum, when the number of positions is not `stated`, or when positions exceed the data file's `rows`.
    """
    with decoding("a deletion vector cannot be read", file=file):
        (size,) = struct.unpack_from(">i", data)
        body = data[4 : 4 + size]
        (checksum,) = struct.unpack_from(">I", data, 4 + size)
        if size < 4 or len(body) != size or zlib.crc32(body) != checksum:
            raise CorruptError("a deletion vector has a wrong checksum")
        if struct.unpack_from(">i", body) == (_MAGIC_32,):
            return positions_of(body[4:], False, rows, stated)
        if struct.unpack_from("<i", body) == (_MAGIC_64,):
            return positions_of(body[4:], True, rows, stated)
        raise CorruptError("a deletion vector has an unknown magic number")


def encode_vector(positions: Int64s, wide: bool) -> bytes:
    """Encode one block. `wide` selects the 64-bit form."""
    if wide:
        body = struct.pack("<i", _MAGIC_64) + BitMap64(positions.tolist()).serialize()
    else:
        body = struct.pack(">i", _MAGIC_32) + BitMap(positions.astype(np.uint32)).serialize()
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
