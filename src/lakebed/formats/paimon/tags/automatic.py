"""Tags that commits make: one for each period that is over, on the first snapshot after it.

Rules: Paimon's TagAutoCreation. Where they end is not remembered: the newest tag that is named by a period tells, so
writers of any engine take turns. Three things differ. A tag whose period begins after its own snapshot was made by
hand, and is passed over. A snapshot that has an automatic tag gets no second one, which Paimon's engines fail on: the
next snapshot gets it. Periods without a snapshot are named, unless they are made up for.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from lakebed.errors import OptionError
from lakebed.formats.paimon import tag_options as opt
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.codec.tag_json import Tag
from lakebed.formats.paimon.tag_periods import TagPeriods
from lakebed.formats.paimon.tags.names import Tags
from lakebed.kernel import clock
from lakebed.kernel.joda.zones import Zone, java_zone, local_zone
from lakebed.kernel.options import Options

_AT_ONCE = 64
"""So many snapshots are read at a time."""
_NAMED = 5
_EPOCH, _END = datetime.datetime(1970, 1, 1), datetime.datetime(9990, 1, 1)
Moment = datetime.datetime


@dataclass(frozen=True, slots=True)
class AutomaticTags:
    """Makes the automatic tags of a branch that are due. `zone` is that of its wall clock times."""

    tags: Tags
    periods: TagPeriods
    zone: Zone
    by_watermark: bool
    delay: datetime.timedelta

    @classmethod
    def of(cls, tags: Tags) -> Self | None:
        """By the options of the table; None where it has none.

        OptionError for a delay that is not shorter than the period.
        """
        options = tags.options
        mode = options[opt.TAG_CREATION]
        if mode not in ("process-time", "watermark"):
            return None
        periods, delay = TagPeriods.of(options), datetime.timedelta(milliseconds=options[opt.TAG_DELAY])
        if delay >= periods.length:
            raise OptionError(
                f"option {opt.TAG_DELAY.key!r} is {delay}",
                key=opt.TAG_DELAY.key,
                table=tags.history.store.location,
                why=f"the period of a tag is {periods.length}, which must be longer",
            )
        by_watermark = mode == "watermark"
        zone = java_zone(options[opt.WATERMARK_ZONE]) if by_watermark else process_zone(options)
        return cls(tags, periods, zone, by_watermark, delay)

    def run(self, latest: Snapshot) -> tuple[str, ...]:
        """Make the tags that are due when the newest snapshot is `latest`. The notes name periods without one."""
        newest = self._newest(latest.id)
        following = self._following(newest)
        if not self._is_due(self._time(latest), following):
            return ()
        notes = list[str]()
        automatic = self._automatic()
        taken = {tag.snapshot.id for tag in automatic.values()}
        after = newest[1].snapshot.id if newest is not None else 0
        for snapshot in self._snapshots(after):
            time = self._time(snapshot)
            if time is None or not self._is_due(time, following) or snapshot.id in taken:
                continue
            start = self.periods.newest_over(time)
            if following is not None and start > following:
                if self.tags.options[opt.TAG_COMPLETION]:
                    start = following
                else:
                    notes.append(self._gap(following, start))
            if not self.tags.create_if_free(self.periods.name(start), snapshot):
                notes.append(f"the store does not say whether tag {self.periods.name(start)!r} was created")
                break
            taken.add(snapshot.id)
            following = start + self.periods.length
            self._remove_surplus()
        return tuple(notes)

    def forces_snapshot(self, latest: Snapshot | None) -> bool:
        """Whether a commit without files makes a snapshot, so that a tag can be made."""
        if not self.by_watermark:
            following = self._following(self._newest(latest.id if latest is not None else 0))
            return self._is_due(self._wall_clock(clock.now_ms()), following)
        idle = self.tags.options[opt.WATERMARK_IDLE]
        if idle is None or latest is None or latest.watermark is None:
            return False
        return clock.now_ms() - idle >= latest.watermark

    # ---- where the tags end ----

    def _newest(self, latest: int) -> tuple[Moment, Tag] | None:
        """The start of the period of the newest automatic tag of the snapshots up to `latest`, and the tag."""
        starts = {name: self.periods.start(name) for name in self.tags.history.tags()}
        named = sorted(((start, name) for name, start in starts.items() if start is not None), reverse=True)
        for start, name in named:
            tag = self.tags.read(name)
            if tag is not None and tag.snapshot.id <= latest and self._is_genuine(start, tag):
                return start, tag
        return None

    def _automatic(self) -> dict[str, Tag]:
        """All tags that are named by a period, by name."""
        return self.tags.read_many([name for name in self.tags.history.tags() if self.periods.start(name) is not None])

    def _is_genuine(self, start: Moment, tag: Tag) -> bool:
        """Whether a tag may have been made when its period was over, or by another length of periods."""
        time = self._time(tag.snapshot)
        return time is not None and start <= time

    def _following(self, newest: tuple[Moment, Tag] | None) -> Moment | None:
        return None if newest is None else newest[0] + self.periods.length

    def _is_due(self, time: Moment | None, following: Moment | None) -> bool:
        """Whether the period that begins at `following` is over at a time. None as `following`: any period is."""
        if time is None:
            return False
        return following is None or time - self.delay >= following + self.periods.length

    def _snapshots(self, after: int) -> Iterator[Snapshot]:
        """The snapshots with an id above `after`, oldest first."""
        history = self.tags.history
        ids = [number for number in history.snapshot_ids() if number > after]
        for begin in range(0, len(ids), _AT_ONCE):
            yield from (
                snapshot for snapshot in history.find_many(ids[begin : begin + _AT_ONCE]) if snapshot is not None
            )

    # ---- times ----

    def _time(self, snapshot: Snapshot) -> Moment | None:
        """The wall clock time of a snapshot that counts; None where it has none."""
        return self._wall_clock(snapshot.watermark if self.by_watermark else snapshot.time_millis)

    def _wall_clock(self, millis: int | None) -> Moment | None:
        if millis is None or not 0 <= millis < (_END - _EPOCH) // datetime.timedelta(milliseconds=1):
            return None
        return wall_clock(millis, self.zone)

    # ---- what goes, and what is missing ----

    def _remove_surplus(self) -> None:
        """Remove the oldest automatic tags beyond `tag.num-retained-max`."""
        most = self.tags.options[opt.TAG_MAX]
        if most is None:
            return
        genuine: dict[int, list[str]] = {}
        for name, tag in self._automatic().items():
            start = self.periods.start(name)
            if start is not None and self._is_genuine(start, tag):
                genuine.setdefault(tag.snapshot.id, []).append(name)
        for number in sorted(genuine)[: max(len(genuine) - most, 0)]:
            for name in genuine[number]:
                self.tags.delete(name)

    def _gap(self, following: Moment, start: Moment) -> str:
        count = (start - following) // self.periods.length
        names = [self.periods.name(following + number * self.periods.length) for number in range(min(count, _NAMED))]
        more = f" and {count - _NAMED} more" if count > _NAMED else ""
        return (
            f"no snapshot was made in time for the tags {', '.join(names)}{more}; with {opt.TAG_COMPLETION.key} later "
            "snapshots get them"
        )


def wall_clock(millis: int, zone: Zone) -> Moment:
    """Milliseconds since 1970 as the time that the clocks of a zone show."""
    ahead = int(zone.offsets(np.array([millis // 1000], np.int64))[0])
    return _EPOCH + datetime.timedelta(milliseconds=millis, seconds=ahead)


def process_zone(options: Options) -> Zone:
    """The time zone of commits."""
    return java_zone(options[opt.PROCESS_ZONE]) if options[opt.PROCESS_ZONE] else local_zone()
