"""Decimals as Java's BigInteger has them: big-endian two's complement, as short as it can be."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

WIDTH = 16
"""Bytes of the greatest decimal."""


def decimal_bytes(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of the unscaled numbers of a decimal128 array at the left of sixteen, the rest 0, and their lengths.
    What null rows have is of no meaning."""
    rows = len(column)
    raw = np.frombuffer(column.buffers()[1], np.uint8)[WIDTH * column.offset : WIDTH * (column.offset + rows)]
    big = raw.reshape(rows, WIDTH)[:, ::-1]
    sign = np.where(big[:, :1] >= 128, np.uint8(255), np.uint8(0))
    spare = (big[:, :-1] == sign) & ((big[:, 1:] >= 128) == (sign == 255))
    skip = np.logical_and.accumulate(spare, axis=1).sum(axis=1)
    columns = np.arange(WIDTH) + skip[:, None]
    data = np.where(columns < WIDTH, np.take_along_axis(big, np.minimum(columns, WIDTH - 1), axis=1), np.uint8(0))
    return data, (WIDTH - skip).astype(np.int64)
