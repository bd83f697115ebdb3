"""Decimals as whole numbers, on whole columns.

Two forms: the bytes of Java's BigInteger (big-endian two's complement, as short as possible), and Python's integers,
for arithmetic for which no column type is wide enough.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import AnyArray, Bools, Int64s, UInt8s, UInt64s

WIDTH = 16
"""The bytes of the largest decimal."""


_LOW = (1 << 64) - 1


def decimal_bytes(column: pa.Array) -> tuple[UInt8s, Int64s]:
    """The bytes of the unscaled numbers in a decimal128 array, and the length of each.

    The bytes of a number stand at the left of its sixteen; the rest is 0. Null rows have meaningless values.
    """
    first, second, lengths = decimal_words(column)
    return np.stack([first, second], axis=1).view(np.uint8), lengths


def decimal_words(column: pa.Array) -> tuple[UInt64s, UInt64s, Int64s]:
    """What `decimal_bytes` gives, as two words per number, each with its first byte lowest."""
    low, high = decimal_halves(column)
    negative = high < 0
    lengths = _bit_length(low ^ -negative.astype(np.uint64))
    if not (high == low.view(np.int64) >> 63).all():  # otherwise eight bytes hold every number
        upper = (high ^ -negative.astype(np.int64)).view(np.uint64)
        lengths = np.where(upper > 0, _bit_length(upper) + 64, lengths)
    lengths = lengths // 8 + 1  # the sign takes a bit
    spare = (8 * (WIDTH - lengths)).astype(np.uint64)
    if int(lengths.max(initial=0)) <= 8:
        return (low << (spare - np.uint64(64))).byteswap(), np.zeros(len(low), np.uint64), lengths
    short, inside = spare >= 64, spare % np.uint64(64)
    carried = np.where(inside > 0, low >> ((np.uint64(64) - inside) % np.uint64(64)), np.uint64(0))
    first = np.where(short, low << inside, (high.view(np.uint64) << inside) | carried)
    return first.byteswap(), np.where(short, np.uint64(0), low << inside).byteswap(), lengths


def decimal_halves(column: pa.Array) -> tuple[UInt64s, Int64s]:
    """The lower and the upper eight bytes of the unscaled numbers in a decimal128 array."""
    words = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
    return words[::2], words[1::2].view(np.int64)


def decimal_numbers(column: pa.Array) -> AnyArray:
    """The unscaled numbers in a decimal128 array, as Python integers. Null rows have meaningless values."""
    low, high = decimal_halves(column)
    numbers: AnyArray = (high.astype(object) << 64) | low.astype(object)
    return numbers


def decimal_array(numbers: AnyArray, valid: Bools, kind: pa.DataType) -> pa.Array:
    """A decimal128 array of type `kind` from unscaled numbers, which must fit it. Null where `valid` is false."""
    words = np.empty((len(numbers), 2), np.uint64)
    words[:, 0], words[:, 1] = numbers & _LOW, (numbers >> 64) & _LOW
    bits = np.packbits(valid, bitorder="little").tobytes()
    return pa.Array.from_buffers(kind, len(numbers), [pa.py_buffer(bits), pa.py_buffer(words.tobytes())])


def _bit_length(numbers: UInt64s) -> Int64s:
    """The number of bits up to the highest one that is set. The bit below it is cleared first, so that the conversion
    to float does not round up."""
    return np.frexp((numbers & ~(numbers >> np.uint64(1))).astype(np.float64))[1].astype(np.int64)
