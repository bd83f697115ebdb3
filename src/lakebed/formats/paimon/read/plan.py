"""The plan of a read: the visible files of a snapshot that may hold matching rows, as splits.

A bucket whose files are merged is one split. Other files are packed into splits in their order, by the rules of
Paimon's AppendOnlySplitGenerator and MergeTreeSplitGenerator (BinPacking.packForOrdered).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.deletion_vectors import BLOCK_SLACK
from lakebed.formats.paimon.codec.manifest import DELETION_VECTORS, DataFileMeta, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.layout import POSTPONE_BUCKET, bucket_folder, index_path
from lakebed.formats.paimon.manifests import live_and_index_files
from lakebed.formats.paimon.merge import merge_function
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.read.keys import check_keys
from lakebed.formats.paimon.read.pruning import kept_entries
from lakebed.formats.paimon.read.split import DeletionFile, PaimonSplit
from lakebed.formats.paimon.read.task import BucketReader
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import columns_of, unread_parts
from lakebed.verbs.read import ReadPlan

Deletions = Mapping[tuple[bytes, int], Mapping[str, DeletionFile]]
"""The deletion vectors by partition and bucket, then by data file name."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What a read asks of a table: `columns`, and the rows that `predicate` keeps.

    `schema` is the schema that rows are read in, and `options` are those that hold for the call. `predicate` may name
    any column of the schema.
    """

    history: History
    schema: TableSchema
    options: Options
    columns: tuple[str, ...]
    predicate: Node | None = None
    created_since: int | None = None
    """Files that were created before this time, in milliseconds since 1970, are left out; None: none."""

    def was_created(self, entry: ManifestEntry) -> bool:
        """Whether a file is read by the time of its creation."""
        created, since = entry.file.creation_time, self.created_since
        return since is None or created is None or created >= since

    @property
    def table(self) -> str:
        """The location of the table, for errors."""
        return self.history.store.location

    @property
    def reader(self) -> BucketReader:
        """The function that reads the rows of one split."""
        names, used = self.schema.names, {*self.columns, *columns_of(self.predicate)}
        needed = tuple(name for name in names if name in used or (not used and name == names[0]))
        return BucketReader(self.history, self.schema, self.options, self.columns, needed, self.predicate)


def plan_snapshot(
    request: ReadRequest, snapshot: Snapshot | None, level_0: bool = False, use: Use = Use.READ
) -> ReadPlan[PaimonSplit]:
    """Plan a read of a snapshot. None is an empty table.

    With `level_0` the read includes the files of level 0 that stay invisible until a compaction. `use` says what the
    rows are for. Raises UnsupportedError for what lakebed does not serve in that use.
    """
    return plan_files(request, *seen_files(request, snapshot, level_0, use))


def seen_files(
    request: ReadRequest, snapshot: Snapshot | None, level_0: bool = False, use: Use = Use.READ
) -> tuple[list[ManifestEntry], Deletions]:
    """The files that a read of a snapshot sees, and their deletion vectors; see `plan_snapshot`."""
    history, schema, options = request.history, request.schema, request.options
    refuse_unserved(schema, options, use, request.table)
    if schema.primary_keys:
        merge_function(schema, options)
    live, indexes = live_and_index_files(history.store, snapshot)
    entries = [entry for entry in live if entry.bucket != POSTPONE_BUCKET and request.was_created(entry)]
    check_keys(history, schema, entries)
    if not (level_0 or shows_level_0(options)):
        entries = _visible(entries, history, schema, options)
    return entries, deletion_files(indexes)


def plan_files(
    request: ReadRequest,
    entries: Sequence[ManifestEntry],
    deletions: Deletions,
) -> ReadPlan[PaimonSplit]:
    """Plan a read of data files, without the rows that deletion vectors delete."""
    history, schema, options, predicate = request.history, request.schema, request.options, request.predicate
    folders = PartitionFolders.of(history.store, schema, options)
    splits = tuple(bucket_splits(kept_entries(entries, predicate, schema), deletions, folders, schema, options))
    return ReadPlan(
        arrow_schema(schema.project(request.columns)),
        splits,
        request.reader,
        unread_parts(predicate),
        history.store.at_once,
        history.store.in_flight,
    )


def _visible(
    entries: Sequence[ManifestEntry], history: History, schema: TableSchema, options: Options
) -> list[ManifestEntry]:
    """The files that a batch read sees. Where only a compaction makes level 0 visible, its files are left out.

    Files of level 0 that were written before deletion vectors were enabled are read and merged, since no vector
    deletes the rows that they replace.
    """
    if not skips_level_0(schema, options):
        return list(entries)
    return [entry for entry in entries if entry.file.level > 0 or _precedes_vectors(entry, history)]


def skips_level_0(schema: TableSchema, options: Options) -> bool:
    """Whether batch reads leave level 0 out because only a compaction makes its rows visible."""
    return bool(schema.primary_keys) and (options[opt.DELETION_VECTORS] or options[opt.MERGE_ENGINE] == "first-row")


def shows_level_0(options: Options) -> bool:
    """Whether batch reads of a table with deletion vectors include level 0 (`deletion-vectors.merge-on-read`)."""
    merges = options[opt.DELETION_VECTORS] and options[opt.DELETION_VECTORS_ON_READ]
    return bool(merges and options[opt.MERGE_ENGINE] != "first-row")


def _precedes_vectors(entry: ManifestEntry, history: History) -> bool:
    """Whether a file was written under a schema whose batch reads still saw level 0."""
    written = history.schema(entry.file.schema_id)
    return not skips_level_0(written, opt.table_options(written.options))


def deletion_files(indexes: Iterable[IndexManifestEntry]) -> dict[tuple[bytes, int], dict[str, DeletionFile]]:
    """The deletion vectors by partition and bucket, then by data file name."""
    deletions: dict[tuple[bytes, int], dict[str, DeletionFile]] = {}
    for entry in indexes:
        if entry.index_type != DELETION_VECTORS:
            continue
        path = index_path(entry.file_name)
        vectors = deletions.setdefault((entry.partition, entry.bucket), {})
        for block in entry.ranges or ():
            vectors[block.data_file] = DeletionFile(path, block.offset, block.length + BLOCK_SLACK, block.cardinality)
    return deletions


def bucket_splits(
    entries: Sequence[ManifestEntry],
    deletions: Deletions,
    folders: PartitionFolders,
    schema: TableSchema,
    options: Options,
) -> Iterator[PaimonSplit]:
    """The splits of data files: one per bucket, or several where no rows are merged."""
    buckets: dict[tuple[bytes, int], list[DataFileMeta]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    folders.look(partition for partition, _ in buckets)
    no_level_0 = skips_level_0(schema, options)
    for (partition, bucket), files in buckets.items():
        folder = bucket_folder(folders.of_row(partition), bucket)
        vectors = deletions.get((partition, bucket), {})
        if not schema.primary_keys:  # a compaction may add rows later that are older
            files = sorted(files, key=lambda file: file.min_sequence_number)
        unmerged = no_level_0 and all(file.level > 0 for file in files)
        parts = packed(files, options) if unmerged or not schema.primary_keys else [files]
        for number, part in enumerate(parts):
            group = f"{folder}#{number}" if number else folder
            own = (
                vectors
                if len(parts) == 1
                else {f.file_name: vectors[f.file_name] for f in part if f.file_name in vectors}
            )
            size = sum(file.file_size for file in part)
            yield PaimonSplit(group, size, partition, bucket, folder, tuple(part), own, unmerged)


def packed(files: Sequence[DataFileMeta], options: Options) -> list[list[DataFileMeta]]:
    """Files in order, in parts of about `source.split.target-size`. A file counts `source.split.open-file-cost` at
    least."""
    target, least = options[opt.SPLIT_SIZE], options[opt.SPLIT_OPEN_COST]
    parts: list[list[DataFileMeta]] = [[]]
    size = 0
    for file in files:
        weight = max(file.file_size, least)
        if parts[-1] and size + weight > target:
            parts.append([])
            size = 0
        parts[-1].append(file)
        size += weight
    return parts
