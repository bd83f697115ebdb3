"""Tag files: `tag/tag-NAME`, the JSON of a snapshot, with two more keys where the tag has a time to live.

Rules: Paimon's Tag. `tagCreateTime` is the wall clock of the process that made the tag, as [year, month, day, hour,
minute, second, nanosecond] without trailing zeros; `tagTimeRetained` is in seconds.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import Any

from lakebed.formats.paimon.codec.snapshot_json import Snapshot, snapshot_from_json, snapshot_to_json
from lakebed.kernel.decoding import decoding, parsed_json

_CREATED, _RETAINED = "tagCreateTime", "tagTimeRetained"


@dataclass(frozen=True, slots=True)
class Tag:
    """A snapshot that has a name. `created` is a wall clock time without a zone, `retained` the time to live from
    there on; without both the tag lives until it is deleted."""

    snapshot: Snapshot
    created: datetime.datetime | None = None
    retained: datetime.timedelta | None = None

    @property
    def ends(self) -> datetime.datetime | None:
        """The wall clock time at which its time to live is over; None: never."""
        if self.created is None or self.retained is None:
            return None
        try:
            return self.created + self.retained
        except OverflowError:
            return None


def tag_from_json(data: bytes) -> Tag:
    """Decode a tag file. Raises CorruptError for bytes that are not a tag."""
    snapshot = snapshot_from_json(data)
    with decoding("the tag file cannot be read"):
        value: dict[str, Any] = parsed_json(data)
        created, retained = value.get(_CREATED), value.get(_RETAINED)
        return Tag(
            snapshot, None if created is None else _moment(created), None if retained is None else _span(retained)
        )


def tag_to_json(tag: Tag) -> bytes:
    """The bytes of a tag file. Without a time to live it is that of the snapshot, which old engines read too."""
    if tag.created is None or tag.retained is None:
        return snapshot_to_json(tag.snapshot)
    value: dict[str, Any] = json.loads(snapshot_to_json(tag.snapshot))
    at = tag.created
    value[_CREATED] = [at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond * 1000]
    value[_RETAINED] = tag.retained.total_seconds()
    return json.dumps(value, indent=2, ensure_ascii=False).encode()


def _moment(value: object) -> datetime.datetime:
    if isinstance(value, str):
        return datetime.datetime.fromisoformat(value).replace(tzinfo=None)
    if not isinstance(value, list) or not all(type(part) is int for part in value) or not 3 <= len(value) <= 7:
        raise ValueError(f"{_CREATED} is {value!r}")
    year, month, day, hour, minute, second, nanos = (*value, 0, 0, 0, 0)[:7]
    return datetime.datetime(year, month, day, hour, minute, second, nanos // 1000)


def _span(value: object) -> datetime.timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{_RETAINED} is {value!r}")
    try:
        return datetime.timedelta(seconds=value)
    except OverflowError:
        return datetime.timedelta.max
