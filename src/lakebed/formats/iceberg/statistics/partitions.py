"""The files, rows and bytes of each partition, as a partition statistics file: the procedure `compute_partition_stats`.

Rules: the specification's "Partition Statistics" (columns, field ids, order), and the reference engine's
PartitionStatsHandler. The figures of a snapshot come from its manifests. Where an ancestor has such a file, only the
manifests of the snapshots since then are read, and what they add and remove is added up.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import LakebedError, StorageError, UsageError
from lakebed.formats.iceberg.catalog.operations import TableOperations, refuse_writing
from lakebed.formats.iceberg.codec.manifest import ADDED, DELETED, EXISTING
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.schema import FIELD_ID
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.data_files import Content, Partition, distinct_partitions, partition_key
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import metadata_folder
from lakebed.formats.iceberg.manifests import manifests_of, map_runs, runs_of
from lakebed.formats.iceberg.statistics.columns import publish
from lakebed.formats.iceberg.system_tables.partition_column import PartitionColumn
from lakebed.kernel.again import looks_again
from lakebed.kernel.decoding import decoding
from lakebed.model.upkeep import PartitionStatsResult

_READ = (
    "status", "snapshot_id", "content", "file_format", "spec_id", "partition", "record_count", "file_size_in_bytes",
)  # fmt: skip
_COUNTS = (
    ("data_record_count", pa.int64()), ("data_file_count", pa.int32()), ("total_data_file_size_in_bytes", pa.int64()),
    ("position_delete_record_count", pa.int64()), ("position_delete_file_count", pa.int32()),
    ("equality_delete_record_count", pa.int64()), ("equality_delete_file_count", pa.int32()),
)  # fmt: skip
"""The figures of a partition, in the order of their field ids, which begin with 3."""
_VECTORS = "dv_count"
_PLACES = {Content.DATA: (0, 1), Content.POSITION_DELETES: (3, 4), Content.EQUALITY_DELETES: (5, 6)}
"""By what a file holds, the places of its rows and of its files among the figures."""


@dataclass(slots=True)
class _Sums:
    """The figures of one partition of one spec; the last is the number of deletion vectors. `updated` is the time in
    milliseconds, and the id, of the newest snapshot that changed it."""

    spec_id: int
    partition: Partition
    counts: list[int] = field(default_factory=lambda: [0] * 8)
    updated: tuple[int, int] | None = None


_Found = dict[tuple[int, Partition], _Sums]


def compute_partition_stats(
    operations: TableOperations, choose: Callable[[TableMetadata], Snapshot | None], dry_run: bool
) -> PartitionStatsResult:
    """Compute the partition statistics of the snapshot that `choose` takes, and commit them. A snapshot that has some
    keeps them, unless their file is gone, damaged or of other partition fields.

    Raises UsageError for a table without partitions, CommitConflictError when the snapshot expires meanwhile,
    CommitUnknownError.
    """
    figures = _figures(operations, choose)
    if isinstance(figures, PartitionStatsResult):
        return replace(figures, dry_run=dry_run)
    metadata, column, id, sums, since = figures
    name = f"partition-stats-{id}-{uuid.uuid4()}.parquet"
    path = f"{metadata_folder(metadata.location, metadata.properties)}/{name}"
    if dry_run:
        return PartitionStatsResult(str(id), "", len(sums), bool(since), True)
    data = _encoded(sums, column, metadata.format_version)
    entry = {"snapshot-id": id, "statistics-path": path, "file-size-in-bytes": len(data)}
    publish(operations, id, path, data, {"action": "set-partition-statistics", "partition-statistics": entry})
    return PartitionStatsResult(str(id), path, len(sums), bool(since))


@looks_again
def _figures(
    operations: TableOperations, choose: Callable[[TableMetadata], Snapshot | None]
) -> PartitionStatsResult | tuple[TableMetadata, PartitionColumn, int, _Found, int]:
    """The table, its partition fields, the snapshot, its figures, and the id of the ancestor that they begin with (0:
    none); or a result where there is nothing to compute. The table is read anew where snapshots expire meanwhile."""
    loaded = operations.load()
    snapshot = choose(loaded.metadata)
    if snapshot is None:
        return PartitionStatsResult("", "", 0, False, False, ("the table has no snapshot yet",))
    refuse_writing(operations, loaded)
    metadata, files, id = loaded.metadata, operations.files, snapshot.snapshot_id
    column = PartitionColumn.of(metadata)
    if not column.fields:
        raise UsageError(
            "the table has no partitions", table=operations.name, todo="Its figures are in metadata('files')"
        )
    statistics_files = _files_of(metadata)
    known = _read(files, statistics_files[id], column) if id in statistics_files else None
    if known is not None:
        note = "the snapshot has partition statistics already"
        return PartitionStatsResult(str(id), statistics_files[id], len(known), True, False, (note,))
    sums, since = _since(files, metadata, column, snapshot, statistics_files)
    if sums is None:
        sums = _summed(files, metadata, column, manifests_of(files, metadata, snapshot))
    return metadata, column, id, sums, since


def _files_of(metadata: TableMetadata) -> Mapping[int, str]:
    """The partition statistics files by snapshot."""
    stored = metadata.document.get("partition-statistics") or ()
    return {int(entry["snapshot-id"]): str(entry["statistics-path"]) for entry in stored}


def _since(
    files: Files, metadata: TableMetadata, column: PartitionColumn, snapshot: Snapshot, there: Mapping[int, str]
) -> tuple[_Found | None, int]:
    """The figures from those of the nearest ancestor that has some, and its id; (None, 0) without one, and where its
    file does not fit what the manifests say."""
    line = metadata.line(snapshot.snapshot_id)
    place = next((place for place, id in enumerate(line) if id in there), None)
    if place is None:
        return None, 0
    sums_before = _read(files, there[line[place]], column)
    if sums_before is None:
        return None, 0
    for id in reversed(line[:place]):
        manifests = manifests_of(files, metadata, metadata.snapshots[id])
        if any(manifest.added_snapshot_id is None for manifest in manifests):
            return None, 0  # version 1 need not say which snapshot made a manifest
        own = [manifest for manifest in manifests if manifest.added_snapshot_id == id]
        sums_before = _summed(files, metadata, column, own, sums_before)
    if any(min(sums.counts) < 0 for sums in sums_before.values()):
        return None, 0
    return sums_before, line[place]


def _summed(
    files: Files, metadata: TableMetadata, column: PartitionColumn, manifests: Sequence[ManifestFile],
    before: _Found | None = None,
) -> _Found:  # fmt: skip
    """The figures of the files in manifests, or those `before` with what manifests of one snapshot change."""
    sums_by_partition: _Found = {} if before is None else before
    weights = {EXISTING: 1, ADDED: 1, DELETED: 0} if before is None else {EXISTING: 0, ADDED: 1, DELETED: -1}

    def work(_: int, entries: pa.Table) -> list[dict[str, Any]]:
        return [*_grouped(entries, column, metadata)] if len(entries) else []

    for groups in map_runs(files, metadata, [*runs_of(manifests)], work, _READ, live_only=False):
        for row in groups:
            if before is not None and row["status"] == EXISTING:
                continue
            key = row["spec"], partition_key(row["partition"])
            sums = sums_by_partition.setdefault(key, _Sums(row["spec"], row["partition"]))
            weight = weights[row["status"]]
            rows, count = _PLACES[Content(row["content"])]
            sums.counts[rows] += weight * row["rows_sum"]
            sums.counts[-1 if row["vector"] else count] += weight * row["files_sum"]
            if row["content"] == Content.DATA:
                sums.counts[2] += weight * row["size_sum"]
            changed = metadata.snapshots.get(row["snapshot"]) if row["snapshot"] is not None else None
            if changed is not None and (sums.updated is None or changed.timestamp_ms > sums.updated[0]):
                sums.updated = changed.timestamp_ms, changed.snapshot_id
    return sums_by_partition


def _grouped(entries: pa.Table, column: PartitionColumn, metadata: TableMetadata) -> Iterator[dict[str, Any]]:
    """Of entries of one spec: a row per partition, content, snapshot and status, with sums of rows, bytes and files."""
    spec = metadata.specs[entries["spec_id"][0].as_py()]
    codes, values = distinct_partitions(column.values(entries["partition"], spec))
    table = pa.table({
        "code": codes, "content": entries["content"], "snapshot": entries["snapshot_id"], "status": entries["status"],
        "vector": pc.equal(pc.utf8_upper(entries["file_format"]), "PUFFIN"), "rows": entries["record_count"],
        "size": entries["file_size_in_bytes"], "files": np.ones(len(entries), np.int64),
    })  # fmt: skip
    keys = ["code", "content", "snapshot", "status", "vector"]
    for row in table.group_by(keys).aggregate([(name, "sum") for name in ("rows", "size", "files")]).to_pylist():
        yield {**row, "spec": spec.spec_id, "partition": values[row["code"]]}


def _schema(column: PartitionColumn, version: int) -> pa.Schema:
    """The columns of the file, with their field ids."""

    def numbered(id: int, name: str, kind: pa.DataType, nullable: bool = False) -> pa.Field:
        return pa.field(name, kind, nullable, {FIELD_ID: str(id)})

    inner = [field.with_metadata({FIELD_ID: str(id)}) for id, field in column.fields.items()]
    counts = [
        numbered(3 + place, name, kind, nullable=version < 3 and place > 2)
        for place, (name, kind) in enumerate(_COUNTS)
    ]  # fmt: skip
    return pa.schema([
        numbered(1, "partition", pa.struct(inner)), numbered(2, "spec_id", pa.int32()), *counts,
        numbered(10, "total_record_count", pa.int64(), True), numbered(11, "last_updated_at", pa.int64(), True),
        numbered(12, "last_updated_snapshot_id", pa.int64(), True),
        *([numbered(13, _VECTORS, pa.int32())] if version > 2 else []),
    ])  # fmt: skip


def _encoded(found: _Found, column: PartitionColumn, version: int) -> bytes:
    """The bytes of a file with these figures, sorted by partition, null first."""
    schema = _schema(column, version)
    names, rows = column.type.names, [*found.values()]
    values: dict[str, list[Any]] = {
        "partition": [dict(zip(names, sums.partition, strict=True)) for sums in rows],
        "spec_id": [sums.spec_id for sums in rows],
        **{name: [sums.counts[place] for sums in rows] for place, (name, _) in enumerate(_COUNTS)},
        "total_record_count": [None] * len(rows),
        "last_updated_at": [sums.updated[0] if sums.updated else None for sums in rows],
        "last_updated_snapshot_id": [sums.updated[1] if sums.updated else None for sums in rows],
        _VECTORS: [sums.counts[-1] for sums in rows],
    }
    table = pa.table([pa.array(values[field.name], field.type) for field in schema], schema=schema)
    keys: list[Any] = []
    for values_of in table["partition"].combine_chunks().flatten():
        if not pa.types.is_null(values_of.type):
            keys += [values_of.is_valid(), values_of]  # null comes first
    columns = pa.table([*keys, table["spec_id"]], names=[*map(str, range(len(keys) + 1))])
    order = pc.sort_indices(columns, [(name, "ascending") for name in columns.column_names])
    sink = io.BytesIO()
    pq.write_table(table.take(order), sink, compression="zstd")
    return sink.getvalue()


def _read(files: Files, path: str, column: PartitionColumn) -> _Found | None:
    """The figures in a file; None for one that cannot be used: gone, damaged, of other partition fields. StorageError
    where the store fails."""
    try:
        with decoding("a partition statistics file cannot be read", file=path), files.open_input(path) as source:
            table = pq.read_table(source)
    except StorageError:
        raise
    except (LakebedError, FileNotFoundError):
        return None
    if not {"partition", "spec_id", "last_updated_at", *(name for name, _ in _COUNTS)} <= {*table.column_names}:
        return None
    kind = table.schema.field("partition").type
    ids = [int((kind.field(n).metadata or {}).get(FIELD_ID, b"-1")) for n in range(kind.num_fields)]
    if ids != [*column.fields] or [kind.field(n).type for n in range(kind.num_fields)] != [
        field.type for field in column.fields.values()
    ]:
        return None
    sums_by_partition: _Found = {}
    for row in table.to_pylist():
        partition = tuple(row["partition"].values())
        counts = [row[name] or 0 for name, _ in _COUNTS]
        updated = (row["last_updated_at"], row["last_updated_snapshot_id"])
        sums = _Sums(row["spec_id"], partition, [*counts, row.get(_VECTORS) or 0])
        sums.updated = updated if updated[0] is not None else None
        sums_by_partition[row["spec_id"], partition_key(partition)] = sums
    return sums_by_partition
