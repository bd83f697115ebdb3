"""HASH index files: the key hashes of one bucket, four big-endian bytes each. Rule: Paimon's HashIndexFile."""

from __future__ import annotations

import numpy as np

from lakebed.kernel.arrays import Int32s

_BIG_INT = np.dtype(">i4")


def hashes_of(data: bytes) -> Int32s:
    """The hashes in the bytes of a HASH index file."""
    return np.frombuffer(data, _BIG_INT).astype(np.int32)


def index_bytes(hashes: Int32s) -> bytes:
    """The bytes of a HASH index file."""
    return hashes.astype(_BIG_INT).tobytes()
