"""The metadata tables about the table's history: `snapshots`, `history`, `refs` and `metadata_log_entries`.

Rule: SnapshotsTable, HistoryTable, RefsTable and MetadataLogEntriesTable of the reference engine. They need no file but
the table's metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lakebed.errors import NotInHistoryError
from lakebed.formats.iceberg.catalog.operations import Loaded
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.snapshot import ancestors, snapshot_at_time
from lakebed.verbs.system_tables import SystemTable, of_rows

TIME = pa.timestamp("us", "UTC")
_TEXTS = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))

_SNAPSHOTS = pa.schema([
    pa.field("committed_at", TIME, False), pa.field("snapshot_id", pa.int64(), False),
    pa.field("parent_id", pa.int64()), pa.field("operation", pa.string()), pa.field("manifest_list", pa.string()),
    pa.field("summary", _TEXTS),
])  # fmt: skip
_HISTORY = pa.schema([
    pa.field("made_current_at", TIME, False), pa.field("snapshot_id", pa.int64(), False),
    pa.field("parent_id", pa.int64()), pa.field("is_current_ancestor", pa.bool_(), False),
])  # fmt: skip
_REFS = pa.schema([
    pa.field("name", pa.string(), False), pa.field("type", pa.string(), False),
    pa.field("snapshot_id", pa.int64(), False), pa.field("max_reference_age_in_ms", pa.int64()),
    pa.field("min_snapshots_to_keep", pa.int32()), pa.field("max_snapshot_age_in_ms", pa.int64()),
])  # fmt: skip
_METADATA_LOG = pa.schema([
    pa.field("timestamp", TIME, False), pa.field("file", pa.string(), False),
    pa.field("latest_snapshot_id", pa.int64()), pa.field("latest_schema_id", pa.int32()),
    pa.field("latest_sequence_number", pa.int64()),
])  # fmt: skip


def snapshots(metadata: TableMetadata) -> SystemTable:
    """One row per snapshot, of all branches, in the order of the metadata."""

    def rows() -> Iterator[tuple[Any, ...]]:
        for snapshot in metadata.snapshots.values():
            summary = [(key, value) for key, value in snapshot.summary.items() if key != "operation"]
            yield (
                snapshot.timestamp_ms * 1000, snapshot.snapshot_id, snapshot.parent_id, snapshot.operation or None,
                snapshot.manifest_list or None, summary if snapshot.summary else None,
            )  # fmt: skip

    return of_rows(_SNAPSHOTS, rows)


def history(metadata: TableMetadata) -> SystemTable:
    """One row each time that the current snapshot changed, oldest first. `parent_id` is null where the snapshot has
    expired."""

    def rows() -> Iterator[tuple[Any, ...]]:
        head = metadata.head()
        line = {snapshot.snapshot_id for snapshot in ancestors(metadata, head)} if head is not None else set()
        for millis, snapshot_id in metadata.snapshot_log:
            snapshot = metadata.snapshots.get(snapshot_id)
            parent = snapshot.parent_id if snapshot is not None else None
            yield millis * 1000, snapshot_id, parent, snapshot_id in line

    return of_rows(_HISTORY, rows)


def refs(metadata: TableMetadata) -> SystemTable:
    """One row per branch and tag."""

    def rows() -> Iterator[tuple[Any, ...]]:
        for ref in metadata.refs.values():
            kind = "BRANCH" if ref.is_branch else "TAG"
            yield (
                ref.name, kind, ref.snapshot_id, ref.max_ref_age_ms, ref.min_snapshots_to_keep,
                ref.max_snapshot_age_ms,
            )  # fmt: skip

    return of_rows(_REFS, rows)


def metadata_log_entries(loaded: Loaded) -> SystemTable:
    """One row per metadata file that the table still names, the current one last, with the snapshot that was current
    then. Its columns are null where the snapshot log no longer knows it."""
    metadata = loaded.metadata

    def rows() -> Iterator[tuple[Any, ...]]:
        current = (int(metadata.document["last-updated-ms"]), loaded.location)
        for millis, file in [*metadata.metadata_log, current]:
            snapshot = _current_at(metadata, millis)
            known = (snapshot.snapshot_id, snapshot.schema_id, snapshot.sequence_number) if snapshot else (None,) * 3
            yield millis * 1000, file, *known

    return of_rows(_METADATA_LOG, rows)


def _current_at(metadata: TableMetadata, millis: int) -> Snapshot | None:
    try:
        return snapshot_at_time(metadata, millis)
    except NotInHistoryError:
        return None
