"""The local time zone, which Paimon's casts between TIMESTAMP WITH LOCAL TIME ZONE and other types use.

Rules: Java's TimeZone.getDefault in the process that reads, and LocalDateTime.atZone. A wall clock time that the shift
to summer time skips moves forward by the shift. A wall clock time that occurs twice is the earlier one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError, first_line
from lakebed.formats.paimon.casts.columns import column_of, flags, longs, present
from lakebed.kernel.joda.zones import local_zone_name

_UTC = ("", "UTC", "Etc/UTC", "UCT", "Zulu", "GMT", "Etc/GMT")


def to_moment(column: pa.Array) -> pa.Array:
    """Convert wall clock times of the local time zone to moments."""
    zone, kind = local_zone_name(), pa.timestamp(column.type.unit, "UTC")
    if zone in _UTC:
        return column.view(kind)
    later = _assumed(column, zone, "latest")
    missing = flags(pc.not_equal(pc.local_timestamp(later), column))
    if not missing.any():
        return later.cast(kind)
    before = _assumed(column, zone, "earliest")  # the last moment before the gap: its offset applies
    offset = longs(pc.local_timestamp(before)) - longs(before)
    moments = np.where(missing, longs(column) - offset, longs(later))
    return column_of(moments, present(column), kind)


def to_wall_clock(column: pa.Array) -> pa.Array:
    """Convert moments to wall clock times of the local time zone."""
    zone, kind = local_zone_name(), pa.timestamp(column.type.unit)
    if zone in _UTC:
        return column.view(kind)
    try:
        return pc.local_timestamp(column.cast(pa.timestamp(column.type.unit, zone)))
    except pa.ArrowInvalid as error:
        raise _unknown(zone, error) from error


def _assumed(column: pa.Array, zone: str, nonexistent: str) -> pa.Array:
    try:
        return pc.assume_timezone(column, zone, ambiguous="earliest", nonexistent=nonexistent)
    except pa.ArrowInvalid as error:
        raise _unknown(zone, error) from error


def _unknown(zone: str, error: Exception) -> UnsupportedError:
    return UnsupportedError(
        f"lakebed does not know the local time zone {zone!r}",
        why=first_line(error),
        todo="Set TZ to a name of the time zone database, for example TZ=Europe/Berlin",
    )
