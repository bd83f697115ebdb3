"""Days since 1970 as dates of the calendar without a beginning or an end, and back: on whole columns.

Rule: the proleptic Gregorian calendar, as Joda's `ISOChronology` has it. The year before 1 is 0.
"""

from __future__ import annotations

import numpy as np

from lakebed.kernel.arrays import Int64s

_CYCLE = 146_097
"""The days of 400 years."""


def days_of(years: Int64s, months: Int64s, days: Int64s) -> Int64s:
    """Days since 1970-01-01 of dates."""
    shifted = years - (months <= 2)
    cycle = shifted // 400
    of_cycle = shifted - cycle * 400
    of_year = (153 * (months + np.where(months > 2, -3, 9)) + 2) // 5 + days - 1
    found: Int64s = cycle * _CYCLE + of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + of_year - 719_468
    return found


def dates_of(since: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Years, months and days of the month of days since 1970-01-01."""
    shifted = since + 719_468
    cycle = shifted // _CYCLE
    of_cycle = shifted - cycle * _CYCLE
    year = (of_cycle - of_cycle // 1460 + of_cycle // 36_524 - of_cycle // 146_096) // 365
    of_year = of_cycle - (365 * year + year // 4 - year // 100)
    place = (5 * of_year + 2) // 153
    months = place + np.where(place < 10, 3, -9)
    return year + cycle * 400 + (months <= 2), months, of_year - (153 * place + 2) // 5 + 1
