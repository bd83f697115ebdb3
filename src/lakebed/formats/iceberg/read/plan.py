"""The plan of a read: which data files of a snapshot, each with its deletes; large files in several splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import VoidTransform

from lakebed.formats.iceberg.codec.manifest import COLUMNS
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import Snapshot, TableMetadata
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import DeleteFile, FileTask, delete_files
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import iter_entries, manifests_of
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.equality_bounds import EqualityBounds
from lakebed.formats.iceberg.read.pruning import STATS_USED, Pruning
from lakebed.formats.iceberg.read.task import ByteRange, read_task
from lakebed.model.split import Split
from lakebed.verbs.read import ReadPlan

SPLIT_SIZE = 128 << 20


@dataclass(frozen=True, slots=True)
class IcebergSplit(Split):
    """A data file with its deletes, or the row groups of one that begin in a range of its bytes."""

    task: FileTask
    part: ByteRange | None = None


@dataclass(frozen=True, slots=True)
class TaskReader:
    """Reads splits: the picklable function of a plan."""

    files: Files
    context: ReadContext
    columns: tuple[str, ...]
    predicate: pc.Expression | None

    def __call__(self, split: IcebergSplit) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        return read_task(
            self.files, self.context, split.task, self.columns, predicate=self.predicate, part=split.part
        )  # fmt: skip


def plan_snapshot(
    files: Files, metadata: TableMetadata, snapshot: Snapshot | None, context: ReadContext,
    columns: Sequence[str] | None, predicate: pc.Expression | None, split_size: int = SPLIT_SIZE,
) -> ReadPlan[IcebergSplit]:  # fmt: skip
    """The rows of a snapshot (None: of an empty table), of those that the predicate keeps."""
    fields = context.columns(columns)
    tasks = scan_tasks(files, metadata, snapshot, Pruning.of(predicate, context.schema))
    splits = tuple(split for task in tasks for split in splits_of(task, split_size))
    reader = TaskReader(files, context, tuple(field.name for field in fields), predicate)
    return ReadPlan(arrow_schema(fields), splits, reader)


def scan_tasks(
    files: Files, metadata: TableMetadata, snapshot: Snapshot | None, pruning: Pruning | None = None
) -> Iterator[FileTask]:
    """The data files of a snapshot that pruning leaves, each with its deletes, in manifest order."""
    if snapshot is None:
        return
    data, deletes = kept_manifests(metadata, manifests_of(files, metadata, snapshot), pruning)
    found = list(live_deletes(files, metadata, deletes))
    index = DeleteIndex(found, unpartitioned(metadata))
    bounds = EqualityBounds.of(found, metadata.schema)
    for spec_id, some in data.items():
        for entries in chosen_entries(files, metadata, some, metadata.specs[spec_id], pruning, bool(bounds.ranges)):
            yield from bounds.tasks(entries, index)


BySpec = Mapping[int, Sequence[ManifestFile]]


def kept_manifests(
    metadata: TableMetadata, manifests: Sequence[ManifestFile], pruning: Pruning | None
) -> tuple[BySpec, BySpec]:
    """The manifests with live entries that pruning leaves, by spec: of data files, and of delete files."""
    data: dict[int, list[ManifestFile]] = {}
    deletes: dict[int, list[ManifestFile]] = {}
    for manifest in manifests:
        if manifest.has_live:
            (deletes if manifest.content else data).setdefault(manifest.spec_id, []).append(manifest)
    if pruning is None or pruning.node is None:
        return data, deletes
    return tuple(
        {spec: _kept(some, pruning.manifests(some, metadata.specs[spec])) for spec, some in found.items()}
        for found in (data, deletes)
    )  # type: ignore[return-value]  # there are two of them


def _kept(manifests: Sequence[ManifestFile], mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[ManifestFile]:
    return [manifest for manifest, wanted in zip(manifests, mask, strict=True) if wanted]


def chosen_entries(
    files: Files, metadata: TableMetadata, manifests: Sequence[ManifestFile], spec: PartitionSpec,
    pruning: Pruning | None, stats: bool = False,
) -> Iterator[pa.Table]:  # fmt: skip
    """The live entries of data manifests of one spec that pruning leaves, in pieces of bounded size; with `stats` also
    the figures that rule files out."""
    pruned = pruning is not None and pruning.node is not None
    columns = (*COLUMNS, *STATS_USED) if pruned or stats else COLUMNS
    for entries in iter_entries(files, metadata, manifests, columns):
        if pruning is not None and pruned:
            entries = entries.filter(pa.array(pruning.entries(entries, spec)))
        yield entries if stats else entries.select([name for name in entries.column_names if name not in STATS_USED])


def live_deletes(files: Files, metadata: TableMetadata, manifests: BySpec) -> Iterator[DeleteFile]:
    """The live delete files of manifests, by which file position deletes are about."""
    columns = (*COLUMNS, "null_value_counts", "lower_bounds", "upper_bounds")
    for some in manifests.values():
        for entries in iter_entries(files, metadata, some, columns):
            yield from delete_files(entries)


def unpartitioned(metadata: TableMetadata) -> frozenset[int]:
    """The ids of specs that have no field but void ones."""
    return frozenset(
        id for id, spec in metadata.specs.items() if all(isinstance(f.transform, VoidTransform) for f in spec.fields)
    )


def splits_of(task: FileTask, split_size: int = SPLIT_SIZE) -> Iterator[IcebergSplit]:
    """A file whole, or where it is larger than `split_size` bytes in runs of row groups of about that size."""
    data = task.data
    offsets = data.split_offsets
    if data.format != "PARQUET" or data.size <= split_size or len(offsets) < 2 or list(offsets) != sorted(offsets):
        yield IcebergSplit(data.path, data.size, task)
        return
    start = 0
    for offset in (*offsets[1:], data.size):
        if offset - start >= split_size or offset == data.size:
            yield IcebergSplit(f"{data.path}:{start}", offset - start, task, ByteRange(start, offset))
            start = offset
