"""Time travel: the snapshot that the scan options of a table name.

Rules: Paimon's TimeTravelUtil and AbstractDataTableScan, for batch reads. At most one option names a snapshot, and
`scan.mode` says which kind of option it must be. Times without a zone are in UTC; Paimon uses the zone of its process.
"""

from __future__ import annotations

from lakebed.errors import NotInHistoryError, OptionError, UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.options import Options
from lakebed.model.commit import BATCH_IDENTIFIER

_TRAVEL_OPTIONS = (
    opt.SCAN_SNAPSHOT_ID, opt.SCAN_TAG_NAME, opt.SCAN_VERSION, opt.SCAN_WATERMARK, opt.SCAN_TIMESTAMP,
    opt.SCAN_TIMESTAMP_MILLIS, opt.CREATION_TIME, opt.FILE_CREATION_TIME,
)  # fmt: skip
_TIME_KEYS = (opt.SCAN_TIMESTAMP.key, opt.SCAN_TIMESTAMP_MILLIS.key)
_SNAPSHOT_KEYS = (opt.SCAN_SNAPSHOT_ID.key, opt.SCAN_TAG_NAME.key, opt.SCAN_VERSION.key, opt.SCAN_WATERMARK.key)
_OPTIONS_OF_MODE = {
    "latest-full": (),
    "full": (),
    "latest": (),
    "compacted-full": (),
    "from-snapshot": _SNAPSHOT_KEYS,
    "from-snapshot-full": (opt.SCAN_SNAPSHOT_ID.key, opt.SCAN_VERSION.key),
    "from-timestamp": _TIME_KEYS,
    "from-creation-timestamp": (opt.CREATION_TIME.key,),
    "from-file-creation-time": (opt.FILE_CREATION_TIME.key,),
}
"""The options of which a mode needs one. A mode without any reads what it says by itself."""
_NO_WATERMARK = -(2**63)
_WATERMARK = "watermark-"


def travel_keys(options: Options) -> list[str]:
    """The given options that pin the read to a snapshot."""
    return [option.key for option in _TRAVEL_OPTIONS if options[option] not in (None, "")]


def travelled(history: History, options: Options, table: str) -> Snapshot | None:
    """The snapshot that the options name. None means the newest.

    Raises OptionError for options that contradict each other, UnsupportedError for a scan mode that lakebed does not
    support, NotInHistoryError when there is no such snapshot.
    """
    mode, given = options[opt.SCAN_MODE], travel_keys(options)
    if len(given) > 1:
        raise OptionError(
            f"{' and '.join(given)} are given together",
            key=given[1],
            why="a read has one snapshot",
            todo="Give one of them",
        )
    if mode not in (*_OPTIONS_OF_MODE, opt.SCAN_MODE.default):
        raise UnsupportedError(
            f"lakebed does not support the scan mode {mode!r}",
            table=table,
            todo=f"Supported: {', '.join(_OPTIONS_OF_MODE)}",
        )
    allowed = _OPTIONS_OF_MODE.get(mode)
    if allowed is not None and (given[0] not in allowed if given else allowed):
        raise OptionError(
            f"option {opt.SCAN_MODE.key!r} is {mode!r}, but {given[0] if given else 'no snapshot'} is given",
            key=opt.SCAN_MODE.key,
            todo=f"Give {' or '.join(allowed)}" if allowed else f"Leave out {given[0]}",
        )
    if mode == "compacted-full":
        return compacted(history, options)
    return _named(history, given[0], options, table) if given else None


def created_since(history: History, options: Options) -> int | None:
    """The time, in milliseconds since 1970, before which files were created that a batch leaves out; None for none.

    `scan.creation-time-millis` means the first snapshot at or after a time where the one before it is there too, else
    the files of the newest one that were created since.
    """
    given = travel_keys(options)
    if opt.FILE_CREATION_TIME.key in given:
        return int(options[opt.FILE_CREATION_TIME])
    if opt.CREATION_TIME.key in given and _created_from(history, options[opt.CREATION_TIME]) is None:
        return int(options[opt.CREATION_TIME])
    return None


def _created_from(history: History, millis: int) -> Snapshot | None:
    ends = history.ends()
    if ends is None or not ends[0].time_millis < millis <= ends[1].time_millis:
        return None
    return history.snapshot(history.at_time(millis - 1).id + 1)


def _named(history: History, key: str, options: Options, table: str) -> Snapshot | None:
    if key == opt.FILE_CREATION_TIME.key:
        return None
    if key == opt.CREATION_TIME.key:
        return _created_from(history, options[opt.CREATION_TIME])
    if key == opt.SCAN_TAG_NAME.key:
        return history.tag(options[opt.SCAN_TAG_NAME])
    if key == opt.SCAN_VERSION.key:
        return _at_version(history, options[opt.SCAN_VERSION], table)
    if key == opt.SCAN_WATERMARK.key:
        return _at_watermark(history, options[opt.SCAN_WATERMARK], table)
    if key == opt.SCAN_TIMESTAMP.key:
        return history.at_text(options[opt.SCAN_TIMESTAMP])
    if key == opt.SCAN_TIMESTAMP_MILLIS.key:
        return history.at_time(options[opt.SCAN_TIMESTAMP_MILLIS] or 0)
    return history.snapshot(options[opt.SCAN_SNAPSHOT_ID])


def _at_version(history: History, version: str, table: str) -> Snapshot:
    """The snapshot that a version means: a tag by that name wins over a snapshot by that id."""
    if version in history.tags():
        return history.tag(version)
    rest = version.removeprefix(_WATERMARK)
    if rest != version and rest.removeprefix("-").isdecimal():
        return _at_watermark(history, int(rest), table)
    if version.isdecimal():
        return history.snapshot(int(version))
    return history.tag(version)


def _at_watermark(history: History, watermark: int, table: str) -> Snapshot:
    for snapshot in history.snapshots():
        if snapshot.watermark not in (None, _NO_WATERMARK) and snapshot.watermark >= watermark:
            return snapshot
    raise NotInHistoryError(
        f"no snapshot has a watermark of {watermark} or later", table=table, instant=f"{_WATERMARK}{watermark}"
    )


def compacted(history: History, options: Options) -> Snapshot | None:
    """The newest snapshot of a compaction, None where there is none. Where the table schedules full compactions it is
    one of those, which Paimon knows by their identifier (FullCompactedStartingScanner)."""
    every = options.raw.get("full-compaction.delta-commits", "").strip()
    scheduled = every or options[opt.CHANGELOG_PRODUCER] == "full-compaction"
    period = max(int(every), 1) if every.isdecimal() else 1
    for snapshot in history.backwards():
        number = snapshot.commit_identifier
        if snapshot.commit_kind is CommitKind.COMPACT and (
            not scheduled or number % period == 0 or number == BATCH_IDENTIFIER
        ):
            return snapshot
    return None
