"""Bloom filters of record keys, in the footers of base files and in the metadata table: built, tested and read for many
keys at once.

The bytes: int32 -1, int32 number of hashes, byte 1 (Murmur), int32 number of bits; then the bits, the lowest first in
each byte. A dynamic filter begins with such a head, int32 entries per filter, int32 entries in the last one and int32
number of filters, and holds the filters one after another. A key goes to the newest of its filters; when that is full
another begins, until together they have room for the greatest number of entries.

Rules: Hudi's `SimpleBloomFilter`, `HoodieDynamicBoundedBloomFilter`, `InternalBloomFilter`, `BloomFilterUtils` and
`MurmurHash` (Murmur 2, but with the last one to three bytes in reverse; the hash of one round is the seed of the next).
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.kernel.arrays import Bools, UInt8s, UInt32s, from_numpy
from lakebed.kernel.decoding import RESTORE, decoding

_HEAD = struct.Struct(">iibi")
_COUNTS = struct.Struct(">iii")
_MURMUR = 1
_MOST_HASHES = 1 << 10
"""Of a filter that is read. The rarest false answer that a double can say, 1e-308, takes 1023."""
_M = np.uint32(0x5BD1E995)
_ROWS = 1 << 13
"""How many keys are hashed together: their state stays in the processor's cache."""


class FilterType(StrEnum):
    """The kind of a filter, as footers and the metadata table name it."""

    SIMPLE = "SIMPLE"
    DYNAMIC = "DYNAMIC_V0"


