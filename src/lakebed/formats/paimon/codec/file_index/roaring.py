"""32-bit Roaring bitmaps inside other bytes: where each ends.

Rule: the portable format of the Roaring bitmap project.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
from pyroaring import BitMap

_COOKIE, _RUN_COOKIE = 12346, 12347
_NO_OFFSETS_BELOW = 4
_BITSET_BYTES, _MOST_IN_ARRAY = 8192, 4096


def read_bitmap(data: bytes, at: int) -> tuple[BitMap, int]:
    """A bitmap, and the place after it. ValueError or struct.error for damaged bytes."""
    end = _end(data, at)
    if end > len(data):
        raise ValueError("a bitmap is longer than its bytes")
    bitmap = BitMap.deserialize(data[at:end])
    return bitmap, end


def bitmap_bytes(positions: Iterable[int]) -> bytes:
    """A bitmap of positions, in its smallest form."""
    bitmap = BitMap(positions)
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def _end(data: bytes, at: int) -> int:
    (cookie,) = struct.unpack_from("<I", data, at)
    runs = cookie & 0xFFFF == _RUN_COOKIE
    if runs:
        count, at = (cookie >> 16) + 1, at + 4
        flags = np.unpackbits(np.frombuffer(data, np.uint8, (count + 7) // 8, at), bitorder="little")[:count]
        at += (count + 7) // 8
    elif cookie == _COOKIE:
        (count,) = struct.unpack_from("<I", data, at + 4)
        at += 8
        if count > 1 << 16:
            raise ValueError(f"a bitmap has {count} containers")
        flags = np.zeros(count, np.uint8)
    else:
        raise ValueError("not a Roaring bitmap")
    sizes = np.frombuffer(data, "<u2", 2 * count, at)[1::2].astype(np.int64) + 1
    at += 4 * count
    if not runs or count >= _NO_OFFSETS_BELOW:
        at += 4 * count
    for size, has_runs in zip(sizes.tolist(), flags.tolist(), strict=True):
        if has_runs:
            at += 2 + 4 * struct.unpack_from("<H", data, at)[0]
        else:
            at += _BITSET_BYTES if size > _MOST_IN_ARRAY else 2 * size
    return at
