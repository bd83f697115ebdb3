"""The metadata tables with a row per file or per manifest entry: `files`, `data_files`, `delete_files`, `entries`, and
the same of all snapshots.

Rule: BaseFilesTable, ManifestEntriesTable and AllEntriesTable of the reference engine. Files are those of live entries;
entries come with every status. The tables of all snapshots read each manifest once, so a file comes once for each
manifest that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import ALL_COLUMNS, lists_ahead, manifests_of, map_runs, runs_of
from lakebed.formats.iceberg.system_tables.partition_column import PartitionColumn
from lakebed.formats.iceberg.system_tables.readable_metrics import ReadableMetrics
from lakebed.kernel.arrays import one_chunk
from lakebed.verbs.system_tables import SystemTable

DATA, DELETES = 0, 1
"""The content of a manifest."""
_BATCH_ROWS = 16_384


def _map(value: pa.DataType) -> pa.MapType:
    return pa.map_(pa.int32(), pa.field("value", value, nullable=False))


def _list(value: pa.DataType) -> pa.ListType:
    return pa.list_(pa.field("element", value, nullable=False))


_BEFORE = (
    pa.field("content", pa.int32()), pa.field("file_path", pa.string(), False),
    pa.field("file_format", pa.string(), False), pa.field("spec_id", pa.int32()),
)  # fmt: skip
_AFTER = (
    pa.field("record_count", pa.int64(), False), pa.field("file_size_in_bytes", pa.int64(), False),
    pa.field("column_sizes", _map(pa.int64())), pa.field("value_counts", _map(pa.int64())),
    pa.field("null_value_counts", _map(pa.int64())), pa.field("nan_value_counts", _map(pa.int64())),
    pa.field("lower_bounds", _map(pa.binary())), pa.field("upper_bounds", _map(pa.binary())),
    pa.field("key_metadata", pa.binary()), pa.field("split_offsets", _list(pa.int64())),
    pa.field("equality_ids", _list(pa.int32())), pa.field("sort_order_id", pa.int32()),
    pa.field("first_row_id", pa.int64()), pa.field("referenced_data_file", pa.string()),
    pa.field("content_offset", pa.int64()), pa.field("content_size_in_bytes", pa.int64()),
)  # fmt: skip
_ENTRY = (
    pa.field("status", pa.int32(), False), pa.field("snapshot_id", pa.int64()),
    pa.field("sequence_number", pa.int64()), pa.field("file_sequence_number", pa.int64()),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class State:
    """What metadata tables are about: a table's metadata and files, and the snapshot that is read."""

    metadata: TableMetadata
    files: Files
    head: Snapshot | None

    def manifests(self) -> Iterator[ManifestFile]:
        """The manifests of the snapshot, in order."""
        if self.head is not None:
            yield from manifests_of(self.files, self.metadata, self.head)

    def all_manifests(self) -> Iterator[ManifestFile]:
        """The manifests of all snapshots, each once."""
        known: set[str] = set()
        for _, manifests in self.manifest_lists():
            for manifest in manifests:
                if manifest.path not in known:
                    known.add(manifest.path)
                    yield manifest

    def manifest_lists(self) -> Iterator[tuple[Snapshot, Sequence[ManifestFile]]]:
        """Each snapshot with its manifests, in the order of the metadata. CorruptError when a list is missing."""
        files = lists_ahead(self.files, self.metadata.snapshots.values())
        for snapshot in self.metadata.snapshots.values():
            yield snapshot, manifests_of(files, self.metadata, snapshot)


def file_table(state: State, every: bool = False, content: int | None = None) -> SystemTable:
    """One row per live file: of the snapshot or of `every` snapshot, of manifests of one content or of both."""
    columns = _FileColumns(state.metadata)
    schema = pa.schema([*columns.fields, _metrics_field(columns)])

    def batch(entries: pa.Table) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*columns.arrays(entries), columns.metrics.values(entries)], schema=schema)

    def chosen() -> list[ManifestFile]:
        manifests = state.all_manifests() if every else state.manifests()
        return [m for m in manifests if m.has_live and content in (None, m.content)]

    return SystemTable(schema, lambda: _batches(state, chosen(), batch, live_only=True))


def entry_table(state: State, every: bool = False) -> SystemTable:
    """One row per entry of a manifest, of the snapshot or of `every` snapshot. Status 0 is existing, 1 added, 2
    deleted."""
    columns = _FileColumns(state.metadata)
    data_file = pa.field("data_file", pa.struct(columns.fields), False)
    schema = pa.schema([*_ENTRY, data_file, _metrics_field(columns)])

    def batch(entries: pa.Table) -> pa.RecordBatch:
        own = [one_chunk(entries[field.name]).cast(field.type) for field in _ENTRY]
        files = pa.StructArray.from_arrays(columns.arrays(entries), fields=columns.fields)
        return pa.RecordBatch.from_arrays([*own, files, columns.metrics.values(entries)], schema=schema)

    def chosen() -> list[ManifestFile]:
        return [*(state.all_manifests() if every else state.manifests())]

    return SystemTable(schema, lambda: _batches(state, chosen(), batch, live_only=False))


class _FileColumns:
    """The columns of a file, and those of its partition and metrics."""

    def __init__(self, metadata: TableMetadata) -> None:
        self.metadata = metadata
        self.partition, self.metrics = PartitionColumn.of(metadata), ReadableMetrics(metadata.schema)
        partition = [pa.field("partition", self.partition.type, False)] if self.partition.fields else []
        self.fields = [*_BEFORE, *partition, *_AFTER]

    def arrays(self, entries: pa.Table) -> list[pa.Array]:
        """The columns of entries of one spec."""
        if not len(entries):
            return [pa.array([], field.type) for field in self.fields]
        spec = self.metadata.specs[entries["spec_id"][0].as_py()]
        return [
            self.partition.values(entries["partition"], spec)
            if field.name == "partition"
            else one_chunk(entries[field.name]).cast(field.type)
            for field in self.fields
        ]


def _metrics_field(columns: _FileColumns) -> pa.Field:
    return pa.field("readable_metrics", columns.metrics.type)


def _batches(
    state: State, manifests: list[ManifestFile], batch: Callable[[pa.Table], pa.RecordBatch], live_only: bool
) -> Iterator[pa.RecordBatch]:
    """The batches of the entries of manifests, a run of neighbours at a time."""

    def work(_: int, entries: pa.Table) -> list[pa.RecordBatch]:
        starts = range(0, len(entries), _BATCH_ROWS)
        return [batch(entries.slice(start, _BATCH_ROWS).combine_chunks()) for start in starts]

    runs = [*runs_of(manifests)]
    for made_batch in map_runs(state.files, state.metadata, runs, work, ALL_COLUMNS, live_only):
        yield from made_batch
