"""The texts of partition values in folder names, as Paimon's engines write them.

Rules: Paimon's InternalRowPartitionComputer. With `partition.legacy-name` (the default) the text is Java's `toString`
of the internal value, so a date is a number of days. Without it, the value is cast to text by DateTimeUtils. Java 19
changed the texts of floating point numbers, so such a value can have two.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.types import DataType, arrow_type, timestamp_unit
from lakebed.kernel.java_floats import early_java_text, java_texts

_BLANK = "".join(char for char in map(chr, range(0x3001)) if (char.isspace() and char not in "\x85\xa0\u2007\u202f"))
"""The characters that Java's `Character.isWhitespace` accepts. No-break spaces are not among them."""


def is_blank(text: str) -> bool:
    """Whether a text has only white space, by Java's rules."""
    return not text.strip(_BLANK)


def spellings(value: Any, kind: DataType, legacy: bool = True) -> tuple[str, ...]:
    """The texts that engines write for a plain value that is not null.

    The text of Java 19 and later (and of pypaimon) comes first, then that of earlier releases where it differs. Raises
    UnsupportedError for bytes under legacy names, for which Java writes the address of an object.
    """
    if kind.root in ("FLOAT", "DOUBLE"):
        shortest = java_texts(pa.array([value], arrow_type(kind)))[0].as_py()
        return tuple(dict.fromkeys((shortest, early_java_text(value, single=kind.root == "FLOAT"))))
    return (_text(value, kind, legacy),)


def cast_text(value: Any, kind: DataType) -> str:
    """The text of a plain value by Paimon's cast to text."""
    return spellings(value, kind, legacy=False)[0]


def _text(value: Any, kind: DataType, legacy: bool) -> str:
    match kind.root:
        case "BOOLEAN":
            return "true" if value else "false"
        case "DATE" if not legacy:
            return _date(value)
        case "TIME" if not legacy:
            return _time(value, kind.precision)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _timestamp(value, kind, legacy)
        case "DECIMAL":
            return f"{value:f}"
        case "BINARY" | "VARBINARY":
            if legacy:
                raise UnsupportedError(
                    f"a partition column has the type {kind}",
                    why="with partition.legacy-name=true Java puts the addresses of objects into folder names, and no "
                    "reader can find such a folder again",
                    todo="Create the table with partition.legacy-name=false",
                )
            return bytes(value).decode("utf-8", "replace")
    return str(value)


def _date(days: int) -> str:
    year, month, day = _civil(days)
    return f"{_four_digits(year)}-{month:02d}-{day:02d}"


def _time(millis: int, precision: int) -> str:
    """The time of a day. Milliseconds have up to `precision` digits, and no trailing zeros but a single 0."""
    seconds, fraction = divmod(millis % 86_400_000, 1000)
    return _clock(seconds) + _cut((f"{fraction:03d}".rstrip("0") or "0")[:precision])


def _cut(digits: str) -> str:
    return f".{digits}" if digits else ""


def _timestamp(value: int, kind: DataType, legacy: bool) -> str:
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[timestamp_unit(kind)]
    whole, fraction = divmod(value, per_second)
    days, seconds = divmod(whole, 86_400)
    nanos = f"{fraction * (10**9 // per_second):09d}"
    if not legacy:
        return f"{_date(days)} {_clock(seconds)}{_cut(nanos[: kind.precision])}"
    year, month, day = _civil(days)
    text = f"{_iso_year(year)}-{month:02d}-{day:02d}T{_clock(seconds)}"
    if fraction:
        return f"{text}.{nanos[:3] if nanos.endswith('000000') else nanos[:6] if nanos.endswith('000') else nanos}"
    return text if seconds % 60 else text.removesuffix(":00")


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970, in the Gregorian calendar without bounds. Year 0 is before year 1."""
    # counts years that begin in March, in eras of 400 years
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    return (
        year + era * 400 + (month >= 10),
        month + 3 if month < 10 else month - 9,
        day - (153 * month + 2) // 5 + 1,
    )


def _iso_year(year: int) -> str:
    """A year as Java's LocalDateTime writes it."""
    if year > 9999:
        return f"+{year}"
    return f"{year:04d}" if year >= 0 else f"-{-year:04d}"


def _four_digits(year: int) -> str:
    """The last four digits of a year as DateTimeUtils writes them. A negative year gives characters below "0"."""
    sign = 1 if year >= 0 else -1
    return "".join(chr(ord("0") + sign * (abs(year) // scale % 10)) for scale in (1000, 100, 10, 1))
