"""The time that the values of a partition say.

Rules: Paimon's PartitionTimeExtractor over Java's DateTimeFormatter. Without a formatter the text is
`yyyy-MM-dd[ HH:mm:ss[.fraction]]`, read leniently: a 32nd of January is a 1st of February. With a formatter it is read
as Java's SMART style does: a 31st of June is a 30th, a 13th month is no month. Without a time of day it is midnight.

Times are nanoseconds since 1970 on the wall clock of the zone that the partition's values are in. Years have no bound
here, so they are numbers and not datetimes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakebed.errors import OptionError
from lakebed.formats.paimon import partition_options as opt
from lakebed.kernel.options import Options

_DEFAULT = re.compile(
    r"(?P<y>-?[0-9]{1,10})-(?P<M>-?[0-9]{1,2})-(?P<d>-?[0-9]{1,2})"
    r"(?: (?P<H>-?[0-9]{1,2}):(?P<m>-?[0-9]{1,2}):(?P<s>-?[0-9]{1,2})(?:\.(?P<S>[0-9]{1,9}))?)?"
)
_GREATEST_YEAR = 999_999_999
_SECOND = 10**9
_COUNTS = {"y": (4,), "u": (4,), "M": (1, 2), "d": (1, 2), "H": (1, 2), "m": (1, 2), "s": (1, 2), "S": range(1, 10)}
"""The letters of a formatter, and how many of each may follow one another."""
_BOUNDS = {"M": (1, 12), "d": (1, 31), "H": (0, 24), "m": (0, 59), "s": (0, 59)}
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_TOKEN = re.compile(r"(?P<letters>([A-Za-z])\2*)|'(?P<quoted>(?:[^']|'')*)'|(?P<other>[^A-Za-z'])")


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """Reads the times of partitions. `layout` is how their texts are written, None: the default."""

    columns: tuple[str, ...]
    pattern: str
    layout: re.Pattern[str] | None

    @classmethod
    def of(cls, columns: Sequence[str], options: Options) -> PartitionTimes:
        """By the options of a table. OptionError for letters of a formatter that lakebed does not read."""
        formatter = options[opt.TIMESTAMP_FORMATTER]
        return cls(tuple(columns), options[opt.TIMESTAMP_PATTERN], _compiled(formatter) if formatter else None)

    def text(self, values: Mapping[str, str | None]) -> str | None:
        """The text of a partition's time, from the texts of its values by column. None where a value that it needs is
        null."""
        if not self.pattern:
            return values[self.columns[0]]
        if None in values.values():
            return None
        # Longer names first, so that $dt does not stand for the beginning of $dt1.
        names = "|".join(map(re.escape, sorted(self.columns, key=len, reverse=True)))
        return re.sub(rf"\$({names})", lambda match: str(values[match[1]]), self.pattern)

    def time(self, text: str) -> int | None:
        """The time of such a text, in nanoseconds. None for a text that is not written so."""
        match = (self.layout or _DEFAULT).fullmatch(text)
        if match is None:
            return None
        groups = {name: part for name, part in match.groupdict().items() if part is not None}
        if any(re.fullmatch("-0+", part) for part in groups.values()):
            return None
        parts = {name: int(part) for name, part in groups.items() if name != "S"}
        nanos = int(groups["S"].ljust(9, "0")) if "S" in groups else None
        return _lenient(parts, nanos) if self.layout is None else _smart(parts, nanos)


def _lenient(parts: Mapping[str, int], nanos: int | None) -> int | None:
    if abs(parts["y"]) > _GREATEST_YEAR:
        return None
    months = parts["M"] - 1
    days = _first_day(parts["y"] + months // 12, months % 12 + 1) + parts["d"] - 1
    seconds = parts.get("H", 0) * 3600 + parts.get("m", 0) * 60 + parts.get("s", 0)
    return (days * 86_400 + seconds) * _SECOND + (nanos or 0)


def _smart(parts: Mapping[str, int], nanos: int | None) -> int | None:
    year = parts.get("u", parts.get("y", 0))
    if not {"M", "d"} <= parts.keys() or ("u" not in parts and year < 1):
        return None  # no date, or a year of the era before year 1
    if any(not least <= parts[name] <= most for name, (least, most) in _BOUNDS.items() if name in parts):
        return None
    month = parts["M"]
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    day = min(parts["d"], 29 if month == 2 and is_leap else _DAYS[month - 1])
    hour, minute, second = parts.get("H"), parts.get("m"), parts.get("s")
    is_midnight = hour is None or (minute is None and not (second is None and nanos is None))
    if is_midnight or (minute is not None and second is None and nanos is not None):
        hour = minute = second = nanos = 0  # parts that make no time of day: only the date counts
    seconds = (hour or 0) * 3600 + (minute or 0) * 60 + (second or 0)
    if seconds * _SECOND + (nanos or 0) > 86_400 * _SECOND:
        return None  # 24 o'clock is the end of the day, and nothing is after it
    return ((_first_day(year, month) + day - 1) * 86_400 + seconds) * _SECOND + (nanos or 0)


def _first_day(year: int, month: int) -> int:
    """The days from 1970-01-01 to the first of a month, in the Gregorian calendar without bounds."""
    years = year - (month <= 2)
    era, of_era = divmod(years, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719_468


def _compiled(formatter: str) -> re.Pattern[str]:
    """The texts that a formatter reads, with a group for each letter."""
    layout, position, seen = "", 0, set[str]()
    before = ""
    while position < len(formatter):
        match = _TOKEN.match(formatter, position)
        if match is None:
            raise _refused(formatter, "a quote is not closed")
        letters = match["letters"]
        if letters is None:
            text = match["other"] or (match["quoted"] or "").replace("''", "'") or "'"
            if match["other"] and text in "[]{}#":
                raise _refused(formatter, f"lakebed does not read {text!r} in it")
            layout += re.escape(text)
        else:
            letter, count = letters[0], len(letters)
            if count not in _COUNTS.get(letter, ()):
                raise _refused(formatter, f"lakebed does not read {letters!r} in it")
            if letter in seen:
                raise _refused(formatter, f"it has {letter!r} twice")
            if len(before) == 1 and before != "S":
                raise _refused(formatter, f"{before!r} has no fixed width, and digits follow it")
            seen.add(letter)
            width = str(count) if count > 1 or letter == "S" else "1,19"
            layout += f"(?P<{letter}>[0-9]{{{width}}})"
        before = letters or ""
        position = match.end()
    return re.compile(layout)


def _refused(formatter: str, why: str) -> OptionError:
    return OptionError(
        f"option {opt.TIMESTAMP_FORMATTER.key!r} is {formatter!r}",
        key=opt.TIMESTAMP_FORMATTER.key,
        why=why,
        todo="Use yyyy (or uuuu), M, d, H, m, s (one letter or two), S for digits of a second, and texts in quotes, "
        "or expire by update-time",
    )
