"""The live data files of a snapshot as a rewrite plans them: numbers for all files, values for the chosen ones.

A plan takes about 150 bytes per file and holds no path. Manifests are read run by run, and only the planner's columns
are kept. The entries of the files that are rewritten are read again when the rewrite starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import IcebergType

from lakebed.formats.iceberg.codec.manifest import COLUMNS, STATS
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.data_files import FileTask, Metrics, data_files, distinct_partitions
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.layout import partition_path
from lakebed.formats.iceberg.manifests import manifests_of, map_runs, read_entries, runs_of
from lakebed.formats.iceberg.read.plan import BySpec, kept_manifests, live_deletes, unpartitioned
from lakebed.formats.iceberg.read.pruning import STATS_USED, Pruning
from lakebed.formats.iceberg.rewrite.delete_counts import DELETE_COLUMNS, DeleteCounts
from lakebed.formats.iceberg.rewrite.overlap import overlap_depths, ranges_of
from lakebed.formats.iceberg.rewrite.plan import DELETE_BYTES, PLAN_SCHEMA
from lakebed.kernel.arrays import Int64s, from_numpy, from_values, to_numpy


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The live data files of a snapshot.

    `table` is the planner's input, in the order of the scan. `runs` are the manifests that its rows come from. `starts`
    has the first row of each run, and the number of rows at the end. `deletes` are the manifests of delete files.
    """

    files: Files
    metadata: TableMetadata
    pruning: Pruning
    table: pa.Table
    runs: tuple[tuple[ManifestFile, ...], ...]
    starts: Int64s
    deletes: BySpec

    @classmethod
    def of(
        cls, files: Files, metadata: TableMetadata, snapshot: Snapshot, pruning: Pruning,
        overlap_of: int | None = None, weigh_deletes: bool = False,
    ) -> LiveFiles:  # fmt: skip
        """The data files that may hold a row that pruning keeps.

        `overlap_of` is the field id of the column whose ranges are compared, None when none is. With `weigh_deletes`
        the table has the column `delete_bytes`.
        """
        data, deletes = kept_manifests(metadata, manifests_of(files, metadata, snapshot), pruning)
        tables = [read_entries(files, metadata, of_spec, DELETE_COLUMNS) for of_spec in deletes.values()]
        planner = _Planner(metadata, pruning, DeleteCounts(tables, unpartitioned(metadata)), overlap_of, weigh_deletes)
        runs = tuple(run for of_spec in data.values() for run in runs_of(of_spec))

        def planned(number: int, entries: pa.Table) -> pa.Table:
            return planner(runs[number][0].spec_id, entries)

        pieces = list(map_runs(files, metadata, runs, planned, planner.columns))
        starts = np.cumsum([0, *map(len, pieces)])
        table = pa.concat_tables([PLAN_SCHEMA.empty_table(), *pieces], promote_options="default").unify_dictionaries()
        if overlap_of is not None:
            table = _with_depths(table)
        return cls(files, metadata, pruning, table, runs, starts, deletes)

    def chosen(self, rows: Int64s) -> ChosenFiles:
        """The files at these rows of the planner's table, read again with all columns.

        Manifests that have none of these files are not opened again.
        """
        ordered = np.sort(rows)
        ends = np.searchsorted(ordered, self.starts)
        numbers = np.flatnonzero(np.diff(ends)).tolist()
        runs = [self.runs[number] for number in numbers]

        def chosen_of(place: int, entries: pa.Table) -> pa.Table:
            number = numbers[place]
            if self.pruning.predicate is not None:
                spec = self.metadata.specs[runs[place][0].spec_id]
                entries = entries.filter(from_numpy(self.pruning.entries(entries, spec)))
            rows_of_run = ordered[ends[number] : ends[number + 1]] - self.starts[number]
            return entries.select([*COLUMNS]).take(from_numpy(rows_of_run))

        columns = COLUMNS if self.pruning.predicate is None else (*COLUMNS, *STATS_USED)
        entries = tuple(map_runs(self.files, self.metadata, runs, chosen_of, columns))
        index = DeleteIndex(live_deletes(self.files, self.metadata, self.deletes), unpartitioned(self.metadata))
        return ChosenFiles(self.files, self.metadata, ordered, entries, tuple(runs), index)


