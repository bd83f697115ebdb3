"""One point of a table's history, whatever the format calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Instant:
    """A Hudi instant, a Paimon snapshot or an Iceberg snapshot.

    `time` is the name that orders it and that `as_of`, `after` and `until` take: Hudi's requested time
    (yyyyMMddHHmmssSSS in the table's time zone), else the snapshot id as text. `completed` is when it became visible:
    Hudi's completion time in the same form ("" while pending or not recorded), else ISO 8601 in UTC. `action` and
    `state` are the format's words in lower case; a snapshot is always "completed". `summary` holds what the format
    itself recorded, as text.
    """

    time: str
    completed: str
    action: str
    state: str
    archived: bool = False
    summary: Mapping[str, str] = field(default_factory=dict)
