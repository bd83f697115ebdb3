"""How much is asked of an object store at once, and how long anybody waits for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakebed.errors import OptionError
from lakebed.kernel.options import decimal_number, whole_number


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one store's client.

    `requests` are under way at once, `bytes_in_flight` are held for readers that have not come to them yet. `cache` is
    how many bytes of immutable files the process keeps. A request is answered within `timeout` seconds, tries included,
    or given up. A read that is not answered within `hedge` seconds is asked a second time; None never does that.
    """

    requests: int = 64
    bytes_in_flight: int = 256 << 20
    cache: int = 64 << 20
    timeout: float = 60.0
    hedge: float | None = None

    def with_option(self, name: str, key: str, value: str) -> Bounds:
        """The bounds with one option, by its name without the prefix. `key` is the name in errors, OptionError says
        what the value must be."""
        field, parse, expected = _OPTIONS[name]
        try:
            return replace(self, **{field: parse(value.strip().lower())})
        except ValueError:
            raise OptionError.ill_typed(key, value, expected) from None


def _whole(text: str) -> int:
    number = whole_number(text)
    if number < 1:
        raise ValueError(text)
    return number


def _seconds(text: str) -> float:
    number = decimal_number(text)
    if not 0.1 <= number <= 86_400:
        raise ValueError(text)
    return number


_OPTIONS: Mapping[str, tuple[str, Callable[[str], Any], str]] = {
    "requests": ("requests", _whole, "a whole number of at least 1"),
    "bytes-in-flight": ("bytes_in_flight", _whole, "a number of bytes"),
    "cache": ("cache", lambda text: 0 if text in ("off", "0") else _whole(text), "a number of bytes, or off"),
    "timeout": ("timeout", _seconds, "seconds, from 0.1 to 86400"),
    "hedge": (
        "hedge", lambda text: None if text == "off" else _whole(text) / 1000, "milliseconds, or off"
    ),
}  # fmt: skip
BOUNDS = tuple(_OPTIONS)
"""The names of the options, without the prefix `lakebed.storage.`."""
