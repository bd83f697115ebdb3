"""Range bitmap indexes: the different values of a column in order, and bit slices of each row's place among them.

Rules: Paimon's RangeBitmap, ChunkedDictionary, FixedLengthChunk, VariableLengthChunk and BitSliceIndexBitmap. All
numbers are big-endian. The dictionary has chunks of values: a chunk's first value is in its header, the others lie in
the keys behind all headers. The slices are not read here: which rows have a value is left to the filter of the rows.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.file_index.keys import Key, KeyKind, Keys, distinct
from lakebed.formats.paimon.codec.file_index.relations import SortedKeys
from lakebed.formats.paimon.codec.file_index.roaring import bitmap_bytes, read_bitmap
from lakebed.kernel.arrays import Int64s, to_numpy

_VERSION = 1
_INT = struct.Struct(">i")
_NUMBERS = struct.Struct(">ii")
CHUNK_BYTES = 16 << 10
_ALONE = ("BOOLEAN", "TINYINT", "SMALLINT")
"""Types whose chunks have one value each by default."""


class RangeBitmap(SortedKeys):
    """The values of an index, and how many rows have none."""

    def __init__(self, kind: KeyKind, data: bytes) -> None:
        (head,) = _INT.unpack_from(data)
        version, rows, self.count = struct.unpack_from(">bii", data, 4)
        _check(version)
        self.rows, self._kind, self._data, at = rows, kind, data, 13
        self.least = self.greatest = None
        if self.count > 0:
            self.least, at = kind.read(data, at)
            self.greatest, at = kind.read(data, at)
        (dictionary,) = _INT.unpack_from(data, at)
        self._dictionary = 4 + head
        self._chunk_heads: list[tuple[Key, int]] = []
        self.may_have_nulls = self.count <= 0 or self._values(4 + head + dictionary) < rows

    def has(self, key: Key) -> bool:
        """Whether the dictionary has the value."""
        if not self._chunk_heads:
            self._read_chunk_heads()
        number = bisect_right(self._chunk_heads, key, key=lambda head: head[0]) - 1
        if number < 0:
            return False
        first, at = self._chunk_heads[number]
        return first == key or key in self._others(at)

    def _values(self, at: int) -> int:
        """The rows that have a value, from the slices."""
        (head,) = _INT.unpack_from(self._data, at)
        _check(self._data[at + 4])
        return len(read_bitmap(self._data, at + 4 + head)[0])

    def _read_chunk_heads(self) -> None:
        """The first value of each chunk, and where the rest of its header begins."""
        data, start = self._data, self._dictionary
        (head,) = _INT.unpack_from(data, start)
        version, count, offsets, chunks = struct.unpack_from(">biii", data, start + 4)
        _check(version)
        if not 0 < count <= len(data):
            raise ValueError(f"a dictionary of {count} chunks")
        body = start + 4 + head
        self._keys = body + offsets + chunks
        for number in range(count):
            at = body + offsets + _INT.unpack_from(data, body + 4 * number)[0]
            _check(data[at])
            self._chunk_heads.append(self._kind.read(data, at + 1))

    def _others(self, at: int) -> Sequence[Key]:
        """The values of a chunk after its first one."""
        _, offset, size = struct.unpack_from(">iii", self._data, at)
        start = self._keys + offset
        if not self._kind.width:
            start += _INT.unpack_from(self._data, at + 12)[0]  # the offsets of texts come before them
        return self._kind.read_many(self._data, start, size, 0)[0]


def write_range_bitmap(
    kind: KeyKind, keys: Keys, positions: Int64s, rows: int, chunk_bytes: int | None = None
) -> bytes:
    """The index of a column of `rows` rows: `keys` are in the rows at `positions`, and all others are null.

    `chunk_bytes` are those of a chunk's values after the first, None for the default of the type.
    """
    if chunk_bytes is None:
        chunk_bytes = 0 if kind.type.root in _ALONE else CHUNK_BYTES
    values, codes = distinct(keys)
    stored = kind.stored(values)
    ends = stored[0].as_py() + stored[len(stored) - 1].as_py() if len(stored) else b""
    dictionary = _dictionary(kind, stored, chunk_bytes)
    head = struct.pack(">bii", _VERSION, rows, len(values)) + ends + _INT.pack(len(dictionary))
    return b"".join([_INT.pack(len(head)), head, dictionary, _slices(codes, positions, len(values))])


def _dictionary(kind: KeyKind, stored: pa.BinaryArray, most: int) -> bytes:
    sizes = to_numpy(pc.binary_length(stored)).astype(np.int64)
    offsets, chunks, keys, at, key_at = list[bytes](), list[bytes](), list[bytes](), 0, 0
    for first, stop in _chunks(sizes, most, bool(kind.width)):
        others = b"".join(stored.slice(first + 1, stop - first - 1).to_pylist())
        places = b""
        if not kind.width:
            inner = sizes[first + 1 : stop]
            places = (np.cumsum(inner) - inner).astype(">i4").tobytes()
        tail = _NUMBERS.pack(len(others), kind.width) if kind.width else _NUMBERS.pack(len(places), len(others))
        head = bytes((_VERSION,)) + stored[first].as_py()
        chunk = head + struct.pack(">iii", first, key_at, stop - first - 1) + tail
        offsets.append(_INT.pack(at))
        chunks.append(chunk)
        keys += [places, others]
        at, key_at = at + len(chunk), key_at + len(places) + len(others)
    head = struct.pack(">biii", _VERSION, len(chunks), 4 * len(chunks), at)
    return b"".join([_INT.pack(len(head)), head, *offsets, *chunks, *keys])


def _chunks(sizes: Int64s, most: int, fixed: bool) -> Iterator[tuple[int, int]]:
    """The values in chunks. The first of each does not count; texts also take four bytes each for their place."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        stop = int(np.searchsorted(ends, int(ends[start]) + most, side="right"))
        if not fixed:
            stop = min(stop, start + 1 + most // 4)
        yield start, stop
        start = stop


def _slices(codes: Int64s, positions: Int64s, count: int) -> bytes:
    """The bit slices of each row's code."""
    bits = 64 if not count else max(1, (count - 1).bit_length())
    slices = [bitmap_bytes(positions[codes >> np.int64(bit) & 1 == 1]) for bit in range(bits)]
    rows = bitmap_bytes(positions)
    lengths = np.array([len(bitmap) for bitmap in slices], np.int64)
    places = np.stack([np.cumsum(lengths) - lengths, lengths], axis=1).astype(">i4").tobytes()
    head = struct.pack(">bbii", _VERSION, bits, len(rows), len(places)) + places
    return b"".join([_INT.pack(len(head)), head, rows, *slices])


def _check(version: int) -> None:
    if version > _VERSION:
        raise UnsupportedError(f"range bitmap of version {version}")
