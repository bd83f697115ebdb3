"""The plan of a read: the visible files of a snapshot that may hold matching rows, as splits (`splits`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon import file_options
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.deletion_vectors import BLOCK_SLACK
from lakebed.formats.paimon.codec.manifest import DELETION_VECTORS, IndexManifestEntry, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.snapshot_json import Snapshot
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.definition import refuse_unserved
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.layout import POSTPONE_BUCKET, index_path
from lakebed.formats.paimon.manifests import live_and_index_files
from lakebed.formats.paimon.merge import merge_function
from lakebed.formats.paimon.partitions import PartitionFolders
from lakebed.formats.paimon.read.counting import counted
from lakebed.formats.paimon.read.evolution import kept_ranges, range_splits
from lakebed.formats.paimon.read.keys import check_keys
from lakebed.formats.paimon.read.pruning import PartitionFilter, Pruning
from lakebed.formats.paimon.read.row_tracking import with_tracking
from lakebed.formats.paimon.read.split import DeletionFile, PaimonSplit
from lakebed.formats.paimon.read.splits import Deletions, bucket_splits, skips_level_0
from lakebed.formats.paimon.read.task import BucketReader
from lakebed.formats.paimon.snapshot import History
from lakebed.formats.paimon.unserved import Use
from lakebed.kernel.arrays import Bools, to_numpy
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import columns_of, unread_parts
from lakebed.verbs.read import ReadPlan


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What a read asks of a table: `columns`, and the rows that `predicate` keeps.

    `schema` is the schema that rows are read in, and `options` are those that hold for the call. `columns` and
    `predicate` may name any column that is `readable`.
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

    def created(self, entries: Entries) -> Bools:
        """`was_created` of each entry."""
        since, created = self.created_since, entries.table.column("creation_time")
        if since is None:
            return np.ones(len(entries), np.bool_)
        known: Bools = to_numpy(pc.fill_null(pc.greater_equal(created, since), True))
        return known

    @property
    def table(self) -> str:
        """The location of the table, for errors."""
        return self.history.store.location

    @property
    def readable(self) -> TableSchema:
        """The schema with all columns that may be named: those of row tracking too."""
        return with_tracking(self.schema, self.options)

    @property
    def pruning(self) -> Pruning:
        """How files that cannot match the predicate are ruled out."""
        engine, no_level_0 = self.options[opt.MERGE_ENGINE], skips_level_0(self.schema, self.options)
        return Pruning(
            self.schema,
            self.history.schema,
            self.table,
            self.options[file_options.FILE_INDEX_READ],
            engine not in ("deduplicate", "first-row"),
            no_level_0,
        )

    @property
    def reader(self) -> BucketReader:
        """The function that reads the rows of one split."""
        schema, used = self.readable, {*self.columns, *columns_of(self.predicate)}
        names = schema.names
        needed = tuple(name for name in names if name in used or (not used and name == names[0]))
        return BucketReader(self.history, schema, self.options, self.columns, needed, self.predicate, self.pruning)


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
) -> tuple[Entries, Deletions]:
    """The files that a read of a snapshot sees in the partitions that it asks for, and their deletion vectors; see
    `plan_snapshot`. Many files come without statistics where the predicate needs none."""
    history, schema, options = request.history, request.schema, request.options
    refuse_unserved(schema, options, use, request.table)
    if schema.primary_keys:
        merge_function(schema, options)
    if options[opt.DATA_EVOLUTION] and request.created_since is not None:
        raise UnsupportedError(
            f"lakebed cannot read some files of a table with {opt.DATA_EVOLUTION.key}", table=request.table,
            why="a row may have columns in older files", todo="Leave the least time of creation out",
        )  # fmt: skip
    wanted, stats = PartitionFilter.of(request.predicate, schema), request.predicate is not None
    if wanted is None:
        live, indexes = live_and_index_files(history.store, snapshot, stats=stats)
    else:
        live, indexes = live_and_index_files(history.store, snapshot, wanted.manifests, wanted.buckets, stats)
    entries = Entries.of(live)
    entries = entries.kept((entries.numbers("bucket") != POSTPONE_BUCKET) & request.created(entries))
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
    splits: Sequence[PaimonSplit]
    by_metadata = predicate is None and not schema.primary_keys and not options[opt.DATA_EVOLUTION]
    if options[opt.DATA_EVOLUTION]:
        splits = tuple(range_splits(kept_ranges(entries, predicate, request.pruning), deletions, folders, options))
    else:
        kept = request.pruning.kept(entries, predicate, whole_buckets=True)
        splits = bucket_splits(kept, deletions, folders, schema, options)
    return ReadPlan(
        arrow_schema(request.readable.project(request.columns)),
        splits,
        request.reader,
        unread_parts(predicate),
        history.store.at_once,
        history.store.in_flight,
        counted if by_metadata else None,
    )


def _visible(entries: Entries, history: History, schema: TableSchema, options: Options) -> Entries:
    """The files that a batch read sees. Where only a compaction makes level 0 visible, its files are left out.

    Files of level 0 that were written before deletion vectors were enabled are read and merged, since no vector
    deletes the rows that they replace.
    """
    if not skips_level_0(schema, options):
        return entries
    above, ids = entries.numbers("level") > 0, entries.numbers("schema_id")
    early = [number for number in np.unique(ids[~above]).tolist() if _precedes_vectors(number, history)]
    return entries.kept(above | np.isin(ids, early))


def shows_level_0(options: Options) -> bool:
    """Whether batch reads of a table with deletion vectors include level 0 (`deletion-vectors.merge-on-read`)."""
    merges = options[opt.DELETION_VECTORS] and options[opt.DELETION_VECTORS_ON_READ]
    return bool(merges and options[opt.MERGE_ENGINE] != "first-row")


def _precedes_vectors(schema_id: int, history: History) -> bool:
    """Whether batch reads of a schema still saw level 0."""
    written = history.schema(schema_id)
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
