"""The task of a read of changes: the rows that one bucket's files added and removed, with their kinds.

Rules: Paimon's MergeFileSplitRead.createNoMergeReader (rows as they were written), IncrementalChangelogReadProvider
(replaced files), IncrementalDiffSplitRead (compared files) and AuditLogTable (kinds and sequence numbers). Memory holds
one section of overlapping files at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.codec.file_schema import KIND_FIELD, SEQUENCE_FIELD
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.types import SEQUENCE_NUMBER, VALUE_KIND, arrow_schema
from lakebed.formats.paimon.layout import POSTPONE_BUCKET
from lakebed.formats.paimon.merge import key_runs, sort_order
from lakebed.formats.paimon.read.sections import overlapping
from lakebed.formats.paimon.read.split import ChangeSplit, How, Only, PaimonSplit, Step
from lakebed.formats.paimon.read.task import BucketReader
from lakebed.kernel.arrays import Int8s, Int64s, from_numpy, from_values, one_chunk, to_numpy
from lakebed.kernel.rows.matching import rows_equal
from lakebed.model.rowkind import ROW_KIND_FIELD, SHORT_NAMES, RowKind
from lakebed.verbs.read import filtered

_NAMES = from_values(SHORT_NAMES, pa.string())
_INSERT, _DELETE = RowKind.INSERT.short, int(RowKind.DELETE)
_REVERSED = np.array([RowKind.DELETE, RowKind.UPDATE_AFTER, RowKind.UPDATE_BEFORE, RowKind.INSERT], np.int8)
_ADDS = np.array([True, False, True, False])


class KindColumn(StrEnum):
    """The column that says the kind of each row."""

    NONE = ""
    """No column, and only current rows: those of kind +I and +U."""
    LAST = ROW_KIND_FIELD.name
    """lakebed's own column, after all others."""
    FIRST = "rowkind"
    """The column of Paimon's audit log, before all others."""


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """The function of a plan that reads one split. Picklable.

    `rows` reads files, and says which columns are asked for and which rows are kept. With `sequence_numbers` rows have
    a column `_SEQUENCE_NUMBER`, beside their kind.
    """

    rows: BucketReader
    kinds: KindColumn = KindColumn.LAST
    sequence_numbers: bool = False

    def __call__(self, split: ChangeSplit) -> Iterator[pa.RecordBatch]:
        """The changes of one split."""
        numbers = [SEQUENCE_NUMBER] if self.sequence_numbers else []
        for step in split.steps:
            chosen = map(_ONLY[step.only], self._changes(step))
            changes = (batch for batch in chosen if len(batch))
            match self.kinds:
                case KindColumn.NONE:
                    columns = [*self.rows.columns, *numbers]
                    yield from filtered(map(_current, changes), self.rows.predicate, columns)
                case KindColumn.LAST:
                    columns = [*self.rows.columns, *numbers, ROW_KIND_FIELD.name]
                    yield from filtered(changes, self.rows.predicate, columns)
                case KindColumn.FIRST:
                    columns = [ROW_KIND_FIELD.name, *numbers, *self.rows.columns]
                    for batch in filtered(changes, self.rows.predicate, columns):
                        yield batch.rename_columns([self.kinds, *columns[1:]])

    def _changes(self, step: Step) -> Iterator[pa.RecordBatch]:
        needed = self.rows.needed
        if not self.rows.schema.primary_keys:
            for batch in self.rows.written(step.added, needed) if step.added else ():
                yield batch.append_column(ROW_KIND_FIELD, pa.repeat(_INSERT, len(batch)))
            return
        match step.how:
            case How.WRITTEN:
                for batch in self.rows.written(step.added, needed) if step.added else ():
                    yield _with_kinds(batch)
            case How.REPLACED:
                for batch in self._gone(step.removed) if step.removed else ():
                    batch = _adds(batch)
                    yield _with_kinds(batch, _REVERSED[_kinds(batch)])
                for batch in self.rows.kept(step.added, needed) if step.added else ():
                    yield _with_kinds(_adds(batch))
            case How.MERGED:
                for batch in self.rows.kept(step.added, needed) if step.added else ():
                    yield _with_kinds(batch)
            case How.COMPARED:
                yield from self._compared(step)

    def _gone(self, removed: PaimonSplit) -> Iterator[pa.RecordBatch]:
        """The rows of removed files, merged. Rows of postponed files are not merged, since these are not sorted."""
        read = self.rows.written if removed.bucket == POSTPONE_BUCKET else self.rows.kept
        return read(removed, self.rows.needed)

    def _compared(self, step: Step) -> Iterator[pa.RecordBatch]:
        """The rows of keys that only one side has, or whose rows differ: -D of a row that is gone, and the new row with
        its own kind."""
        schema = self.rows.schema
        old_files, new_files = (() if side is None else side.files for side in (step.removed, step.added))
        types = [item.type for item in schema.project(schema.trimmed_primary_keys)]
        for places in overlapping([*old_files, *new_files], types):
            old = self._table(step.removed, [old_files[at] for at in places if at < len(old_files)])
            new = self._table(step.added, [new_files[at - len(old_files)] for at in places if at >= len(old_files)])
            for batch in _difference(old, new, schema.trimmed_primary_keys).to_batches():
                yield batch.select([SEQUENCE_NUMBER, *self.rows.needed, ROW_KIND_FIELD.name])

    def _table(self, side: PaimonSplit | None, files: list[DataFileMeta]) -> pa.Table:
        """The merged rows of some files, with all columns."""
        names = self.rows.schema.names
        whole = arrow_schema([SEQUENCE_FIELD, KIND_FIELD, *self.rows.schema.project(names)])
        if side is None or not files:
            return whole.empty_table()
        part = replace(side, files=tuple(files), unmerged=False)
        return pa.Table.from_batches(self.rows.kept(part, names), schema=whole)


