"""MurmurHash3 (x64, 128 bit) of many rows at once, of which the first 64 bits are kept.

The algorithm is Austin Appleby's, which is in the public domain. Rows are hashed word by word, so that numpy does the
work.
"""

from __future__ import annotations

import numpy as np

from lakebed.kernel.arrays import UInt8s, UInt64s

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_FIVE, _N1, _N2 = np.uint64(5), np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_F1, _F2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_BLOCK = 16


def hash_rows(rows: UInt8s, seed: int) -> UInt64s:
    """The first half of the hash of each row of a matrix of bytes. `seed` begins both halves."""
    count, length = rows.shape
    first, second = np.full(count, seed, np.uint64), np.full(count, seed, np.uint64)
    whole = length // _BLOCK * _BLOCK
    words = np.ascontiguousarray(rows[:, :whole]).view("<u8")
    with np.errstate(over="ignore"):
        for number in range(0, words.shape[1], 2):
            first ^= _mixed_first(words[:, number].astype(np.uint64))
            first = (_rotated(first, 27) + second) * _FIVE + _N1
            second ^= _mixed_second(words[:, number + 1].astype(np.uint64))
            second = (_rotated(second, 31) + first) * _FIVE + _N2
        tail = rows[:, whole:]
        if tail.shape[1] > 8:
            second ^= _mixed_second(_word(tail[:, 8:]))
        if tail.shape[1]:
            first ^= _mixed_first(_word(tail[:, :8]))
        size = np.uint64(length)
        first, second = first ^ size, second ^ size
        first = first + second
        second = second + first
        return _finished(first) + _finished(second)


def _mixed_first(word: UInt64s) -> UInt64s:
    return _rotated(word * _C1, 31) * _C2


def _mixed_second(word: UInt64s) -> UInt64s:
    return _rotated(word * _C2, 33) * _C1


def _rotated(word: UInt64s, by: int) -> UInt64s:
    return (word << np.uint64(by)) | (word >> np.uint64(64 - by))


def _finished(word: UInt64s) -> UInt64s:
    word = (word ^ (word >> np.uint64(33))) * _F1
    word = (word ^ (word >> np.uint64(33))) * _F2
    return word ^ (word >> np.uint64(33))


def _word(rows: UInt8s) -> UInt64s:
    """At most eight bytes of each row as a number, little-endian."""
    padded = np.zeros((len(rows), 8), np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view("<u8")[:, 0].astype(np.uint64)
