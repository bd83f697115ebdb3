"""Option keys with their types and defaults, declared once and parsed in one place.

A format's `options.py` declares its keys as `Option`s in an `OptionSet`. Keys match in any case, since Spark passes a
source its keys in lower case.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

from lakebed.errors import OptionError, UsageError
from lakebed.redaction import redacting_logger

T = TypeVar("T")
_log = redacting_logger("lakebed.options")
_noted: set[str] = set()
"""The keys that `note_idle` has logged."""


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One key: how its text is parsed, its default, and its older names.

    `doc` is one sentence for the reference page. `expected` says in errors what the value must be.
    """

    key: str
    parse: Callable[[str], T]
    default: T
    doc: str
    expected: str = ""
    aliases: tuple[str, ...] = ()
    idle: bool = False
    """Whether the key is accepted without effect: it tunes the format's own engine, and no row depends on it."""

    def read(self, text: str) -> T:
        """Parse a text. OptionError names the key and what was expected. Numbers are what Java's parsers take."""
        parse: Callable[[str], T] = _OF_JAVA.get(self.parse, self.parse)
        try:
            return parse(text if parse in _AS_GIVEN else text.strip())
        except (ValueError, KeyError) as error:
            raise OptionError.ill_typed(
                self.key, text, self.expected or _EXPECTED.get(self.parse, "another value")
            ) from error


class Options:
    """The values that a caller gave, typed. A key that was not given has its default."""

    def __init__(self, values: Mapping[str, Any], raw: Mapping[str, str]) -> None:
        self._values, self.raw = dict(values), dict(raw)

    def __getitem__(self, option: Option[T]) -> T:
        return cast(T, self._values.get(option.key, option.default))

    def given(self, option: Option[Any]) -> bool:
        """Whether the caller gave this key."""
        return option.key in self._values


class OptionSet:
    """The keys that one place understands.

    `where` names the place in errors. `prefixes` are families of keys that it accepts without knowing each of them,
    such as `lakebed.storage.`.
    """

    def __init__(
        self, options: Iterable[Option[Any]], where: str, prefixes: tuple[str, ...] = ("lakebed.storage.",)
    ) -> None:
        self.options, self.where, self.prefixes = tuple(options), where, prefixes
        self._by_key = {name.lower(): option for option in self.options for name in (option.key, *option.aliases)}

    def __add__(self, other: OptionSet) -> OptionSet:
        return _together(self, other)

    def over(self, stored: Mapping[str, str], given: Mapping[str, str], prefix: str) -> Options:
        """The options that a caller gave, over those that are stored with a table.

        Of the stored ones only those count that are known, are not blank and begin with `prefix`: a table must not
        choose what is lakebed's own. Raises what `parse` raises.
        """
        kept = {k: text for k, text in stored.items() if k.startswith(prefix) and self.knows(k) and text.strip()}
        return self.parse({self.spelled(key): text for key, text in [*kept.items(), *given.items()]})

    def knows(self, key: str) -> bool:
        """Whether the key, or the family that it belongs to, is known."""
        return key.lower() in self._by_key or key.lower().startswith(self.prefixes)

    def spelled(self, key: str) -> str:
        """The key as it is declared. A key that is not declared comes in lower case."""
        option = self._by_key.get(key.lower())
        return option.key if option is not None else key.lower()

    def parse(self, given: Mapping[str, object] | None) -> Options:
        """Parse all values.

        OptionError for an unknown key, a value of the wrong type, and a key that is given twice with different values.
        UsageError for what is not a mapping of keys to values.
        """
        values: dict[str, Any] = {}
        texts: dict[str, str] = {}
        for key, text in option_texts(given).items():
            option = self._by_key.get(key.lower())
            if option is None:
                if not key.lower().startswith(self.prefixes):
                    names = (name for o in self.options for name in (o.key, *o.aliases))
                    raise OptionError.unknown(key, names, where=self.where)
            else:
                typed = option.read(text)
                if values.get(option.key, typed) != typed:
                    raise OptionError(
                        f"option {option.key!r} is given twice, as {texts[option.key]!r} and {text!r}", key=option.key
                    )
                values[option.key] = typed
            texts[option.key if option else key] = text
        return Options(values, texts)

    def note_idle(self, given: Mapping[str, object], engine: str) -> None:
        """Log once per process which of a caller's keys have no effect here, since they tune a format's own engine."""
        options = (self._by_key.get(key.lower()) for key in given)
        keys = {option.key for option in options if option is not None and option.idle} - _noted
        if keys:
            _noted.update(keys)
            named = ", ".join(sorted(keys))
            _log.warning("options without effect in lakebed, since they tune %s's own engine: %s", engine, named)

    def split(self, given: Mapping[str, object], table: OptionSet) -> tuple[Options, dict[str, str]]:
        """These options as a call gives them, and the options of its table that were given with them, as texts.

        OptionError for a key that neither set knows, UsageError for what is not a mapping of keys to values.
        """
        (self + table).parse(given)
        texts = option_texts(given)
        own = {key: value for key, value in texts.items() if self.knows(key)}
        return self.parse(own), {key: value for key, value in texts.items() if key not in own}


