"""Java's `String.hashCode` of many texts at once: the sum of their UTF-16 units, each times a power of 31."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import Int32s, Int64s, UInt32s

_ROWS = 1 << 16
"""How many texts are hashed together."""


def string_hashes(texts: pa.Array) -> Int32s:
    """The hash of each text of a string array without nulls."""
    texts = texts.cast(pa.large_string())
    parts = [_hashes(texts.slice(start, _ROWS)) for start in range(0, len(texts), _ROWS)]
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def _hashes(texts: pa.Array) -> Int32s:
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    begin, end = int(offsets[0]), int(offsets[-1])
    data = texts.buffers()[2]
    raw = np.frombuffer(data, np.uint8)[begin:end] if data is not None else np.empty(0, np.uint8)
    bounds: Int64s = offsets - begin
    units: UInt32s = raw.astype(np.uint32)
    if len(raw) and raw.max() > 0x7F:
        counts = np.where(raw & 0xC0 == 0x80, 0, np.where(raw >= 0xF0, 2, 1))
        bounds = np.append(0, np.cumsum(counts))[bounds]
        units = np.frombuffer(raw.tobytes().decode().encode("utf-16-le"), "<u2").astype(np.uint32)
    lengths = np.diff(bounds)
    powers = np.cumprod(np.append(1, np.full(max(int(lengths.max(initial=0)) - 1, 0), 31)), dtype=np.uint32)
    weights = powers[np.repeat(bounds[1:], lengths) - 1 - np.arange(len(units))]
    sums = np.append(0, np.cumsum(units * weights, dtype=np.uint32))
    hashes: Int32s = (sums[bounds[1:]] - sums[bounds[:-1]]).astype(np.uint32).view(np.int32)
    return hashes
