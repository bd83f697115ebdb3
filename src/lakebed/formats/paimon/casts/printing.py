"""Casts to texts and to bytes.

Rules: Paimon's …ToStringCastRules, which print as Java does: floats by Double.toString, decimals in plain digits, and
dates, times and timestamps by DateTimeUtils. BinaryStringUtils.toCharacterString and toBinaryString cut and pad values
to a length. Values that Paimon does not cut to the length of their new type (bytes cast to text, nested values) keep
their length.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.casts.columns import flags, longs, per_second, present, refuse
from lakebed.formats.paimon.casts.decimals import unscaled_texts
from lakebed.formats.paimon.casts.zones import to_wall_clock
from lakebed.formats.paimon.codec.types import MAX_LENGTH, DataType
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.java_floats import java_texts


def text_of(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Values of any type but text, as texts. The length of the wanted type is not applied."""
    match source.root:
        case "BOOLEAN" | "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return column.cast(pa.string())
        case "FLOAT" | "DOUBLE":
            return java_texts(column)
        case "DECIMAL":
            return _decimal_texts(column, source.scale)
        case "DATE":
            return _date_texts(column, longs(column), source, wanted)
        case "TIME":
            return _time_texts(column, source.precision)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _timestamp_texts(column, source, wanted)
        case _:
            return _text_of_bytes(column, source, wanted)


def sized_text(column: pa.Array, wanted: DataType) -> pa.Array:
    """Texts cut to the length of a type in characters, and for CHAR padded with blanks."""
    if wanted.length < MAX_LENGTH:
        column = pc.utf8_slice_codeunits(column, 0, wanted.length)
    return pc.utf8_rpad(column, wanted.length, " ") if wanted.root == "CHAR" else column


def sized_bytes(column: pa.Array, wanted: DataType) -> pa.Array:
    """Bytes cut to the length of a type, and for BINARY padded with zero bytes."""
    if wanted.length < MAX_LENGTH:
        column = pc.binary_slice(column, 0, wanted.length)
    if wanted.root != "BINARY":
        return column
    room = pa.array(wanted.length - longs(pc.binary_length(column)))
    return pc.binary_join_element_wise(column, pc.binary_repeat(pa.scalar(b"\0"), room), b"")


def _text_of_bytes(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = [not _is_text(value) for value in pc.unique(column)]  # only to name the first value
        first = flags(pc.is_in(column, pc.unique(column).filter(pa.array(wrong))))
        refuse(column, first, source, wanted, "the bytes are not UTF-8 text")
        raise


def _is_text(value: pa.Scalar) -> bool:
    try:
        (value.as_py() or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _decimal_texts(column: pa.Array, scale: int) -> pa.Array:
    unscaled = unscaled_texts(column)
    if not scale:
        return unscaled
    digits = pc.utf8_lpad(pc.utf8_ltrim(unscaled, "-"), scale + 1, "0")
    sign = pc.if_else(pc.starts_with(unscaled, "-"), "-", "")
    whole, part = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, whole, ""), part, ".")


def _date_texts(column: pa.Array, days: Int64s, source: DataType, wanted: DataType) -> pa.Array:
    """Days since 1970 as dates. Java prints the last four digits of a year."""
    dates = days.astype("datetime64[D]")
    years, months = dates.astype("datetime64[Y]"), dates.astype("datetime64[M]")
    year = years.astype(np.int64) + 1970
    refuse(column, present(column) & (year < 0), source, wanted, "the year is before year 0")
    month = months.astype(np.int64) % 12 + 1
    day = (dates - months.astype("datetime64[D]")).astype(np.int64) + 1
    return _masked(_in_pairs(year % 10_000 * 10_000 + month * 100 + day, (4, 6, 8), "-"), column)


def _time_texts(column: pa.Array, precision: int) -> pa.Array:
    millis = longs(column)
    clock = _masked(_clock(millis // 1000), column)
    if not precision:
        return clock
    fraction = pc.utf8_rtrim(_digits(millis % 1000, 3), "0")
    fraction = pc.utf8_slice_codeunits(pc.if_else(pc.equal(fraction, ""), "0", fraction), 0, precision)
    return pc.binary_join_element_wise(clock, fraction, ".")


def _timestamp_texts(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Timestamps as texts. The fraction has as many digits as the precision, and more where they are not zero."""
    local = to_wall_clock(column) if column.type.tz else column
    units = per_second(local.type)
    seconds, rest = longs(local) // units, longs(local) % units * (10**9 // units)
    days = _date_texts(column, seconds // 86_400, source, wanted)
    whole_seconds = pc.binary_join_element_wise(days, _clock(seconds % 86_400), " ")
    fraction = _digits(rest, 9)
    further = pc.utf8_rtrim(pc.utf8_slice_codeunits(fraction, source.precision), "0")
    if source.precision:
        fraction = pc.utf8_slice_codeunits(fraction, 0, source.precision)
        fraction = pc.binary_join_element_wise(fraction, further, "")
    else:
        fraction = further
    dotted = pc.if_else(pc.equal(fraction, ""), "", pc.binary_join_element_wise(".", fraction, ""))
    return pc.binary_join_element_wise(whole_seconds, dotted, "")


def _clock(seconds: Int64s) -> pa.Array:
    number = seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60
    return _in_pairs(number, (2, 4, 6), ":")


def _in_pairs(numbers: Int64s, ends: tuple[int, int, int], between: str) -> pa.Array:
    digits = _digits(numbers, ends[2])
    starts = (0, ends[0], ends[1])
    parts = [pc.utf8_slice_codeunits(digits, start, end) for start, end in zip(starts, ends, strict=True)]
    return pc.binary_join_element_wise(*parts, between)


def _digits(numbers: Int64s, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def _masked(texts: pa.Array, column: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))
