"""Casts between dates, times, timestamps and numbers.

Rules: Paimon's TimestampToTimestampCastRule, TimestampToDateCastRule, TimestampToTimeCastRule,
TimestampToNumericPrimitiveCastRule, DateToTimestampCastRule, TimeToTimestampCastRule, NumericPrimitiveToTimestamp and
DateTimeUtils.truncate, with what is odd in release 1.3.1: before 1970, whole days and digits cut off milliseconds round
towards it, and a fraction of a second whose digits without leading zeros are few enough is not cut at all. Only its
negative times of the day, which are none, are read as later releases read them.
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
    """A timestamp in another precision, or with or without local time zone."""
    if source.root != wanted.root:
        column = to_moment(column) if wanted.root == "TIMESTAMP_LTZ" else to_wall_clock(column)
    numbers = longs(column)
    before, after = per_second(column.type), per_second(arrow_type(wanted))
    if source.precision > wanted.precision:
        made = _cut(numbers, before, after, wanted.precision)
    else:
        made = scaled(column, numbers, after // before, source, wanted)
    return column_of(made, present(column), arrow_type(wanted))


def date_of(column: pa.Array) -> pa.Array:
    """The date of timestamps, in the local time zone where they have one."""
    local = _local(column)
    millis, day = longs(local) // (per_second(local.type) // 1000), _DAY * 1000
    days = millis // day if column.type.tz else towards_zero(millis, day)
    return column_of(days, present(column), pa.date32())


def time_of(column: pa.Array) -> pa.Array:
    """The time of the day of timestamps, in the local time zone where they have one."""
    column = _local(column)
    millis = longs(column) // (per_second(column.type) // 1000)
    return column_of(millis % (_DAY * 1000), present(column), pa.time32("ms"))


def seconds_of(column: pa.Array) -> Int64s:
    """Seconds since 1970, cut towards it."""
    millis = longs(column) // (per_second(column.type) // 1000)
    return towards_zero(millis, 1000)


def of_date(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Midnight of each date, in the local time zone where the timestamp has one."""
    kind = pa.timestamp(arrow_type(wanted).unit)
    made = column_of(scaled(column, longs(column), _DAY * per_second(kind), source, wanted), present(column), kind)
    return to_moment(made) if wanted.root == "TIMESTAMP_LTZ" else made


def of_time(column: pa.Array, wanted: DataType) -> pa.Array:
    """That time on the first of January 1970, in UTC even with local time zone."""
    kind = arrow_type(wanted)
    return column_of(longs(column) * (per_second(kind) // 1000), present(column), kind)


def of_seconds(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Seconds since 1970. With local time zone they become the wall clock time there, taken for UTC: so does Paimon."""
    with np.errstate(over="ignore"):
        millis = longs(column) * 1000  # wraps, as Java's does
    kind = pa.timestamp(arrow_type(wanted).unit)
    if wanted.root == "TIMESTAMP_LTZ":
        millis = longs(to_wall_clock(column_of(millis, present(column), pa.timestamp("ms", "UTC"))))
    made = scaled(column, millis, per_second(kind) // 1000, source, wanted)
    return column_of(made, present(column), arrow_type(wanted))


def towards_zero(numbers: Int64s, divisor: int) -> Int64s:
    """Java's division of whole numbers."""
    made: Int64s = np.where(numbers < 0, -(-numbers // divisor), numbers // divisor)
    return made


def _local(column: pa.Array) -> pa.Array:
    return to_wall_clock(column) if column.type.tz else column


def _cut(numbers: Int64s, before: int, after: int, precision: int) -> Int64s:
    """Moments in `before` units a second with fewer digits, in `after` units a second."""
    nanos = numbers % before * (10**9 // before)
    kept = nanos < 10**precision
    millis, rest = numbers // (before // 1000), nanos % 10**6
    if precision <= 3:
        step = 10 ** (3 - precision)
        return np.where(kept, millis, towards_zero(millis, step) * step)
    step = 10 ** (9 - precision)
    rest = np.where(kept, rest, rest // step * step)
    return millis * (after // 1000) + rest // (10**9 // after)
