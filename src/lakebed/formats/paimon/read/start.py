"""Where a stream starts: its consumer's progress, `read.start-commit`, or `scan.mode` and the options beside it.

Rules: Paimon's AbstractDataTableScan.createStartingScanner for streams, and its starting scanners. Three differences:
a consumer whose next snapshot has expired is an error, since Paimon goes on from the oldest one and leaves a gap; a
stream that starts on an empty table reads everything that comes; and without any option a stream starts with the newest
snapshot, as those of the other formats do. Paimon's own sources start with the whole table (`latest-full`), and so does
`format("paimon")`.
"""

from __future__ import annotations

from typing import Any

from lakebed.errors import NotInHistoryError, OptionError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.instants import milliseconds
from lakebed.formats.paimon.read.consumers import next_snapshot
from lakebed.formats.paimon.read.position import StreamPosition
from lakebed.formats.paimon.read.range import names_a_range
from lakebed.formats.paimon.read.readable import ReadableSnapshots
from lakebed.formats.paimon.read.travel import compacted, travel_keys
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.options import Option, Options

NEWEST = "newest"
"""The mode of a stream that begins with the changes of the newest snapshot."""
_OPTIONS_OF_MODE: dict[str, tuple[Option[Any], ...]] = {
    "from-snapshot": (opt.SCAN_SNAPSHOT_ID, opt.SCAN_VERSION),
    "from-snapshot-full": (opt.SCAN_SNAPSHOT_ID, opt.SCAN_VERSION),
    "from-timestamp": (opt.SCAN_TIMESTAMP, opt.SCAN_TIMESTAMP_MILLIS),
    "from-creation-timestamp": (opt.CREATION_TIME,),
    "from-file-creation-time": (opt.FILE_CREATION_TIME,),
}
"""The options of which a mode needs one."""
_BY_TIME = ("from-timestamp", "from-creation-timestamp", "from-file-creation-time")


def start_of_stream(history: History, options: Options, default: str) -> StreamPosition:
    """The position before the first row that the options ask for. `default` is the mode of a stream whose options name
    none.

    Raises OptionError for options that contradict each other or that only batches have, NotInHistoryError for a
    snapshot that is not in the history, DataCleanedError for a consumer whose next snapshot has expired.
    """
    mode = _mode(options, default)
    consumer = options[opt.CONSUMER_ID]
    if consumer and not options[opt.CONSUMER_IGNORE_PROGRESS]:
        kept = next_snapshot(history, consumer)
        if kept is not None:
            return _of_consumer(history, kept)
    if options[opt.START_COMMIT]:
        return _from_commit(history, options[opt.START_COMMIT])
    ends = history.ends()
    if ends is None:
        return _on_empty_table(mode, options)
    return _Start(history, options, *ends).of_mode(mode)


def _mode(options: Options, default: str) -> str:
    """The start mode that holds: `scan.mode`, or what the other options say."""
    if names_a_range(options):
        raise _only_batches("a range of changes", "Read it with table.changes or table.read")
    given, mode = travel_keys(options), options[opt.SCAN_MODE]
    for key in (opt.SCAN_TAG_NAME.key, opt.SCAN_WATERMARK.key):
        if key in given:
            raise _only_batches(
                f"option {key!r}", f"Give {opt.SCAN_SNAPSHOT_ID.key} or {opt.SCAN_TIMESTAMP_MILLIS.key}"
            )
    if len(given) > 1:
        raise OptionError(f"{' and '.join(given)} are given together", key=given[1], why="a stream has one start")
    if options[opt.START_COMMIT] and (given or mode != "default"):
        raise OptionError(
            f"{opt.START_COMMIT.key} and {given[0] if given else opt.SCAN_MODE.key} are given together",
            key=opt.START_COMMIT.key,
            why="a stream has one start",
        )
    if mode != "default":
        needed = _OPTIONS_OF_MODE.get(mode)
        keys = [option.key for option in needed or ()]
        if needed and not any(options[option] not in (None, "") for option in needed):
            raise OptionError(
                f"option {opt.SCAN_MODE.key!r} is {mode!r}, but no start is given",
                key=opt.SCAN_MODE.key,
                todo=f"Give {' or '.join(keys)}",
            )
        if given and given[0] not in keys:
            raise OptionError(
                f"option {opt.SCAN_MODE.key!r} is {mode!r}, but {given[0]} is given",
                key=opt.SCAN_MODE.key,
                todo=f"Leave out {given[0]}",
            )
        return "latest-full" if mode == "full" else mode
    if given:
        return next(mode for mode, needed in _OPTIONS_OF_MODE.items() if given[0] in [option.key for option in needed])
    return default


def _only_batches(what: str, todo: str) -> OptionError:
    return OptionError(f"{what} is for a batch, not for a stream", key=opt.SCAN_MODE.key, todo=todo)


