"""Java property files: `hoodie.properties` and `.hoodie_partition_metadata`.

The rules are those of `java.util.Properties`: comment lines begin with `#` or `!`, a key ends at the first unescaped
`=`, `:` or blank, a line that ends in an odd number of backslashes goes on in the next one, and `\\uXXXX` is a UTF-16
unit.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"((?:\\.|[^\\=:\s])*)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(data: bytes) -> dict[str, str]:
    """Keys and values of a property file; a key that stands twice keeps its last value."""
    found: dict[str, str] = {}
    pending = ""
    for raw in data.decode("utf-8", "replace").splitlines():
        line = raw.lstrip()
        if not pending and (not line or line[0] in "#!"):
            continue
        pending += line
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        _take(pending, found)
        pending = ""
    if pending:
        _take(pending, found)
    return found


def _take(line: str, found: dict[str, str]) -> None:
    match = _LINE.fullmatch(line)
    if match:
        found[_plain(match[1])] = _plain(match[2])


def _plain(text: str) -> str:
    """The text without its escapes; surrogate pairs written as two units become one character."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else _CONTROL.get(m[1], m[1]), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
