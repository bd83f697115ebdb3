"""Tables with `data-evolution.enabled`: files that hold some columns of the same rows, by ranges of row ids.

Rules: Paimon's DataEvolutionSplitRead (mergeRangesAndSort, splitFieldBunches), DataEvolutionSplitGenerator,
DataEvolutionFileStoreScan and DataEvolutionUtils. Files whose row ids overlap belong together. Its data files have the
same rows; a column comes from the newest of them that has it. Files of large values have some of the rows. A deletion
vector stands under the name of the oldest data file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.paimon.codec.manifest import DataFileMeta, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField
from lakebed.formats.paimon.layout import bucket_folder
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.read.pruning import Pruning
from lakebed.formats.paimon.read.row_tracking import TRACKING_COLUMNS, fields_of_file
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.formats.paimon.read.splits import Deletions, part_begins
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.tree import Node


@dataclass(frozen=True, slots=True)
class RowRange:
    """The files of the rows with the ids [first, first + rows): data files, newest first, and files of large values."""

    first: int
    rows: int
    files: tuple[DataFileMeta, ...]
    blobs: tuple[DataFileMeta, ...] = ()

    @property
    def all_files(self) -> tuple[DataFileMeta, ...]:
        """All its files."""
        return (*self.files, *self.blobs)

    @property
    def anchor(self) -> DataFileMeta:
        """The data file whose name a deletion vector has."""
        return min(self.files, key=lambda file: (file.max_sequence_number, file.file_name))

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(file.file_size for file in self.all_files)

    def sources(
        self, wanted: Sequence[DataField], schema_of: Callable[[DataFileMeta], TableSchema]
    ) -> Mapping[DataFileMeta, list[DataField]]:
        """Which data file each wanted column is read from. A column that none has is left out."""
        columns: dict[DataFileMeta, list[DataField]] = {}
        own = [(file, {field.id for field in fields_of_file(schema_of(file), file).fields}) for file in self.files]
        for field in wanted:
            newest = self.files[0] if field.name in TRACKING_COLUMNS else None
            file = newest or next((file for file, ids in own if field.id in ids), None)
            if file is not None:
                columns.setdefault(file, []).append(field)
        return columns

    def blobs_of(self, field: DataField, schema_of: Callable[[DataFileMeta], TableSchema]) -> list[DataFileMeta]:
        """The files that have large values of a column."""
        return [
            file
            for file in self.blobs
            if any(own.id == field.id for own in fields_of_file(schema_of(file), file).fields)
        ]


def row_ranges(files: Iterable[DataFileMeta], table: str) -> list[RowRange]:
    """The ranges of files, in the order of their row ids.

    CorruptError for files that have no row ids, or not the same ones; UnsupportedError for files of vectors.
    """
    ordered = sorted(files, key=lambda file: _first(file, table))
    groups: list[list[DataFileMeta]] = []
    reach = 0
    for file in ordered:
        first = _first(file, table)
        if not groups or first >= reach:
            groups.append([])
        groups[-1].append(file)
        reach = max(reach, first + file.row_count)
    return [_range(group, table) for group in groups]


def kept_ranges(entries: Sequence[ManifestEntry], predicate: Node | None, pruning: Pruning) -> list[ManifestEntry]:
    """The entries of the ranges that may have a row that the predicate keeps.

    Statistics and indexes count only where a range has one file: in others, values of a newer file may have replaced
    them, and columns that the first one lacks may be there.
    """
    if predicate is None:
        return list(entries)
    buckets: dict[tuple[bytes, int], dict[str, ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), {})[entry.file.file_name] = entry
    members: dict[str, list[ManifestEntry]] = {}
    standing: list[ManifestEntry] = []
    for of_bucket in buckets.values():
        for group in row_ranges((entry.file for entry in of_bucket.values()), pruning.table):
            anchor = of_bucket[group.anchor.file_name]
            members[anchor.file.file_name] = [of_bucket[file.file_name] for file in group.all_files]
            if len(group.all_files) > 1:
                unknown = replace(anchor.file, value_stats_cols=(), embedded_index=None, schema_id=pruning.schema.id)
                anchor = replace(anchor, file=unknown)
            standing.append(anchor)
    return [entry for one in pruning.kept(standing, predicate) for entry in members[one.file.file_name]]


def range_splits(
    entries: Sequence[ManifestEntry], deletions: Deletions, folders: PartitionFolders, options: Options
) -> Iterator[PaimonSplit]:
    """The splits of ranges, which are packed in their order. The files of a range stay together."""
    buckets: dict[tuple[bytes, int], list[DataFileMeta]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    folders.look(partition for partition, _ in buckets)
    for (partition, bucket), files in buckets.items():
        folder, vectors = bucket_folder(folders.of_row(partition), bucket), deletions.get((partition, bucket), {})
        groups = row_ranges(files, folders.store.location)
        begins = part_begins([group.size for group in groups], {0}, options)
        for number, (begin, end) in enumerate(zip(begins, [*begins[1:], len(groups)], strict=True)):
            part = tuple(file for group in groups[begin:end] for file in group.all_files)
            own = {file.file_name: vectors[file.file_name] for file in part if file.file_name in vectors}
            size = sum(file.file_size for file in part)
            yield PaimonSplit(f"{folder}#{number}" if number else folder, size, partition, bucket, folder, part, own)


def _first(file: DataFileMeta, table: str) -> int:
    if file.first_row_id is None:
        raise CorruptError("a data file has no row ids", table=table, file=file.file_name)
    return file.first_row_id


def _range(group: Sequence[DataFileMeta], table: str) -> RowRange:
    if any(file.is_vector_store for file in group):
        raise UnsupportedError(
            "lakebed does not read vectors that lie in files of their own",
            table=table,
            todo="Read the table with Paimon's own engine",
        )
    blobs = [file for file in group if file.is_blob]
    files = sorted((file for file in group if not file.is_blob), key=lambda file: -file.max_sequence_number)
    spans = {(_first(file, table), file.row_count) for file in files}
    if len(spans) != 1:
        raise CorruptError(
            "data files of overlapping row ids do not have the same rows"
            if spans
            else "large values have no data file",
            table=table,
            file=group[0].file_name,
        )
    (first, rows), *_ = spans
    return RowRange(first, rows, tuple(files), tuple(blobs))