@lru_cache(64)
def _together(one: OptionSet, other: OptionSet) -> OptionSet:
    options = {option.key: option for option in one.options + other.options}
    return OptionSet(options.values(), one.where, one.prefixes + other.prefixes)


def idle_option(key: str, doc: str) -> Option[str]:
    """An option that is accepted without effect, whatever its value."""
    return Option(key, str, "", doc, idle=True)


def option_texts(options: Mapping[str, object] | None) -> dict[str, str]:
    """Options with each value as text. None stands for no options.

    UsageError for what is not a mapping with texts as keys, OptionError for a value that is None.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise UsageError(f"options are a {type(options).__name__}, not a dict", todo='Give one such as {"bucket": 4}')
    for key, value in options.items():
        if not isinstance(key, str):
            raise UsageError(f"an option's key is a {type(key).__name__}, not a text", todo="Give keys as texts")
        if value is None:
            raise OptionError(f"option {key!r} is None", key=key, todo="Give it a value, or leave it out")
    return {key: option_text(value) for key, value in options.items()}


def option_text(value: object) -> str:
    """The value of an option as text. Python's True becomes `true`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def boolean(text: str) -> bool:
    """Parse `true` or `false`, in any case."""
    return {"true": True, "false": False}[text.lower()]


def whole_number(text: str) -> int:
    """Parse a whole number as Java's `Long.parseLong` does: digits, after a sign or none. Python's `int` also takes
    `1_000` and spaces."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def is_number(text: str) -> bool:
    """Whether a text is a whole number of ASCII digits, without a sign, that `int` takes.

    `str.isdigit` is no such test: it is true of `²`, which `int` refuses, and of digits of other scripts, which would
    give two names to one number.
    """
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def decimal_number(text: str) -> float:
    """Parse a number as Java's `Double.parseDouble` does, in decimal digits. Python's `float` also takes `1_000`, and
    words for infinity in any case."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError(text)
    return float(text.rstrip("dDfF"))


_MOST_DIGITS = 40
_WHOLE = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?[dDfF]?")
_OF_JAVA: dict[Callable[..., Any], Callable[..., Any]] = {int: whole_number, float: decimal_number}
_AS_GIVEN: set[Callable[..., Any]] = {str, whole_number}
"""Parsers that get the text with the spaces around it."""


def at_least(least: int, most: int = (1 << 63) - 1) -> Callable[[str], int]:
    """A parser of whole numbers of at least `least`, and of no more bits than the engines' own options have."""

    def parse(text: str) -> int:
        number = whole_number(text)
        if not least <= number <= most:
            raise ValueError(text)
        return number

    _AS_GIVEN.add(parse)
    _EXPECTED[parse] = f"a whole number of at least {least}" + (f" and at most {most}" if most < 1 << 62 else "")
    return parse


def between(low: float, high: float) -> Callable[[str], float]:
    """A parser of numbers above `low` and below `high`."""

    def parse(text: str) -> float:
        number = decimal_number(text)
        if not low < number < high:  # what is not a number is neither
            raise ValueError(text)
        return number

    _EXPECTED[parse] = f"a number above {low:g}" + ("" if high == math.inf else f" and below {high:g}")
    return parse


def one_of(*words: str) -> Callable[[str], str]:
    """A parser of one of some words, in any case. It returns the word as it is declared."""
    declared = {word.lower(): word for word in words}

    def parse(text: str) -> str:
        return declared[text.lower()]

    _EXPECTED[parse] = f"one of {', '.join(words)}"
    return parse


_SIZES = {
    word: 1 << shift
    for shift, words in (
        (0, " b bytes"), (10, "k kb kibibytes"), (20, "m mb mebibytes"), (30, "g gb gibibytes"), (40, "t tb tebibytes")
    )
    for word in words.split(" ")
}  # fmt: skip
"""The units of Flink's MemorySize, which Paimon's options use. A number without a unit is bytes."""
_TIMES = {
    word: milliseconds
    for milliseconds, words in (
        (1, " ms milli millis millisecond milliseconds"), (1000, "s sec secs second seconds"),
        (60_000, "m min minute minutes"), (3_600_000, "h hour hours"), (86_400_000, "d day days"),
    )
    for word in words.split(" ")
}  # fmt: skip
"""The units of Flink's TimeUtils down to the millisecond."""


def memory_size(text: str) -> int:
    """Parse a size such as `128 mb`, `1g` or `4096` into bytes."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if not match:
        raise ValueError(text)
    return int(match[1]) * _SIZES[match[2]]


def duration_ms(text: str) -> int:
    """Parse a duration such as `10 ms`, `1 h` or `5 min` into milliseconds. A number without a unit is milliseconds."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if not match:
        raise ValueError(text)
    return int(match[1]) * _TIMES[match[2]]


def moment_ms(text: str) -> int:
    """Parse an ISO 8601 time that names its offset, or Z, into milliseconds since 1970."""
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return int(moment.timestamp() * 1000)


_EXPECTED: dict[Callable[..., Any], str] = {
    int: "a whole number", float: "a number", boolean: "true or false",
    memory_size: "a size such as 128 mb", duration_ms: "a duration such as 10 s or 1 h",
}  # fmt: skip
