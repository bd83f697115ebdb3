"""What is committed, as of when: snapshots by id, time, tag and branch, and the table's history.

Rules: the reference engine's SnapshotUtil. On `main` a time is looked up in the snapshot log, so that a snapshot that
was rolled back is found for the time when it was current. On other branches it is looked up among the ancestors of the
head.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from pyiceberg.schema import Schema

from lakebed.errors import NotInHistoryError, UnsupportedError
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.model.instant import Instant

Position = str | int | Instant | None


def snapshot_at(metadata: TableMetadata, position: Position, branch: str = MAIN) -> Snapshot | None:
    """The snapshot of a position. For None it is the head of the branch, which is None in an empty table.

    A position is an instant, a snapshot id, an ISO time (UTC unless it names a zone), `tag:NAME`, `branch:NAME`, or
    `ref:NAME` for either. NotInHistoryError when there is no such snapshot.
    """
    position = _branch_or_tag(metadata, position)
    if position is None:
        return metadata.head(branch)
    if isinstance(position, Instant):
        position = position.time
    if isinstance(position, int):
        return metadata.snapshot(position)
    if position.startswith("tag:"):
        return _tagged(metadata, position.removeprefix("tag:"))
    if position.startswith("branch:"):
        return metadata.head(position.removeprefix("branch:"))
    if position.isdigit():
        return metadata.snapshot(int(position))
    return snapshot_at_time(metadata, milliseconds(position, metadata.location), branch)


def snapshot_at_time(metadata: TableMetadata, millis: int, branch: str = MAIN) -> Snapshot:
    """The snapshot that was current at a time, milliseconds since 1970. NotInHistoryError when there was none."""
    if branch == MAIN:
        snapshot_id = next((id for time, id in reversed(metadata.snapshot_log) if time <= millis), None)
    else:
        head = metadata.head(branch)
        line = ancestors(metadata, head) if head else iter(())
        snapshot_id = next((s.snapshot_id for s in line if s.timestamp_ms <= millis), None)
    if snapshot_id is None:
        oldest = min((s.timestamp_ms for s in metadata.snapshots.values()), default=None)
        raise NotInHistoryError(
            "no snapshot is that old",
            table=metadata.location,
            instant=iso_time(millis),
            todo=f"The oldest is {iso_time(oldest)}" if oldest is not None else "The table has no snapshot yet",
        )
    return metadata.snapshot(snapshot_id)


def schema_at(metadata: TableMetadata, position: Position, branch: str = MAIN) -> Schema:
    """The schema of a read as of a position: the table's at the head of a branch, else that of the snapshot."""
    position = _branch_or_tag(metadata, position)
    if position is None or (isinstance(position, str) and position.startswith("branch:")):
        return metadata.schema
    snapshot = snapshot_at(metadata, position, branch)
    if snapshot is None or snapshot.schema_id is None:
        return metadata.schema
    if snapshot.schema_id not in metadata.schemas:
        raise UnsupportedError(
            "the schema of this snapshot was removed",
            table=metadata.location,
            instant=str(snapshot.snapshot_id),
            why=f"the metadata no longer has schema {snapshot.schema_id}",
            todo="Read a newer snapshot",
        )
    return metadata.schemas[snapshot.schema_id]


def ancestors(metadata: TableMetadata, snapshot: Snapshot) -> Iterator[Snapshot]:
    """A snapshot and its ancestors, newest first, up to the first that has expired."""
    current: Snapshot | None = snapshot
    while current is not None:
        yield current
        current = metadata.snapshots.get(current.parent_id) if current.parent_id is not None else None


def between(metadata: TableMetadata, after: int | None, until: Snapshot) -> list[Snapshot]:
    """The snapshots in (after, until] of one line of history, oldest first. `after` None is the start of history.

    NotInHistoryError when `after` is not an ancestor of `until`, or a snapshot between them has expired.
    """
    line: list[Snapshot] = []
    for snapshot in ancestors(metadata, until):
        if snapshot.snapshot_id == after:
            return line[::-1]
        line.append(snapshot)
    if after is None and (not line or line[-1].parent_id is None):
        return line[::-1]
    missing = line[-1].parent_id if line else None
    raise NotInHistoryError(
        f"there is no line of snapshots from {after if after is not None else 'the first one'} to {until.snapshot_id}",
        table=metadata.location,
        instant=str(after or missing),
        why=f"snapshot {missing} has expired" if missing is not None else "it is not among its ancestors",
        todo="Start from a snapshot of the same branch that the table still has",
    )


def history(metadata: TableMetadata) -> list[Instant]:
    """All snapshots, oldest first, including staged ones and those of other branches.

    `summary` has the snapshot's own summary, and its parent, its schema, and the branches and tags at it.
    """
    refs: dict[int, list[str]] = {}
    for ref in metadata.refs.values():
        refs.setdefault(ref.snapshot_id, []).append(("branch:" if ref.is_branch else "tag:") + ref.name)
    ordered = sorted(metadata.snapshots.values(), key=lambda s: (s.sequence_number, s.timestamp_ms))
    return [_instant(snapshot, refs.get(snapshot.snapshot_id, [])) for snapshot in ordered]


def iso_time(millis: int) -> str:
    """ISO 8601 in UTC for milliseconds since 1970."""
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.UTC).isoformat(timespec="milliseconds")


def milliseconds(text: str, table: str) -> int:
    """Milliseconds since 1970 of an ISO time. NotInHistoryError for a text that is none."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise NotInHistoryError(
            f"{text!r} does not name a snapshot",
            table=table,
            todo="Give a snapshot id, an ISO timestamp, tag:NAME or branch:NAME",
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)


def _branch_or_tag(metadata: TableMetadata, position: Position) -> Position:
    """`ref:NAME` as `branch:NAME` or `tag:NAME`. NotInHistoryError when there is neither."""
    if not isinstance(position, str) or not position.startswith("ref:"):
        return position
    name = position.removeprefix("ref:")
    ref = metadata.refs.get(name)
    if ref is None:
        names = ", ".join(sorted(metadata.refs)) or "none"
        raise NotInHistoryError(
            f"there is no branch or tag {name!r}", table=metadata.location, todo=f"Branches and tags: {names}"
        )
    return f"{'branch' if ref.is_branch else 'tag'}:{name}"


def _tagged(metadata: TableMetadata, name: str) -> Snapshot:
    ref = metadata.refs.get(name)
    if ref is None or ref.is_branch:
        tags = ", ".join(sorted(tag.name for tag in metadata.refs.values() if not tag.is_branch)) or "none"
        raise NotInHistoryError(
            f"there is no tag {name!r}", table=metadata.location, instant=f"tag:{name}", todo=f"Tags: {tags}"
        )
    return metadata.snapshot(ref.snapshot_id)


def _instant(snapshot: Snapshot, refs: list[str]) -> Instant:
    summary = dict(snapshot.summary)
    if snapshot.parent_id is not None:
        summary["parent-id"] = str(snapshot.parent_id)
    if snapshot.schema_id is not None:
        summary["schema-id"] = str(snapshot.schema_id)
    if refs:
        summary["refs"] = ", ".join(sorted(refs))
    return Instant(
        str(snapshot.snapshot_id),
        iso_time(snapshot.timestamp_ms),
        snapshot.operation or "append",
        "completed",
        summary=summary,
    )
