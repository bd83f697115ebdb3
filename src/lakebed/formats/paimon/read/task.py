"""The task of a read: the rows of one bucket, its sorted runs merged by key.

Rules: Paimon's MergeFileSplitRead (merge on read) and RawFileSplitRead. Memory holds one section of overlapping files
at a time. A section of one file is streamed. A remote store is asked for the files ahead, those of all sections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.file_schema import KIND_FIELD, SEQUENCE_FIELD
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import SEQUENCE_NUMBER, VALUE_KIND, DataField, arrow_schema
from lakebed.formats.paimon.merge import key_runs, merge_function, sort_order
from lakebed.formats.paimon.merge.lookup import Lookup, counting, kept_runs
from lakebed.formats.paimon.options import split_names
from lakebed.formats.paimon.read.deletion_vectors import DeletionVectors
from lakebed.formats.paimon.read.files import read_batches
from lakebed.formats.paimon.read.sections import sections
from lakebed.formats.paimon.read.split import PaimonSplit
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.arrays import Int64s
from lakebed.kernel.files import FileInfo
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.tree import Node
from lakebed.model.rowkind import RowKind
from lakebed.verbs.read import filtered

_BATCH_ROWS = 64 << 10


@dataclass(frozen=True, slots=True)
class BucketReader:
    """The function of a plan that reads one split. Picklable.

    `columns` are the columns of the result. `needed` adds the columns that `predicate` reads; it is never empty.
    """

    history: History
    schema: TableSchema
    options: Options
    columns: tuple[str, ...]
    needed: tuple[str, ...]
    predicate: Node | None

    def __call__(self, split: PaimonSplit) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        return filtered(self._rows(split), self.predicate, list(self.columns))

    def _rows(self, split: PaimonSplit) -> Iterator[pa.RecordBatch]:
        groups = self._sections(split)
        files = [file for section in groups for file in section]
        store, paths = self.history.store, (FileInfo(split.path(file), file.file_size) for file in files)
        with store.fetching(paths):
            source = _BucketFiles(self, split, DeletionVectors(store, files, split.deletions))
            for section in groups:
                if len(section) > 1:
                    yield from self._merge_section(source, section)
                elif self.schema.primary_keys:
                    yield from self._read_alone(source, section[0])
                else:
                    yield from source.batches(section[0], self.needed, ())

    def _sections(self, split: PaimonSplit) -> Sequence[tuple[DataFileMeta, ...]]:
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
        sequence_fields = split_names(self.options[opt.SEQUENCE_FIELD])
        keys = self.schema.trimmed_primary_keys
        engine = merge_function(self.schema, self.options)
        wanted = engine.needs({*self.needed}) | {*keys, *sequence_fields}
        names = tuple(name for name in self.schema.names if name in wanted)
        tables = [
            pa.Table.from_batches(
                source.batches(file, names, (SEQUENCE_FIELD, KIND_FIELD)),
                schema=arrow_schema([SEQUENCE_FIELD, KIND_FIELD, *self.schema.project(names)]),
            )
            for file in section
        ]
        levels = np.repeat([file.level for file in section], [len(table) for table in tables]).astype(np.int8)
        rows = pa.concat_tables(tables).combine_chunks()
        if not len(rows):
            return
        descending = self.options[opt.SEQUENCE_ORDER] == "descending"
        sequence = [(rows.column(name).chunk(0), descending) for name in sequence_fields]
        sequence.append((rows.column(SEQUENCE_NUMBER).chunk(0), False))
        key_columns = [rows.column(name).chunk(0) for name in keys]
        order = sort_order(key_columns, sequence)
        sorted_places = pa.array(order)
        runs = key_runs([column.take(sorted_places) for column in key_columns])
        if Lookup.of(self.options).merges_once:
            counted = counting(levels[order], runs)
            order, runs = order[counted], kept_runs(counted, runs)[1]
            sorted_places = pa.array(order)
        if self.options[opt.MERGE_ENGINE] == "deduplicate":
            winners = order[runs.last]
        else:
            rows = engine.merge(rows.take(sorted_places).combine_chunks(), runs).combine_chunks()
            winners = np.arange(len(rows))
        kinds = rows.column(VALUE_KIND).to_numpy()[winners]
        winners = winners[(kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)]
        values = rows.select(list(self.needed))
        for start in range(0, len(winners), _BATCH_ROWS):
            yield from _batches_of(values, winners[start : start + _BATCH_ROWS])


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
        history = self.reader.history
        written, wanted = history.schema(file.schema_id), self.reader.schema.project(tuple(names))
        rows = read_batches(history.store, self.split.path(file), written, wanted, system, file.stated)
        deleted = self.vectors.of(file)
        return rows if deleted is None else _undeleted(rows, deleted)


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
            batch = batch.filter(pa.array(live))
        yield batch


def _batches_of(values: pa.Table, winners: Int64s) -> Iterator[pa.RecordBatch]:
    if values.num_columns:
        yield from values.take(pa.array(winners)).to_batches()
    elif len(winners):
        yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(winners), pa.struct([])))


def _is_add(kinds: pa.Array) -> pa.Array:
    return pc.or_(pc.equal(kinds, int(RowKind.INSERT)), pc.equal(kinds, int(RowKind.UPDATE_AFTER)))
