"""The changes of one split: removed and added rows, without the rows that a commit only carried over.

Where format version 3 gives rows ids, a row that is there before and after is an update, -U and +U; else it is -D and
+I. Removed rows come before added ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.data_files import Content, FileTask
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.deletes import deleted_positions, read_deletes
from lakebed.formats.iceberg.read.split import ChangeSplit, Side
from lakebed.formats.iceberg.read.task import Selection, live_positions, read_task
from lakebed.kernel.arrays import Bools, Int64s, Objects, from_numpy, to_numpy
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import keep
from lakebed.kernel.rows.matching import carried_over, row_hashes
from lakebed.model.rowkind import ROW_KIND_FIELD, RowKind
from lakebed.verbs.read import filtered

_INSERT, _BEFORE, _AFTER, _DELETE = (kind.short for kind in RowKind)
_EXPANSION = 8
"""How many bytes of memory we assume a byte of a data file to need, at most."""


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """The function of a plan that reads one split. Picklable."""

    files: Files
    context: ReadContext
    columns: tuple[str, ...]
    predicate: Node | None

    def __call__(self, split: ChangeSplit) -> Iterator[pa.RecordBatch]:
        """The changes of one split."""
        if not split.removed or not split.added:
            kind, sides = (_INSERT, split.added) if split.added else (_DELETE, split.removed)
            for side in self._each(sides):
                for batch in self._rows(side, self.columns, self.predicate):
                    yield _of_kind(batch, kind)
            return
        ids = [self._row_ids(sides) for sides in (split.removed, split.added)]
        if ids[0] is not None and ids[1] is not None:
            yield from self._by_id(split, ids[0], ids[1])
        else:
            yield from self._by_value(split)

    def _rows(
        self, side: Side, columns: Sequence[str], predicate: Node | None = None, lineage: bool = False
    ) -> Iterator[pa.RecordBatch]:
        positions = None if side.other is None else self._only_live_in(side.task, side.other)
        if positions is not None and not len(positions):
            return
        selection = Selection(columns, predicate, lineage, positions=positions)
        yield from read_task(self.files, self.context, side.task, selection)

    def _only_live_in(self, task: FileTask, other: FileTask) -> Int64s:
        """The positions of rows that are live with the deletes of `task`, and deleted with those of `other`."""
        if all(delete.content is Content.POSITION_DELETES for delete in (*task.deletes, *other.deletes)):
            read_deletes(self.files, self.context, (task, other))
            deleted, in_other = deleted_positions(self.files, task), deleted_positions(self.files, other)
            none = np.empty(0, np.int64)
            return np.setdiff1d(none if in_other is None else in_other, none if deleted is None else deleted)
        live, in_other = self.files.together(partial(live_positions, self.files, self.context), (task, other))
        return np.setdiff1d(live, in_other, assume_unique=True)

    def _each(self, sides: Sequence[Side]) -> Iterator[Side]:
        """These sides, while the files of the next ones are fetched ahead."""
        files = [(side.task.data.path, side.task.data.size) for side in sides if side.other is None]
        with self.files.fetching((path, size) for path, size in files if size > 0):
            yield from sides

    # ---- rows with ids ----

    def _row_ids(self, sides: Sequence[Side]) -> Int64s | None:
        """The id and last change of each row, in the order of the rows, as two columns; None when rows have no ids."""
        if any(side.task.data.first_row_id is None for side in sides):
            return None
        ids = [np.empty((0, 2), np.int64)]
        for side in self._each(sides):
            for batch in self._rows(side, (), lineage=True):
                if batch.column(0).null_count or batch.column(1).null_count:
                    return None
                ids.append(np.column_stack([to_numpy(column) for column in batch.columns]))
        return np.concatenate(ids)

    def _by_id(self, split: ChangeSplit, old: Int64s, new: Int64s) -> Iterator[pa.RecordBatch]:
        """A row with the same id and last change was carried over; with another last change it was updated."""
        for sides, ids, other_ids, kind, update_kind in (
            (split.removed, old, new, _DELETE, _BEFORE),
            (split.added, new, old, _INSERT, _AFTER),
        ):
            other_changes = _last_changes(ids[:, 0], other_ids)
            kinds = np.where(other_changes < 0, kind, update_kind).astype(object)
            changed = other_changes != ids[:, 1]
            yield from self._changed_rows(sides, changed, kinds)

    def _changed_rows(self, sides: Sequence[Side], changed: Bools, kinds: Objects) -> Iterator[pa.RecordBatch]:
        """The changed rows of these sides, each with its kind."""
        needed = tuple(dict.fromkeys([*self.columns, *self.context.names]))
        names = needed if self.predicate is not None else self.columns
        start = 0
        for side in self._each(sides):
            for batch in self._rows(side, names, lineage=True):
                here = slice(start, start + len(batch))
                start = here.stop
                if not changed[here].any():
                    continue
                batch = batch.select(names).append_column(ROW_KIND_FIELD, pa.array(kinds[here], pa.string()))
                batch = batch.filter(from_numpy(changed[here]))
                kept = batch if self.predicate is None else keep(batch, self.predicate)
                yield from filtered(iter([kept]), None, [*self.columns, ROW_KIND_FIELD.name])

    # ---- rows without ids ----

    def _by_value(self, split: ChangeSplit) -> Iterator[pa.RecordBatch]:
        """Rows that are the same before and after were carried over.

        When the split is large, a part of the rows is compared at a time, chosen by a hash of their values. All
        removed rows come before the first added one.
        """
        parts = 1 + split.size * _EXPANSION // max(self.context.delete_memory, 1)
        changed: tuple[pa.Table, ...] = ()
        for number, kind in enumerate((_DELETE, _INSERT)):
            for part in range(parts):
                if parts > 1 or number == 0:
                    tables = [self._part(sides, part, parts) for sides in (split.removed, split.added)]
                    carried = carried_over(*(table.select(list(self.context.names)) for table in tables))
                    changed = tuple(t.filter(from_numpy(~mask)) for t, mask in zip(tables, carried, strict=True))
                for batch in changed[number].select(list(self.columns)).to_batches():
                    if len(batch):
                        yield _of_kind(batch, kind)

    def _part(self, sides: Sequence[Side], part: int, parts: int) -> pa.Table:
        names = tuple(dict.fromkeys([*self.columns, *self.context.names]))
        batches = []
        for side in self._each(sides):
            for batch in self._rows(side, names, self.predicate):
                if parts > 1:
                    in_part = row_hashes(batch) % np.uint64(parts) == part
                    batch = batch.filter(from_numpy(in_part))
                batches.append(batch)
        return pa.Table.from_batches(batches, arrow_schema(self.context.columns(names)))


def _last_changes(ids: Int64s, others: Int64s) -> Int64s:
    """The last change that each row has on the other side; -1 for a row that is not there."""
    if not len(others):
        return np.full(len(ids), -1, np.int64)
    order = np.argsort(others[:, 0], kind="stable")
    ordered = others[order]
    place = np.minimum(np.searchsorted(ordered[:, 0], ids), len(ordered) - 1)
    return np.where(ordered[place, 0] == ids, ordered[place, 1], -1)


def _of_kind(batch: pa.RecordBatch, kind: str) -> pa.RecordBatch:
    return batch.append_column(ROW_KIND_FIELD, pa.repeat(pa.scalar(kind), len(batch)))
