"""The rows that the appends between two snapshots added, as the reference engine's Spark source reads them.

Rule: BaseIncrementalAppendScan. The data files that snapshots with the operation append added in (start, end] of one
line of history are read whole: deletes, overwrites and rewrites are passed over, also those that removed such a file
again. For net changes, deletes included, there is `read/changes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import NotInHistoryError
from lakebed.formats.iceberg.codec.manifest import ADDED
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import FileTask, data_files
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import manifests_of
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.plan import (
    SPLIT_SIZE,
    IcebergSplit,
    TaskReader,
    chosen_entries,
    kept_manifests,
    splits_of,
)
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.snapshot import ancestors
from lakebed.verbs.read import ReadPlan


def plan_appends(
    files: Files, metadata: TableMetadata, start: int, end: Snapshot | None, context: ReadContext,
    columns: Sequence[str] | None, predicate: pc.Expression | None, split_size: int = SPLIT_SIZE,
) -> ReadPlan[IcebergSplit]:  # fmt: skip
    """The rows that appends after the snapshot `start`, up to and with `end`, added.

    `start` itself may be expired. NotInHistoryError where it is no ancestor of `end`, or one between is expired.
    """
    fields = context.columns(columns)
    appends = [s for s in _line(metadata, start, end) if s.operation in (None, "append")]
    tasks = _added(files, metadata, appends, Pruning.of(predicate, context.schema))
    splits = tuple(split for task in tasks for split in splits_of(task, split_size))
    reader = TaskReader(files, context, tuple(field.name for field in fields), predicate)
    return ReadPlan(arrow_schema(fields), splits, reader)


def _line(metadata: TableMetadata, start: int, end: Snapshot | None) -> list[Snapshot]:
    """The snapshots in (start, end], oldest first."""
    line: list[Snapshot] = []
    for snapshot in ancestors(metadata, end) if end is not None else ():
        if snapshot.snapshot_id == start:
            return line[::-1]
        line.append(snapshot)
        if snapshot.parent_id == start:
            return line[::-1]
    raise NotInHistoryError(
        f"snapshot {start} is no ancestor of {end.snapshot_id if end is not None else 'an empty table'}",
        table=metadata.location, instant=str(start), why="an incremental read goes along one line of history",
        todo="Start from an older snapshot of the same branch; table.history() lists those that are there",
    )  # fmt: skip


def _added(
    files: Files, metadata: TableMetadata, snapshots: Sequence[Snapshot], pruning: Pruning
) -> Iterator[FileTask]:
    """The data files that each of the snapshots added, in the order of the snapshots."""
    for snapshot in snapshots:
        mine: list[ManifestFile] = [
            m for m in manifests_of(files, metadata, snapshot) if m.added_snapshot_id in (None, snapshot.snapshot_id)
        ]
        data, _ = kept_manifests(metadata, mine, pruning)
        for spec_id, manifests in data.items():
            for entries in chosen_entries(files, metadata, manifests, metadata.specs[spec_id], pruning):
                added = pc.and_(
                    pc.equal(entries["status"], ADDED), pc.equal(entries["snapshot_id"], snapshot.snapshot_id)
                )
                new: pa.Table = entries.filter(added)
                yield from map(FileTask, data_files(new))
