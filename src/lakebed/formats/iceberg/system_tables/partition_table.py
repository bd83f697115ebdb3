"""The metadata table `partitions`: the live files of a snapshot, summed up by partition.

Rule: PartitionsTable of the reference engine. The partitions of all specs are one struct, so files of two specs with
the same values there count together. An unpartitioned table has one row without partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.formats.iceberg.data_files import Content, Partition, distinct_partitions, partition_key
from lakebed.formats.iceberg.manifests import map_runs, runs_of
from lakebed.formats.iceberg.system_tables.file_tables import State
from lakebed.formats.iceberg.system_tables.log_tables import TIME
from lakebed.formats.iceberg.system_tables.partition_column import PartitionColumn
from lakebed.verbs.system_tables import SystemTable, of_rows

_READ = ("snapshot_id", "content", "spec_id", "partition", "record_count", "file_size_in_bytes")
_FIGURES = (
    pa.field("record_count", pa.int64(), False), pa.field("file_count", pa.int32(), False),
    pa.field("total_data_file_size_in_bytes", pa.int64(), False),
    pa.field("position_delete_record_count", pa.int64(), False),
    pa.field("position_delete_file_count", pa.int32(), False),
    pa.field("equality_delete_record_count", pa.int64(), False),
    pa.field("equality_delete_file_count", pa.int32(), False),
    pa.field("last_updated_at", TIME), pa.field("last_updated_snapshot_id", pa.int64()),
)  # fmt: skip


@dataclass(slots=True)
class _Sums:
    """The files of one partition."""

    partition: Partition
    spec_id: int
    rows: list[int] = field(default_factory=lambda: [0, 0, 0])
    files: list[int] = field(default_factory=lambda: [0, 0, 0])
    bytes: int = 0
    updated: tuple[int, int] | None = None
    """The time in milliseconds, and the id, of the newest snapshot that added one of them."""


def partitions(state: State) -> SystemTable:
    """One row per partition with live files. `last_updated_at` is null where the snapshots that added its files have
    expired."""
    column = PartitionColumn.of(state.metadata)
    keys = [pa.field("partition", column.type, False), pa.field("spec_id", pa.int32(), False)] if column.fields else []

    def rows() -> Iterator[tuple[Any, ...]]:
        for sums in _summed(state, column).values():
            figures = [value for pair in zip(sums.rows, sums.files, strict=True) for value in pair]
            figures.insert(2, sums.bytes)
            updated = (sums.updated[0] * 1000, sums.updated[1]) if sums.updated else (None, None)
            place = (dict(zip(column.type.names, sums.partition, strict=True)), sums.spec_id) if keys else ()
            yield *place, *figures, *updated

    return of_rows(pa.schema([*keys, *_FIGURES]), rows)


def _summed(state: State, column: PartitionColumn) -> dict[Partition, _Sums]:
    """The sums of each partition. What stays of a run of manifests is a row per partition, content and snapshot."""
    metadata, sums_by_partition = state.metadata, dict[Partition, _Sums]()

    def work(_: int, entries: pa.Table) -> list[tuple[int, Partition, int, int | None, int, int, int]]:
        return [*_grouped(entries, column, state)] if len(entries) else []

    for groups in map_runs(state.files, metadata, [*runs_of(state.manifests())], work, _READ):
        for spec_id, partition, content, snapshot_id, records, size, count in groups:
            sums = sums_by_partition.setdefault(partition_key(partition), _Sums(partition, spec_id))
            sums.rows[content] += records
            sums.files[content] += count
            sums.bytes += size if content == Content.DATA else 0
            snapshot = metadata.snapshots.get(snapshot_id) if snapshot_id is not None else None
            if snapshot is not None and (sums.updated is None or snapshot.timestamp_ms > sums.updated[0]):
                sums.updated, sums.spec_id = (snapshot.timestamp_ms, snapshot.snapshot_id), spec_id
    return sums_by_partition


def _grouped(
    entries: pa.Table, column: PartitionColumn, state: State
) -> Iterator[tuple[int, Partition, int, int | None, int, int, int]]:
    """Of entries of one spec: (spec, partition, content, snapshot, rows, bytes, files) per group."""
    spec = state.metadata.specs[entries["spec_id"][0].as_py()]
    codes, values = distinct_partitions(column.values(entries["partition"], spec))
    files = pa.table({
        "code": codes, "content": entries["content"], "snapshot": entries["snapshot_id"],
        "rows": entries["record_count"], "size": entries["file_size_in_bytes"],
        "files": np.ones(len(entries), np.int64),
    })  # fmt: skip
    sums = [(name, "sum") for name in ("rows", "size", "files")]
    for row in files.group_by(["code", "content", "snapshot"]).aggregate(sums).to_pylist():
        yield (
            spec.spec_id, values[row["code"]], row["content"], row["snapshot"], row["rows_sum"], row["size_sum"],
            row["files_sum"],
        )  # fmt: skip
