"""A branch back at an earlier snapshot: its head becomes one of the head's ancestors.

Rules: the reference engine's SetSnapshotOperation (`rollbackTo`, `rollbackToTime`) and its procedures
`rollback_to_snapshot` and `rollback_to_timestamp`. Nothing is deleted: the snapshots after it are in no branch's line
of history any more, and expire by age.
"""

from __future__ import annotations

from lakebed.errors import NotInHistoryError, UsageError
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.codec.updates import MetadataChange, ref_is
from lakebed.formats.iceberg.commit.loop import change_metadata
from lakebed.formats.iceberg.snapshot import Position, ancestors, iso_time, milliseconds, snapshot_at
from lakebed.model.instant import Instant
from lakebed.model.upkeep import RollbackResult


def roll_back(operations: TableOperations, branch: str, to: Position, dry_run: bool) -> RollbackResult:
    """Set the head of a branch to its ancestor at a position. When another commit is faster, it goes too, and the
    result names it."""
    results: list[RollbackResult] = []

    def decide(metadata: TableMetadata) -> MetadataChange:
        head = metadata.head(branch)
        if head is None:
            raise NotInHistoryError("there is no snapshot to go back to", table=operations.name)
        line = [*ancestors(metadata, head)]
        target = _target(metadata, line, to, branch)
        place = [snapshot.snapshot_id for snapshot in line].index(target.snapshot_id)
        removed, kept = ([str(snapshot.snapshot_id) for snapshot in part] for part in (line[:place], line[place:]))
        notes = [f"{ref.name} still names snapshot {ref.snapshot_id}" for ref in metadata.refs.values()
                 if str(ref.snapshot_id) in removed and ref.name != branch]  # fmt: skip
        if removed:
            notes.append("the removed snapshots stay in the metadata, and their files, until they expire")
        results[:] = [RollbackResult(kept[0], tuple(removed), tuple(kept), (), dry_run, tuple(notes))]
        if not removed:
            return [], []
        update = {
            "action": "set-snapshot-ref",
            "ref-name": branch,
            "type": "branch",
            "snapshot-id": target.snapshot_id,
        }
        return [ref_is(branch, head.snapshot_id)], [update]

    if dry_run:
        loaded = operations.load()
        operations.refuse_changes(loaded)
        decide(loaded.metadata)
    else:
        change_metadata(operations, decide)
    return results[0]


def _target(metadata: TableMetadata, line: list[Snapshot], to: Position, branch: str) -> Snapshot:
    """The snapshot of a position in a branch's line of history, which is given newest first."""
    text = to.time if isinstance(to, Instant) else to
    if isinstance(text, str) and not text.startswith(("tag:", "branch:")) and not text.isdigit():
        millis = milliseconds(text, metadata.location)
        found = next((snapshot for snapshot in line if snapshot.timestamp_ms <= millis), None)
        if found is None:
            oldest = iso_time(line[-1].timestamp_ms)
            raise NotInHistoryError(
                f"no snapshot of branch {branch!r} is that old",
                table=metadata.location,
                instant=text,
                todo=f"The oldest is {oldest}",
            )
        return found
    target = snapshot_at(metadata, text, branch)
    if target is None or target not in line:
        raise UsageError(
            f"{text} is no ancestor of the head of branch {branch!r}",
            table=metadata.location,
            why="it was committed on another branch, or the branch was rolled back before it",
            todo="Choose a snapshot of that branch, or create a branch there",
        )
    return target
