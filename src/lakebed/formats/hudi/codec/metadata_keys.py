"""The keys of records in the metadata table.

Statistics and bloom filters have keys of hashes, each in base64: of the column's name, the partition's path, the file's
name, in this order and as far as the record is about one. A record of the record index has the record's own key. The
file group of a key follows from a hash of its text.

Rules: Hudi's `HashID` (XXH64 of 8 bytes with a fixed seed, MD5 of 16), `ColumnIndexID`, `PartitionIndexID`,
`FileIndexID`, `HoodieMetadataPayload.getColumnStatsIndexKey`, `HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex`.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import Int64s
from lakebed.kernel.keys.java import string_hashes

NO_PARTITION = "."
"""The name of the one partition of a table without partitions."""
_SEED = 0xFFFFFFFF_DABADABA
_WORD = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


@lru_cache(maxsize=4096)
def hash_of(name: str) -> bytes:
    """The hash of a column's name or a partition's path, as keys have it."""
    return base64.b64encode(xxh64(name.encode(), _SEED).to_bytes(8, "big"))


def partition_hash(partition: str) -> bytes:
    """The hash of a partition's path inside the table."""
    return hash_of(partition or NO_PARTITION)


def file_hash(name: str) -> bytes:
    """The hash of a file's name."""
    return base64.b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest())


def file_groups_of(keys: pa.Array, groups: int) -> Int64s:
    """The number of the file group of each key, of so many: by Java's hash of its text."""
    if groups == 1:
        return np.zeros(len(keys), np.int64)
    return np.abs(np.fmod(string_hashes(keys).astype(np.int64), groups))


def xxh64(data: bytes, seed: int) -> int:
    """XXH64 of some bytes. The algorithm is Yann Collet's, whose specification is public."""
    at, length = 0, len(data)
    if length >= 32:
        lanes = [(seed + _P1 + _P2) & _WORD, (seed + _P2) & _WORD, seed, (seed - _P1) & _WORD]
        while at <= length - 32:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        state = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _WORD
        for lane in lanes:
            state = ((state ^ _round(0, lane)) * _P1 + _P4) & _WORD
    else:
        state = (seed + _P5) & _WORD
    state = (state + length) & _WORD
    while at + 8 <= length:
        word = _round(0, int.from_bytes(data[at : at + 8], "little"))
        state, at = (_rotated(state ^ word, 27) * _P1 + _P4) & _WORD, at + 8
    if at + 4 <= length:
        word = int.from_bytes(data[at : at + 4], "little") * _P1 & _WORD
        state, at = (_rotated(state ^ word, 23) * _P2 + _P3) & _WORD, at + 4
    for byte in data[at:]:
        state = _rotated(state ^ (byte * _P5 & _WORD), 11) * _P1 & _WORD
    state = (state ^ (state >> 33)) * _P2 & _WORD
    state = (state ^ (state >> 29)) * _P3 & _WORD
    return state ^ (state >> 32)


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _WORD, 31) * _P1 & _WORD


def _rotated(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) & _WORD
