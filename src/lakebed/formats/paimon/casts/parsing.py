"""Casts of texts to booleans, numbers, dates, times and timestamps.

Rules: Paimon's StringTo…CastRules over BinaryStringUtils and DateTimeUtils. A text that they cannot parse fails the
read in Paimon, and here too: every cast raises SchemaError with the text.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.casts.columns import column_of, flags, longs, per_second, present, refuse
from lakebed.formats.paimon.casts.numbers import BITS, narrowed
from lakebed.formats.paimon.casts.zones import to_moment
from lakebed.formats.paimon.codec.types import DataType, arrow_type
from lakebed.kernel.arrays import Int64s, to_numpy

_BLANK = "[\\x00-\\x20]*"  # the characters that Java's trim removes
_WHOLE = r"^(?P<sign>[+-]?)(?P<digits>[0-9]*)(?:\.[0-9]*)?$"
_FLOAT = (
    rf"^{_BLANK}(?P<number>[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))"
    rf"(?P<letter>[fFdD]?){_BLANK}$"
)
_DATE = rf"^{_BLANK}(?P<y>[0-9]+){_BLANK}(?:-{_BLANK}(?P<m>[0-9]+){_BLANK}(?:-{_BLANK}(?P<d>[0-9]+){_BLANK})?)?$"
_CLOCK = (
    rf"(?s)^{_BLANK}(?P<h>[0-9]+){_BLANK}"
    rf"(?::{_BLANK}(?P<m>[0-9]+){_BLANK}(?::{_BLANK}(?P<s>[0-9]+){_BLANK}(?P<f>\.[^+-]*)?)?)?"
    rf"(?:(?P<sign>[+-]){_BLANK}(?P<zh>[0-9]+){_BLANK}(?::{_BLANK}(?P<zm>[0-9]+){_BLANK})?)?$"
)
_HEXADECIMAL = rf"^{_BLANK}[+-]?0[xX]"
_TIMESTAMP = (
    r"^(?P<y>[0-9]{4}|\+[0-9]{5,9})-(?P<m>[0-9]{1,2})(?P<m2>[0-9]*)-(?P<d>[0-9]{1,2})(?P<d2>[0-9]*)"
    r"(?: (?P<h>[0-9]{1,2})(?P<h2>[0-9]*):(?P<i>[0-9]{1,2})(?P<i2>[0-9]*):(?P<s>[0-9]{1,2})(?P<s2>[0-9]*)"
    r"(?:\.(?P<f>[0-9]{0,9}))?)?$"
)
"""Java's pattern reads two digits, and then optional digits that must repeat the same number."""
_TRUE, _FALSE = ["t", "true", "y", "yes", "1"], ["f", "false", "n", "no", "0"]
_DAY_MILLIS = 86_400_000


