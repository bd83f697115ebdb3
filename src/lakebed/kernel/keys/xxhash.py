"""XXH32 of many byte strings at once. The algorithm is Yann Collet's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import UInt8s, UInt32s
from lakebed.kernel.keys.equal_lengths import by_length

_P1, _P2, _P3, _P4, _P5 = (np.uint32(prime) for prime in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1))
_STRIPE = 16


def hash_bytes(values: pa.BinaryArray, seed: int) -> UInt32s:
    """The hash of each value, 0 for null."""
    hashes = np.zeros(len(values), np.uint32)
    for places, rows in by_length(values):
        hashes[places] = _hash_equal(rows, seed)
    return hashes


def _hash_equal(rows: UInt8s, seed: int) -> UInt32s:
    """The hash of each row of a matrix of bytes."""
    count, length = rows.shape
    words = np.ascontiguousarray(rows[:, : length // 4 * 4]).view("<u4").astype(np.uint32)
    state = np.full(count, (seed + int(_P5)) & 0xFFFFFFFF, np.uint32)
    striped = length // _STRIPE * 4
    if striped:
        starts = (seed + int(_P1) + int(_P2), seed + int(_P2), seed, seed - int(_P1))
        lanes = [np.full(count, start & 0xFFFFFFFF, np.uint32) for start in starts]
        for word in range(striped):
            lane = word % 4
            lanes[lane] = _rotated(lanes[lane] + words[:, word] * _P2, 13) * _P1
        first, second, third, fourth = lanes
        state = _rotated(first, 1) + _rotated(second, 7) + _rotated(third, 12) + _rotated(fourth, 18)
    state = state + np.uint32(length & 0xFFFFFFFF)
    for word in range(striped, words.shape[1]):
        state = _rotated(state + words[:, word] * _P3, 17) * _P4
    for place in range(words.shape[1] * 4, length):
        state = _rotated(state + rows[:, place].astype(np.uint32) * _P5, 11) * _P1
    state = (state ^ (state >> np.uint32(15))) * _P2
    state = (state ^ (state >> np.uint32(13))) * _P3
    mixed: UInt32s = state ^ (state >> np.uint32(16))
    return mixed


def _rotated(values: UInt32s, bits: int) -> UInt32s:
    rotated: UInt32s = (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
    return rotated
