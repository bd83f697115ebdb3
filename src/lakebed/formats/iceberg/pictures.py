"""The pictures of a table's report: sizes of files and partitions, ages of deletes, snapshots over time, the growth."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.formats.iceberg.codec.metadata import MAIN, TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.live_files import LiveFiles
from lakebed.formats.iceberg.snapshot import ancestors
from lakebed.model.pictures import Mark, Picture, State, Unit, by_age, file_sizes, growth, largest, timeline
from lakebed.model.upkeep import Blocker


def pictures_of_files(
    data: LiveFiles, deletes: LiveFiles, metadata: TableMetadata, target: int, least: int, now: int
) -> list[Picture]:
    """The pictures of the live data files and delete files. Files of fewer than `least` bytes are small."""
    committed = {snapshot.sequence_number: snapshot.timestamp_ms for snapshot in metadata.snapshots.values()}
    ages = ((now - committed.get(number, 0), records) for number, records in deletes.records_by_sequence.items())
    pictures = (
        file_sizes(data.exponents, target, least, "data files"),
        largest("Partitions by size", data.bytes_by_place, data.files_by_place, "partitions"),
        by_age(
            "Deletes by age", "rows of delete files that reads still apply; a rewrite removes them", Unit.ROWS, ages
        ),
    )
    return [picture for picture in pictures if picture is not None]


def pictures_of_snapshots(metadata: TableMetadata, branch: str, blockers: Sequence[Blocker]) -> list[Picture]:
    """The snapshots of all branches over time, and the growth of one branch by its snapshots' summaries."""
    head = metadata.head(branch)
    line = [*ancestors(metadata, head)] if head is not None else []
    published = {s.snapshot_id for ref in metadata.refs.values() for s in _line(metadata, ref.snapshot_id)}
    named: dict[int, list[str]] = {}
    for ref in metadata.refs.values():
        if ref.name != MAIN:
            named.setdefault(ref.snapshot_id, []).append(f"{'branch' if ref.is_branch else 'tag'} {ref.name}")
    held = {blocker.instant: blocker.reason for blocker in blockers}
    marks = []
    for snapshot in metadata.snapshots.values():
        label, state = f"{snapshot.operation or 'append'} {snapshot.snapshot_id}", State.DONE
        if str(snapshot.snapshot_id) in held:
            label, state = f"{label}: {held[str(snapshot.snapshot_id)]}", State.HELD
        elif snapshot.snapshot_id in named:
            label, state = f"{label}: {', '.join(named[snapshot.snapshot_id])}", State.KEPT
        elif snapshot.snapshot_id not in published:
            label, state = f"{label}: in no branch", State.PENDING
        marks.append(Mark(snapshot.timestamp_ms, snapshot.operation or "append", state, label))
    pictures = (timeline("Snapshots", marks, [*dict.fromkeys(held.values())]), _growth(line))
    return [picture for picture in pictures if picture is not None]


def _growth(line: Sequence[Snapshot]) -> Picture | None:
    """The growth of the table in bytes or, without these, in records."""
    for key, title, unit in (
        ("total-files-size", "Bytes of the table", Unit.BYTES),
        ("total-records", "Rows of the table", Unit.ROWS),
    ):
        points = [(s.timestamp_ms, int(s.summary[key])) for s in line if s.summary.get(key, "").isdigit()]
        picture = growth(title, "as its snapshots say, those of rolled-back commits left out", unit, points)
        if picture is not None:
            return picture
    return None


def _line(metadata: TableMetadata, snapshot_id: int) -> Sequence[Snapshot]:
    head = metadata.snapshots.get(snapshot_id)
    return [*ancestors(metadata, head)] if head is not None else []
