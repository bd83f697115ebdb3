"""Universal compaction: which sorted runs of a bucket are compacted, and to which level. Pure.

Rules: Paimon's UniversalCompaction, FullCompactTrigger, OffPeakHours and ForceUpLevel0Compaction. What a writer of
Paimon keeps in memory between its commits is taken from the files here: when a bucket was last compacted whole, and how
long level 0 has been waiting.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakebed.formats.paimon import compaction_options as opt
from lakebed.kernel import clock
from lakebed.kernel.options import Options


class Run(Protocol):
    """A sorted run: its level, and its bytes on disk."""

    @property
    def level(self) -> int:
        """The level, 0 for the newest files."""
        ...

    @property
    def size(self) -> int:
        """Bytes on disk."""
        ...


@dataclass(frozen=True, slots=True)
class Pick:
    """The first `runs` sorted runs of a bucket are to become files of `output_level`, and the `reason`."""

    runs: int
    output_level: int
    reason: str


@dataclass(frozen=True, slots=True)
class UniversalPicker:
    """The rules of a table.

    `trigger` is the number of runs that starts a compaction, `amplification` and `ratio` are percentages, `interval`
    is milliseconds and `threshold` bytes. `level_0_waits` is how many files of level 0 may wait when no other rule
    takes them; None: any number.
    """

    trigger: int
    amplification: int
    ratio: int
    interval: int | None = None
    threshold: int | None = None
    level_0_waits: int | None = None

    @classmethod
    def of(cls, options: Options, looks_up: bool) -> UniversalPicker:
        """The rules of a table whose compactions look older rows up, or do not."""
        trigger = options[opt.COMPACTION_TRIGGER]
        waits: int | None = None
        if looks_up and options[opt.LOOKUP_MODE] == "gentle":
            waits = max(trigger, options[opt.LOOKUP_INTERVAL] or 2 * trigger) - 1
        elif looks_up or options[opt.FORCE_UP_LEVEL_0]:
            waits = 0
        return cls(
            trigger,
            options[opt.SIZE_AMPLIFICATION],
            options[opt.SIZE_RATIO] + _off_peak(options),
            options[opt.OPTIMIZATION_INTERVAL],
            options[opt.TOTAL_SIZE_THRESHOLD],
            waits,
        )

    def may_pick(self, runs: int, level_0: int) -> bool:
        """Whether a bucket with so many runs, and so many of them in level 0, may be due. Cheap: it needs no files."""
        if runs >= self.trigger or (self.level_0_waits is not None and level_0 > self.level_0_waits):
            return True
        return runs > 1 and (self.interval is not None or self.threshold is not None)

    def pick(self, levels: int, runs: Sequence[Run], whole_since: int | None = None) -> Pick | None:
        """What to compact of a bucket with so many levels, None for nothing.

        `whole_since` is how many milliseconds ago the bucket was compacted whole; None: never.
        """
        top = levels - 1
        picked = self._by_full_trigger(top, runs, whole_since) or self._by_amplification(top, runs)
        if picked is None and len(runs) >= self.trigger:
            picked = self._by_ratio(top, runs, 1, "newer runs together are about as large as the next")
        if picked is None and len(runs) > self.trigger:
            count = len(runs) - self.trigger + 1
            picked = self._by_ratio(top, runs, count, f"{len(runs)} sorted runs, more than {self.trigger}")
        if picked is not None or self.level_0_waits is None:
            return picked
        waiting = sum(1 for run in runs if run.level == 0)
        if waiting <= self.level_0_waits:
            return None
        return self._by_ratio(top, runs, waiting, "rows of level 0 wait for their compaction", forced=True)

    def _by_full_trigger(self, top: int, runs: Sequence[Run], whole_since: int | None) -> Pick | None:
        if len(runs) < 2:
            return None
        if self.interval is not None and (whole_since is None or whole_since > self.interval):
            return Pick(len(runs), top, f"not compacted whole for {self.interval} ms")
        if self.threshold is not None and sum(run.size for run in runs) < self.threshold:
            return Pick(len(runs), top, f"fewer than {self.threshold} bytes")
        return None

    def _by_amplification(self, top: int, runs: Sequence[Run]) -> Pick | None:
        if len(runs) < self.trigger or not runs:
            return None
        newer = sum(run.size for run in runs[:-1])
        if newer * 100 <= self.amplification * runs[-1].size:
            return None
        return Pick(len(runs), top, f"newer runs have more than {self.amplification} % of the oldest run's bytes")

    def _by_ratio(self, top: int, runs: Sequence[Run], count: int, reason: str, forced: bool = False) -> Pick | None:
        """The first `count` runs, and those after them that are not much larger than all before them."""
        size = sum(run.size for run in runs[:count])
        for run in runs[count:]:
            if size * (100.0 + self.ratio) / 100.0 < run.size:
                break
            size += run.size
            count += 1
        return _to_level(top, runs, count, reason) if forced or count > 1 else None


def _to_level(top: int, runs: Sequence[Run], count: int, reason: str) -> Pick:
    """The first `count` runs, with the level that they go to. Nothing is compacted into level 0: more runs are taken
    instead, up to one of a higher level."""
    level = top if count == len(runs) else max(0, runs[count].level - 1)
    if level == 0:
        for run in runs[count:]:
            count += 1
            if run.level:
                level = run.level
                break
    return Pick(count, top if count == len(runs) else level, reason)


def _off_peak(options: Options) -> int:
    """The addition to the size ratio at the present hour."""
    start, end, more = options[opt.OFFPEAK_START], options[opt.OFFPEAK_END], options[opt.OFFPEAK_RATIO]
    if -1 in (start, end) or start == end or not more:
        return 0
    hour = datetime.datetime.fromtimestamp(clock.now()).hour
    within = start <= hour < end if start < end else hour >= start or hour < end
    return int(more) if within else 0