@dataclass(frozen=True, slots=True)
class ChosenFiles:
    """Files that are rewritten.

    `rows` are their rows in the planner's table, ascending. `entries` has one table per run of manifests. `index` has
    the deletes of the snapshot.
    """

    files: Files
    metadata: TableMetadata
    rows: Int64s
    entries: tuple[pa.Table, ...]
    runs: tuple[tuple[ManifestFile, ...], ...]
    index: DeleteIndex

    def tasks(self, rows: Int64s) -> list[FileTask]:
        """The files at these rows of the planner's table, in that order, each with its deletes."""
        places = np.searchsorted(self.rows, rows)
        starts = np.cumsum([0, *map(len, self.entries)])
        tasks: dict[int, FileTask] = {}
        for number, entries in enumerate(self.entries):
            own = places[(places >= starts[number]) & (places < starts[number + 1])]
            if len(own):
                tasks_of_run = self.index.tasks(entries, (own - starts[number]).tolist())
                tasks.update(zip(own.tolist(), tasks_of_run, strict=True))
        return [tasks[place] for place in places.tolist()]

    def metrics(self, rows: Int64s) -> dict[str, Metrics]:
        """The metrics of the files at these rows, by path.

        They are the bulk of a manifest, so they are read only for the files that need them.
        """
        places = np.sort(np.searchsorted(self.rows, rows))
        starts = np.cumsum([0, *map(len, self.entries)])
        ends = np.searchsorted(places, starts)
        numbers = np.flatnonzero(np.diff(ends)).tolist()
        paths = [
            self.entries[number]["file_path"].take(from_numpy(places[ends[number] : ends[number + 1]] - starts[number]))
            for number in numbers
        ]

        def of_paths(place: int, entries: pa.Table) -> pa.Table:
            return entries.filter(pc.is_in(entries["file_path"], value_set=paths[place].combine_chunks()))

        metrics: dict[str, Metrics] = {}
        runs = [self.runs[number] for number in numbers]
        for entries in map_runs(self.files, self.metadata, runs, of_paths, (*COLUMNS, *STATS)):
            metrics.update({file.path: file.metrics for file in data_files(entries) if file.metrics is not None})
        return metrics


@dataclass(frozen=True, slots=True)
class _Planner:
    """Turns the entries of one run into rows of the planner's table."""

    metadata: TableMetadata
    pruning: Pruning
    deletes: DeleteCounts
    overlap_of: int | None
    weigh_deletes: bool

    @property
    def columns(self) -> frozenset[str]:
        """The columns of entries that planning needs."""
        bounds = STATS_USED if self.pruning.predicate is not None or self.overlap_of is not None else ()
        return frozenset(("record_count", "file_size_in_bytes", "partition", *self.deletes.columns, *bounds))

    def __call__(self, spec_id: int, entries: pa.Table) -> pa.Table:
        spec = self.metadata.specs[spec_id]
        if self.pruning.predicate is not None:
            entries = entries.filter(from_numpy(self.pruning.entries(entries, spec)))
        deletes, rows, sizes = self.deletes.of(entries)
        codes, partitions = distinct_partitions(entries["partition"])
        paths = from_values([partition_path(spec, values) for values in partitions], pa.string())
        table = pa.table(
            {
                "file_size_in_bytes": entries["file_size_in_bytes"],
                "record_count": entries["record_count"],
                "spec_id": from_numpy(np.full(len(entries), spec_id, np.int32)),
                "partition_key": pa.DictionaryArray.from_arrays(from_numpy(codes.astype(np.int32, copy=False)), paths),
                "delete_files": deletes,
                "deleted_rows": rows,
            },
            PLAN_SCHEMA,
        )
        if self.weigh_deletes:
            table = table.append_column(DELETE_BYTES, sizes)
        if self.overlap_of is None:
            return table
        ranges = ranges_of(entries, self.overlap_of, self._kind(self.overlap_of))
        return pa.table({**{n: table[n] for n in table.column_names}, **{n: ranges[n] for n in ranges.column_names}})

    def _kind(self, column: int) -> IcebergType:
        return self.metadata.schema.find_field(column).field_type


def _with_depths(table: pa.Table) -> pa.Table:
    """The planner's table with the column `overlap_depth` instead of `low` and `high`."""
    kept = [name for name in table.column_names if name not in ("low", "high")]
    if not len(table):
        return table.select(kept)
    specs, keys = to_numpy(table["spec_id"]), table["partition_key"].combine_chunks()
    groups = specs.astype(np.int64) * (len(keys.dictionary) + 1) + to_numpy(keys.indices)
    depths = overlap_depths(table.select(["low", "high"]), groups)
    return table.select(kept).append_column("overlap_depth", from_numpy(depths))
