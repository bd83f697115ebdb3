"""The plan of a read: the data files of a snapshot, each with its deletes; a large file becomes several splits.

Rule: the specification's "Scan Planning".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import VoidTransform

from lakebed.formats.iceberg.codec.manifest import COLUMNS
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.codec.snapshots import Snapshot
from lakebed.formats.iceberg.data_files import Content, DeleteFile, FileTask, delete_files
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.manifests import iter_entries, manifests_ahead, manifests_of
from lakebed.formats.iceberg.read.context import ReadContext, ReadRequest
from lakebed.formats.iceberg.read.counting import counted
from lakebed.formats.iceberg.read.equality_bounds import EqualityBounds
from lakebed.formats.iceberg.read.pruning import STATS_USED, Pruning
from lakebed.formats.iceberg.read.split import IcebergSplit
from lakebed.formats.iceberg.read.splits import splits_of_entries
from lakebed.formats.iceberg.read.task import Selection, read_task
from lakebed.kernel.arrays import Bools, from_numpy, scalar_of, to_numpy
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import unread_parts
from lakebed.verbs import many_splits
from lakebed.verbs.many_splits import StreamedSplits
from lakebed.verbs.read import ReadPlan

_STREAMED_BYTES = 2 << 20
"""Bytes of manifests whose splits are in memory at once where there are very many. A manifest may have more."""


@dataclass(frozen=True, slots=True)
class TaskReader:
    """The function of a plan that reads one split. Picklable."""

    files: Files
    context: ReadContext
    columns: tuple[str, ...]
    predicate: Node | None

    def __call__(self, split: IcebergSplit) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        selection = Selection(self.columns, self.predicate, part=split.part)
        return read_task(self.files, self.context, split.task, selection)


def plan_snapshot(
    files: Files, metadata: TableMetadata, snapshot: Snapshot | None, request: ReadRequest
) -> ReadPlan[IcebergSplit]:
    """Plan a read of the live rows of a snapshot that the request's predicate keeps. None is an empty table."""
    scan = Scan.of(files, metadata, snapshot, Pruning(request.predicate, request.context.schema))
    return plan_entries(files, scan, request)


def plan_entries(files: Files, scan: Scan, request: ReadRequest) -> ReadPlan[IcebergSplit]:
    """Plan a read of these data files."""
    fields = request.context.columns(request.columns)
    splits = scan.splits(request.split_size)
    reader = TaskReader(files, request.context, tuple(field.name for field in fields), request.predicate)
    home = files.home
    warnings = unread_parts(request.predicate)
    counts = counted if request.predicate is None else None
    return ReadPlan(arrow_schema(fields), splits, reader, warnings, home.at_once, home.in_flight, counts)


def scan_tasks(
    files: Files, metadata: TableMetadata, snapshot: Snapshot | None, pruning: Pruning | None = None
) -> Iterator[FileTask]:
    """The data files of a snapshot that pruning leaves, each with its deletes, in manifest order."""
    scan = Scan.of(files, metadata, snapshot, pruning)
    for entries in scan.entries(None):
        yield from scan.bounds.tasks(entries, scan.index)


@dataclass(frozen=True, slots=True)
class Scan:
    """The live entries of data files, in manifest order and in pieces of one spec, and the deletes for them.

    `entries` reads them anew with each call, in pieces of about so many bytes of manifests, None for pieces as large as
    is quickest. `files` is about how many there are, 0 where that is not known.
    """

    entries: Callable[[int | None], Iterator[pa.Table]]
    index: DeleteIndex
    bounds: EqualityBounds
    files: int = 0

    @classmethod
    def of(cls, files: Files, metadata: TableMetadata, snapshot: Snapshot | None, pruning: Pruning | None) -> Scan:
        """The entries that pruning leaves of a snapshot, and their deletes. The snapshot None is an empty table."""
        if snapshot is None:
            return cls.without_deletes(lambda _: iter(()), metadata)
        data, delete_manifests = kept_manifests(metadata, manifests_of(files, metadata, snapshot), pruning)
        files = manifests_ahead(files, chain(*delete_manifests.values(), *data.values()))
        deletes = list(live_deletes(files, metadata, delete_manifests))
        bounds = EqualityBounds.of(deletes, metadata.schema)

        def entries(piece: int | None) -> Iterator[pa.Table]:
            for spec_id, of_spec in data.items():
                spec, stats = metadata.specs[spec_id], bool(bounds.ranges)
                yield from chosen_entries(files, metadata, of_spec, spec, pruning, stats, piece)

        live = sum(manifest.live_files for of_spec in data.values() for manifest in of_spec)
        return cls(entries, DeleteIndex(deletes, unpartitioned(metadata)), bounds, live)

    @classmethod
    def without_deletes(cls, entries: Callable[[int | None], Iterator[pa.Table]], metadata: TableMetadata) -> Scan:
        """Data files to which no deletes apply."""
        return cls(entries, DeleteIndex((), ()), EqualityBounds.of((), metadata.schema))

    def splits(self, split_size: int) -> Sequence[IcebergSplit]:
        """The splits of the data files. Those of very many files are made while their manifests are read."""

        def of(pieces: Iterator[pa.Table]) -> Sequence[IcebergSplit]:
            return splits_of_entries(pieces, self.index, self.bounds, split_size)

        def streamed() -> Iterator[Sequence[IcebergSplit]]:
            return (of(iter((piece,))) for piece in self.entries(_STREAMED_BYTES))

        def whole() -> Sequence[IcebergSplit]:
            return of(self.entries(None))

        return whole() if self.files <= many_splits.MANY else StreamedSplits(streamed, whole)


