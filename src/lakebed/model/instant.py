"""One point in a table's history, the same value for every format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebed.model.notebooks import Shown


@dataclass(frozen=True, slots=True, repr=False)
class Instant(Shown):
    """A Hudi instant, a Paimon snapshot or an Iceberg snapshot.

    | field | Hudi | Paimon, Iceberg |
    |---|---|---|
    | `time` | requested time, yyyyMMddHHmmssSSS in the table's time zone | snapshot id, as text |
    | `completed` | completion time in that form, "" while pending or not recorded | ISO 8601 in UTC |
    | `action` | commit, deltacommit, clean, ... in lower case | kind of commit, in lower case |
    | `state` | requested, inflight or completed | completed |

    `time` is the instant's name, which `as_of`, `after` and `until` take. `archived` says that it is in Hudi's archived
    timeline. `summary` is what the format itself recorded about it, as text.
    """

    time: str
    completed: str
    action: str
    state: str
    archived: bool = False
    summary: Mapping[str, str] = field(default_factory=dict)
