"""MurmurHash3 (x86, 32 bit) of many rows at once.

Table formats hash rows as 32-bit words. We hash word by word over all rows, so that numpy does the work. The algorithm
is Austin Appleby's, which is in the public domain. Rows of words have no tail, since their length is a multiple of four
bytes; bytes of any length may have one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import Int32s, UInt8s, UInt32s, UInt64s
from lakebed.kernel.keys.equal_lengths import by_length

_C1, _C2, _M = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)


def hash_words(words: Sequence[UInt64s], seed: int) -> Int32s:
    """The hash of each row of 8-byte words: `words[i][row]` is word i, whose low half comes first.

    With a few thousand rows per call, the data stays in the processor's cache.
    """
    rows = len(words[0])
    state = np.full(rows, seed, np.uint32)
    scratch = np.empty((2, rows), np.uint32)
    for word in words:
        _step(state, word.astype(np.uint32), scratch)
        _step(state, (word >> np.uint64(32)).astype(np.uint32), scratch)
    _finish(state, np.uint32(len(words) * 8), scratch[0])
    return state.view(np.int32)


def hash_bytes(values: pa.BinaryArray, seed: int) -> Int32s:
    """The hash of each value, 0 for null. Values of equal length are hashed together."""
    hashes = np.zeros(len(values), np.int32)
    for places, rows in by_length(values):
        hashes[places] = _hash_equal(rows, seed)
    return hashes


def _hash_equal(rows: UInt8s, seed: int) -> Int32s:
    """The hash of each row of a matrix of bytes."""
    count, length = rows.shape
    state = np.full(count, seed, np.uint32)
    scratch = np.empty((2, count), np.uint32)
    whole = length // 4
    words = np.ascontiguousarray(rows[:, : whole * 4]).view("<u4")
    for number in range(whole):
        _step(state, words[:, number].astype(np.uint32), scratch)
    if length % 4:
        tail = np.zeros(count, np.uint32)
        for place in range(length % 4):
            tail |= rows[:, whole * 4 + place].astype(np.uint32) << np.uint32(8 * place)
        mixed, spare = scratch
        np.multiply(tail, _C1, out=mixed)
        _rotate(mixed, 15, spare)
        np.multiply(mixed, _C2, out=mixed)
        np.bitwise_xor(state, mixed, out=state)
    _finish(state, np.uint32(length), scratch[0])
    return state.view(np.int32)


def _step(state: UInt32s, word: UInt32s, scratch: UInt32s) -> None:
    mixed, spare = scratch
    np.multiply(word, _C1, out=mixed)
    _rotate(mixed, 15, spare)
    np.multiply(mixed, _C2, out=mixed)
    np.bitwise_xor(state, mixed, out=state)
    _rotate(state, 13, spare)
    np.multiply(state, np.uint32(5), out=state)
    np.add(state, _M, out=state)


def _rotate(values: UInt32s, bits: int, spare: UInt32s) -> None:
    np.right_shift(values, np.uint32(32 - bits), out=spare)
    np.left_shift(values, np.uint32(bits), out=values)
    np.bitwise_or(values, spare, out=values)


def _finish(state: UInt32s, length: np.uint32, spare: UInt32s) -> None:
    np.bitwise_xor(state, length, out=state)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, None)):
        np.right_shift(state, np.uint32(shift), out=spare)
        np.bitwise_xor(state, spare, out=state)
        if factor is not None:
            np.multiply(state, np.uint32(factor), out=state)