BySpec = Mapping[int, Sequence[ManifestFile]]
"""Manifests by the id of their partition spec."""


def kept_manifests(
    metadata: TableMetadata, manifests: Sequence[ManifestFile], pruning: Pruning | None
) -> tuple[BySpec, BySpec]:
    """The manifests with live entries that pruning leaves: those of data files, and those of delete files."""
    data: dict[int, list[ManifestFile]] = {}
    deletes: dict[int, list[ManifestFile]] = {}
    for manifest in manifests:
        if manifest.has_live:
            (deletes if manifest.content else data).setdefault(manifest.spec_id, []).append(manifest)
    if pruning is None or pruning.predicate is None:
        return data, deletes
    return _pruned(metadata, data, pruning), _pruned(metadata, deletes, pruning)


def _pruned(metadata: TableMetadata, manifests: BySpec, pruning: Pruning) -> BySpec:
    return {
        spec_id: _kept(of_spec, pruning.manifests(of_spec, metadata.specs[spec_id]))
        for spec_id, of_spec in manifests.items()
    }


def _kept(manifests: Sequence[ManifestFile], mask: Bools) -> list[ManifestFile]:
    return [manifest for manifest, kept in zip(manifests, mask, strict=True) if kept]


def chosen_entries(
    files: Files, metadata: TableMetadata, manifests: Sequence[ManifestFile], spec: PartitionSpec,
    pruning: Pruning | None, stats: bool = False, piece_bytes: int | None = None,
) -> Iterator[pa.Table]:  # fmt: skip
    """The live entries of data manifests of one spec that pruning leaves, in pieces of bounded size.

    With `stats` they also have the columns `STATS_USED`. `piece_bytes` are those of `iter_entries`.
    """
    pruned = pruning is not None and pruning.predicate is not None
    columns = (*COLUMNS, *STATS_USED) if pruned or stats else COLUMNS
    for entries in iter_entries(files, metadata, manifests, columns, piece_bytes=piece_bytes):
        if pruning is not None and pruned:
            entries = entries.filter(from_numpy(pruning.entries(entries, spec)))
        yield entries if stats else entries.select([name for name in entries.column_names if name not in STATS_USED])


def live_deletes(files: Files, metadata: TableMetadata, manifests: BySpec) -> Iterator[DeleteFile]:
    """The live delete files of manifests, read with the bounds that tell which data file a position delete is about."""
    columns = (*COLUMNS, "null_value_counts", "lower_bounds", "upper_bounds")
    for of_spec in manifests.values():
        for entries in iter_entries(files, metadata, of_spec, columns):
            yield from delete_files(entries)


def pruned_deletes(
    files: Files, metadata: TableMetadata, snapshot: Snapshot | None, pruning: Pruning, content: Content
) -> Iterator[DeleteFile]:
    """The live delete files of one kind, without deletion vectors, that pruning leaves."""
    if snapshot is None:
        return
    _, delete_manifests = kept_manifests(metadata, manifests_of(files, metadata, snapshot), pruning)
    for spec_id, manifests in delete_manifests.items():
        for entries in iter_entries(files, metadata, manifests, (*COLUMNS, *STATS_USED)):
            kept = pruning.entries(entries, metadata.specs[spec_id])
            kept &= to_numpy(entries["content"]) == content
            kept &= to_numpy(pc.not_equal(entries["file_format"], scalar_of("PUFFIN", pa.string())))
            yield from delete_files(entries.filter(from_numpy(kept)))


def unpartitioned(metadata: TableMetadata) -> frozenset[int]:
    """The ids of the specs without fields, or with void fields only."""
    return frozenset(
        id for id, spec in metadata.specs.items() if all(isinstance(f.transform, VoidTransform) for f in spec.fields)
    )
