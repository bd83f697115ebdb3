"""MurmurHash3 (x86, 32 bit) of many rows at once.

The rows are 32-bit words, as table formats hash them: word by word over all rows, so that numpy does the work. The
algorithm is Austin Appleby's public one; a row has no tail, since its length is a multiple of four bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_C1, _C2, _M = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)
_CHUNK_ROWS = 1 << 14
"""Rows hashed at a time: their words stay in the processor's cache."""

Words = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.int32]


def hash_matrix(words: Words, seed: int) -> Hashes:
    """The hash of each row of a (rows, words) matrix."""
    rows, width = words.shape
    out = np.empty(rows, np.uint32)
    for start in range(0, rows, _CHUNK_ROWS):
        chunk = words[start : start + _CHUNK_ROWS]
        state = out[start : start + _CHUNK_ROWS]
        state.fill(seed)
        scratch = np.empty((2, len(chunk)), np.uint32)
        for column in range(width):
            _step(state, chunk[:, column], scratch)
        _finish(state, np.uint32(width * 4), scratch[0])
    return out.view(np.int32)


def hash_ragged(words: Words, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], seed: int) -> Hashes:
    """The hash of each row, where row i is `words[starts[i] : starts[i] + counts[i]]`."""
    out = np.empty(len(starts), np.uint32)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        for first in range(0, len(rows), _CHUNK_ROWS):
            some = rows[first : first + _CHUNK_ROWS]
            matrix = words[starts[some][:, None] + np.arange(count)]
            out[some] = hash_matrix(matrix, seed).view(np.uint32)
    return out.view(np.int32)


def _step(state: Words, word: Words, scratch: Words) -> None:
    mixed, spare = scratch
    np.multiply(word, _C1, out=mixed)
    _rotate(mixed, 15, spare)
    np.multiply(mixed, _C2, out=mixed)
    np.bitwise_xor(state, mixed, out=state)
    _rotate(state, 13, spare)
    np.multiply(state, np.uint32(5), out=state)
    np.add(state, _M, out=state)


def _rotate(values: Words, bits: int, spare: Words) -> None:
    np.right_shift(values, np.uint32(32 - bits), out=spare)
    np.left_shift(values, np.uint32(bits), out=values)
    np.bitwise_or(values, spare, out=values)


def _finish(state: Words, length: np.uint32, spare: Words) -> None:
    np.bitwise_xor(state, length, out=state)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, None)):
        np.right_shift(state, np.uint32(shift), out=spare)
        np.bitwise_xor(state, spare, out=state)
        if factor is not None:
            np.multiply(state, np.uint32(factor), out=state)
