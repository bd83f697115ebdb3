"""What the statistics files of a table say, for its health report: distinct values, and how old the figures are.

Rule: the specification's "Table Statistics". The metadata holds the counts themselves, as the property `ndv` of each
sketch, so no statistics file is opened. Whatever stands there in another form is left out, with a note: statistics
never decide which rows a table has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import counted
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot

_SKETCH = "apache-datasketches-theta-v1"
_STALE = 0.2
"""Figures are stale when so many of a table's rows were added since."""


@dataclass(frozen=True, slots=True)
class StatisticsReport:
    """`commits` and `partition_commits` are how many snapshots came since the newest statistics of columns and of
    partitions in the history of a branch, None where it has none. `stale` says so in words, "" where they are not."""

    distinct: Mapping[str, int] = field(default_factory=dict)
    commits: int | None = None
    partition_commits: int | None = None
    stale: str = ""
    unreadable: str = ""


def statistics_report(metadata: TableMetadata, head: Snapshot | None) -> StatisticsReport:
    """The newest statistics in the history of a snapshot."""
    line = metadata.line(head.snapshot_id) if head is not None else []
    of_columns = {int(entry["snapshot-id"]): entry for entry in metadata.document.get("statistics") or ()}
    of_partitions = {int(entry["snapshot-id"]) for entry in metadata.document.get("partition-statistics") or ()}
    commits = next((place for place, id in enumerate(line) if id in of_columns), None)
    partition_commits = next((place for place, id in enumerate(line) if id in of_partitions), None)
    if head is None or commits is None:
        return StatisticsReport(partition_commits=partition_commits)
    distinct, unreadable = _distinct(metadata, of_columns[line[commits]])
    added = sum(_number(metadata.snapshots[id].summary, "added-records") for id in line[:commits])
    rows = _number(head.summary, "total-records")
    stale = (
        f"{counted(added, 'row was', 'rows were')} added since, and the table has {rows}"
        if added > rows * _STALE
        else ""
    )
    return StatisticsReport(distinct, commits, partition_commits, stale, unreadable)


def _distinct(metadata: TableMetadata, entry: Mapping[str, Any]) -> tuple[dict[str, int], str]:
    """The distinct values of the columns that the table still has, and what could not be read."""
    counts: dict[str, int] = {}
    unreadable = 0
    blobs = entry.get("blob-metadata")
    listed: list[Any] = blobs if isinstance(blobs, list) else [blobs]
    for blob in listed:
        try:
            fields, count = blob["fields"], int(blob["properties"]["ndv"]) if blob["type"] == _SKETCH else -1
            name = metadata.schema.find_column_name(fields[0]) if len(fields) == 1 and count >= 0 else None
        except (KeyError, TypeError, ValueError):
            unreadable += 1
            continue
        if name is not None:
            counts[name] = count
    note = f"{unreadable} of its sketches say no number of distinct values" if unreadable else ""
    return counts, note


def _number(summary: Mapping[str, str], key: str) -> int:
    text = summary.get(key, "")
    return int(text) if text.isdecimal() and len(text) < 20 else 0
