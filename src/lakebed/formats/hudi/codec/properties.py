"""Java property files: `hoodie.properties` and `.hoodie_partition_metadata`.

The rules are those of `java.util.Properties`. Comment lines begin with `#` or `!`. A key ends at the first unescaped
`=`, `:` or blank. A line that ends in an odd number of backslashes continues on the next line. `\\uXXXX` is a UTF-16
unit.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from functools import lru_cache

_LINE = re.compile(r"((?:\\.|[^\\=:\s])*)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(data: bytes) -> dict[str, str]:
    """The keys and values of a property file. A key that occurs twice has its last value.

    What short files hold is kept for the next call: a table's is read again wherever others may have changed it.
    """
    return dict(_parsed(data) if len(data) <= _KEPT_BYTES else _parsed.__wrapped__(data))


_KEPT_BYTES = 16 << 10


@lru_cache(maxsize=64)
def _parsed(data: bytes) -> Mapping[str, str]:
    properties: dict[str, str] = {}
    pending = ""
    for raw in data.decode("utf-8", "replace").splitlines():
        line = raw.lstrip()
        if not pending and (not line or line[0] in "#!"):
            continue
        pending += line
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        _add(pending, properties)
        pending = ""
    if pending:
        _add(pending, properties)
    return properties


def _add(line: str, properties: dict[str, str]) -> None:
    match = _LINE.fullmatch(line)
    if match:
        properties[_plain(match[1])] = _plain(match[2])


def _plain(text: str) -> str:
    """The text with its escapes resolved. A surrogate pair written as two units becomes one character."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else _CONTROL.get(m[1], m[1]), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def properties_text(properties: Mapping[str, str], comment: str, date: datetime.datetime) -> bytes:
    """A property file of these keys and values, in their order, as Java writes it: the comment, the date (UTC), then
    one line per key."""
    head = f"#{comment}\n#{_DAYS[date.weekday()]} {_MONTHS[date.month - 1]} {date:%d %H:%M:%S} UTC {date:%Y}\n"
    lines = (f"{_escaped(key, _IN_KEY)}={_escaped_value(value)}\n" for key, value in properties.items())
    return (head + "".join(lines)).encode("ascii")


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_IN_VALUE = re.compile(r"[^ -~]|[\\=:#!]")
_IN_KEY = re.compile(r"[^!-~]|[\\=:#!]")
_LETTERS = {character: letter for letter, character in _CONTROL.items()}


def _escaped_value(value: str) -> str:
    text = _escaped(value, _IN_VALUE)
    return f"\\{text}" if text.startswith(" ") else text


def _escaped(text: str, special: re.Pattern[str]) -> str:
    return special.sub(lambda match: _escape(match[0]), text)


def _escape(character: str) -> str:
    if " " <= character <= "~":
        return f"\\{character}"
    if character in _LETTERS:
        return f"\\{_LETTERS[character]}"
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))
