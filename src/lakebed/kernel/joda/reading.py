"""Texts as times, by patterns of which the first that fits a whole text counts.

Rules: Joda's `DateTimeFormatterBuilder` and `DateTimeParserBucket`. A number takes all digits that it may have, so
before another number it needs that many. Fields that a pattern lacks are those of 1970-01-01T00:00:00; without a year,
but with a month or a day, it is 2000. A year of two digits lies within 50 years around 30 years ago.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError, UnsupportedError
from lakebed.kernel import clock
from lakebed.kernel.arrays import Bools, Int64s, from_numpy
from lakebed.kernel.joda.calendar import dates_of, days_of
from lakebed.kernel.joda.pattern import MONTHS, WEEKDAYS, Field, Token, parse_pattern

_NAMES = {"M": MONTHS, "E": WEEKDAYS, "a": ("AM", "PM")}
_OFFSET = r"[Zz]|[+-]\d\d(?::?\d\d)?"
_MOST = {"D": 3, "S": 9}
_BOUNDS = {
    "d": (1, 31), "D": (1, 366), "h": (1, 12), "H": (0, 23), "k": (1, 24), "K": (0, 11), "m": (0, 59), "s": (0, 59),
    "M": (1, 12),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LocalTimes:
    """Times as texts tell them: milliseconds since 1970 of what clocks show, and how many seconds these are ahead of
    UTC, where `zoned` says that the text tells."""

    local: Int64s
    offsets: Int64s
    zoned: Bools


def read_times(texts: pa.StringArray, patterns: Sequence[str]) -> LocalTimes:
    """The times of texts that are not null. SchemaError for a text that no pattern fits."""
    local, offsets = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
    zoned, open_ = np.zeros(len(texts), np.bool_), np.ones(len(texts), np.bool_)
    for pattern in patterns:
        at = np.flatnonzero(open_)
        if not len(at):
            break
        tokens = parse_pattern(pattern, reads=True)
        fits, times = _read(texts.take(from_numpy(at)), tokens)
        taken = at[fits]
        local[taken], offsets[taken], zoned[taken] = times.local, times.offsets, times.zoned
        open_[taken] = False
    if open_.any():
        text = texts[int(np.flatnonzero(open_)[0])].as_py()
        raise SchemaError(f"{text!r} does not match the format {' or '.join(patterns)}")
    return LocalTimes(local, offsets, zoned)


def _read(texts: pa.StringArray, tokens: tuple[Token, ...]) -> tuple[Bools, LocalTimes]:
    """A mask of the texts that match a pattern, and their times."""
    fields = {f"f{place}": token for place, token in enumerate(tokens) if isinstance(token, Field)}
    if len({field.letter for field in fields.values()}) < len(fields):
        raise UnsupportedError("lakebed does not read a date pattern that has a field twice")
    expression = "".join(_expression(tokens, place) for place in range(len(tokens)))
    groups = pc.extract_regex(texts, f"(?s)^(?P<all>{expression})$")
    fits: Bools = groups.is_valid().to_numpy(zero_copy_only=False)
    groups = groups.filter(from_numpy(fits))
    values = {field.letter: _values(field, pc.struct_field(groups, name)) for name, field in fields.items()}
    times, possible = _times(values, len(groups))
    _check(groups, possible)
    return fits, times


def _expression(tokens: tuple[Token, ...], place: int) -> str:
    token = tokens[place]
    if isinstance(token, str):
        return f"(?i:{re.escape(token)})"
    after = tokens[place + 1] if place + 1 < len(tokens) else ""
    letter, count = token.letter, token.count
    tight = isinstance(after, Field) and after.is_number
    if letter in _NAMES and (letter != "M" or count >= 3):
        spellings = [s for name in _NAMES[letter] for n in dict.fromkeys((name, name[:3])) for s in _cases(n)]
        body = "|".join(sorted(dict.fromkeys(spellings), key=len, reverse=True))
    elif letter == "Z":
        body = _OFFSET
    elif letter == "S":
        body = rf"\d{{{count}}}" if tight else rf"\d{{1,{count}}}"
    elif letter in "yY" and count == 2:
        body = r"\d\d" if tight else r"[-+]?\d{1,9}"
    elif letter in "yY":
        body = (r"[-+]?" if letter == "y" else "") + (rf"\d{{{count}}}" if tight else r"\d{1,9}")
    else:
        most = _MOST.get(letter, 2)
        body = rf"\d{{{max(count, most)}}}" if tight else rf"\d{{1,{max(count, most)}}}"
    return f"(?P<f{place}>{body})"


def _cases(name: str) -> tuple[str, str, str]:
    return name, name.upper(), name.lower()


def _values(field: Field, texts: pa.StringArray) -> Int64s:
    """The numbers of a field: of an offset seconds, of a fraction milliseconds, of a name its place."""
    letter = field.letter
    if letter in _NAMES and (letter != "M" or field.count >= 3):
        keys = [name[:3].lower() for name in _NAMES[letter]]
        starts = pc.utf8_lower(pc.utf8_slice_codeunits(texts, 0, 3))
        places: Int64s = pc.index_in(starts, pa.array(keys)).cast(pa.int64()).to_numpy()
        return places + (letter == "M")
    if letter == "Z":
        return _offset_seconds(texts)
    if letter == "S":
        return _numbers(pc.utf8_slice_codeunits(pc.utf8_rpad(texts, 3, "0"), 0, 3))
    numbers = _numbers(pc.utf8_ltrim(texts, "+"))
    if letter in "yY" and field.count == 2:
        pivot = _two_digits_begin()
        shifted = pivot - pivot % 100 + numbers + np.where(numbers < pivot % 100, 100, 0)
        plain = pc.match_substring_regex(texts, r"^\d\d$").to_numpy(zero_copy_only=False)
        return np.where(plain, shifted, numbers)
    return numbers


def _two_digits_begin() -> int:
    """The first of the hundred years that two digits stand for."""
    return clock.moment(datetime.UTC).year - 30 - 50


def _numbers(texts: pa.StringArray) -> Int64s:
    numbers: Int64s = texts.cast(pa.int64()).to_numpy()
    return numbers


def _offset_seconds(texts: pa.StringArray) -> Int64s:
    zero = pc.match_substring_regex(texts, "^[Zz]$")
    digits = pc.replace_substring(pc.utf8_slice_codeunits(pc.if_else(zero, "+0000", texts), 1), ":", "")
    four = _numbers(pc.utf8_rpad(digits, 4, "0"))
    sign = np.where(pc.starts_with(texts, "-").to_numpy(zero_copy_only=False), -1, 1)
    return np.asarray(sign * (four // 100 * 3600 + four % 100 * 60), np.int64)


def _times(values: dict[str, Int64s], count: int) -> tuple[LocalTimes, Bools]:
    """The times, and which of them there are: not the 31st of April, not the hour 25."""
    possible = np.ones(count, np.bool_)
    for letter, (low, high) in _BOUNDS.items():
        if letter in values:
            possible &= (values[letter] >= low) & (values[letter] <= high)
    zero = np.zeros(count, np.int64)
    dated = bool({"M", "d", "D", "E"} & values.keys())
    years = values.get("y", values.get("Y", zero + (2000 if dated else 1970)))
    months, of_month = values.get("M", zero + 1), values.get("d", zero + 1)
    if "D" in values:
        if {"M", "d"} & values.keys():
            raise UnsupportedError("lakebed does not read a date pattern with days of the year and of the month")
        days = days_of(years, zero + 1, zero + 1) + values["D"] - 1
        possible &= dates_of(days)[0] == years
    else:
        days = days_of(years, np.clip(months, 1, 12), of_month)
        possible &= dates_of(days)[2] == of_month
    if "E" in values:
        if not values.keys() >= {"M", "d"} or not {"y", "Y"} & values.keys():
            raise UnsupportedError("lakebed does not read a date pattern with a day of the week and no date")
        # another weekday than the date has would move it
        possible &= (days + 3) % 7 == values["E"]
    hours = values.get("H", values.get("k", zero) % 24)
    if {"h", "K"} & values.keys():
        hours = values.get("K", values.get("h", zero) % 12) + 12 * values.get("a", zero)
    elif "a" in values:
        hours = hours % 12 + 12 * values["a"]
    seconds = (hours * 60 + values.get("m", zero)) * 60 + values.get("s", zero)
    local = days * 86_400_000 + seconds * 1000 + values.get("S", zero)
    zoned = np.full(count, "Z" in values)
    return LocalTimes(local, values.get("Z", zero), zoned), possible


def _check(found: pa.StructArray, possible: Bools) -> None:
    if not possible.all():
        text = pc.struct_field(found, "all")[int(np.flatnonzero(~possible)[0])].as_py()
        raise SchemaError(f"{text!r} is not a time", why="it has the right form, but that day or hour does not exist")
