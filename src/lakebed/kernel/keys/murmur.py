"""MurmurHash3 (x86, 32 bit) of many rows at once.

The rows are 32-bit words, as table formats hash them: word by word over all rows, so that numpy does the work. The
algorithm is Austin Appleby's public one; a row has no tail, since its length is a multiple of four bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_C1, _C2, _M = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(0xE6546B64)

Words = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.int32]


def hash_words(words: Sequence[npt.NDArray[np.uint64]], seed: int) -> Hashes:
    """The hash of each row of so many words of eight bytes: `words[i][row]`, low half first. Some thousand rows at a
    time stay in the processor's cache."""
    rows = len(words[0])
    state = np.full(rows, seed, np.uint32)
    scratch = np.empty((2, rows), np.uint32)
    for word in words:
        _step(state, word.astype(np.uint32), scratch)
        _step(state, (word >> np.uint64(32)).astype(np.uint32), scratch)
    _finish(state, np.uint32(len(words) * 8), scratch[0])
    return state.view(np.int32)


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