def _difference(old: pa.Table, new: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """The changes that lead from the rows of one table to those of another. Each has one row per key."""
    rows = pa.concat_tables([old, new]).combine_chunks()
    key_columns = [one_chunk(rows.column(name)) for name in keys]
    order = sort_order(key_columns)
    runs = key_runs([column.take(from_numpy(order)) for column in key_columns])
    first, last = order[runs.starts], order[runs.last]  # of a key on both sides, the old row comes first
    is_add = _ADDS[to_numpy(rows.column(VALUE_KIND))]
    gone = first[(first == last) & (first < len(old)) & is_add[first]]
    came = first[(first == last) & (first >= len(old))]
    before, after = first[first != last], last[first != last]
    values = rows.drop_columns([SEQUENCE_NUMBER, VALUE_KIND])
    same = rows_equal(values.take(from_numpy(before)), values.take(from_numpy(after)))
    same &= is_add[before] == is_add[after]
    changed = after[~same]
    chosen: Int64s = np.concatenate([gone, came, changed])
    kinds = to_numpy(rows.column(VALUE_KIND))[chosen].copy()
    kinds[: len(gone)] = _DELETE
    taken = rows.take(from_numpy(chosen))
    return taken.append_column(ROW_KIND_FIELD, _NAMES.take(from_numpy(kinds)))


def _kinds(batch: pa.RecordBatch) -> Int8s:
    kinds: Int8s = to_numpy(batch.column(VALUE_KIND))
    return kinds


def _adds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that are there, without those that mark a delete."""
    adds = _ADDS[_kinds(batch)]
    return batch if adds.all() else batch.filter(from_numpy(adds))


def _with_kinds(batch: pa.RecordBatch, kinds: Int8s | None = None) -> pa.RecordBatch:
    """The same rows with their kinds as texts; by default those that they were written with."""
    codes = batch.column(VALUE_KIND) if kinds is None else from_numpy(kinds)
    return batch.append_column(ROW_KIND_FIELD, _NAMES.take(codes))


def _current(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.is_in(batch.column(ROW_KIND_FIELD.name), value_set=pa.array(["+I", "+U"])))


def _retracted(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.is_in(batch.column(ROW_KIND_FIELD.name), value_set=pa.array(["-D", "-U"])))


_ONLY: Mapping[Only, Callable[[pa.RecordBatch], pa.RecordBatch]] = {
    Only.ALL: lambda batch: batch,
    Only.RETRACTED: _retracted,
    Only.CURRENT: _current,
}