def to_boolean(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Texts as booleans: t, true, y, yes, 1 and their opposites, in any case."""
    lower = pc.utf8_lower(column)
    true, false = (pc.is_in(lower, pa.array(words)) for words in (_TRUE, _FALSE))
    refuse(column, present(column) & ~flags(pc.or_(true, false)), source, wanted)
    return column_of(flags(true), present(column), pa.bool_())


def to_whole(column: pa.Array, source: DataType, wanted: DataType, root: str = "") -> pa.Array:
    """Texts as whole numbers. A fraction is cut off. SchemaError for a number outside the range of the type."""
    root = root or wanted.root
    parts = pc.extract_regex(column, _WHOLE)
    digits = pc.struct_field(parts, "digits")
    bare = pc.is_in(column, pa.array(["", "+", "-"]))
    unreadable = flags(pc.or_(pc.is_null(parts), bare))
    refuse(column, present(column) & unreadable, source, wanted)
    digits = pc.utf8_ltrim(digits.fill_null(""), "0")
    negative = flags(pc.equal(pc.struct_field(parts, "sign"), "-"))
    great = longs(pc.binary_length(digits)) > 19
    sizes = pc.if_else(pa.array(great), "0", pc.if_else(pc.equal(digits, ""), "0", digits)).cast(pa.uint64())
    size = to_numpy(sizes)
    bound = np.where(negative, np.uint64(2 ** (BITS[root] - 1)), np.uint64(2 ** (BITS[root] - 1) - 1))
    refuse(column, present(column) & (great | (size > bound)), source, wanted)
    signed = size.astype(np.int64)  # 2^63 becomes its own negative
    return narrowed(np.where(negative, -signed, signed), column, root)


def to_float(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Texts as floats, as Java's parseDouble reads them, but without hexadecimal digits."""
    parts = pc.extract_regex(column, _FLOAT)
    number = pc.struct_field(parts, "number")
    bare = pc.and_(pc.not_equal(pc.struct_field(parts, "letter"), ""), pc.match_substring_regex(number, "[Ny]$"))
    wrong = present(column) & flags(pc.or_kleene(pc.is_null(parts), bare))
    hexadecimal = flags(pc.match_substring_regex(column, _HEXADECIMAL))
    refuse(column, wrong & ~hexadecimal, source, wanted)
    refuse(column, wrong, source, wanted, "lakebed does not read hexadecimal numbers")
    return pc.utf8_ltrim(number, "+").cast(arrow_type(wanted))


def to_date(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Texts as dates: `2024-1-10`, which a blank and a time may follow. A whole number is days since 1970."""
    numeric = _numeric(column)
    days = longs(to_whole(pc.if_else(numeric, column, "0"), source, wanted, "INT"))
    cut = pc.replace_substring_regex(column, r"(?s)^([^ ]+) .*$", r"\1")
    parts = pc.extract_regex(cut, _DATE)
    year, month, day = (_part(parts, name, missing) for name, missing in (("y", 0), ("m", 1), ("d", 1)))
    valid = (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= _month_length(year, month))
    wrong = flags(pc.is_null(parts)) | ~valid
    refuse(column, present(column) & ~flags(numeric) & wrong, source, wanted)
    dates = np.where(flags(numeric), days, _days(year, np.where(valid, month, 1), day))
    return column_of(dates, present(column), pa.date32())


def to_time(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Texts as times: `10:20:30.123`, with an optional offset that is added. A whole number is milliseconds."""
    numeric = _numeric(column)
    millis = longs(to_whole(pc.if_else(numeric, column, "0"), source, wanted, "INT"))
    parts = pc.extract_regex(column, _CLOCK)
    hour, minute, second, zone_hour, zone_minute = (_part(parts, name, 0) for name in ("h", "m", "s", "zh", "zm"))
    sign = np.where(flags(pc.equal(pc.struct_field(parts, "sign"), "-")), -1, 1)
    unseen = pc.and_(pc.not_equal(pc.struct_field(parts, "zm"), ""), pc.equal(pc.struct_field(parts, "s"), ""))
    wrong = flags(pc.is_null(parts)) | flags(unseen)
    refuse(column, present(column) & ~flags(numeric) & wrong, source, wanted)
    minutes = (hour + sign * zone_hour) * 60 + minute + sign * zone_minute
    times = np.where(flags(numeric), millis, minutes * 60_000 + second * 1000 + _rounded_millis(parts))
    out = present(column) & ((times < 0) | (times >= _DAY_MILLIS))
    refuse(column, out, source, wanted, "lakebed cannot represent a time outside the day")
    return column_of(times, present(column), pa.time32("ms"))


def to_timestamp(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Texts as timestamps: `2024-01-10 10:20:30.123`, in the local time zone where the type has one.

    In a type without time zone, a whole number counts the units of the type since 1970, if its precision is 0, 3, 6 or
    9.
    """
    local = wanted.root == "TIMESTAMP_LTZ"
    kind = pa.timestamp(arrow_type(wanted).unit)
    numeric = pa.array(np.zeros(len(column), np.bool_)) if local else _numeric(column)
    refuse(column, flags(numeric) & (wanted.precision % 3 != 0), source, wanted)
    numbers = longs(to_whole(pc.if_else(numeric, column, "0"), source, wanted, "BIGINT"))
    if wanted.precision == 0:
        with np.errstate(over="ignore"):
            numbers = numbers * 1000
    parts = pc.extract_regex(column, _TIMESTAMP)
    year, month, day, hour, minute, second = (_part(parts, name, 0) for name in ("y", "m", "d", "h", "i", "s"))
    month, day = (np.where(flags(pc.is_null(parts)), 1, number) for number in (month, day))
    midnight = (hour == 24) & (minute == 0) & (second == 0) & (_part(parts, "f", 0) == 0)
    valid = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    valid &= ((hour < 24) | midnight) & (minute < 60) & (second < 60)
    for name, number in (("m2", month), ("d2", day), ("h2", hour), ("i2", minute), ("s2", second)):
        valid &= flags(pc.equal(pc.struct_field(parts, name), "")) | (_part(parts, name, 0) == number)
    refuse(column, present(column) & ~flags(numeric) & (flags(pc.is_null(parts)) | ~valid), source, wanted)
    month = np.where(valid, month, 1)
    days = _days(
        year, month, np.minimum(day, _month_length(year, month))
    )  # Java reads February 30 as the last day of February
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    fraction = longs(pc.utf8_rpad(pc.struct_field(parts, "f"), 9, "0").cast(pa.int64()))
    fraction = fraction // 10 ** (9 - wanted.precision) * 10 ** (9 - wanted.precision)
    units = per_second(kind)
    far = present(column) & ~flags(numeric) & (abs(seconds) > (2**63 - 1) // units - 1)
    refuse(column, far, source, wanted, "lakebed cannot represent a time so far from 1970")
    units_since = np.where(flags(numeric), numbers, np.where(far, 0, seconds) * units + fraction // (10**9 // units))
    times = column_of(units_since, present(column), kind)
    return to_moment(times) if local else times


def _numeric(column: pa.Array) -> pa.Array:
    return pc.match_substring_regex(column, "^-?[0-9]+$")


def _part(parts: pa.Array, name: str, missing: int) -> Int64s:
    """One part of each text as a number. More than nine digits are out of any range, so they are cut off."""
    text = pc.utf8_slice_codeunits(pc.utf8_ltrim(pc.struct_field(parts, name), "+0"), 0, 9)
    absent = flags(pc.equal(pc.struct_field(parts, name), "")) | flags(pc.is_null(parts))
    return np.where(absent, missing, longs(pc.if_else(pc.equal(text, ""), "0", text).cast(pa.int64())))


def _rounded_millis(parts: pa.Array) -> Int64s:
    """The first three digits of a fraction, rounded by the fourth. Any other character counts as 0."""
    fraction = pc.utf8_trim(pc.utf8_slice_codeunits(pc.struct_field(parts, "f"), 1), "".join(map(chr, range(33))))
    digits = pc.replace_substring_regex(pc.utf8_slice_codeunits(fraction, 0, 3), r"(?s)[^0-9]", "0")
    up = flags(pc.greater_equal(pc.utf8_slice_codeunits(fraction, 3, 4), "5"))
    return longs(pc.utf8_rpad(digits, 3, "0").cast(pa.int64())) + up


def _month_length(year: Int64s, month: Int64s) -> Int64s:
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    days: Int64s = lengths[np.clip(month, 1, 12) - 1] + (leap & (month == 2))
    return days


def _days(year: Int64s, month: Int64s, day: Int64s) -> Int64s:
    """Dates of the Gregorian calendar as days since 1970."""
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days: Int64s = months.astype("datetime64[D]").astype(np.int64) + day - 1
    return days
