"""Casts between dates, times, timestamps and numbers.

Rules: Paimon's TimestampToTimestampCastRule, TimestampToDateCastRule, TimestampToTimeCastRule,
TimestampToNumericPrimitiveCastRule, DateToTimestampCastRule, TimeToTimestampCastRule, NumericPrimitiveToTimestamp and
DateTimeUtils.truncate, with the oddities of release 1.3.1. Before 1970, whole days and the cut of millisecond digits
round towards 1970. A fraction of a second is not cut at all if it has few enough digits without its leading zeros. Only
negative times of the day, which are not valid, are read as later releases read them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon.casts.columns import column_of, longs, per_second, present, scaled
from lakebed.formats.paimon.casts.zones import to_moment, to_wall_clock
from lakebed.formats.paimon.codec.types import DataType, arrow_type
from lakebed.kernel.arrays import Int64s

_DAY = 86_400


def retimed(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Timestamps in another precision, or with the local time zone added or removed."""
    if source.root != wanted.root:
        column = to_moment(column) if wanted.root == "TIMESTAMP_LTZ" else to_wall_clock(column)
    numbers = longs(column)
    before, after = per_second(column.type), per_second(arrow_type(wanted))
    if source.precision > wanted.precision:
        units = _cut(numbers, before, after, wanted.precision)
    else:
        units = scaled(column, numbers, after // before, source, wanted)
    return column_of(units, present(column), arrow_type(wanted))


def date_of(column: pa.Array) -> pa.Array:
    """The dates of timestamps, in the local time zone where the type has one."""
    local = _local(column)
    millis, day = longs(local) // (per_second(local.type) // 1000), _DAY * 1000
    days = millis // day if column.type.tz else towards_zero(millis, day)
    return column_of(days, present(column), pa.date32())


def time_of(column: pa.Array) -> pa.Array:
    """The times of day of timestamps, in the local time zone where the type has one."""
    column = _local(column)
    millis = longs(column) // (per_second(column.type) // 1000)
    return column_of(millis % (_DAY * 1000), present(column), pa.time32("ms"))


def seconds_of(column: pa.Array) -> Int64s:
    """Timestamps as seconds since 1970, rounded towards 1970."""
    millis = longs(column) // (per_second(column.type) // 1000)
    return towards_zero(millis, 1000)


def of_date(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Dates as timestamps at midnight, in the local time zone where the type has one."""
    kind = pa.timestamp(arrow_type(wanted).unit)
    midnights = column_of(scaled(column, longs(column), _DAY * per_second(kind), source, wanted), present(column), kind)
    return to_moment(midnights) if wanted.root == "TIMESTAMP_LTZ" else midnights


def of_time(column: pa.Array, wanted: DataType) -> pa.Array:
    """Times as timestamps on January 1, 1970, in UTC even for a type with local time zone."""
    kind = arrow_type(wanted)
    return column_of(longs(column) * (per_second(kind) // 1000), present(column), kind)


def of_seconds(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Seconds since 1970 as timestamps.

    For a type with local time zone, the result is the local wall clock time taken as UTC, as in Paimon.
    """
    with np.errstate(over="ignore"):
        millis = longs(column) * 1000  # overflows as in Java
    kind = pa.timestamp(arrow_type(wanted).unit)
    if wanted.root == "TIMESTAMP_LTZ":
        millis = longs(to_wall_clock(column_of(millis, present(column), pa.timestamp("ms", "UTC"))))
    units = scaled(column, millis, per_second(kind) // 1000, source, wanted)
    return column_of(units, present(column), arrow_type(wanted))


def towards_zero(numbers: Int64s, divisor: int) -> Int64s:
    """Integer division as in Java, which rounds towards zero."""
    quotients: Int64s = np.where(numbers < 0, -(-numbers // divisor), numbers // divisor)
    return quotients


def _local(column: pa.Array) -> pa.Array:
    return to_wall_clock(column) if column.type.tz else column


def _cut(numbers: Int64s, before: int, after: int, precision: int) -> Int64s:
    """Timestamps cut to `precision` digits, converted from `before` units per second to `after` units per second."""
    nanos = numbers % before * (10**9 // before)
    kept = nanos < 10**precision
    millis, rest = numbers // (before // 1000), nanos % 10**6
    if precision <= 3:
        step = 10 ** (3 - precision)
        return np.where(kept, millis, towards_zero(millis, step) * step)
    step = 10 ** (9 - precision)
    rest = np.where(kept, rest, rest // step * step)
    return millis * (after // 1000) + rest // (10**9 // after)
