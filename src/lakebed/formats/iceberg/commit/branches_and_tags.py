"""Branches and tags: names of snapshots in the table's metadata."""

from __future__ import annotations

from lakebed.errors import NotInHistoryError, UsageError
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.updates import MetadataChange, ref_is
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.formats.iceberg.snapshot import Position, snapshot_at


def create_tag(operations: TableOperations, name: str, position: Position, branch: str) -> int:
    """Create a tag for a snapshot, or for the head of the branch when the position is None. Returns the snapshot's id.

    UsageError for a name that is taken, NotInHistoryError when there is no such snapshot.
    """
    return _create(operations, name, position, branch, "tag")


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


def _create(operations: TableOperations, name: str, position: Position, branch: str, word: str) -> int:
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
        }
        return [ref_is(name, None)], [update]

    change_metadata(operations, decide)
    return snapshot_ids[0]