def _of_consumer(history: History, kept: int) -> StreamPosition:
    oldest = ReadableSnapshots(history).oldest()
    if oldest is not None and kept < oldest:
        raise ReadableSnapshots(history).gone(kept)
    return StreamPosition(kept)


def _on_empty_table(mode: str, options: Options) -> StreamPosition:
    if mode in _BY_TIME:
        return StreamPosition(None)
    if mode.startswith("from-snapshot"):
        return StreamPosition(_snapshot_id(options), whole=mode == "from-snapshot-full")
    return StreamPosition(1)


def _snapshot_id(options: Options) -> int:
    """The snapshot to start with, by `scan.snapshot-id` or a `scan.version` that is a number."""
    number, version = options[opt.SCAN_SNAPSHOT_ID], options[opt.SCAN_VERSION]
    if number is not None:
        return int(number)
    if not version.isdecimal():
        raise _only_batches(f"{opt.SCAN_VERSION.key} {version!r}", f"Give {opt.SCAN_SNAPSHOT_ID.key}")
    return int(version)


def _from_commit(history: History, start: str) -> StreamPosition:
    """The position that `read.start-commit` names: inclusive, or the oldest snapshot in full for `earliest`."""
    ends = history.ends()
    if ends is None:
        return StreamPosition(1)
    oldest, newest = ends
    if start.strip().lower() == "earliest":
        return StreamPosition(oldest.id, whole=True)
    if start.strip().isdecimal():
        return StreamPosition(_in_history(history, int(start), newest))
    return StreamPosition(_first_since(history, milliseconds(start.strip(), history.store.location), oldest, newest))


def _in_history(history: History, snapshot_id: int, newest: Snapshot) -> int:
    if snapshot_id > newest.id + 1:
        history.snapshot(snapshot_id)  # which says what there is
    elif snapshot_id <= newest.id and snapshot_id < (ReadableSnapshots(history).oldest() or 1):
        raise ReadableSnapshots(history).gone(snapshot_id)
    return snapshot_id


def _first_since(history: History, millis: int, oldest: Snapshot, newest: Snapshot) -> int:
    """The first snapshot made at or after a time; the next one where all are older."""
    if newest.time_millis < millis:
        return newest.id + 1
    if oldest.time_millis >= millis:
        return oldest.id
    return history.at_time(millis - 1).id + 1


class _Start:
    """The start modes, on a table with snapshots."""

    def __init__(self, history: History, options: Options, oldest: Snapshot, newest: Snapshot) -> None:
        self._history, self._options, self._oldest, self._newest = history, options, oldest, newest

    def of_mode(self, mode: str) -> StreamPosition:
        """The position where a mode starts."""
        newest = self._newest.id
        match mode:
            case "latest-full":
                return StreamPosition(newest, whole=True)
            case "newest":
                return StreamPosition(newest)
            case "latest":
                return StreamPosition(newest + 1)
            case "compacted-full":
                return StreamPosition((compacted(self._history, self._options) or self._newest).id, whole=True)
            case "from-timestamp":
                return StreamPosition(self._since(self._scan_time()))
            case "from-snapshot" | "from-snapshot-full":
                return self._from_snapshot(_snapshot_id(self._options), mode == "from-snapshot-full")
            case "from-creation-timestamp":
                since = self._options[opt.CREATION_TIME]
                if self._oldest.time_millis < since <= self._newest.time_millis:
                    return StreamPosition(self._since(since))
                return StreamPosition(newest, whole=True, created_since=since)
            case "from-file-creation-time":
                return StreamPosition(newest, whole=True, created_since=self._options[opt.FILE_CREATION_TIME])
        raise _only_batches(f"{opt.SCAN_MODE.key} {mode!r}", "Use another mode")

    def _from_snapshot(self, snapshot_id: int, whole: bool) -> StreamPosition:
        """A snapshot; where it has expired, the oldest one."""
        oldest = self._oldest.id if whole else ReadableSnapshots(self._history).oldest() or 1
        if snapshot_id > self._newest.id + (not whole):
            raise NotInHistoryError(
                f"snapshot {snapshot_id} is not in the history",
                table=self._history.store.location,
                instant=str(snapshot_id),
                todo=f"Snapshots: {oldest} to {self._newest.id}",
            )
        return StreamPosition(max(snapshot_id, oldest), whole)

    def _scan_time(self) -> int:
        millis, text = self._options[opt.SCAN_TIMESTAMP_MILLIS], self._options[opt.SCAN_TIMESTAMP]
        return int(millis) if millis is not None else milliseconds(text, self._history.store.location)

    def _since(self, millis: int) -> int:
        return _first_since(self._history, millis, self._oldest, self._newest)
