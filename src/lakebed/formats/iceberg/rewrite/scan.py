"""The live data files of a snapshot as a rewrite plans them: whole columns, and values for the chosen files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.iceberg.codec.manifest import COLUMNS, STATS
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.entries import DeleteFile, DeleteIndex, FileTask, Metrics, data_files, partition_values
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import partition_path
from lakebed.formats.iceberg.manifests import iter_entries, read_manifest_list
from lakebed.formats.iceberg.read.plan import kept_manifests, live_deletes, unpartitioned
from lakebed.formats.iceberg.read.pruning import STATS_USED, Pruning
from lakebed.formats.iceberg.rewrite.overlap import overlap_depths
from lakebed.formats.iceberg.rewrite.plan import PLAN_SCHEMA
from lakebed.kernel.keys.distinct import distinct
from lakebed.kernel.packing import Numbers


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """`table` is the planner's input; its rows stand as in `entries`, one table of entries a spec.

    `chosen_manifests` are the manifests that hold them, by spec; `deletes` all live delete files of the snapshot.
    """

    files: Files
    metadata: TableMetadata
    table: pa.Table
    entries: tuple[pa.Table, ...]
    chosen_manifests: tuple[tuple[ManifestFile, ...], ...]
    index: DeleteIndex
    deletes: tuple[DeleteFile, ...]

    @classmethod
    def of(
        cls, files: Files, metadata: TableMetadata, snapshot: Snapshot, pruning: Pruning, overlap_of: int | None = None
    ) -> LiveFiles:
        """Those that may hold a row that pruning wants; `overlap_of` is the column whose ranges are compared."""
        data, deletes = kept_manifests(metadata, read_manifest_list(files, snapshot), pruning)
        found = tuple(live_deletes(files, metadata, deletes))
        index = DeleteIndex(found, unpartitioned(metadata))
        entries: list[pa.Table] = []
        tables: list[pa.Table] = []
        for spec_id, manifests in data.items():
            some = list(_pieces(files, metadata, manifests, pruning, overlap_of))
            if some and sum(map(len, some)):
                whole = pa.concat_tables(some)
                tables.append(_planned(whole, metadata, spec_id, index, overlap_of))
                entries.append(whole.select([n for n in whole.column_names if n not in STATS_USED]))
        table = pa.concat_tables(tables) if tables else PLAN_SCHEMA.empty_table()
        return cls(files, metadata, table, tuple(entries), tuple(tuple(m) for m in data.values()), index, found)

    def tasks(self, rows: Numbers) -> list[FileTask]:
        """The files at these rows of the planner's table, in that order, each with its deletes."""
        starts = np.concatenate(([0], np.cumsum([len(some) for some in self.entries])))
        found: dict[int, FileTask] = {}
        for number, some in enumerate(self.entries):
            mine = rows[(rows >= starts[number]) & (rows < starts[number + 1])]
            tasks = self.index.tasks(some, (mine - starts[number]).tolist())
            found.update(zip(mine.tolist(), tasks, strict=True))
        return [found[row] for row in rows.tolist()]

    def metrics(self, paths: Iterable[str]) -> dict[str, Metrics]:
        """The figures of data files by path, read once more for these alone: they are the bulk of a manifest."""
        wanted = pa.array(list(paths), pa.string())
        found: dict[str, Metrics] = {}
        for manifests in self.chosen_manifests:
            for entries in iter_entries(self.files, self.metadata, manifests, (*COLUMNS, *STATS)):
                some = entries.filter(pc.is_in(entries["file_path"], value_set=wanted))
                found.update({file.path: file.metrics for file in data_files(some) if file.metrics is not None})
        return found


def _pieces(
    files: Files, metadata: TableMetadata, manifests: Sequence[ManifestFile], pruning: Pruning, overlap_of: int | None
) -> Iterable[pa.Table]:
    """Entries of one spec that pruning leaves; with bounds only where ranges are compared."""
    pruned = pruning.node is not None
    columns = (*COLUMNS, *STATS_USED) if pruned or overlap_of is not None else COLUMNS
    for entries in iter_entries(files, metadata, manifests, columns):
        if pruned:
            entries = entries.filter(pa.array(pruning.entries(entries, metadata.specs[manifests[0].spec_id])))
        if overlap_of is None:
            entries = entries.select([name for name in entries.column_names if name not in STATS_USED])
        yield entries


def _planned(
    entries: pa.Table, metadata: TableMetadata, spec_id: int, index: DeleteIndex, overlap_of: int | None
) -> pa.Table:
    """One spec's rows of the planner's table."""
    deletes, rows = index.counts(entries)
    codes, keys = _partition_keys(entries, metadata, spec_id)
    table = pa.table(
        {
            "file_path": entries["file_path"],
            "file_size_in_bytes": entries["file_size_in_bytes"],
            "record_count": entries["record_count"],
            "spec_id": pa.repeat(pa.scalar(spec_id, pa.int32()), len(entries)),
            "partition_key": keys.take(pa.array(codes)),
            "delete_files": deletes,
            "deleted_rows": rows,
        },
        PLAN_SCHEMA,
    )
    if overlap_of is not None:
        kind = metadata.schema.find_field(overlap_of).field_type
        table = table.append_column("overlap_depth", pa.array(overlap_depths(entries, codes, overlap_of, kind)))
    return table


def _partition_keys(entries: pa.Table, metadata: TableMetadata, spec_id: int) -> tuple[Numbers, pa.Array]:
    """The partition of each entry as a number, and the path of each number."""
    partitions = entries["partition"]
    if not partitions.type.num_fields:
        return np.zeros(len(entries), np.int64), pa.array([""])
    whole = pa.concat_arrays(partitions.chunks) if partitions.num_chunks != 1 else partitions.chunk(0)
    codes, first = distinct(whole.flatten())
    spec = metadata.specs[spec_id]
    paths = [partition_path(spec, values) for values in partition_values(whole.take(pa.array(first)))]
    return codes.astype(np.int64), pa.array(paths, pa.string())
