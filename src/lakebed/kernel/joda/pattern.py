"""Patterns of dates, such as `yyyy-MM-dd'T'HH:mm`, as Joda reads them.

Rules: Joda's `DateTimeFormat`. A run of one letter is a field, anything else is text; text that has letters stands
between quotes, and two quotes are one. Names are English ones. Not served are names of time zones (`z`, `ZZZ`) and,
where texts are read, weeks, centuries and eras.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from lakebed.errors import UnsupportedError, UsageError

_LETTERS = "GCYyxMwdDeEahHkKmsSzZ"
_READ = "YyMdDEahHkKmsSZ"
_NUMBERS = "CxyYdhHmsSeDFwWkK"
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOKENS = re.compile(r"([A-Za-z])\1*|(?:'(?:[^']|'')*(?:'|$)|[^A-Za-z'])+")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a pattern: its letter and how often it stands there."""

    letter: str
    count: int

    @property
    def is_number(self) -> bool:
        """Whether digits are read for it, so that a field before it takes no more digits than it has letters."""
        return self.letter in _NUMBERS or (self.letter == "M" and self.count <= 2)


Token = Field | str
"""A field, or text that stands for itself."""


@lru_cache(maxsize=64)
def parse_pattern(text: str, *, reads: bool = False) -> tuple[Token, ...]:
    """The tokens of a pattern; with `reads` texts are going to be read with it.

    UsageError for a letter that Joda does not know, UnsupportedError for one that is not served.
    """
    tokens: list[Token] = []
    for match in _TOKENS.finditer(text):
        letter = match[1]
        if not letter:
            tokens.append(_literal(match[0]))
            continue
        field = Field(letter, len(match[0]))
        if letter not in _LETTERS:
            raise UsageError(
                f"the date pattern {text!r} has the unknown letter {letter}",
                todo=f"Fields are {' '.join(_LETTERS)}; put text with letters between quotes",
            )
        if letter == "z" or (letter == "Z" and field.count > 2) or (reads and letter not in _READ):
            raise UnsupportedError(
                f"lakebed does not {'read' if reads else 'write'} the field {match[0]!r} of the date pattern {text!r}",
                todo="Use another pattern",
            )
        tokens.append(field)
    return tuple(tokens)


def _literal(text: str) -> str:
    """Text without its quotes. Outside of quotes two of them are one too."""
    out, quoted, at = "", False, 0
    while at < len(text):
        if text[at] != "'":
            out += text[at]
        elif text[at + 1 : at + 2] == "'":
            out, at = out + "'", at + 1
        else:
            quoted = not quoted
        at += 1
    return out
