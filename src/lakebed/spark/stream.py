"""The streaming source: the driver's half of a table's stream, cut into Spark's micro-batches.

An offset is the stream's position and nothing else, so a batch that Spark replays after a restart is planned from its
two offsets alone. Options that bound a batch are applied as Spark's admission control. With Trigger.AvailableNow the
ends of all batches are fixed when the first one is planned, since only the stream itself can compare positions.

Before PySpark 4.2 a source is asked for the newest offset and not told where a batch begins. That is where the batch
before it ended, which a process knows once it has planned one. Until then a batch takes all that is there: nothing can
bound it, so options that do are refused there (`source`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lakebed.errors import OptionError
from lakebed.kernel.options import at_least, memory_size
from lakebed.spark import worker
from lakebed.spark.read import TASKS_OPTION, read_tasks
from lakebed.verbs.stream import KeepsProgress, Limits, StreamReader

_POSITION = "position"
_UNBOUNDED = Limits()
_COUNT: Callable[[str], int] = at_least(1)
_KEYS: Mapping[str, tuple[str, Callable[[str], int], str, bool]] = {
    # key in lower case: (what it bounds, how it is parsed, what is expected, whether the table knows the key too)
    "read.commits.limit": ("commits", _COUNT, "a whole number of at least 1", True),
    "read.splits.limit": ("files", _COUNT, "a whole number of at least 1", True),
    "read.bytes.limit": ("bytes", memory_size, "a size such as 64mb", True),
    "maxfilespertrigger": ("files", _COUNT, "a whole number of at least 1", False),
    "maxbytespertrigger": ("bytes", memory_size, "a size such as 64mb", False),
    TASKS_OPTION: ("tasks", _COUNT, "a whole number of at least 1", True),
}
TABLE_LIMITS = frozenset(key for key, (name, _, _, of_table) in _KEYS.items() if of_table and name != "tasks")
"""The bounds of a batch that are keys of tables too."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How much one batch takes, and how many tasks read it (None: as many as suit the data)."""

    limits: Limits = _UNBOUNDED
    tasks: int | None = None

    @property
    def bounded(self) -> tuple[str, ...]:
        """The limits of a batch that options set: names among commits, files, bytes."""
        return tuple(name for name, most in asdict(self.limits).items() if most is not None)

    @classmethod
    def split(cls, options: Mapping[str, str]) -> tuple[StreamOptions, dict[str, str]]:
        """Split a DataFrame's options into these, and those for the table. OptionError for a value of the wrong type,
        and for two options that bound the same."""
        bounds: dict[str, int] = {}
        rest = dict(options)
        for key, text in options.items():
            if key.lower() not in _KEYS:
                continue
            name, parse, expected, of_table = _KEYS[key.lower()]
            if name in bounds:
                raise OptionError(f"option {key!r} bounds {name}, which another option bounds too", key=key)
            try:
                bounds[name] = parse(text)
            except (ValueError, KeyError) as error:
                raise OptionError.ill_typed(key, text, expected) from error
            if not of_table:
                del rest[key]
        tasks = bounds.pop("tasks", None)
        return cls(Limits(**bounds), tasks), rest


@dataclass(slots=True)
class Stream:
    """The source of one query. It lives in one process of the driver; tasks get what they need in their partitions."""

    reader: StreamReader
    options: StreamOptions
    parallelism: int
    rows_only: bool
    _available_now: bool = False
    _ends: dict[str, str] | None = field(default=None, repr=False)
    _next: str | None = field(default=None, repr=False)
    _unproved: str | None = field(default=None, repr=False)

    def initial(self) -> dict[str, Any]:
        """The offset before the first row."""
        return {_POSITION: self.reader.initial()}

    @property
    def is_bounded(self) -> bool:
        """Whether options bound a batch."""
        return self.options.limits != _UNBOUNDED

    def latest(self, start: Mapping[str, Any], bounded: bool) -> dict[str, Any]:
        """The offset at which the batch that begins at `start` ends; `start` itself when there is nothing new.

        `bounded` says whether Spark asks for a batch within the bounds.
        """
        limits = self.options.limits if bounded else _UNBOUNDED
        position = start[_POSITION]
        if not self._available_now:
            return {_POSITION: self.reader.latest(position, limits)}
        if self._ends is None:
            self._ends = self._all_ends(position, limits)
        return {_POSITION: self._ends.get(position, position)}

    def initial_untold(self) -> dict[str, Any]:
        """The offset before the first row, where Spark does not tell a batch's beginning. UnsupportedError for a stream
        that must know it: now, and not when its query starts again."""
        self.reader.after_everything()
        offset = self.initial()
        self._next = offset[_POSITION]
        return offset

    def newest(self) -> dict[str, Any]:
        """The offset at which a batch ends whose beginning Spark does not tell."""
        if self._next is not None:
            return {_POSITION: self.reader.latest(self._next, _UNBOUNDED)}
        self._unproved = self.reader.after_everything()
        return {_POSITION: self._unproved}

    def prepare_available_now(self) -> None:
        """From now on, read no commit that comes after the first batch was planned."""
        self._available_now, self._ends = True, None

    def committed(self, end: Mapping[str, Any]) -> None:
        """Spark has completed all batches up to an offset."""
        if isinstance(self.reader, KeepsProgress):
            self.reader.processed(end[_POSITION])

    def tasks(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[bytes]:
        """What each task of a batch reads, packed."""
        if start == end:
            return []
        self.committed(start)  # a batch is planned once the one before it is done
        if end[_POSITION] == self._unproved:
            self.reader.latest(start[_POSITION], _UNBOUNDED)  # raises where nothing leads there, as after a rollback
        plan = self.reader.plan(start[_POSITION], end[_POSITION])
        self._next = end[_POSITION]
        return [worker.pack(task) for task in read_tasks(plan, self.options.tasks, self.parallelism, self.rows_only)]

    def _all_ends(self, start: str, limits: Limits) -> dict[str, str]:
        """The end of each batch by its start, up to the newest commit of this moment."""
        ends = self.reader.ends(start, limits)
        return dict(zip([start, *ends[:-1]], ends, strict=False))
