"""Which changes a batch reads: the range that options name (`incremental-between` and its like), or two positions.

Rules: Paimon's AbstractDataTableScan.createIncrementalStartingScanner, IncrementalDeltaStartingScanner and
IncrementalDiffStartingScanner. A range begins after its first snapshot and ends with its second one. Two tags are
compared, because their snapshots may have expired, unless `incremental-between-tag-to-snapshot` is set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakebed.errors import NotInHistoryError, OptionError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.instants import milliseconds
from lakebed.formats.paimon.read.travel import travel_keys
from lakebed.formats.paimon.snapshot import History, Position
from lakebed.formats.paimon.tag_periods import TagPeriods
from lakebed.kernel.options import Options, is_number
from lakebed.model.instant import Instant

_RANGES = (opt.INCREMENTAL_BETWEEN, opt.INCREMENTAL_BETWEEN_TIMESTAMP, opt.INCREMENTAL_TO_AUTO_TAG)


class Mode(StrEnum):
    """Where the changes of a range come from."""

    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


@dataclass(frozen=True, slots=True)
class Range:
    """The changes after one snapshot, up to and including another.

    With `whole` the range begins with all rows of `first`, because what came before it is no longer known. None as
    `first` is the empty table. The changes of a `DIFF` lead from the rows of `first` to those of `last`; of the other
    modes they are those of each snapshot with an id in (`after`, `until`].
    """

    mode: Mode
    after: int
    until: int
    first: Snapshot | None = None
    last: Snapshot | None = None
    whole: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return self.until <= self.after and not self.whole


NOTHING = Range(Mode.DELTA, 0, 0)


def names_a_range(options: Options) -> bool:
    """Whether the options ask for the changes between two snapshots instead of a snapshot."""
    return any(options[option] for option in _RANGES) or options[opt.SCAN_MODE] == "incremental"


def scan_mode(options: Options) -> Mode:
    """Where the changes come from, by `incremental-between-scan-mode` and the table's changelog producer."""
    named = options[opt.INCREMENTAL_MODE]
    if named != "auto":
        return Mode(named)
    return Mode.DELTA if options[opt.CHANGELOG_PRODUCER] == "none" else Mode.CHANGELOG


# ---- ranges that options name ----------------------------------------------------------------------------------------


def option_range(history: History, options: Options, table: str) -> Range:
    """The range that the options name.

    Raises OptionError for options that contradict each other, NotInHistoryError for snapshots that are not in the
    history.
    """
    key = _range_key(options)
    if key == opt.INCREMENTAL_TO_AUTO_TAG.key:
        return _to_auto_tag(history, options)
    if key == opt.INCREMENTAL_BETWEEN.key:
        return _between(history, options, table)
    return _between_times(history, options, table)


def _range_key(options: Options) -> str:
    """The key of the option that names the range. OptionError unless exactly one option names what to read."""
    given = [*(option.key for option in _RANGES if options[option]), *travel_keys(options)]
    if not given or given[0] not in (option.key for option in _RANGES):
        raise OptionError(
            f"option {opt.SCAN_MODE.key!r} is 'incremental', but no range is given",
            key=opt.SCAN_MODE.key,
            todo=f"Give {opt.INCREMENTAL_BETWEEN.key} or {opt.INCREMENTAL_BETWEEN_TIMESTAMP.key}",
        )
    if len(given) > 1:
        raise OptionError(
            f"{' and '.join(given)} are given together",
            key=given[1],
            why="a read has one range",
            todo="Give one of them",
        )
    if options[opt.SCAN_MODE] not in ("default", "incremental"):
        raise OptionError(
            f"option {opt.SCAN_MODE.key!r} is {options[opt.SCAN_MODE]!r}, but {given[0]} is given",
            key=opt.SCAN_MODE.key,
            todo=f"Leave out {opt.SCAN_MODE.key} or {given[0]}",
        )
    return given[0]


def _pair(key: str, text: str) -> tuple[str, str]:
    first, comma, second = (part.strip() for part in text.partition(","))
    if not (first and comma and second) or "," in second:
        raise OptionError.ill_typed(key, text, "START,END, where the start itself is not read")
    return first, second


def _between(history: History, options: Options, table: str) -> Range:
    key, text = opt.INCREMENTAL_BETWEEN.key, options[opt.INCREMENTAL_BETWEEN]
    first, second = _pair(key, text)
    tags = history.tags()
    if first in tags and second in tags:
        start, end = history.tag(first), history.tag(second)
        if end.id < start.id:
            raise OptionError.ill_typed(key, text, "an end that is not before the start")
        if not options[opt.INCREMENTAL_TAGS]:
            return Range(Mode.DIFF, start.id, end.id, start, end)
        after, until = start.id, end.id
    elif first.isdecimal() and second.isdecimal():
        after, until = int(first), int(second)
        if until < after:
            raise OptionError.ill_typed(key, text, "an end that is not before the start")
    else:
        raise NotInHistoryError(
            f"{text!r} is neither two tags nor two snapshot ids", table=table, todo=f"Tags: {', '.join(tags) or 'none'}"
        )
    ids = history.snapshot_ids()
    if not ids or after == until:
        return NOTHING
    mode = scan_mode(options)
    if mode is Mode.DIFF:
        return Range(mode, after, until, history.snapshot(after), history.snapshot(until))
    _check_span(after, until, ids, table)
    return Range(mode, after, until)


