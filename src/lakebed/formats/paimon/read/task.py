"""The task of a read: the rows of one bucket, its sorted runs merged by key.

Rules: Paimon's MergeFileSplitRead (merge on read) and RawFileSplitRead. Sections of overlapping files are read one
after the other, a batch of each sorted run at a time. A remote store is asked for the files ahead, those of all
sections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.file_schema import KIND_FIELD, SEQUENCE_FIELD
from lakebed.formats.paimon.codec.manifest import ADD, DataFileMeta, ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import SEQUENCE_NUMBER, VALUE_KIND, DataField
from lakebed.formats.paimon.read.deletion_vectors import DeletionVectors
from lakebed.formats.paimon.read.evolution import row_ranges
from lakebed.formats.paimon.read.evolution_task import EvolvedRows
from lakebed.formats.paimon.read.files import read_batches
from lakebed.formats.paimon.read.index_facts import index_file
from lakebed.formats.paimon.read.merging import SectionMerge
from lakebed.formats.paimon.read.pruning import Pruning
from lakebed.formats.paimon.read.row_tracking import fields_of_file, numbered
from lakebed.formats.paimon.read.sections import sections
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.arrays import Bools, Int8s, Int64s, from_numpy, to_numpy
from lakebed.kernel.files import FileInfo, Store
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.tree import Node
from lakebed.model.rowkind import RowKind
from lakebed.verbs.read import filtered

_BATCH_ROWS = 64 << 10
_NO_TOTAL = -1
_PLACE = "_PLACE"
"""A column that says where a row lies in the files of its section."""
_INDEXES_AHEAD = 32
"""Index files that are read together."""


@dataclass(frozen=True, slots=True)
class BucketReader:
    """The function of a plan that reads one split. Picklable.

    `columns` are the columns of the result. `needed` adds the columns that `predicate` reads; it is never empty.
    `pruning` rules files out by the indexes beside them.
    """

    history: History
    schema: TableSchema
    options: Options
    columns: tuple[str, ...]
    needed: tuple[str, ...]
    predicate: Node | None
    pruning: Pruning | None = None

    def __call__(self, split: PaimonSplit) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        return filtered(self._rows(split), self.predicate, list(self.columns))

    def written(self, split: PaimonSplit, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Every row of a split's files in order, as it was written: its sequence number and its kind, then `names`.
        Rows of a table without a primary key have only `names`."""
        system = (SEQUENCE_FIELD, KIND_FIELD) if self.schema.primary_keys else ()
        with self._opened(split, split.files) as source:
            for file in split.files:
                yield from source.batches(file, names, system)

    def kept(self, split: PaimonSplit, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The merged rows of a split with a primary key, deletes included: one row per key, with its sequence number
        and its kind, then `names`."""
        groups = self.sections(split)
        names_read = [SEQUENCE_NUMBER, VALUE_KIND, *names]
        with self._opened(split, [file for section in groups for file in section]) as source:
            for section in groups:
                if len(section) == 1:
                    yield from source.batches(section[0], names, (SEQUENCE_FIELD, KIND_FIELD))
                    continue
                merge = SectionMerge(self.schema, self.options)
                for rows, winners in self._merged(merge, source, section, names, (SEQUENCE_FIELD, KIND_FIELD)):
                    yield from _batches_of(rows.select(names_read), winners)

    def live(self, split: PaimonSplit, section: Sequence[DataFileMeta]) -> list[Bools]:
        """Which rows of each file of a section are rows of the table: those that no vector deletes, that win, and that
        mark no delete. For merge engines that take a row as it is. Only columns that decide are read."""
        merge = SectionMerge(self.schema, self.options)
        starts = np.cumsum([0, *(file.row_count for file in section)])
        firsts = {file.file_name: start for file, start in zip(section, starts.tolist(), strict=False)}
        live: Bools = np.zeros(starts[-1], np.bool_)
        system = (KIND_FIELD,) if merge.is_ordered(section) else (SEQUENCE_FIELD, KIND_FIELD)
        names = merge.needs(()) if len(section) > 1 else ()
        with self._opened(split, section) as source:

            def opened(file: DataFileMeta) -> Iterator[pa.RecordBatch]:
                return source.placed(file, names, system, firsts[file.file_name])

            for rows, winners in merge.merged(section, opened) if len(section) > 1 else map(_all, opened(section[0])):
                kinds, places = to_numpy(rows.column(VALUE_KIND)), to_numpy(rows.column(_PLACE))
                live[places[winners[_is_current(kinds[winners])]]] = True
        return np.split(live, starts[1:-1])

    def _rows(self, split: PaimonSplit) -> Iterator[pa.RecordBatch]:
        if self.options[opt.DATA_EVOLUTION]:
            yield from self._evolved(split)
            return
        groups = self.sections(split)
        if self.pruning is not None and self.predicate is not None:
            groups = list(_matching(split, groups, self.history.store, self.pruning, self.predicate))
        with self._opened(split, [file for section in groups for file in section]) as source:
            for section in groups:
                if len(section) > 1:
                    yield from self._merge_section(source, section)
                elif self.schema.primary_keys:
                    yield from self._read_alone(source, section[0])
                else:
                    yield from source.batches(section[0], self.needed, ())

    def _evolved(self, split: PaimonSplit) -> Iterator[pa.RecordBatch]:
        """The rows of ranges of row ids, whose columns may be in several files."""
        schemas, store = self.history, self.history.store
        rows = EvolvedRows(store, split, self.schema.project(self.needed), lambda file: schemas.schema(file.schema_id))
        groups = row_ranges(split.files, store.location)
        with self._opened(split, [file for group in groups for file in rows.files(group)]) as source:
            vectors = DeletionVectors(store, [group.anchor for group in groups], split.deletions)
            for group in groups:
                batches, deleted = rows.batches(group, source.all_rows), vectors.of(group.anchor)
                yield from batches if deleted is None else _undeleted(batches, deleted)

    @contextmanager
    def _opened(self, split: PaimonSplit, files: Sequence[DataFileMeta]) -> Iterator[_BucketFiles]:
        """Files of a split, which a remote store is asked for ahead, in this order."""
        store, paths = self.history.store, (FileInfo(split.path(file), file.file_size) for file in files)
        with store.fetching(paths):
            yield _BucketFiles(self, split, DeletionVectors(store, files, split.deletions))

    def sections(self, split: PaimonSplit) -> Sequence[tuple[DataFileMeta, ...]]:
        """The files that are read together, in the order in which they are read."""
        if split.unmerged or not self.schema.primary_keys:
            return [(file,) for file in split.files]
        types = [item.type for item in self.schema.project(self.schema.trimmed_primary_keys)]
        return sections(split.files, types)

    def _read_alone(self, source: _BucketFiles, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """A section of one file, which has one row per key: drop its -D and -U rows."""
        if file.delete_row_count == 0:
            yield from source.batches(file, self.needed, ())
            return
        for batch in source.batches(file, self.needed, (KIND_FIELD,)):
            yield batch.filter(_is_add(batch.column(VALUE_KIND))).select(list(self.needed))

    def _merge_section(self, source: _BucketFiles, section: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        merge = SectionMerge(self.schema, self.options)
        system = (KIND_FIELD,) if merge.is_ordered(section) else (SEQUENCE_FIELD, KIND_FIELD)
        for rows, winners in self._merged(merge, source, section, self.needed, system):
            winners = winners[_is_current(to_numpy(rows.column(VALUE_KIND))[winners])]
            yield from _batches_of(rows.select(list(self.needed)), winners)

    @staticmethod
    def _merged(
        merge: SectionMerge, source: _BucketFiles, section: Sequence[DataFileMeta], columns: Sequence[str],
        system: Sequence[DataField],
    ) -> Iterator[tuple[pa.Table, Int64s]]:  # fmt: skip
        """The rows of overlapping files, and the positions of those that win, deletes included, in no order."""
        names = merge.needs(columns)
        return merge.merged(section, lambda file: source.batches(file, names, system))


def _matching(
    split: PaimonSplit, groups: Sequence[tuple[DataFileMeta, ...]], store: Store, pruning: Pruning, predicate: Node
) -> Iterator[tuple[DataFileMeta, ...]]:
    """The files that are read together, without a file that is read alone and cannot match: by its index file, and in a
    table with a primary key by all that its manifest entry says."""
    paths: dict[str, str] = {}
    for group in groups:
        name = index_file(group[0], store.location) if pruning.indexes and len(group) == 1 else None
        if name is not None:
            paths[group[0].file_name] = f"{split.folder}/{name}"
    for start in range(0, len(groups), _INDEXES_AHEAD):
        wave = groups[start : start + _INDEXES_AHEAD]
        wanted = [group[0].file_name for group in wave if group[0].file_name in paths]
        contents = store.together(lambda name: _content(store, paths[name]), wanted)
        indexes = dict(zip(wanted, contents, strict=True))
        for group in wave:
            index = indexes.get(group[0].file_name)
            asked = len(group) == 1 and (index is not None or pruning.schema.primary_keys)
            entry = ManifestEntry(ADD, split.partition, split.bucket, _NO_TOTAL, group[0])
            if not asked or pruning.keeps_alone(entry, predicate, index):
                yield group


def _content(store: Store, path: str) -> bytes | None:
    """An index file. None where it is gone: the data file tells what became of it."""
    try:
        return store.read(path)
    except FileNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class _BucketFiles:
    """The live rows of a split's files."""

    reader: BucketReader
    split: PaimonSplit
    vectors: DeletionVectors

    def batches(
        self, file: DataFileMeta, names: Sequence[str], system: Sequence[DataField]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one file that no deletion vector deletes: the `system` columns, then the named ones."""
        return self._live(file, self.all_rows(file, names, system))

    def placed(
        self, file: DataFileMeta, names: Sequence[str], system: Sequence[DataField], first: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of `batches` with one more column: their positions in the file, which count from `first`."""
        return self._live(file, _placed(self.all_rows(file, names, system), first))

    def _live(self, file: DataFileMeta, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deleted = self.vectors.of(file)
        return rows if deleted is None else _undeleted(rows, deleted)

    def all_rows(
        self, file: DataFileMeta, names: Sequence[str], system: Sequence[DataField] = ()
    ) -> Iterator[pa.RecordBatch]:
        """All rows of one file, those too that a deletion vector deletes."""
        history = self.reader.history
        written, wanted = history.schema(file.schema_id), self.reader.schema.project(tuple(names))
        own = fields_of_file(written, file)
        rows = read_batches(history.store, self.split.path(file), own, wanted, system, file.stated)
        return numbered(rows, file, names)


def _undeleted(batches: Iterator[pa.RecordBatch], deleted: Int64s) -> Iterator[pa.RecordBatch]:
    """The rows of a file without those at the positions `deleted`."""
    start = 0
    for batch in batches:
        end = start + len(batch)
        deleted_here = deleted[np.searchsorted(deleted, start) : np.searchsorted(deleted, end)] - start
        start = end
        if len(deleted_here):
            live = np.ones(len(batch), np.bool_)
            live[deleted_here] = False
            batch = batch.filter(from_numpy(live))
        yield batch


def _placed(batches: Iterator[pa.RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.append_column(_PLACE, from_numpy(np.arange(first, first + len(batch))))
        first += len(batch)


def _batches_of(values: pa.Table, winners: Int64s) -> Iterator[pa.RecordBatch]:
    """The rows at these positions, which ascend."""
    if values.num_columns and len(winners) == len(values):
        yield from values.to_batches(max_chunksize=_BATCH_ROWS)
        return
    for start in range(0, len(winners), _BATCH_ROWS):
        positions = winners[start : start + _BATCH_ROWS]
        if values.num_columns:
            yield from pc.take(values, from_numpy(positions), boundscheck=False).to_batches()
        else:
            yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(positions), pa.struct([])))


def _all(rows: pa.RecordBatch) -> tuple[pa.Table, Int64s]:
    return pa.Table.from_batches([rows]), np.arange(len(rows))


def _is_current(kinds: Int8s) -> Bools:
    current: Bools = (kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)
    return current


def _is_add(kinds: pa.Array) -> pa.Array:
    return pc.or_(pc.equal(kinds, int(RowKind.INSERT)), pc.equal(kinds, int(RowKind.UPDATE_AFTER)))
