"""A branch back at an earlier snapshot: its head becomes one of its ancestors, or any snapshot that is asked for.

Rules: the reference engine's SetSnapshotOperation (`rollbackTo`, `rollbackToTime`, `setCurrentSnapshot`) and its
procedures `rollback_to_snapshot`, `rollback_to_timestamp` and `set_current_snapshot`. Nothing is deleted: the snapshots
that leave the branch expire by age.
"""

from __future__ import annotations

from lakebed.errors import NotInHistoryError, UsageError
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.codec.updates import MetadataChange, branch_at, ref_is
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.formats.iceberg.snapshot import Position, iso_time, milliseconds, snapshot_at
from lakebed.model.instant import Instant
from lakebed.model.upkeep import RollbackResult


def roll_back(
    operations: TableOperations, branch: str, to: Position, dry_run: bool, any_snapshot: bool = False
) -> RollbackResult:
    """Set the head of a branch to its ancestor at a position, with `any_snapshot` to whichever snapshot is there. When
    another commit is faster, it goes too, and the result names it."""
    results: list[RollbackResult] = []

    def decide(metadata: TableMetadata) -> MetadataChange:
        head = metadata.head(branch)
        if results and head is not None and str(head.snapshot_id) == results[0].to:
            return [], []  # it landed, though the catalog called the race lost
        if head is None and not any_snapshot:
            raise NotInHistoryError("there is no snapshot to go back to", table=operations.name)
        line = metadata.line(head.snapshot_id if head is not None else None)
        target = _target(metadata, line, to, branch, any_snapshot)
        kept = metadata.line(target.snapshot_id)
        stays, was = set(kept), set(line)
        removed = [id for id in line if id not in stays]
        notes = [f"{ref.name} still names snapshot {ref.snapshot_id}" for ref in metadata.refs.values()
                 if ref.name != branch and ref.snapshot_id in was - stays]  # fmt: skip
        added = [str(id) for id in kept if id not in was]
        if added:
            notes.append(f"snapshots that come into branch {branch!r}: {', '.join(added[:10])}"
                         f"{f' and {len(added) - 10} more' if len(added) > 10 else ''}")  # fmt: skip
        if removed:
            notes.append("the removed snapshots stay in the metadata, and their files, until they expire")
        gone, left = (tuple(map(str, part)) for part in (removed, kept))
        results[:] = [RollbackResult(str(target.snapshot_id), gone, left, (), dry_run, tuple(notes))]
        if head is not None and head.snapshot_id == target.snapshot_id:
            return [], []
        before = head.snapshot_id if head is not None else None
        return [ref_is(branch, before)], [branch_at(metadata, branch, target.snapshot_id)]

    if dry_run:
        loaded = operations.load()
        operations.refuse_changes(loaded)
        decide(loaded.metadata)
    else:
        change_metadata(operations, decide)
    return results[0]


def _target(metadata: TableMetadata, line: list[int], to: Position, branch: str, any_snapshot: bool) -> Snapshot:
    """The snapshot of a position. `line` has the ids of the branch's snapshots, newest first: a time is looked up among
    them, and what else is named must be one of them, unless any snapshot will do."""
    text = to.time if isinstance(to, Instant) else to
    if isinstance(text, str) and not text.startswith(("tag:", "branch:")) and not text.isdigit():
        millis = milliseconds(text, metadata.location)
        snapshots = (metadata.snapshots[id] for id in line)
        newest = next((snapshot for snapshot in snapshots if snapshot.timestamp_ms <= millis), None)
        if newest is None:
            oldest = iso_time(metadata.snapshots[line[-1]].timestamp_ms) if line else ""
            raise NotInHistoryError(
                f"no snapshot of branch {branch!r} is that old",
                table=metadata.location,
                instant=text,
                todo=f"The oldest is {oldest}" if line else "The branch has no snapshot",
            )
        return newest
    target = snapshot_at(metadata, text, branch)
    if target is None:
        raise NotInHistoryError(f"there is no snapshot at {text}", table=metadata.location, todo="Name another one")
    if target.snapshot_id not in line and not any_snapshot:
        raise UsageError(
            f"{text} is not an ancestor of the head of branch {branch!r}",
            table=metadata.location,
            why="it was committed on another branch, or the branch was rolled back before it",
            todo="Choose a snapshot of that branch, create a branch there, or set it all the same with "
            "any_snapshot=True",
        )
    return target