def _check_span(after: int, until: int, ids: Sequence[int], table: str) -> None:
    if after < ids[0] - 1 or until > ids[-1]:
        raise NotInHistoryError(
            f"the history does not have all snapshots after {after} up to {until}",
            table=table,
            instant=str(until if until > ids[-1] else after),
            todo=f"Snapshots: {ids[0]} to {ids[-1]}",
        )


def _between_times(history: History, options: Options, table: str) -> Range:
    key, text = opt.INCREMENTAL_BETWEEN_TIMESTAMP.key, options[opt.INCREMENTAL_BETWEEN_TIMESTAMP]
    start, end = (int(part) if part.isdecimal() else milliseconds(part, table) for part in _pair(key, text))
    if end < start:
        raise OptionError.ill_typed(key, text, "an end that is not before the start")
    ends = history.ends()
    if ends is None:
        return NOTHING
    oldest, newest = ends
    if start == end or start > newest.time_millis or end < oldest.time_millis:
        return NOTHING
    mode, last = scan_mode(options), history.at_time(end)
    if mode is Mode.DIFF:
        first = oldest if oldest.time_millis > start else history.at_time(start)
        return Range(mode, first.id, last.id, first, last)
    after = oldest.id - 1 if oldest.time_millis > start else history.at_time(start).id
    return Range(mode, after, last.id)


def _to_auto_tag(history: History, options: Options) -> Range:
    """What differs between an automatic tag and the one before it. Nothing where either is missing."""
    name = options[opt.INCREMENTAL_TO_AUTO_TAG]
    periods = TagPeriods.of(options)
    moment = periods.start(name)
    if moment is None:
        raise OptionError.ill_typed(opt.INCREMENTAL_TO_AUTO_TAG.key, name, "the name of an automatic tag")
    tags = history.tags()
    times = [(time, tag) for tag in tags if (time := periods.start(tag)) is not None and time < moment]
    if name not in tags or not times:
        return NOTHING
    first, last = history.tag(max(times)[1]), history.tag(name)
    return Range(Mode.DIFF, first.id, last.id, first, last)


# ---- ranges between positions ----------------------------------------------------------------------------------------


def position_range(history: History, options: Options, after: Position, until: Position, table: str) -> Range:
    """The range between two positions. None as `after` is the empty table, None as `until` the newest snapshot.

    Raises NotInHistoryError for snapshots that are not in the history.
    """
    mode = scan_mode(options)
    if _is_tag(after) and _is_tag(until) and not options[opt.INCREMENTAL_TAGS]:
        mode = Mode.DIFF
    last = history.at(until)
    if last is None:
        if after is not None:
            history.at(after)
        return NOTHING
    if mode is Mode.DIFF:
        start, first = (0, None) if after is None else _start(history, after, table)
        if first is None and start:
            raise _gone(history, start, table)
        return Range(mode, start, last.id, first, last) if start < last.id else NOTHING
    if after is None:
        oldest = history.earliest()
        assert oldest is not None
        if last.id < oldest.id:  # a tag whose snapshot has expired
            return Range(Mode.DIFF, 0, last.id, None, last)
        return Range(mode, oldest.id, last.id, oldest, whole=True)
    start, _ = _start(history, after, table)
    if start >= last.id:
        return NOTHING
    _check_span(start, last.id, history.snapshot_ids(), table)
    return Range(mode, start, last.id)


def _start(history: History, after: Position, table: str) -> tuple[int, Snapshot | None]:
    """The id of the snapshot at a position, and the snapshot; None where only those after it are there.

    The id before the oldest one names the start of what is there, and so does a time before the first snapshot of a
    table that still has it.
    """
    try:
        first = history.at(after)
        assert first is not None
        return first.id, first
    except NotInHistoryError:
        text = str(after.time if isinstance(after, Instant) else after)
        oldest = history.earliest()
        if oldest is None or text.startswith("tag:"):
            raise
        if is_number(text):
            before = int(text) == oldest.id - 1
        else:
            before = oldest.id == 1 and milliseconds(text, table) < oldest.time_millis
        if not before:
            raise
        return oldest.id - 1, None


def _gone(history: History, snapshot_id: int, table: str) -> NotInHistoryError:
    ids = history.snapshot_ids()
    return NotInHistoryError(
        f"snapshot {snapshot_id} is not in the history",
        table=table,
        instant=str(snapshot_id),
        todo=f"Snapshots: {ids[0]} to {ids[-1]}" if ids else "The table has no snapshot yet",
    )


def _is_tag(position: Position) -> bool:
    return isinstance(position, str) and position.startswith("tag:")
