"""Bitmap indexes: the rows of each value of a column.

Rules: Paimon's BitmapFileIndex, BitmapFileIndexMeta (version 1) and BitmapFileIndexMetaV2. All numbers are big-endian.
A value's offset is the place of its bitmap in the body, or -1 - row where it has one row only. Version 2 sorts the
values into blocks, and lists the first value of each block before them. Only the values are read here: which rows have
one is left to the filter of the rows.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.file_index.keys import Key, KeyKind, Keys, distinct
from lakebed.formats.paimon.codec.file_index.relations import SortedKeys
from lakebed.formats.paimon.codec.file_index.roaring import bitmap_bytes
from lakebed.kernel.arrays import Int64s, to_numpy

_HEAD = struct.Struct(">ii?")
_INT = struct.Struct(">i")
_OFFSET, _OFFSET_AND_LENGTH = 4, 8
BLOCK_BYTES = 16 << 10


class BitmapIndex(SortedKeys):
    """The values that an index of either version lists."""

    def __init__(self, kind: KeyKind, data: bytes) -> None:
        version = data[0]
        if version not in (1, 2):
            raise UnsupportedError(f"bitmap index of version {version}")
        self.rows, self.count, self.may_have_nulls = _HEAD.unpack_from(data, 1)
        self._kind, self._data = kind, data
        self._firsts: list[Key] = []
        self._blocks: list[int] = []
        self._read: dict[int, list[Key]] = {}
        at = 1 + _HEAD.size
        if version == 1:
            keys, _ = kind.read_many(data, at + _INT.size * self.may_have_nulls, self.count, _OFFSET)
            keys.sort()
            self._firsts, self._read = keys[:1], {0: keys}
        else:
            self._read_blocks(at + 2 * _INT.size * self.may_have_nulls)
        self.least = self._firsts[0] if self._firsts else None
        self.greatest = self._block(len(self._firsts) - 1)[-1] if self._firsts else None

    def has(self, key: Key) -> bool:
        """Whether the index lists the key."""
        number = bisect_right(self._firsts, key) - 1
        if number < 0:
            return False
        block = self._block(number)
        at = bisect_right(block, key) - 1
        return at >= 0 and block[at] == key

    def _read_blocks(self, at: int) -> None:
        (count,), at = _INT.unpack_from(self._data, at), at + _INT.size
        offsets = []
        for _ in range(count):
            key, at = self._kind.read(self._data, at)
            self._firsts.append(key)
            offsets.append(_INT.unpack_from(self._data, at)[0])
            at += _INT.size
        self._blocks = [at + _INT.size + offset for offset in offsets]

    def _block(self, number: int) -> list[Key]:
        if number not in self._read:
            at = self._blocks[number]
            (count,) = _INT.unpack_from(self._data, at)
            self._read[number] = self._kind.read_many(self._data, at + _INT.size, count, _OFFSET_AND_LENGTH)[0]
        return self._read[number]


def write_bitmap_index(
    kind: KeyKind, keys: Keys, positions: Int64s, rows: int, version: int = 2, block_bytes: int = BLOCK_BYTES
) -> bytes:
    """The index of a column of `rows` rows: `keys` are in the rows at `positions`, ascending, and all others are
    null."""
    values, codes = distinct(keys)
    nulls = np.setdiff1d(np.arange(rows), positions, assume_unique=True)
    body = [bitmap_bytes(nulls)] if len(nulls) > 1 else []
    offsets, lengths, bitmaps = _bitmaps(codes, positions, len(values), sum(map(len, body)))
    stored = kind.stored(values)
    null_place = int(-1 - nulls[0]) if len(nulls) == 1 else 0
    head = bytes((version,)) + _HEAD.pack(rows, len(values), len(nulls) > 0)
    if version == 1:
        head += _INT.pack(null_place) if len(nulls) else b""
        entries = pc.binary_join_element_wise(stored, _numbers(offsets), b"")
        return b"".join([head, _joined(entries), *body, *bitmaps])
    if len(nulls):
        head += struct.pack(">ii", null_place, len(body[0]) if body else len(bitmap_bytes(nulls)))
    entries = pc.binary_join_element_wise(stored, _numbers(offsets), _numbers(lengths), b"")
    blocks, firsts, start = list[bytes](), list[bytes](), 0
    for first, last in _runs(to_numpy(pc.binary_length(entries)), block_bytes - _INT.size):
        block = _INT.pack(last - first) + _joined(entries.slice(first, last - first))
        firsts.append(stored[first].as_py() + _INT.pack(start))
        start += len(block)
        blocks.append(block)
    return b"".join([head, _INT.pack(len(blocks)), *firsts, _INT.pack(start), *blocks, *body, *bitmaps])


def _bitmaps(codes: Int64s, positions: Int64s, count: int, start: int) -> tuple[Int64s, Int64s, list[bytes]]:
    """The offset and the length of each value's bitmap, which begin at `start`, and the bitmaps. A value of one row has
    none."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=count)
    ends = np.cumsum(counts)
    offsets, lengths = -1 - positions[order][ends - counts], np.full(count, -1, np.int64)
    bitmaps = []
    for code in np.flatnonzero(counts > 1).tolist():
        bitmap = bitmap_bytes(positions[order[ends[code] - counts[code] : ends[code]]])
        offsets[code], lengths[code] = start, len(bitmap)
        start += len(bitmap)
        bitmaps.append(bitmap)
    return offsets, lengths, bitmaps


def _runs(sizes: Int64s, most: int) -> Iterator[tuple[int, int]]:
    """The items in runs whose sizes are `most` together at most. ValueError for an item that is larger."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + most, side="right"))
        if stop == start:
            raise ValueError(f"a value of {sizes[start]} bytes is longer than a block of the index")
        yield start, stop
        start = stop


def _numbers(values: Int64s) -> pa.BinaryArray:
    offsets = np.arange(0, 4 * (len(values) + 1), 4, dtype=np.int32)
    data = pa.py_buffer(values.astype(">i4").tobytes())
    return pa.BinaryArray.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), data])


def _joined(values: pa.BinaryArray) -> bytes:
    """All byte strings as one."""
    if not len(values):
        return b""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    return bytes(memoryview(values.buffers()[2])[offsets[0] : offsets[-1]])
