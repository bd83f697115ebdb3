"""Byte strings of equal length, as matrices: hashes walk many of them together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import Int64s, UInt8s, to_numpy

_BYTES = 1 << 24
"""About how many bytes one matrix holds."""


def by_length(values: pa.BinaryArray) -> Iterator[tuple[Int64s, UInt8s]]:
    """The places of values of equal length, with their bytes: one row per value. Nulls are left out."""
    _, offset_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    valid = to_numpy(values.is_valid())
    for length in np.unique(lengths[valid]).tolist():
        rows = np.flatnonzero(valid & (lengths == length))
        most = max(1, _BYTES // max(1, length))
        for first in range(0, len(rows), most):
            part = rows[first : first + most]
            yield part, data[starts[part][:, None] + np.arange(length)]
