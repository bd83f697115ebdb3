"""Which snapshot a read's options name, and the instant that pins a read to the newest snapshot.

Source of the options: the reference engine's SparkReadOptions, and SparkCatalog for what `versionAsOf` may name.
"""

from __future__ import annotations

from typing import TypeGuard

from lakebed.errors import OptionError, UsageError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.snapshot import Position, iso_time
from lakebed.kernel.options import Options, is_number
from lakebed.model.instant import Instant

_READ_WITH = "lakebed.read-with-schema"
"""In the summary of an instant that pins a read: the id of the schema that the read has."""


def newest_instant(head: Snapshot, schema_id: int) -> Instant:
    """The instant that pins a read to the head of a branch, and to the schema that the table has now."""
    summary = {_READ_WITH: str(schema_id)}
    time = iso_time(head.timestamp_ms)
    return Instant(str(head.snapshot_id), time, head.operation or "append", "completed", summary=summary)


def is_newest(position: Position) -> TypeGuard[Instant]:
    """Whether `newest_instant` gave the position."""
    return isinstance(position, Instant) and _READ_WITH in position.summary


def schema_id_of(position: Instant) -> int:
    """The id of the schema that a read as of an instant of `newest_instant` has."""
    return int(position.summary[_READ_WITH])


def given_position(options: Options) -> Position:
    """The snapshot that options name, None where they name none. OptionError where several name one."""
    given = [option.key for option in opt.POSITIONS if options.given(option)]
    if len(given) > 1:
        raise OptionError(
            f"{' and '.join(given)} are given", key=given[1], why="a read has one snapshot", todo="Give one of them"
        )
    if options[opt.TAG] is not None:
        return f"tag:{options[opt.TAG]}"
    version = options[opt.VERSION_AS_OF]
    if version is not None:
        return int(version) if is_number(version) else f"ref:{version}"
    moment = options[opt.TIMESTAMP_AS_OF] if options.given(opt.TIMESTAMP_AS_OF) else options[opt.AS_OF_TIMESTAMP]
    if moment is not None:
        return iso_time(moment)
    return options[opt.SNAPSHOT_ID]


def append_range(options: Options, as_of: Position) -> tuple[int, Position]:
    """The start (exclusive) and the end of a read of appends. An instant of `newest_instant` is the end where no option
    names one. UsageError for options that do not go together."""
    start, end = options[opt.START_SNAPSHOT], options[opt.END_SNAPSHOT]
    pinned = is_newest(as_of)
    if start is None:
        raise UsageError(
            "end-snapshot-id alone is not a range", todo="Give start-snapshot-id too, or snapshot-id for a whole table"
        )
    if (as_of is not None and not pinned) or given_position(options) is not None:
        raise UsageError(
            "start-snapshot-id cannot be used with a snapshot, time or tag to read as of",
            todo="End the range with end-snapshot-id",
        )
    return start, end if end is not None else as_of
