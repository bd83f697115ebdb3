"""Floating point numbers as Java writes them: in names of folders, and as texts, in tables of Java engines.

Rules: Java's `Double.toString` and `Float.toString`. Since release 19 they give the fewest digits that distinguish a
number from its neighbours, at least two, and among these the digits nearest to the number. Earlier releases, on which
most engines still run, end their search digit by digit by other rules. They often give one digit more, or a different
last digit.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

_PARTS = r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<fraction>\d+))?(?:e\+?(?P<exponent>-?\d+))?$"


def java_texts(column: pa.Array) -> pa.Array:
    """A column of float32 or float64 as texts of Java 19 and later. Null stays null."""
    texts = _two_digits_at_least(column, column.cast(pa.string()))
    parts = pc.extract_regex(texts, _PARTS)
    sign, whole, fraction, exponent = (
        pc.struct_field(parts, name) for name in ("sign", "whole", "fraction", "exponent")
    )
    padded = pc.binary_join_element_wise(whole, fraction, "")
    digits = pc.utf8_ltrim(padded, "0")
    shift = pc.fill_null(pc.if_else(pc.equal(exponent, ""), "0", exponent), "0").cast(pa.int32())
    leading = pc.subtract(pc.utf8_length(padded), pc.utf8_length(digits))
    place = pc.subtract(pc.subtract(pc.add(pc.utf8_length(whole), shift), leading), 1)
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(digits, 1), "0")
    first = pc.utf8_slice_codeunits(digits, 0, 1)
    scientific = pc.binary_join_element_wise(
        sign, first, ".", pc.if_else(pc.equal(rest, ""), "0", rest), "E", place.cast(pa.string()), ""
    )
    plain = pc.binary_join_element_wise(sign, whole, ".", pc.if_else(pc.equal(fraction, ""), "0", fraction), "")
    size = pc.abs(column)
    is_plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    texts = pc.if_else(is_plain, plain, scientific)
    infinite = pc.if_else(pc.greater(column, 0), "Infinity", "-Infinity")
    return pc.if_else(pc.is_nan(column), "NaN", pc.if_else(pc.is_inf(column), infinite, texts))


def _two_digits_at_least(column: pa.Array, texts: pa.Array) -> pa.Array:
    """Give the tiniest numbers, which one digit would distinguish, their nearest two digits."""
    tiny = pc.and_(
        pc.less(pc.abs(column), 1e-320 if pa.types.is_float64(column.type) else 1e-43), pc.not_equal(column, 0)
    )
    if not pc.any(tiny).as_py():
        return texts
    few = {value: f"{value:.1e}" for value in pc.unique(column.filter(tiny)).to_pylist()}  # at most about 2,000 numbers
    single = pa.array(list(few), column.type)
    better = pa.array(list(few.values())).take(pc.index_in(column, single))
    shortest = pc.match_substring_regex(texts, r"^-?\de")
    if not pa.types.is_float64(column.type):  # Arrow's text of the tiniest float32 is 0
        shortest = pc.or_(shortest, pc.match_substring_regex(texts, r"^-?0$"))
    return pc.if_else(pc.and_(tiny, shortest), better, texts)


def early_java_text(value: float, single: bool) -> str:
    """One number as Java's releases before 19 write it. `single` says that it is a float32."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    digits, point = _early_digits(abs(value), single)
    if 0 < point < 8:
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    if -3 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _early_digits(value: float, single: bool) -> tuple[str, int]:
    """The digits of a positive number, and how many of them are before the point, which may be outside the digits."""
    fraction, exponent, precision = _split(value, single)
    if exponent <= 62 and value == int(value):
        return _whole_digits(int(value), exponent, precision)
    bits = fraction.bit_length()
    below = max(0, bits - exponent - 1)  # binary digits after the point
    scaled = math.ldexp(fraction, 1 - bits)
    power = math.floor((scaled - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)
    # the number is over / under, and its neighbours are half / under away, all scaled by 10**power
    over_5, under_5 = max(0, -power), max(0, power)
    over_2, under_2 = over_5 + below + exponent, under_5 + below
    half_2 = over_2 - precision
    over_2 -= bits - 1
    common = min(over_2, under_2)
    over_2, under_2, half_2 = over_2 - common, under_2 - common, half_2 - common
    if bits == 1:  # the lower neighbour of a power of two is nearer
        half_2 -= 1
    if half_2 < 0:
        over_2, under_2, half_2 = over_2 - half_2, under_2 - half_2, 0
    size = max(bits + over_2 + _bits_of_power(over_5), under_2 + 1 + _bits_of_power(under_5 + 1))
    over, under, half = fraction * 5**over_5 << over_2, 5**under_5 << under_2, 5**over_5 << half_2
    return _search(over, under, half, power, size)


def _split(value: float, single: bool) -> tuple[int, int, int]:
    """The odd part of a number, the exponent of its highest bit, and how many bits its type has for it."""
    mantissa, exponent = math.frexp(value)
    precision, least = (24, -126) if single else (53, -1022)
    fraction = int(math.ldexp(mantissa, 53))
    precision -= max(0, least - (exponent - 1))
    return fraction >> ((fraction & -fraction).bit_length() - 1), exponent - 1, precision


def _whole_digits(number: int, exponent: int, precision: int) -> tuple[str, int]:
    """The digits of a whole number of at most 63 bits, without the last ones that its type cannot represent."""
    beyond = exponent - precision - 1
    unknown = int(beyond * math.log10(2)) if exponent > precision and beyond > 1 else 0
    if unknown:
        number, rest = divmod(number, 10**unknown)
        number += rest >= 10**unknown // 2
    text = str(number)
    return text.rstrip("0"), len(text) + unknown


def _bits_of_power(exponent: int) -> int:
    """The number of bits in 5**exponent; an upper bound where there are many."""
    return (5**exponent).bit_length() if 0 < exponent < 27 else 3 * exponent


def _search(over: int, under: int, half: int, power: int, size: int) -> tuple[str, int]:
    """Find digits until the remainder is less than half the distance to a neighbour."""
    word = 32 if size < 32 else 64 if size < 64 else 0
    tens, digits = under * 10, ""

    def step() -> tuple[int, bool, bool]:
        nonlocal over, half
        digit, over = divmod(over, under)
        over, half = over * 10, _wrapped(half * 10, word)
        if word and half <= 0:
            return digit, True, True
        total = _wrapped(over + half, word)
        return digit, over < half, total > tens if word else total >= tens

    digit, low, high = step()
    if digit == 0 and not high:
        power -= 1
    else:
        digits = str(digit)
    if power < -3 or power >= 8:  # the form with an exponent has at least two digits
        low = high = False
    while not low and not high:
        digit, low, high = step()
        digits += str(digit)
    last = 2 * over - tens
    if high and (not low or last > 0 or (last == 0 and digit % 2)):
        rounded = str(int(digits) + 1).rjust(len(digits), "0")
        if len(rounded) > len(digits):
            power += 1
        digits = rounded[: len(digits)]
    return digits, power + 1


def _wrapped(number: int, word: int) -> int:
    """A number after overflow in a signed word of `word` bits; 0 stands for no limit."""
    return (number + (1 << word - 1)) % (1 << word) - (1 << word - 1) if word else number
