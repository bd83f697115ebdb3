"""Time zones by the names that Java knows, and how far they are ahead of UTC at each moment.

Rules: Java's `TimeZone.getTimeZone`, which takes a name that it does not know for GMT, and Joda's
`DateTimeZone.forTimeZone`, which gives the old names of three letters a place each.
"""

from __future__ import annotations

import datetime
import os
import re
import time
import zoneinfo
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from lakebed.errors import UnsupportedError
from lakebed.kernel.arrays import Bools, Int64s

_FOLDER = "zoneinfo/"
_DAY = 86_400
_CYCLE = 146_097 * _DAY
"""After 400 years the calendar, and with it the rules of a zone, repeat."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST, _LAST = -62_135_510_400, 253_370_764_800
"""Seconds since 1970 of the moments between which Python knows dates, a day and more inside of them."""
_PLACES = {
    "MET": "CET", "ECT": "CET", "MIT": "Pacific/Apia", "HST": "Pacific/Honolulu", "AST": "America/Anchorage",
    "PST": "America/Los_Angeles", "MST": "America/Denver", "PNT": "America/Phoenix", "CST": "America/Chicago",
    "EST": "America/New_York", "IET": "America/Indiana/Indianapolis", "PRT": "America/Puerto_Rico",
    "CNT": "America/St_Johns", "AGT": "America/Argentina/Buenos_Aires", "BET": "America/Sao_Paulo",
    "ART": "Africa/Cairo", "CAT": "Africa/Harare", "EAT": "Africa/Addis_Ababa", "NET": "Asia/Yerevan",
    "PLT": "Asia/Karachi", "IST": "Asia/Kolkata", "BST": "Asia/Dhaka", "VST": "Asia/Ho_Chi_Minh",
    "CTT": "Asia/Shanghai", "JST": "Asia/Tokyo", "ACT": "Australia/Darwin", "AET": "Australia/Sydney",
    "SST": "Pacific/Guadalcanal", "NST": "Pacific/Auckland",
}  # fmt: skip
_UTC = ("GMT", "UTC", "UCT", "Zulu", "Etc/GMT", "Etc/UTC", "Etc/UCT", "Etc/Zulu", "Z")


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone: a place of the time zone database, or, where `place` is "", always `ahead` seconds of UTC."""

    place: str = ""
    ahead: int = 0

    @property
    def id(self) -> str:
        """The name that Joda gives it."""
        if self.place:
            return self.place
        sign, (hours, rest) = "-" if self.ahead < 0 else "+", divmod(abs(self.ahead), 3600)
        return f"{sign}{hours:02d}:{rest // 60:02d}" if self.ahead else "UTC"

    def offsets(self, seconds: Int64s) -> Int64s:
        """How many seconds it is ahead of UTC at moments, which are seconds since 1970."""
        if not self.place or not len(seconds):
            return np.full(len(seconds), self.ahead, np.int64)
        days, at = np.unique(seconds // _DAY, return_inverse=True)
        first = np.array([self._at(day * _DAY) for day in days.tolist()], np.int64)
        last = np.array([self._at(day * _DAY + _DAY - 1) for day in days.tolist()], np.int64)
        offsets = first[at]
        for changing in np.flatnonzero(first != last):
            change = self._change(int(days[changing]) * _DAY, int(first[changing]))
            offsets[(at == changing) & (seconds >= change)] = last[changing]
        return offsets

    def moments(self, local: Int64s) -> tuple[Int64s, Bools]:
        """The moments at which its clocks show a time (both as seconds since 1970), and which there are none of.

        Of two moments it is the earlier one.
        """
        before, after = self.offsets(local - _DAY), self.offsets(local + _DAY)
        early, late = local - before, local - after
        exists = self.offsets(early) == before
        return np.where(exists, early, late), ~exists & (self.offsets(late) != after)

    def _at(self, second: int) -> int:
        if second > _LAST:
            second -= _CYCLE * (1 + (second - _LAST) // _CYCLE)
        moment = _EPOCH + datetime.timedelta(seconds=max(second, _FIRST))
        offset = moment.astimezone(_database(self.place)).utcoffset()
        return round(offset.total_seconds()) if offset is not None else 0

    def _change(self, begin: int, offset: int) -> int:
        """The first second of a day, which begins at `begin`, with another offset."""
        low, high = begin, begin + _DAY - 1
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (middle, high) if self._at(middle) == offset else (low, middle)
        return high


GMT = Zone()


@lru_cache(maxsize=64)
def _database(place: str) -> zoneinfo.ZoneInfo:
    return zoneinfo.ZoneInfo(place)


def is_zone(name: str) -> bool:
    """Whether Java knows a time zone of that name, and does not take it for GMT."""
    return name.strip() in _UTC or java_zone(name) != GMT


def java_zone(name: str) -> Zone:
    """The zone that Java and Joda take a name for."""
    text = name.strip()
    fixed = re.fullmatch(r"GMT([+-])(\d{1,2})(?::?(\d\d))?", text)
    if fixed:
        hours, minutes = int(fixed[2]), int(fixed[3] or 0)
        if hours > 23 or minutes > 59:
            return GMT
        return Zone(ahead=(hours * 3600 + minutes * 60) * (-1 if fixed[1] == "-" else 1))
    if text in _UTC:
        return GMT
    place = _PLACES.get(text, text)
    try:
        _database(place)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return GMT
    return Zone(place)


def local_zone() -> Zone:
    """This machine's time zone."""
    return java_zone(local_zone_name())


def local_zone_name() -> str:
    """The name of this process's time zone: TZ, else the machine's. Raises UnsupportedError when it is unknown."""
    given = os.environ.get("TZ")
    if given is not None:
        return given.removeprefix(":").rpartition(_FOLDER)[2]
    link = os.path.realpath("/etc/localtime")
    if _FOLDER in link:
        return link.rpartition(_FOLDER)[2]
    name = Path("/etc/timezone")
    if name.is_file():
        return name.read_text(encoding="utf-8").strip()
    if time.timezone == 0 and not time.daylight:
        return "UTC"
    raise UnsupportedError("the name of the local time zone is unknown", todo="Set TZ, for example TZ=Europe/Berlin")
