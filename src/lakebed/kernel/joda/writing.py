"""Times as texts, by a pattern. Each distinct text is made once, since these are few where they name partitions.

Rule: Joda's `DateTimeFormatterBuilder` and its printers. A field has at least as many digits as it has letters; `yy`
has two, and `S` that many digits of the second, cut off.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import Int64s, from_numpy
from lakebed.kernel.joda.calendar import dates_of, days_of
from lakebed.kernel.joda.pattern import MONTHS, WEEKDAYS, Field, Token

_DAY, _HOUR, _MINUTE, _SECOND = 86_400_000, 3_600_000, 60_000, 1000
_STEPS = (("S", 1), ("s", _SECOND), ("m", _MINUTE), ("hHkKa", _HOUR))


def texts_of(local: Int64s, offsets: Int64s, tokens: tuple[Token, ...]) -> pa.StringArray:
    """The text of each time. `local` is what clocks show, in milliseconds since 1970, `offsets` how many seconds they
    are ahead of UTC."""
    letters = {token.letter for token in tokens if isinstance(token, Field)}
    step = next((length for names, length in _STEPS if letters & set(names)), _DAY)
    whole = local // step
    if "Z" in letters:
        distinct, at = np.unique(np.stack([whole, offsets], axis=1), axis=0, return_inverse=True)
        whole, offsets = distinct[:, 0], distinct[:, 1]
    else:
        whole, at = np.unique(whole, return_inverse=True)
        offsets = np.zeros(len(whole), np.int64)
    texts = _distinct(whole * step, offsets, tokens)
    return pa.array(texts, pa.string()).take(from_numpy(at.reshape(-1)))


def _distinct(local: Int64s, offsets: Int64s, tokens: tuple[Token, ...]) -> list[str]:
    days = local // _DAY
    years, months, of_month = dates_of(days)
    rows = zip(*(part.tolist() for part in (days, years, months, of_month, local - days * _DAY, offsets)), strict=True)
    return ["".join(_text(token, row) for token in tokens) for row in rows]


def _text(token: Token, row: tuple[int, ...]) -> str:
    if isinstance(token, str):
        return token
    days, year, month, day, time, offset = row
    letter, count = token.letter, token.count
    if letter in "eExw":
        weekday = (days + 3) % 7
        if letter == "E":
            return WEEKDAYS[weekday][: None if count >= 4 else 3]
        if letter == "e":
            return _padded(weekday + 1, count)
        week_year, week = _week(days - weekday + 3)
        return _year(week_year, count) if letter == "x" else _padded(week, count)
    if letter in "yYC":
        if letter == "y":
            return _year(year, count)
        era_year = year if year > 0 else 1 - year
        return _year(era_year, count) if letter == "Y" else _padded(era_year // 100, count)
    if letter == "G":
        return "AD" if year > 0 else "BC"
    if letter == "M" and count >= 3:
        return MONTHS[month - 1][: None if count >= 4 else 3]
    if letter == "S":
        return f"{time % _SECOND:03d}"[:count].ljust(count, "0")
    if letter == "a":
        return "AM" if time < 12 * _HOUR else "PM"
    if letter == "Z":
        return _offset(offset, count)
    hour = time // _HOUR
    numbers = {
        "M": month, "d": day, "H": hour, "k": hour or 24, "K": hour % 12, "h": hour % 12 or 12,
        "m": time // _MINUTE % 60, "s": time // _SECOND % 60,
    }  # fmt: skip
    return _padded(numbers[letter] if letter in numbers else days - _new_year(year) + 1, count)


def _padded(number: int, digits: int) -> str:
    return f"{'-' if number < 0 else ''}{abs(number):0{digits}d}"


def _year(year: int, count: int) -> str:
    return f"{abs(year) % 100:02d}" if count == 2 else _padded(year, count)


def _new_year(year: int) -> int:
    return int(days_of(np.array([year]), np.array([1]), np.array([1]))[0])


def _week(thursday: int) -> tuple[int, int]:
    """The year and number of the week that a Thursday lies in."""
    year = int(dates_of(np.array([thursday]))[0][0])
    return year, (thursday - _new_year(year)) // 7 + 1


def _offset(seconds: int, count: int) -> str:
    sign, (hours, rest) = "-" if seconds < 0 else "+", divmod(abs(seconds), 3600)
    return f"{sign}{hours:02d}{':' if count > 1 else ''}{rest // 60:02d}"
