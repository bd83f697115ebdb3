"""Times of a table's history: a snapshot as an instant, and times as texts and as milliseconds since 1970."""

from __future__ import annotations

import datetime
import json

from lakebed.errors import NotInHistoryError
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.model.instant import Instant

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def iso_time(millis: int) -> str:
    """Milliseconds since 1970 as an ISO 8601 time in UTC."""
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.UTC).isoformat(timespec="milliseconds")


def instant_of(snapshot: Snapshot) -> Instant:
    """A snapshot as an instant of the table's history."""
    summary = {
        "commit_user": snapshot.commit_user,
        "commit_identifier": str(snapshot.commit_identifier),
        "schema_id": str(snapshot.schema_id),
        "total_record_count": str(snapshot.total_record_count),
        "delta_record_count": str(snapshot.delta_record_count),
        "changelog_record_count": str(snapshot.changelog_record_count),
    }
    if snapshot.watermark is not None:
        summary["watermark"] = str(snapshot.watermark)
    if snapshot.properties:
        summary["properties"] = json.dumps(dict(snapshot.properties))
    return Instant(
        str(snapshot.id),
        iso_time(snapshot.time_millis),
        str(snapshot.commit_kind).lower(),
        "completed",
        summary=summary,
    )


def milliseconds(text: str, table: str) -> int:
    """An ISO time as milliseconds since 1970. It is in UTC unless it has an offset.

    Raises NotInHistoryError for any other text.
    """
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise NotInHistoryError(
            f"{text!r} does not name a snapshot", table=table, todo="Give a snapshot id, an ISO timestamp or tag:NAME"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - _EPOCH) // datetime.timedelta(milliseconds=1)
