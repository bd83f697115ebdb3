"""The constants of a SQL `where`, each in the type of the column that it is compared with, so that comparisons are
exact.

The rule is SQL's: a constant that the column's type cannot hold (300 against a tinyint, 1.255 against a decimal(10, 2))
still compares by its value. It is neither rounded nor refused. Where Spark would insert a cast that hides mistakes (a
number against a text), we refuse.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from lakebed.kernel.arrays import is_bytes

_ZONE = re.compile(r"(Z|UTC|[+-]\d\d:?(\d\d)?)$")
_FRACTION = re.compile(r"\.(\d+)")
_UNITS = ("s", "ms", "us", "ns")
_WHOLE_DIGITS = 19
"""Decimal digits of an int64."""
_DECIMAL128_DIGITS, _DECIMAL256_DIGITS = 38, 76


def typed(text: str, quoted: bool, kind: pa.DataType | None) -> pa.Scalar:
    """The value of a constant written as `text`, for a comparison with a column of type `kind` (None: with another
    constant). `quoted` says whether it stood in quotes.

    Its type is `kind` where that holds the value exactly, else a wider one. Raises ValueError (ArrowInvalid is one) for
    what cannot be compared.
    """
    if kind is None:
        return pa.scalar(text) if quoted else _number(text, pa.int64())
    if pa.types.is_dictionary(kind):
        return typed(text, quoted, kind.value_type)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return _number(text, kind)
    if pa.types.is_floating(kind):
        return pa.scalar(float(text)).cast(kind, safe=False)
    if not quoted and not pa.types.is_boolean(kind):
        raise ValueError(f"{text} is a number, the column is {kind}: put it in quotes")
    if is_bytes(kind):
        return pa.scalar(text.encode())
    if pa.types.is_timestamp(kind):
        return _timestamp(text, kind)
    if pa.types.is_time(kind):
        return _time(text, kind)
    return pa.scalar(text).cast(kind)


def of_hex(digits: str) -> pa.Scalar:
    """The bytes that `X'...'` means. An odd number of digits gets a 0 in front, as in Spark. ValueError for a digit
    that is not hexadecimal."""
    return pa.scalar(bytes.fromhex("0" * (len(digits) % 2) + digits))


def equal_floats(values: list[pa.Scalar]) -> list[pa.Scalar]:
    """The floats that equal one of `values`. Arrow looks values up in a list by their bits, so each zero is there with
    both signs, and NaN, which equals nothing, is left out."""
    zeros = [pa.scalar(zero, value.type) for value in values if value.as_py() == 0 for zero in (0.0, -0.0)]
    others = [value for value in values if value.as_py() != 0 and not math.isnan(value.as_py())]
    return [*others, *zeros]


def exactly(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    """The value in exactly that type. None when the type has no such value, so that no row can equal it."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    try:
        return value.cast(kind)
    except pa.ArrowInvalid:
        return None


def _number(text: str, kind: pa.DataType) -> pa.Scalar:
    try:
        number = Decimal(text.strip())
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not a number") from error
    if not number.is_finite():
        raise ValueError(f"{text!r} is not a number")
    if not number:
        number = Decimal(0)
    if number.adjusted() >= _DECIMAL256_DIGITS:  # before its digits are written out: 1e900000000 has as many
        raise ValueError(f"{text.strip()} has more digits than can be compared")
    if pa.types.is_decimal(kind):
        return _decimal(number, kind.precision - kind.scale, kind.scale)
    if number != number.to_integral_value():
        return _decimal(number, _WHOLE_DIGITS, 0)
    widths = (kind,) if pa.types.is_unsigned_integer(kind) else (kind, pa.int64())
    for width in widths:
        try:
            return pa.scalar(int(number), width)
        except (OverflowError, pa.ArrowInvalid):
            continue
    return _decimal(number, _WHOLE_DIGITS, 0)


def _decimal(number: Decimal, whole: int, scale: int) -> pa.Scalar:
    """The narrowest decimal. It has 256 bits where no decimal of 128 bits holds both it and a column with `whole`
    digits before the point and `scale` after it."""
    _, digits, power = number.as_tuple()  # not normalize(), which rounds to the precision of the decimal context
    exponent = int(power)
    own_scale = max(0, -exponent)
    own_whole = max(0, len(digits) + exponent)
    needed = max(whole, own_whole) + max(scale, own_scale)
    if needed > _DECIMAL256_DIGITS:
        raise ValueError(f"{number} has more digits than can be compared")
    precision = max(1, own_whole + own_scale)
    wide = needed > _DECIMAL128_DIGITS
    return pa.scalar(number, (pa.decimal256 if wide else pa.decimal128)(precision, own_scale))


def _time(text: str, kind: pa.DataType) -> pa.Scalar:
    """A time of day with its whole fraction, to nanoseconds."""
    moment = _timestamp(f"1970-01-01 {text.strip()}", pa.timestamp(kind.unit))
    unit = moment.type.unit
    return pa.scalar(moment.value, pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit))


def _timestamp(text: str, kind: pa.TimestampType) -> pa.Scalar:
    """A timestamp with its whole fraction, to nanoseconds. Text without a zone is UTC against a column with one."""
    text = text.strip()
    clock = text[10:]
    zone = _ZONE.search(clock)
    fraction = _FRACTION.search(clock)
    digits = len(fraction[1].rstrip("0")) if fraction else 0
    unit = max(kind.unit, _UNITS[-(-min(digits, 9) // 3)], key=_UNITS.index)
    if zone and kind.tz is None:
        raise ValueError(f"{text!r} names a time zone, the column has none")
    if zone:
        return pa.scalar(text.replace("UTC", "Z").replace(" Z", "Z")).cast(pa.timestamp(unit, "UTC"))
    naive = pa.scalar(text).cast(pa.timestamp(unit))
    return naive if kind.tz is None else pa.scalar(naive.value, pa.timestamp(unit, "UTC"))
