"""Java property files: `hoodie.properties` and `.hoodie_partition_metadata`.

The rules are those of `java.util.Properties`. Comment lines begin with `#` or `!`. A key ends at the first unescaped
`=`, `:` or blank. A line that ends in an odd number of backslashes continues on the next line. `\\uXXXX` is a UTF-16
unit.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"((?:\\.|[^\\=:\s])*)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(data: bytes) -> dict[str, str]:
    """The keys and values of a property file. A key that occurs twice has its last value."""
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
