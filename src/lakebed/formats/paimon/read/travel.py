"""The snapshot that the scan options of a table mean.

Rules: Paimon's TimeTravelUtil and AbstractDataTableScan, for batch reads. One option at a time names a snapshot;
`scan.mode` says which kind of option it must be. Times without a zone are in UTC, where Paimon takes the zone of its
process.
"""

from __future__ import annotations

from lakebed.errors import NotInHistoryError, OptionError, UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.snapshot_json import CommitKind, Snapshot
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.options import Options

_TRAVEL = (
    opt.SCAN_SNAPSHOT_ID, opt.SCAN_TAG_NAME, opt.SCAN_VERSION, opt.SCAN_WATERMARK, opt.SCAN_TIMESTAMP,
    opt.SCAN_TIMESTAMP_MILLIS,
)  # fmt: skip
_TIMES = (opt.SCAN_TIMESTAMP.key, opt.SCAN_TIMESTAMP_MILLIS.key)
_SNAPSHOTS = (opt.SCAN_SNAPSHOT_ID.key, opt.SCAN_TAG_NAME.key, opt.SCAN_VERSION.key, opt.SCAN_WATERMARK.key)
_TAKEN = {
    "latest-full": (),
    "full": (),
    "latest": (),
    "compacted-full": (),
    "from-snapshot": _SNAPSHOTS,
    "from-snapshot-full": (opt.SCAN_SNAPSHOT_ID.key, opt.SCAN_VERSION.key),
    "from-timestamp": _TIMES,
}
"""The options that a mode needs one of; none where it takes none."""
_NO_WATERMARK = -(2**63)
_WATERMARK = "watermark-"


def travel_keys(options: Options) -> list[str]:
    """The options that are given and name the snapshot to read, which then stays the same."""
    return [option.key for option in _TRAVEL if options[option] not in (None, "")]


def travelled(history: History, options: Options, table: str) -> Snapshot | None:
    """The snapshot that the options name; None where they mean the newest.

    Raises OptionError for options that contradict each other, UnsupportedError for modes that are not served,
    NotInHistoryError when there is no such snapshot.
    """
    mode, given = options[opt.SCAN_MODE], travel_keys(options)
    if len(given) > 1:
        raise OptionError(f"{' and '.join(given)} are given", key=given[1], why="one snapshot is read", todo="Give one")
    if mode not in (*_TAKEN, opt.SCAN_MODE.default):
        raise UnsupportedError(
            f"option {opt.SCAN_MODE.key!r} is {mode!r}, and lakebed does not serve that mode", table=table,
            todo=f"Served: {', '.join(_TAKEN)}",
        )  # fmt: skip
    taken = _TAKEN.get(mode)
    if taken is not None and (given[0] not in taken if given else taken):
        raise OptionError(
            f"option {opt.SCAN_MODE.key!r} is {mode!r}, but {given[0] if given else 'no snapshot'} is given",
            key=opt.SCAN_MODE.key, todo=f"Give {' or '.join(taken)}" if taken else f"Leave out {given[0]}",
        )  # fmt: skip
    if mode == "compacted-full":
        return _compacted(history, options, table)
    return _named(history, given[0], options, table) if given else None


def _named(history: History, key: str, options: Options, table: str) -> Snapshot | None:
    if key == opt.SCAN_TAG_NAME.key:
        return history.tag(options[opt.SCAN_TAG_NAME])
    if key == opt.SCAN_VERSION.key:
        return _of_version(history, options[opt.SCAN_VERSION], table)
    if key == opt.SCAN_WATERMARK.key:
        return _of_watermark(history, options[opt.SCAN_WATERMARK], table)
    if key == opt.SCAN_TIMESTAMP.key:
        return history.at_text(options[opt.SCAN_TIMESTAMP])
    if key == opt.SCAN_TIMESTAMP_MILLIS.key:
        return history.at_time(options[opt.SCAN_TIMESTAMP_MILLIS] or 0)
    return history.snapshot(options[opt.SCAN_SNAPSHOT_ID])


def _of_version(history: History, version: str, table: str) -> Snapshot:
    """The tag of that name, before the snapshot of that number."""
    if version in history.tags():
        return history.tag(version)
    rest = version.removeprefix(_WATERMARK)
    if rest != version and rest.removeprefix("-").isdecimal():
        return _of_watermark(history, int(rest), table)
    if version.isdecimal():
        return history.snapshot(int(version))
    return history.tag(version)


def _of_watermark(history: History, watermark: int, table: str) -> Snapshot:
    for snapshot in history.snapshots():
        if snapshot.watermark not in (None, _NO_WATERMARK) and snapshot.watermark >= watermark:
            return snapshot
    raise NotInHistoryError(
        f"no snapshot has a watermark of {watermark} or later", table=table, instant=f"{_WATERMARK}{watermark}"
    )


def _compacted(history: History, options: Options, table: str) -> Snapshot | None:
    """The newest snapshot that a compaction made; the newest of all where there is none."""
    scheduled = options.raw.get("full-compaction.delta-commits", "")
    if scheduled or options[opt.CHANGELOG_PRODUCER] == "full-compaction":
        raise UnsupportedError(
            f"option {opt.SCAN_MODE.key!r} is 'compacted-full' on a table with full compactions of a schedule",
            table=table, why="no snapshot says whether its compaction was a full one",
            todo=f"Name the snapshot with {opt.SCAN_SNAPSHOT_ID.key}",
        )  # fmt: skip
    return next((found for found in history.backwards() if found.commit_kind is CommitKind.COMPACT), None)
