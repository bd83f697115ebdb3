"""Read deleted positions from Roaring bitmaps, within bounds.

One run of a bitmap can stand for 65,536 positions in four bytes, so a small file can hold more positions than memory
can. We check their number before we expand them.
"""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap, BitMap64

from lakebed.errors import CorruptError, UnsupportedError, counted
from lakebed.kernel.arrays import Int64s

MOST_POSITIONS = 1 << 28
"""The most deleted rows of one data file. Each takes eight bytes of memory."""


def positions_of(data: bytes | memoryview, wide: bool, rows: int | None = None, stated: int | None = None) -> Int64s:
    """The positions in a portable bitmap of 64 (`wide`) or 32 bits, ascending and without repeats.

    `rows` is the number of rows in the data file, `stated` the number of positions that metadata states; None where
    unknown. CorruptError when the bitmap contradicts them, UnsupportedError for more than `MOST_POSITIONS`. Other
    damage raises whatever pyroaring raises: call it inside `decoding`.
    """
    bitmap = (BitMap64 if wide else BitMap).deserialize(bytes(data))
    count = len(bitmap)
    if stated is not None and count != stated:
        raise CorruptError("a deletion vector is damaged", why=f"it has {count} positions, metadata say {stated}")
    if rows is not None and count > rows:
        raise CorruptError(
            "a deletion vector is damaged", why=f"it has {count} positions for a file of {counted(rows, 'row')}"
        )
    if count > MOST_POSITIONS:
        raise UnsupportedError(f"a deletion vector has {count} positions", why=f"lakebed holds {MOST_POSITIONS}")
    positions = np.array(bitmap.to_array(), np.int64)
    if len(positions) and (positions[0] < 0 or (np.diff(positions) <= 0).any()):
        raise CorruptError("a deletion vector is damaged", why="its positions do not ascend")
    if rows is not None and len(positions) and positions[-1] >= rows:
        raise CorruptError(
            "a deletion vector is damaged", why=f"it has row {positions[-1]} of a file of {counted(rows, 'row')}"
        )
    return positions
