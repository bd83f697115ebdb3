"""Bloom filters: a few bits per value of a column. A value whose bits are not all set is not in the file.

Rules: Paimon's BloomFilterFileIndex, BloomFilter64 and FastHash. The bytes are the number of hash functions as a
big-endian int, then the bits. Texts and bytes are hashed by XXH64, numbers by Thomas Wang's 64-bit mix.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.formats.paimon.codec.file_index.keys import Key, KeyKind, Keys, float_bits
from lakebed.kernel.arrays import Int64s, UInt8s
from lakebed.kernel.keys.xxhash64 import hash_bytes

_MOST_BITS = 2**31 - 1
_MOST_FUNCTIONS = 1 << 10
_ROWS_AT_ONCE = 1 << 20


class BloomFilter:
    """The bits of a filter. `add` sets those of more keys."""

    rows: int | None = None
    may_have_nulls = True
    may_have_values = True

    def __init__(self, kind: KeyKind, functions: int, bits: UInt8s) -> None:
        self._kind, self.functions, self._bits = kind, functions, bits

    @classmethod
    def sized(cls, kind: KeyKind, items: int, fpp: float) -> BloomFilter:
        """An empty filter for about so many different values, of which a part `fpp` is found by mistake.

        ValueError for numbers that no filter can have.
        """
        if not (items > 0 and 0 < fpp < 1):
            raise ValueError("a Bloom filter needs items above 0 and a probability between 0 and 1")
        count = int(min(-items * math.log(fpp) / math.log(2) ** 2, _MOST_BITS - 8))
        count += 8 - count % 8
        return cls(kind, max(1, math.floor(count / items * math.log(2) + 0.5)), np.zeros(count // 8, np.uint8))

    @classmethod
    def read(cls, kind: KeyKind, data: bytes) -> BloomFilter:
        """The filter of a data file. CorruptError for bytes that are none."""
        (functions,) = struct.unpack_from(">i", data)
        if not (0 < functions <= _MOST_FUNCTIONS and 4 < len(data) <= _MOST_BITS // 8):
            raise CorruptError("a Bloom filter is damaged", why=f"{functions} functions, {len(data)} bytes")
        return cls(kind, functions, np.frombuffer(data, np.uint8, offset=4))

    def to_bytes(self) -> bytes:
        """The bytes that an index file holds."""
        return struct.pack(">i", self.functions) + self._bits.tobytes()

    def add(self, keys: Keys) -> None:
        """Set the bits of keys."""
        hashes = hashed(self._kind, keys)
        for start in range(0, len(hashes), _ROWS_AT_ONCE):
            for places in self._places(hashes[start : start + _ROWS_AT_ONCE]):
                np.bitwise_or.at(self._bits, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))

    def may_equal(self, keys: Sequence[Key]) -> bool:
        """Whether all bits of one of the keys are set."""
        may: Any = np.ones(len(keys), np.bool_)
        for places in self._places(hashed(self._kind, _as_keys(self._kind, keys))):
            may &= (self._bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1 == 1
        return bool(may.any())

    def may_differ(self, keys: Sequence[Key]) -> bool:
        """Unknown."""
        return True

    def may_be_less(self, key: Key, inclusive: bool) -> bool:
        """Unknown."""
        return True

    may_be_greater = may_be_less

    @cached_property
    def _count(self) -> int:
        return 8 * len(self._bits)

    def _places(self, hashes: Int64s) -> Any:
        """The positions of the bits that each hash function sets for all hashes."""
        low, high = hashes.astype(np.int32), (hashes >> 32).astype(np.int32)
        combined = low.copy()
        for _ in range(self.functions):
            combined = combined + high
            yield np.where(combined < 0, ~combined, combined) % self._count


def hashed(kind: KeyKind, keys: Keys) -> Int64s:
    """The 64-bit hash of each key."""
    if isinstance(keys, pa.Array):
        return hash_bytes(keys).view(np.int64)
    key = float_bits(keys, kind.width) if kind.is_float else keys
    key = ~key + (key << 21)
    key = key ^ (key >> 24)
    key = key + (key << 3) + (key << 8)
    key = key ^ (key >> 14)
    key = key + (key << 2) + (key << 4)
    key = key ^ (key >> 28)
    mixed: Int64s = key + (key << 31)
    return mixed


def _as_keys(kind: KeyKind, keys: Sequence[Key]) -> Keys:
    return np.array(keys, np.int64) if kind.width else pa.array(keys, pa.binary())
