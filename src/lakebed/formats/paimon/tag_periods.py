"""The periods of automatic tags: when one ends, and how its tag is named.

Rules: Paimon's TagPeriodHandler. A tag is named by the start of its period, as wall clock time without a zone.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Self

from lakebed.formats.paimon import tag_options as opt
from lakebed.kernel.options import Options

_EPOCH = datetime.datetime(1970, 1, 1)
_LENGTHS = {"daily": 24, "hourly": 1, "two-hours": 2}
_LAYOUTS = {
    ("daily", "with_dashes"): "%Y-%m-%d",
    ("daily", "without_dashes"): "%Y%m%d",
    ("daily", "without_dashes_and_spaces"): "%Y%m%d",
    ("hourly", "without_dashes"): "%Y%m%d %H",
    ("hourly", "without_dashes_and_spaces"): "%Y%m%d%H",
}
"""How tags are named, by `tag.creation-period` and `tag.period-formatter`."""
_HOURS, _MINUTES = "%Y-%m-%d %H", "%Y%m%d%H%M"


@dataclass(frozen=True, slots=True)
class TagPeriods:
    """Periods of one length, one after the other since 1970, and the layout of their tags' names."""

    length: datetime.timedelta
    layout: str

    @classmethod
    def of(cls, options: Options) -> Self:
        """The periods that the options of a table name."""
        millis, period = options[opt.TAG_PERIOD_DURATION], options[opt.TAG_PERIOD]
        if millis is not None:
            return cls(datetime.timedelta(milliseconds=millis), _MINUTES)
        layout = _LAYOUTS.get((period, options[opt.TAG_FORMATTER]), _HOURS)
        return cls(datetime.timedelta(hours=_LENGTHS[period]), layout)

    def name(self, start: datetime.datetime) -> str:
        """The name of the tag of the period that begins at `start`."""
        return start.strftime(self.layout)

    def start(self, name: str) -> datetime.datetime | None:
        """The start of the period that a tag is named by; None for any other name. A name by days may go on after a
        space, as names by hours do."""
        text = name.split(" ")[0] if self.layout.endswith("%d") else name
        try:
            start = datetime.datetime.strptime(text, self.layout)
        except ValueError:
            return None
        return start if start.strftime(self.layout) == text else None

    def newest_over(self, time: datetime.datetime) -> datetime.datetime:
        """The start of the newest period that is over at a time."""
        return _EPOCH + ((time - _EPOCH) // self.length - 1) * self.length
