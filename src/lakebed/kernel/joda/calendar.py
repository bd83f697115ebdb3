"""Days since 1970 as dates of the calendar without a beginning or an end, and back: on whole columns.

Rule: the proleptic Gregorian calendar, as Joda's `ISOChronology` has it and numpy's dates. The year before 1 is 0.
"""

from __future__ import annotations

from lakebed.kernel.arrays import Int64s


def days_of(years: Int64s, months: Int64s, days: Int64s) -> Int64s:
    """Days since 1970-01-01 of dates."""
    first: Int64s = ((years - 1970) * 12 + months - 1).astype("M8[M]").astype("M8[D]").astype("i8")
    return first + days - 1


def dates_of(since: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Years, months and days of the month of days since 1970-01-01."""
    month = since.astype("M8[D]").astype("M8[M]")
    months: Int64s = month.astype("i8")
    first: Int64s = month.astype("M8[D]").astype("i8")
    return months // 12 + 1970, months % 12 + 1, since - first + 1
