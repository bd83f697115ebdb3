"""Deleted positions out of Roaring bitmaps, within bounds.

A run of a bitmap stands for 65,536 positions in four bytes, so that a small file can mean more positions than memory
holds. How many they are is known before they are laid out.
"""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap, BitMap64

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.kernel.arrays import Int64s

MOST_POSITIONS = 1 << 28
"""The most deleted rows of one data file, each of which takes eight bytes of memory."""


def positions_of(data: bytes | memoryview, wide: bool, rows: int | None = None, stated: int | None = None) -> Int64s:
    """The positions of a portable bitmap of 64 (`wide`) or 32 bits, ascending, each once.

    `rows` are those of the data file, `stated` is how many positions metadata state, None where unknown. CorruptError
    unless they hold; UnsupportedError for more than `MOST_POSITIONS`. Other damage raises what pyroaring does: work
    inside `decoding`.
    """
    bitmap = (BitMap64 if wide else BitMap).deserialize(bytes(data))
    count = len(bitmap)
    if stated is not None and count != stated:
        raise CorruptError("a deletion vector is damaged", why=f"it has {count} positions, metadata say {stated}")
    if rows is not None and count > rows:
        raise CorruptError("a deletion vector is damaged", why=f"it has {count} positions for a file of {rows} rows")
    if count > MOST_POSITIONS:
        raise UnsupportedError(f"a deletion vector has {count} positions", why=f"lakebed holds {MOST_POSITIONS}")
    found = np.array(bitmap.to_array(), np.int64)
    if len(found) and (found[0] < 0 or (np.diff(found) <= 0).any()):
        raise CorruptError("a deletion vector is damaged", why="its positions do not ascend")
    if rows is not None and len(found) and found[-1] >= rows:
        raise CorruptError("a deletion vector is damaged", why=f"it has row {found[-1]} of a file of {rows} rows")
    return found
