"""The rows that the appends between two snapshots added, as the reference engine's Spark source reads them.

Rule: BaseIncrementalAppendScan. A data file is read whole when a snapshot with the operation append added it in
(start, end] of one line of history. Deletes, overwrites and rewrites are ignored, even when they removed such a file
again. `read/changes.py` gives net changes instead, deletes included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import NotInHistoryError
from lakebed.formats.iceberg.codec.manifest import ADDED
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import lists_ahead, manifests_ahead, manifests_of
from lakebed.formats.iceberg.read.context import ReadRequest
from lakebed.formats.iceberg.read.plan import Scan, chosen_entries, kept_manifests, plan_entries
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.read.split import IcebergSplit
from lakebed.formats.iceberg.snapshot import ancestors
from lakebed.verbs.read import ReadPlan


def plan_appends(
    files: Files, metadata: TableMetadata, start: int, end: Snapshot | None, request: ReadRequest
) -> ReadPlan[IcebergSplit]:
    """Plan a read of the rows that appends added after the snapshot `start`, up to and including `end`.

    `start` itself may be expired. NotInHistoryError when it is not an ancestor of `end`, or when a snapshot between the
    two is expired.
    """
    appends = [s for s in _snapshots_between(metadata, start, end) if s.operation in (None, "append")]
    pruning = Pruning(request.predicate, request.context.schema)
    scan = Scan.without_deletes(lambda _: _added_files(files, metadata, appends, pruning), metadata)
    return plan_entries(files, scan, request)


def _snapshots_between(metadata: TableMetadata, start: int, end: Snapshot | None) -> list[Snapshot]:
    """The snapshots in (start, end], oldest first."""
    line: list[Snapshot] = []
    for snapshot in ancestors(metadata, end) if end is not None else ():
        if snapshot.snapshot_id == start:
            return line[::-1]
        line.append(snapshot)
        if snapshot.parent_id == start:
            return line[::-1]
    raise NotInHistoryError(
        f"snapshot {start} is not an ancestor of {end.snapshot_id if end is not None else 'an empty table'}",
        table=metadata.location,
        instant=str(start),
        why="an incremental read follows one line of history",
        todo="Start from an older snapshot of the same branch; table.history() lists the snapshots",
    )


def _added_files(
    files: Files, metadata: TableMetadata, snapshots: Sequence[Snapshot], pruning: Pruning
) -> Iterator[pa.Table]:
    """The entries of the data files that each snapshot added, in the order of the snapshots."""
    files = lists_ahead(files, snapshots)
    kept = [kept_manifests(metadata, _added_manifests(files, metadata, each), pruning)[0] for each in snapshots]
    files = manifests_ahead(files, chain.from_iterable(chain(*data.values()) for data in kept))
    for snapshot, data in zip(snapshots, kept, strict=True):
        for spec_id, of_spec in data.items():
            for entries in chosen_entries(files, metadata, of_spec, metadata.specs[spec_id], pruning):
                is_added = pc.and_(
                    pc.equal(entries["status"], ADDED), pc.equal(entries["snapshot_id"], snapshot.snapshot_id)
                )
                yield entries.filter(is_added)


def _added_manifests(files: Files, metadata: TableMetadata, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests that may hold files which the snapshot added."""
    own = (None, snapshot.snapshot_id)
    return [manifest for manifest in manifests_of(files, metadata, snapshot) if manifest.added_snapshot_id in own]
