"""Branches and tags: names of snapshots in the table's metadata."""

from __future__ import annotations

import datetime

from lakebed.errors import NotInHistoryError, UsageError
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.updates import MetadataChange, ref_is
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.formats.iceberg.snapshot import Position, ancestors, iso_time, snapshot_at
from lakebed.model.refs import Ref

_AGE = "max-ref-age-ms"


def list_refs(metadata: TableMetadata) -> list[Ref]:
    """The branches and tags of a table."""
    refs: list[Ref] = []
    for ref in metadata.refs.values():
        snapshot = metadata.snapshots.get(ref.snapshot_id)
        kind, age = "branch" if ref.is_branch else "tag", ref.max_ref_age_ms
        ends = "" if snapshot is None or age is None else iso_time(snapshot.timestamp_ms + age)
        refs.append(Ref(ref.name, kind, str(ref.snapshot_id), ends))
    return sorted(refs, key=lambda ref: (ref.kind, ref.name))


def create_tag(
    operations: TableOperations, name: str, position: Position, branch: str, age: datetime.timedelta | None = None
) -> int:
    """Create a tag for a snapshot, or for the head of the branch when the position is None. Returns the snapshot's id.

    An expiry removes the tag when the snapshot is older than `age`; None: as the table says. UsageError for a name that
    is taken, NotInHistoryError when there is no such snapshot.
    """
    return _create(operations, name, position, branch, "tag", age)


def create_branch(operations: TableOperations, name: str, position: Position, branch: str) -> int:
    """Create a branch at a snapshot, or at the head of another branch when the position is None. Returns the snapshot's
    id. Raises what `create_tag` raises."""
    return _create(operations, name, position, branch, "branch")


def delete_ref(operations: TableOperations, name: str, is_branch: bool) -> None:
    """Delete a tag or a branch. NotInHistoryError when there is none, UsageError for the branch `main`."""
    word = "branch" if is_branch else "tag"
    if name == MAIN:
        raise UsageError("the branch 'main' cannot be deleted", table=operations.name)

    def decide(metadata: TableMetadata) -> MetadataChange:
        ref = metadata.refs.get(name)
        if ref is None or ref.is_branch != is_branch:
            names = ", ".join(sorted(r.name for r in metadata.refs.values() if r.is_branch == is_branch)) or "none"
            raise NotInHistoryError(
                f"there is no {word} {name!r}",
                table=operations.name,
                instant=f"{word}:{name}",
                todo=f"There are: {names}",
            )
        return [ref_is(name, ref.snapshot_id)], [{"action": "remove-snapshot-ref", "ref-name": name}]

    change_metadata(operations, decide)


def fast_forward(operations: TableOperations, branch: str, to: str) -> None:
    """Put a branch at the head of another one. UsageError unless its own head is an ancestor of that."""

    def decide(metadata: TableMetadata) -> MetadataChange:
        head, target = metadata.head(branch), metadata.head(to)
        if target is None:
            raise NotInHistoryError(f"branch {to!r} has no snapshot", table=operations.name, todo="Commit to it first")
        if head is not None and head not in ancestors(metadata, target):
            raise UsageError(
                f"branch {branch!r} has snapshots that {to!r} does not have",
                table=operations.name,
                todo=f"Roll {branch!r} back to a snapshot of {to!r} first",
            )
        if head == target:
            return [], []
        update = {
            "action": "set-snapshot-ref",
            "ref-name": branch,
            "type": "branch",
            "snapshot-id": target.snapshot_id,
        }
        before = head.snapshot_id if head is not None else None
        return [ref_is(branch, before), ref_is(to, target.snapshot_id)], [update]

    change_metadata(operations, decide)


def _create(
    operations: TableOperations,
    name: str,
    position: Position,
    branch: str,
    word: str,
    age: datetime.timedelta | None = None,
) -> int:
    snapshot_ids: list[int] = []

    def decide(metadata: TableMetadata) -> MetadataChange:
        if name in metadata.refs:
            existing = "branch" if metadata.refs[name].is_branch else "tag"
            raise UsageError(f"there is already a {existing} {name!r}", table=operations.name, todo="Delete it first")
        snapshot = snapshot_at(metadata, position, branch)
        if snapshot is None:
            raise NotInHistoryError(
                f"there is no snapshot to {word}", table=operations.name, todo="Commit something first"
            )
        snapshot_ids[:] = [snapshot.snapshot_id]
        update = {
            "action": "set-snapshot-ref",
            "ref-name": name,
            "type": word,
            "snapshot-id": snapshot.snapshot_id,
            **({} if age is None else {_AGE: max(1, age // datetime.timedelta(milliseconds=1))}),
        }
        return [ref_is(name, None)], [update]

    change_metadata(operations, decide)
    return snapshot_ids[0]
