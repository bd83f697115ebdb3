"""Bit-sliced indexes (`bsi`): one bitmap of rows for each bit of the numbers in a column.

Rules: Paimon's BitSliceIndexBitmapFileIndex and BitSliceIndexRoaringBitmap; comparisons by O'Neil and Quass. Negative
numbers are in an index of their own, by their absolute value. All numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.file_index.keys import Key
from lakebed.formats.paimon.codec.file_index.roaring import bitmap_bytes, read_bitmap
from lakebed.kernel.arrays import Int64s

_VERSION = 1
_MOST_SLICES = 64
_LEAST_LONG = -(2**63)


class Slices:
    """The slices of numbers that are not negative. `all` are the rows that have one."""

    def __init__(self, least: int, greatest: int, rows: BitMap, slices: Sequence[BitMap]) -> None:
        self._least, self._greatest, self.all, self._slices = least, greatest, rows, slices

    @classmethod
    def read(cls, data: bytes, at: int) -> tuple[Slices, int]:
        """Slices, and the place after them."""
        version, least, greatest = struct.unpack_from(">bqq", data, at)
        _check(version)
        rows, at = read_bitmap(data, at + 17)
        (count,), at = struct.unpack_from(">i", data, at), at + 4
        if not 0 <= count <= _MOST_SLICES:
            raise ValueError(f"{count} slices")
        slices = []
        for _ in range(count):
            bitmap, at = read_bitmap(data, at)
            slices.append(bitmap)
        return cls(least, greatest, rows, slices), at

    def compared(self, number: int) -> tuple[BitMap, BitMap, BitMap]:
        """The rows with lesser numbers, this number and greater numbers."""
        none = BitMap()
        if number < self._least:
            return none, none, self.all
        if number > self._greatest:
            return self.all, none, none
        less, equal, greater = none, self.all, none
        for place in reversed(range(max(len(self._slices), (number - self._least).bit_length()))):
            bit = self._slices[place] if place < len(self._slices) else none
            if (number - self._least) >> place & 1:
                less, equal = less | (equal - bit), equal & bit
            else:
                greater, equal = greater | (equal & bit), equal - bit
        return less, equal, greater


class BitSliceIndex:
    """The numbers of a column, by their bits."""

    def __init__(self, data: bytes) -> None:
        version, rows, has_positive = struct.unpack_from(">bi?", data)
        _check(version)
        at, nothing = 6, Slices(0, 0, BitMap(), ())
        self.rows: int | None = rows
        self._positive, at = Slices.read(data, at) if has_positive else (nothing, at)
        (has_negative,) = struct.unpack_from(">?", data, at)
        self._negative = Slices.read(data, at + 1)[0] if has_negative else nothing
        values = len(self._positive.all | self._negative.all)
        self.may_have_nulls, self.may_have_values = values < rows, values > 0

    def may_equal(self, keys: Sequence[Key]) -> bool:
        """Whether a row has one of the numbers."""
        return any(self._compared(key)[1] for key in keys)

    def may_differ(self, keys: Sequence[Key]) -> bool:
        """Whether a row has another number."""
        left = self._positive.all | self._negative.all
        for key in keys:
            left = left - self._compared(key)[1]
        return bool(left)

    def may_be_less(self, key: Key, inclusive: bool) -> bool:
        """Whether a row has a lesser number."""
        less, equal, _ = self._compared(key)
        return bool(less) or (inclusive and bool(equal))

    def may_be_greater(self, key: Key, inclusive: bool) -> bool:
        """Whether a row has a greater number."""
        _, equal, greater = self._compared(key)
        return bool(greater) or (inclusive and bool(equal))

    def _compared(self, key: Key) -> tuple[BitMap, BitMap, BitMap]:
        assert isinstance(key, int)
        if key < 0:
            greater, equal, less = self._negative.compared(-key)
            return less, equal, greater | self._positive.all
        less, equal, greater = self._positive.compared(key)
        return less | self._negative.all, equal, greater


def write_bit_slices(keys: Int64s, positions: Int64s, rows: int) -> bytes:
    """The index of a column of `rows` rows: `keys` are in the rows at `positions`, and all others are null.

    ValueError for the least number of 64 bits, which such an index cannot hold.
    """
    if len(keys) and keys.min() == _LEAST_LONG:
        raise ValueError(f"{_LEAST_LONG} does not fit into a bit-sliced index")
    parts = [struct.pack(">bi", _VERSION, rows)]
    for chosen, numbers in ((keys >= 0, keys), (keys < 0, -keys)):
        parts.append(struct.pack(">?", bool(chosen.any())))
        if chosen.any():
            parts += _slices(numbers[chosen], positions[chosen])
    return b"".join(parts)


def _slices(numbers: Int64s, positions: Int64s) -> list[bytes]:
    greatest = int(numbers.max())
    parts = [struct.pack(">bqq", _VERSION, 0, greatest), bitmap_bytes(positions)]
    parts.append(struct.pack(">i", greatest.bit_length()))
    return parts + [bitmap_bytes(positions[numbers >> np.int64(bit) & 1 == 1]) for bit in range(greatest.bit_length())]


def _check(version: int) -> None:
    if version > _VERSION:
        raise UnsupportedError(f"bit-sliced index of version {version}")
