"""Files of large values (`.blob`): where each value lies.

Rules: Paimon's BlobFormatWriter, BlobFileMeta and DeltaVarintCompressor. Records follow each other: a magic number, the
value, the record's length and a checksum. An index and a footer of five bytes end the file. The index has the length of
each record, each as the difference to the one before it, zigzag, in groups of seven bits. Two lengths say that there is
no record: a null, or a value that an older file has.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.kernel.arrays import Int64s, from_numpy

FOOTER_BYTES = 5
NULL, ELSEWHERE = -1, -2
"""Lengths of a row whose value is null, and of one whose value an older file has."""
_VERSION = 1
_MAGIC = 1481511375
_BEFORE, _AFTER = 4, 12
"""Bytes of a record before and after its value."""
_MOST_BYTES = 9


def index_bytes(footer: bytes) -> int:
    """The size of the index, by the footer. Raises CorruptError, UnsupportedError for a newer version."""
    if len(footer) != FOOTER_BYTES:
        raise CorruptError("a file of large values has no footer")
    size, version = struct.unpack("<iB", footer)
    if version != _VERSION:
        raise UnsupportedError(f"a file of large values has version {version}", why=f"lakebed reads version {_VERSION}")
    if size < 0:
        raise CorruptError("a file of large values has an index of negative size")
    return int(size)


def record_lengths(index: bytes, data_bytes: int) -> Int64s:
    """The length of each row's record, NULL or ELSEWHERE. CorruptError unless the records fill `data_bytes`."""
    data = np.frombuffer(index, np.uint8)
    ends = np.flatnonzero(data < 0x80)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        raise CorruptError("the index of a file of large values is cut short")
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    if len(ends) and (ends - starts).max() >= _MOST_BYTES:
        raise CorruptError("the index of a file of large values has a number of too many bytes")
    places = np.arange(len(data)) - np.repeat(starts, ends - starts + 1)
    groups = (data & 0x7F).astype(np.int64) << (7 * places)
    coded = np.add.reduceat(groups, starts) if len(starts) else groups
    lengths: Int64s = np.cumsum((coded >> 1) ^ -(coded & 1))
    records = lengths[lengths >= 0]
    if (lengths < ELSEWHERE).any() or (records < _BEFORE + _AFTER).any() or records.sum() != data_bytes:
        raise CorruptError("the index of a file of large values does not fit the file")
    return lengths


def values_in(data: bytes, starts: Int64s, lengths: Int64s) -> pa.Array:
    """The values of records that begin at `starts` in some bytes, ascending. CorruptError where there is no record."""
    raw = np.frombuffer(data, np.uint8)
    if not len(starts):
        return pa.array([], pa.binary())
    if starts[-1] + lengths[-1] > len(raw):
        raise CorruptError("a file of large values is cut short")
    magic = raw[starts[:, None] + np.arange(_BEFORE)].copy().view("<u4")
    if (magic != _MAGIC).any():
        raise CorruptError("a file of large values has no record where its index says so")
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[::2], offsets[1::2] = starts + _BEFORE, starts + lengths - _AFTER
    count = len(offsets) - 1  # every second element is what lies between two values
    elements = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return elements.take(from_numpy(np.arange(0, count, 2)))
