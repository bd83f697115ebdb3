"""XXH64 of many byte strings at once, with the seed 0. The algorithm is Yann Collet's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import UInt8s, UInt64s
from lakebed.kernel.keys.equal_lengths import by_length

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_MASK = (1 << 64) - 1
_STRIPE, _LANES = 32, 4


def hash_bytes(values: pa.BinaryArray) -> UInt64s:
    """The hash of each value, 0 for null."""
    hashes = np.zeros(len(values), np.uint64)
    for places, rows in by_length(values):
        hashes[places] = _hash_equal(rows)
    return hashes


def _hash_equal(rows: UInt8s) -> UInt64s:
    """The hash of each row of a matrix of bytes."""
    count, length = rows.shape
    words = np.ascontiguousarray(rows[:, : length // 8 * 8]).view("<u8").astype(np.uint64)
    state = np.full(count, int(_P5), np.uint64)
    striped = length // _STRIPE * _LANES
    if striped:
        starts = (int(_P1) + int(_P2), int(_P2), 0, -int(_P1))
        lanes = [np.full(count, start & _MASK, np.uint64) for start in starts]
        for word in range(striped):
            lane = word % _LANES
            lanes[lane] = _round(lanes[lane], words[:, word])
        first, second, third, fourth = lanes
        state = _rotated(first, 1) + _rotated(second, 7) + _rotated(third, 12) + _rotated(fourth, 18)
        for lane_state in lanes:
            state = (state ^ _round(np.zeros(count, np.uint64), lane_state)) * _P1 + _P4
    state = state + np.uint64(length)
    for word in range(striped, words.shape[1]):
        state = state ^ _round(np.zeros(count, np.uint64), words[:, word])
        state = _rotated(state, 27) * _P1 + _P4
    place = words.shape[1] * 8
    if length - place >= 4:
        half = np.ascontiguousarray(rows[:, place : place + 4]).view("<u4")[:, 0].astype(np.uint64)
        state = _rotated(state ^ (half * _P1), 23) * _P2 + _P3
        place += 4
    for at in range(place, length):
        state = _rotated(state ^ (rows[:, at].astype(np.uint64) * _P5), 11) * _P1
    state = (state ^ (state >> np.uint64(33))) * _P2
    state = (state ^ (state >> np.uint64(29))) * _P3
    mixed: UInt64s = state ^ (state >> np.uint64(32))
    return mixed


def _round(state: UInt64s, words: UInt64s) -> UInt64s:
    return _rotated(state + words * _P2, 31) * _P1


def _rotated(values: UInt64s, bits: int) -> UInt64s:
    rotated: UInt64s = (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
    return rotated