@dataclass(frozen=True, slots=True)
class FilterSettings:
    """How a filter is made: the keys that one has room for, how often it may be wrong, and the most keys that a dynamic
    one grows to."""

    kind: FilterType = FilterType.DYNAMIC
    entries: int = 60_000
    wrong: float = 1e-9
    most_entries: int = 100_000

    @property
    def bits(self) -> int:
        """The bits of one filter."""
        return math.ceil(self.entries * (-math.log(self.wrong) / (math.log(2) ** 2)))

    @property
    def hashes(self) -> int:
        """How many bits each key sets."""
        return math.ceil(math.log(2) * self.bits / self.entries)


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A filter as it is read: it may have a key where one of its parts does."""

    hashes: int
    bits: int
    parts: tuple[UInt8s, ...]
    fill: tuple[int, int] = (0, 0)
    """Of a dynamic filter: the keys that a part has room for, and those in the newest part."""

    def may_have(self, keys: pa.StringArray) -> Bools:
        """Which keys may be in the filter; false is certain."""
        may = np.zeros(len(keys), bool)
        for rows, places in _places(keys, self.hashes, self.bits):
            for part in self.parts:
                may[rows] |= ((part[places >> 3] >> (places & 7).astype(np.uint8)) & 1).all(axis=0)
        return may


class FilterBuilder:
    """Builds a filter from batches of keys."""

    def __init__(self, settings: FilterSettings) -> None:
        self._settings = settings
        self._bytes = (settings.bits + 7) // 8
        self._parts = [np.zeros(self._bytes * 8, np.bool_)]
        self._held = 0

    @classmethod
    def resumed(cls, settings: FilterSettings, text: bytes, kind: str) -> FilterBuilder | None:
        """A builder that holds what a filter has, None for a filter that was made another way."""
        bloom_filter = parse_filter(text, kind)
        if kind != settings.kind or (bloom_filter.hashes, bloom_filter.bits) != (settings.hashes, settings.bits):
            return None
        entries, held = bloom_filter.fill
        if settings.kind is FilterType.DYNAMIC and entries != settings.entries:
            return None
        builder = cls(settings)
        builder._parts = [np.unpackbits(part, bitorder="little").view(np.bool_) for part in bloom_filter.parts]
        builder._held = held
        return builder

    def add_missing(self, keys: pa.StringArray) -> None:
        """Add those keys that the filter may not have yet."""
        settings = self._settings
        missing = np.zeros(len(keys), bool)
        for rows, places in _places(keys, settings.hashes, settings.bits):
            known = np.zeros(len(rows), bool)
            for part in self._parts:
                known |= part[places].all(axis=0)
            missing[rows] = ~known
        self.add(keys.filter(from_numpy(missing)))

    def add(self, keys: pa.StringArray) -> None:
        """Add keys."""
        settings = self._settings
        dynamic = settings.kind is FilterType.DYNAMIC
        start = 0
        while start < len(keys):
            room = len(keys)
            if dynamic:
                if self._held >= settings.entries and len(self._parts) * settings.entries < settings.most_entries:
                    self._parts.append(np.zeros(self._bytes * 8, np.bool_))
                    self._held = 0
                growing = len(self._parts) * settings.entries < settings.most_entries
                room = settings.entries - self._held if growing or self._held < settings.entries else len(keys)
            piece = keys.slice(start, room)
            for _, places in _places(piece, settings.hashes, settings.bits):
                self._parts[-1][places.ravel()] = True
            self._held += len(piece)
            start += len(piece)

    def finish(self) -> bytes:
        """The bytes of the filter, in base64 as footers have it."""
        settings = self._settings
        head = _HEAD.pack(-1, settings.hashes, _MURMUR, settings.bits)
        parts = [head + np.packbits(bits, bitorder="little").tobytes() for bits in self._parts]
        if settings.kind is FilterType.DYNAMIC:
            held = min(self._held, settings.entries)
            parts.insert(0, head + _COUNTS.pack(settings.entries, held, len(self._parts)))
        return base64.b64encode(b"".join(parts))


@decoding("a bloom filter cannot be read")
def parse_filter(text: bytes, kind: str) -> BloomFilter:
    """A filter from its base64 text and the name of its kind. CorruptError for bytes that are none."""
    data = base64.b64decode(text)
    _, hashes, murmur, bits = _HEAD.unpack_from(data, 0)
    if murmur != _MURMUR or not 0 < hashes <= _MOST_HASHES or bits <= 0:
        raise CorruptError("a bloom filter has an unknown hash or no bits", todo=RESTORE)
    at, count, entries, held = 0, 1, 0, 0
    if kind == FilterType.DYNAMIC:
        entries, held, count = _COUNTS.unpack_from(data, _HEAD.size)
        at = _HEAD.size + _COUNTS.size
    size = (bits + 7) // 8
    parts = []
    for _ in range(count):
        part = np.frombuffer(data, np.uint8, size, at + _HEAD.size)
        parts.append(part)
        at += _HEAD.size + size
    return BloomFilter(hashes, bits, tuple(parts), (entries, held))


def _places(keys: pa.StringArray, hashes: int, bits: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For some keys at a time: their row numbers, and the bits of each (one row of the matrix per hash). The matrix is
    used again for the next keys."""
    binary = keys.cast(pa.binary())
    _, offset_buffer, data_buffer = binary.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[binary.offset : binary.offset + len(keys) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    lengths = np.diff(offsets)
    room = np.empty((hashes, min(_ROWS, len(keys))), np.intp)
    if len(lengths) and lengths.min() == lengths.max():  # the keys lie one behind the other
        length = int(lengths[0])
        matrix = data[offsets[0] : offsets[-1]].reshape(len(keys), length)
        for start in range(0, len(keys), _ROWS):
            block = matrix[start : start + _ROWS]
            yield np.arange(start, start + len(block)), _rounds(*_words(block), length, room[:, : len(block)], bits)
        return
    for length in np.unique(lengths):
        alike = np.flatnonzero(lengths == length)
        for start in range(0, len(alike), _ROWS):
            rows = alike[start : start + _ROWS]
            words, tail = _words(data[offsets[rows][:, None] + np.arange(length)])
            yield rows, _rounds(words, tail, int(length), room[:, : len(rows)], bits)


def _words(matrix: UInt8s) -> tuple[list[UInt32s], UInt32s | None]:
    """The mixed words of keys of one length, and what their last bytes add. Each round of hashing uses them again."""
    count, length = matrix.shape
    whole = length // 4
    words = np.ascontiguousarray(matrix[:, : whole * 4]).view("<u4").astype(np.uint32)
    mixed = []
    for number in range(whole):
        word = words[:, number] * _M
        mixed.append((word ^ (word >> np.uint32(24))) * _M)
    if length % 4 == 0:
        return mixed, None
    tail = np.zeros(count, np.uint32)
    for place in range(length % 4):
        signed = matrix[:, length - 1 - place].view(np.int8).astype(np.int32).view(np.uint32)
        tail ^= signed << np.uint32(8 * place)  # the last byte lowest, unlike in the words
    return mixed, tail


def _rounds(words: list[UInt32s], tail: UInt32s | None, length: int, places: np.ndarray, bits: int) -> np.ndarray:
    """Fill `places`, and return it."""
    hashes, count = places.shape
    state, other, size = (np.zeros(count, np.uint32) for _ in range(3))
    modulus = np.uint32(bits)
    for number in range(hashes):
        state ^= np.uint32(length)
        for word in words:
            state *= _M
            state ^= word
        if tail is not None:
            state ^= tail
            state *= _M
        state ^= np.right_shift(state, np.uint32(13), out=other)
        state *= _M
        state ^= np.right_shift(state, np.uint32(15), out=other)
        # The remainder without its sign: numpy divides by one number far faster than it takes remainders.
        np.abs(state.view(np.int32), out=size.view(np.int32))
        np.floor_divide(size, modulus, out=other)
        other *= modulus
        size -= other
        places[number] = size
    return places
