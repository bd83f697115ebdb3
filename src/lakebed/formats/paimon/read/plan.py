"""The plan of a read: which files of which snapshot, one split a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow.compute as pc

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.deletion_vectors import BLOCK_SLACK
from lakebed.formats.paimon.codec.manifest import DELETION_VECTORS, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.layout import POSTPONE_BUCKET, bucket_folder, index_path
from lakebed.formats.paimon.manifests import index_files, live_files
from lakebed.formats.paimon.merge import merge_function
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.read.keys import check_keys
from lakebed.formats.paimon.read.pruning import kept_entries
from lakebed.formats.paimon.read.task import BucketReader, DeletionFile, PaimonSplit
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import columns_of
from lakebed.verbs.read import ReadPlan


def plan_snapshot(
    history: History, snapshot: Snapshot | None, schema: TableSchema, options: Options,
    columns: Sequence[str], predicate: pc.Expression | None, level_0: bool = False, use: Use = Use.READ,
) -> ReadPlan[PaimonSplit]:  # fmt: skip
    """The rows of a snapshot (None: of an empty table) in the columns given, of those that the predicate keeps.

    `level_0` also reads what waits in level 0 for a compaction that makes it visible; `use` is what the rows are for.
    """
    refuse_unserved(schema, options, use, history.store.location)
    if schema.primary_keys:
        merge_function(schema, options)
    live = [entry for entry in live_files(history.store, snapshot) if entry.bucket != POSTPONE_BUCKET]
    check_keys(history, schema, live)
    if not (level_0 or shows_level_0(options)):
        live = _visible(live, history, schema, options)
    deletions = deletion_files(index_files(history.store, snapshot))
    return plan_files(history, live, deletions, schema, options, columns, predicate)


def plan_files(
    history: History, live: Sequence[ManifestEntry], deletions: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]],
    schema: TableSchema, options: Options, columns: Sequence[str], predicate: pc.Expression | None,
) -> ReadPlan[PaimonSplit]:  # fmt: skip
    """The rows of files, without those that their deletion vectors mark."""
    whole = arrow_schema(schema.fields)
    used = {*columns, *columns_of(predicate, whole)}
    needed = tuple(name for name in schema.names if name in used or (not used and name == schema.names[0]))
    folders = PartitionFolders.of(history.store, schema, options)
    splits = _splits(kept_entries(live, predicate, schema), deletions, folders, skips_level_0(schema, options))
    reader = BucketReader(history, schema, options, tuple(columns), needed, predicate)
    return ReadPlan(arrow_schema(schema.project(tuple(columns))), splits, reader)


def _visible(
    entries: Sequence[ManifestEntry], history: History, schema: TableSchema, options: Options
) -> list[ManifestEntry]:
    """The files that a batch read sees: no postponed ones, and where level 0 waits for its compaction, none of level 0.

    Level-0 files from before deletion vectors were switched on are not marked by any vector, so they are read, and
    merged.
    """
    if not skips_level_0(schema, options):
        return list(entries)
    return [entry for entry in entries if entry.file.level > 0 or _is_older(entry, history)]


def skips_level_0(schema: TableSchema, options: Options) -> bool:
    """Whether batch reads leave level 0 out, since only a compaction makes its rows visible."""
    return bool(schema.primary_keys) and (options[opt.DELETION_VECTORS] or options[opt.MERGE_ENGINE] == "first-row")


def shows_level_0(options: Options) -> bool:
    """Whether batch reads of a table with deletion vectors merge level 0 in (`deletion-vectors.merge-on-read`)."""
    merges = options[opt.DELETION_VECTORS] and options[opt.DELETION_VECTORS_ON_READ]
    return bool(merges and options[opt.MERGE_ENGINE] != "first-row")


def _is_older(entry: ManifestEntry, history: History) -> bool:
    written = history.schema(entry.file.schema_id)
    return not skips_level_0(written, opt.table_options(written.options))


def deletion_files(indexes: Iterable[IndexManifestEntry]) -> dict[tuple[bytes, int], dict[str, DeletionFile]]:
    """The deletion vector of each data file, by partition and bucket."""
    made: dict[tuple[bytes, int], dict[str, DeletionFile]] = {}
    for entry in indexes:
        if entry.index_type != DELETION_VECTORS:
            continue
        path = index_path(entry.file_name)
        of_bucket = made.setdefault((entry.partition, entry.bucket), {})
        for place in entry.ranges or ():
            of_bucket[place.data_file] = DeletionFile(path, place.offset, place.length + BLOCK_SLACK, place.cardinality)
    return made


def _splits(
    entries: Sequence[ManifestEntry],
    deletions: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]],
    folders: PartitionFolders,
    no_level_0: bool,
) -> tuple[PaimonSplit, ...]:
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    made: list[PaimonSplit] = []
    for (partition, bucket), found in buckets.items():
        folder = bucket_folder(folders.of_row(partition), bucket)
        files = tuple(entry.file for entry in found)
        vectors = deletions.get((partition, bucket), {})
        unmerged = no_level_0 and all(file.level > 0 for file in files)
        size = sum(file.file_size for file in files)
        made.append(PaimonSplit(folder, size, partition, bucket, folder, files, vectors, unmerged))
    return tuple(made)
