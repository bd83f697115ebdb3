"""Numbers as people read them: bytes in a fitting unit, counts with grouped digits, moments in UTC."""

from __future__ import annotations

import datetime

_UNITS = ("bytes", "KB", "MB", "GB")


def size_text(value: float) -> str:
    """Bytes in a fitting unit: `512 bytes`, `1.5 KB`, `3.0 GB`. A KB has 1024 bytes."""
    for unit in _UNITS:
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TB"


def short_size(value: float) -> str:
    """Bytes for the axis of a chart: `512 B`, `1.5 KB`, `64 MB`."""
    text = size_text(value).replace(".0 ", " ")
    return text.replace("bytes", "B")


def short_count(value: float) -> str:
    """A count for the axis of a chart: `950`, `1.2k`, `3M`."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.1f}".removesuffix(".0") + suffix
    return f"{value:g}"


def moment_text(milliseconds: int, seconds: bool = False) -> str:
    """A moment, milliseconds since 1970, in UTC to the minute. Years that no date has give their number alone."""
    try:
        moment = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}" if seconds else f"{moment:%Y-%m-%d %H:%M}"
