"""The streaming source: the driver's half of a table's stream in the terms of Spark's micro-batches.

An offset is the stream's position and nothing else, so a batch that Spark replays after a restart is planned from its
two offsets alone. Limits are Spark's admission control; with Trigger.AvailableNow the ends of all batches are fixed
when the first one is planned, since positions can be compared only by the stream itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from lakebed.errors import OptionError
from lakebed.kernel.options import at_least, memory_size
from lakebed.spark import worker
from lakebed.spark.read import TASKS_OPTION, read_tasks
from lakebed.verbs.stream import Limits, StreamReader

_POSITION = "position"
_UNBOUNDED = Limits()
_COUNT: Callable[[str], int] = at_least(1)
_KEYS: Mapping[str, tuple[str, Callable[[str], int], str, bool]] = {
    # key in lower case: (what it bounds, how it is read, what is expected, whether the table knows the key too)
    "read.commits.limit": ("commits", _COUNT, "a whole number of at least 1", True),
    "read.splits.limit": ("files", _COUNT, "a whole number of at least 1", True),
    "read.bytes.limit": ("bytes", memory_size, "a size such as 64mb", True),
    "maxfilespertrigger": ("files", _COUNT, "a whole number of at least 1", False),
    "maxbytespertrigger": ("bytes", memory_size, "a size such as 64mb", False),
    TASKS_OPTION: ("tasks", _COUNT, "a whole number of at least 1", True),
}
TABLE_LIMITS = frozenset(key for key, (name, _, _, of_table) in _KEYS.items() if of_table and name != "tasks")
"""Keys of those bounds that a table's options know too."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How much one batch takes, and how many tasks read it (None: as the session likes)."""

    limits: Limits = _UNBOUNDED
    tasks: int | None = None

    @classmethod
    def split(cls, options: Mapping[str, str]) -> tuple[StreamOptions, dict[str, str]]:
        """These options, and those that go on to the table. OptionError for an ill-typed value, or one bound given
        twice."""
        found: dict[str, int] = {}
        rest = dict(options)
        for key, text in options.items():
            if key.lower() not in _KEYS:
                continue
            name, parse, expected, of_table = _KEYS[key.lower()]
            if name in found:
                raise OptionError(f"option {key!r} bounds {name}, which another option bounds too", key=key)
            try:
                found[name] = parse(text)
            except (ValueError, KeyError) as error:
                raise OptionError.ill_typed(key, text, expected) from error
            if not of_table:
                del rest[key]
        tasks = found.pop("tasks", None)
        return cls(Limits(**found), tasks), rest


@dataclass(slots=True)
class Stream:
    """One query's source. It lives in one process of the driver; tasks get what they need in their partitions."""

    reader: StreamReader
    options: StreamOptions
    parallelism: int
    rows_only: bool
    _available_now: bool = False
    _ends: dict[str, str] | None = field(default=None, repr=False)

    def initial(self) -> dict[str, Any]:
        """The offset before the first row."""
        return {_POSITION: self.reader.initial()}

    def limit(self) -> ReadLimit:
        """Spark's marker for "bounded"; the bounds are this object's, since Spark knows none for commits."""
        return ReadAllAvailable() if self.options.limits == Limits() else ReadMaxRows(self.options.limits.commits or 1)

    def latest(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the batch from `start`; `start` itself when there is nothing new."""
        limits = Limits() if isinstance(limit, ReadAllAvailable) else self.options.limits
        position = start[_POSITION]
        if not self._available_now:
            return {_POSITION: self.reader.latest(position, limits)}
        if self._ends is None:
            self._ends = self._all_ends(position, limits)
        return {_POSITION: self._ends.get(position, position)}

    def prepare_available_now(self) -> None:
        """Take no commit that comes after the first batch was planned."""
        self._available_now, self._ends = True, None

    def tasks(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[bytes]:
        """Each task's share of a batch, packed."""
        if start == end:
            return []
        plan = self.reader.plan(start[_POSITION], end[_POSITION])
        return [worker.pack(task) for task in read_tasks(plan, self.options.tasks, self.parallelism, self.rows_only)]

    def _all_ends(self, start: str, limits: Limits) -> dict[str, str]:
        """Where each batch ends, by where it starts, up to what is there now."""
        last = self.reader.latest(start, Limits())
        ends: dict[str, str] = {}
        position = start
        while position != last and (end := self.reader.latest(position, limits)) != position:
            ends[position] = end
            position = end
        return ends
