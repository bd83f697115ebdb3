"""Casts to and from decimals. They round half away from zero, and give null where the precision is too small.

Rules: Paimon's Decimal.fromBigDecimal, DecimalUtils, DecimalToDecimalCastRule, NumericPrimitiveToDecimalCastRule,
DecimalToNumericPrimitiveCastRule, StringToDecimalCastRule.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.casts.columns import flags, longs, present, refuse
from lakebed.formats.paimon.codec.types import DataType
from lakebed.kernel.arrays import AnyArray, Bools, Float64s, Int64s, UInt64s, to_numpy

_DIGITS = 76
"""The precision of Arrow's widest decimal, which can hold any decimal of a table in any scale."""
_WIDE = pa.decimal256(_DIGITS, 0)
_MOST = 2**31 - 100
"""The greatest power of ten of Java's BigDecimal."""
_UNROUNDED = pa.decimal256(40, 0)
_ENOUGH = 41
_COMPACT = 18
"""The most digits that Paimon stores as a long. Such decimals become doubles in another way."""
_NUMBER = r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<power>[+-]?[0-9]{1,10}))?$"


def rescaled(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Decimals in another precision and scale."""
    wide = column.cast(pa.decimal256(_DIGITS, source.scale))
    if wanted.scale < source.scale:
        wide = pc.round(wide, wanted.scale, "half_towards_infinity")
    return _fitted(wide.cast(pa.decimal256(_DIGITS, wanted.scale)), wanted)


def of_whole(numbers: Int64s, column: pa.Array, wanted: DataType) -> pa.Array:
    """Whole numbers as decimals."""
    wide = pa.array(numbers, mask=~present(column)).cast(_WIDE)
    return _fitted(wide.cast(pa.decimal256(_DIGITS, wanted.scale)), wanted)


def of_floats(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Floats as decimals, by their shortest digits as doubles. Raises SchemaError for NaN and infinities."""
    doubles = column.cast(pa.float64())
    refuse(column, flags(pc.invert(pc.is_finite(doubles))), source, wanted)
    return of_texts(doubles.cast(pa.string()), source, wanted)


def of_texts(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Texts as decimals, as Java's BigDecimal reads them. Raises SchemaError for a text that is not a number."""
    parts = pc.extract_regex(column, _NUMBER)
    digits = pc.binary_join_element_wise(pc.struct_field(parts, "whole"), pc.struct_field(parts, "part"), "")
    powers = pc.struct_field(parts, "power")
    power = longs(pc.if_else(pc.equal(powers, ""), "0", pc.utf8_ltrim(powers, "+")).cast(pa.int64()))
    unreadable = flags(pc.is_null(parts)) | (_lengths(digits) == 0) | (abs(power) > _MOST)
    refuse(column, present(column) & unreadable, source, wanted)
    power = power - _lengths(pc.struct_field(parts, "part"))
    negative = flags(pc.equal(pc.struct_field(parts, "sign"), "-"))
    return _of_digits(pc.utf8_ltrim(digits.fill_null(""), "0"), power, negative, present(column), wanted)


def whole_numbers(column: pa.Array, source: DataType) -> Int64s:
    """Decimals cut to whole numbers, of which the lowest 64 bits count."""
    wide = column.cast(pa.decimal256(_DIGITS, source.scale))
    cut = pc.round(wide, 0, "towards_zero").cast(_WIDE)
    numbers: Int64s = np.where(present(column), _words(cut)[:, 0].view(np.int64), 0)
    return numbers


def doubles(column: pa.Array, source: DataType) -> Float64s:
    """Decimals as doubles: short ones by dividing a long by a power of ten, the others by their digits."""
    if source.precision > _COMPACT:
        values = to_numpy(column.cast(pa.string()).cast(pa.float64()).fill_null(0))
        return np.asarray(values, np.float64)
    unscaled = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column)) : 2]
    return np.where(present(column), unscaled, 0).astype(np.float64) / 10.0**source.scale


def unscaled_texts(column: pa.Array) -> pa.Array:
    """The digits of decimals without the point, and with a minus sign where they are negative."""
    plain = pa.Array.from_buffers(pa.decimal128(38, 0), len(column), column.buffers(), column.null_count, column.offset)
    return plain.cast(pa.string())


def _of_digits(digits: pa.Array, power: Int64s, negative: Bools, valid: Bools, wanted: DataType) -> pa.Array:
    """Decimals from digits without leading zeros, times a power of ten."""
    size = _lengths(digits)
    power = power + np.maximum(size - _ENOUGH, 0)  # further digits change nothing, and there may be any number of them
    digits = pc.utf8_slice_codeunits(digits, 0, _ENOUGH)
    size = np.minimum(size, _ENOUGH)
    places = np.where(size > 0, size + power + wanted.scale, 0)  # digits of the unscaled number before rounding
    fits = valid & (places <= wanted.precision + 1)
    shift = np.where(fits & (places >= 0), places - size, 0)
    numbers: pa.Array = pa.nulls(len(digits), _WIDE)
    digits = pc.if_else(pa.array(fits & (places >= 0)), digits, "")
    for step in np.unique(shift):  # at most 80 different steps
        in_step = pa.array(shift == step)
        if step >= 0:
            whole = pc.binary_join_element_wise(digits, "0" * int(step), "")
            up = pa.array(np.zeros(len(digits), np.int64))
        else:
            whole = pc.utf8_slice_codeunits(digits, 0, int(step))
            following = pc.utf8_slice_codeunits(digits, int(step), int(step) + 1 or None)
            up = pc.greater_equal(following, "5").cast(pa.int64())
        whole = pc.if_else(pc.and_(in_step, pc.not_equal(whole, "")), whole, "0").cast(_UNROUNDED)
        numbers = pc.if_else(in_step, pc.add(whole, up.cast(pa.decimal256(19, 0))).cast(_WIDE), numbers)
    numbers = pc.if_else(pa.array(negative), pc.negate(numbers), numbers)
    numbers = pc.if_else(pa.array(fits), numbers, pa.scalar(None, _WIDE))
    return _fitted(_reinterpreted(numbers, pa.decimal256(_DIGITS, wanted.scale)), wanted)


def _fitted(wide: pa.Array, wanted: DataType) -> pa.Array:
    """Wide decimals that already have the wanted scale, in the wanted precision; null where it is too small."""
    words = _words(wide)
    bound = pa.scalar(Decimal(10) ** wanted.precision, _WIDE)
    plain = _reinterpreted(wide, _WIDE)
    fits = flags(pc.and_(pc.less(plain, bound), pc.greater(plain, pc.negate(bound))))
    return _from_words(words[:, :2], fits, pa.decimal128(wanted.precision, wanted.scale))


def _words(wide: pa.Array) -> UInt64s:
    words = np.frombuffer(wide.buffers()[1], np.uint64)[4 * wide.offset : 4 * (wide.offset + len(wide))]
    return words.reshape(-1, 4)


def _reinterpreted(wide: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(wide), wide.buffers(), wide.null_count, wide.offset)


def _from_words(words: AnyArray, valid: Bools, kind: pa.DataType) -> pa.Array:
    bits = np.packbits(valid, bitorder="little").tobytes()
    return pa.Array.from_buffers(kind, len(words), [pa.py_buffer(bits), pa.py_buffer(words.tobytes())])


def _lengths(texts: pa.Array) -> Int64s:
    return longs(pc.binary_length(texts))
