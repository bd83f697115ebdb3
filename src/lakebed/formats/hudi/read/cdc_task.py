"""One split of full changes: what each commit did to the rows of a file group, as aligned batches of old and new rows.

A change log in the mode data_before_after is taken as it is. Everything else is told by the slices on both sides of the
commit: rows of the later one that the commit wrote are new or, where the key was there before, updates; keys that are
missing in it were deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import DataCleanedError
from lakebed.formats.hudi.codec.avro import decode_blocks
from lakebed.formats.hudi.codec.cdc import CdcMode, cdc_mode
from lakebed.formats.hudi.codec.log import BlockKind, LogBlock, parse_log
from lakebed.formats.hudi.codec.record_keys import row_keys
from lakebed.formats.hudi.codec.timestamps import Units, units_of_block
from lakebed.formats.hudi.layout import COMMIT_TIME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from lakebed.formats.hudi.merge.log import MergedLog
from lakebed.formats.hudi.read.conform import conform_to_table
from lakebed.formats.hudi.read.missing_files import expecting
from lakebed.formats.hudi.read.split import FileGroupChange, HudiSplit, SlicePaths
from lakebed.formats.hudi.read.task import SliceReader, written_by
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import keep
from lakebed.model.rowkind import ROW_KIND_COLUMN, RowKind


class Changed(NamedTuple):
    """Rows that one commit changed alike: inserts have no `before`, deletes no `after`; of updates row i of both is one
    key's. Each has at least one row."""

    before: pa.RecordBatch | None
    after: pa.RecordBatch | None


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Reads the changes of one split, some columns of them.

    `columns` can hold meta columns: commit time (that of the change), record key and partition path are given, the
    others are null. `log_keys` are the columns that a record key can be made of where a change log has none; without
    them change logs are not read.
    """

    reader: SliceReader
    columns: tuple[str, ...]
    log_keys: tuple[str, ...]

    def __call__(self, split: HudiSplit) -> Iterator[tuple[FileGroupChange, Changed]]:
        """The changes of each commit, in their order; of one commit first what left a file group, so that a key that
        moved is deleted where it was before it is inserted where it went."""
        for _, same in groupby(split.changes, key=lambda change: change.instant):
            changes = list(same)
            if len(changes) == 1:
                yield from self._of(changes[0])
            else:
                yield from self._in_turn(changes)

    def _in_turn(self, changes: Sequence[FileGroupChange]) -> Iterator[tuple[FileGroupChange, Changed]]:
        """The changes of one commit to several file groups: deletes, then updates and inserts. What came to groups that
        lost keys too is held meanwhile: rows that the commit wrote there."""
        held = []
        losing = [change for change in changes if change.deletes or change.logs]
        for change in losing:
            for found in self._of(change):
                if found[1].after is None:
                    yield found
                else:
                    held.append(found)
        yield from held
        for change in changes:
            if not (change.deletes or change.logs):
                yield from self._of(change)

    def _of(self, change: FileGroupChange) -> Iterator[tuple[FileGroupChange, Changed]]:
        blocks = self._full_blocks(change)
        for changed in self._logged(change, blocks) if blocks else self._told(change):
            yield change, changed

    @property
    def schema(self) -> pa.Schema:
        """The columns, all nullable."""
        return pa.schema([self.reader.table_schema.field(name).with_nullable(True) for name in self.columns])

    def _full_blocks(self, change: FileGroupChange) -> list[LogBlock]:
        """The blocks of the change logs where they hold all that is wanted."""
        blocks: list[LogBlock] = []
        for path in change.logs if self.log_keys else ():
            with expecting(self.reader.store, path):
                data = self.reader.store.read(path)
            scan = parse_log(data)
            blocks += [b for b in scan.blocks if b.kind is BlockKind.CDC_DATA and b.instant_time == change.instant]
            if scan.corrupt:
                blocks = []
                break
        if blocks and all(cdc_mode(block) is CdcMode.DATA_BEFORE_AFTER for block in blocks):
            return blocks
        if change.gone:
            raise DataCleanedError(
                "files that this read needs were cleaned",
                table=self.reader.store.location,
                file=change.gone,
                instant=change.instant,
                why="the change log of the commit does not hold whole rows" if change.logs else "",
                todo="Start from a later instant",
            )
        return []

    def _logged(self, change: FileGroupChange, blocks: list[LogBlock]) -> Iterator[Changed]:
        for block in blocks:
            rows = decode_blocks([block], ["op", "before", "after"], self.reader.scratch).combine_chunks()
            renames = self.reader.schemas.renames(change.instant)
            units = units_of_block(self.reader.schemas.units, block.schema, renames, ("after",))
            for batch in rows.to_batches():
                for op, has_before, has_after in (("d", True, False), ("u", True, True), ("i", False, True)):
                    mine = batch.filter(pc.equal(batch.column("op"), op))
                    if mine.num_rows:
                        yield Changed(
                            self._image(change, mine.column("before"), units) if has_before else None,
                            self._image(change, mine.column("after"), units) if has_after else None,
                        )

    def _image(self, change: FileGroupChange, rows: pa.StructArray, units: Units) -> pa.RecordBatch:
        """The rows of one side of a change log, whose records are written with one schema on both."""
        wanted = [name for name in dict.fromkeys([*self.columns, *self.log_keys]) if name not in META_COLUMNS]
        fields = [self.reader.table_schema.field(name).with_nullable(True) for name in wanted]
        flat = pa.RecordBatch.from_arrays(rows.flatten(), schema=pa.schema(list(rows.type)))
        target = pa.schema(fields)
        constants = self.reader.partitions.constants(change.partition, target)
        found = conform_to_table(flat, target, constants, self.reader.schemas.renames(change.instant), units)
        return self._finished(change, found, row_keys(found, self.log_keys).combine_chunks())

    def _told(self, change: FileGroupChange) -> Iterator[Changed]:
        """The changes as the slices tell them."""
        new: list[pa.RecordBatch] = []
        there: list[pa.Array] = []
        back = [self.reader.merged_log(change.before)] if change.may_reappear and change.before else []
        for batch in self._rows(change, change.after, every=change.deletes or bool(back)):
            if change.deletes:
                there += row_keys(batch, self.reader.keys).chunks
            mine = batch
            if change.instant:
                mine = batch.filter(self._brought(change, batch, back))
            if mine.num_rows and change.before is None:
                yield Changed(None, self._of_slice(change, mine))
            elif mine.num_rows:
                new.append(mine)
        if change.before is None or not (new or change.deletes):
            return
        yield from self._held_against(change, change.before, new, there)

    def _brought(self, change: FileGroupChange, batch: pa.RecordBatch, back: list[MergedLog]) -> pa.Array:
        """Which rows the commit wrote, or brought back."""
        written = pc.equal(batch.column(COMMIT_TIME), change.instant)
        return pc.or_(written, pa.array(self.reader.reappeared(batch, back))) if back else written

    def _held_against(
        self, change: FileGroupChange, before: SlicePaths, new: list[pa.RecordBatch], there: list[pa.Array]
    ) -> Iterator[Changed]:
        """Deletes and updates in the order of the slice before, then what is new."""
        rows = pa.Table.from_batches(new).combine_chunks().to_batches()[0] if new else None
        keys = row_keys(rows, self.reader.keys).combine_chunks() if rows is not None else pa.array([], pa.string())
        alive = pa.concat_arrays(there) if there else pa.array([], pa.string())
        seen = np.zeros(len(keys), bool)
        for batch in self._rows(change, before, every=True):
            old = row_keys(batch, self.reader.keys).combine_chunks()
            if change.deletes:
                gone = batch.filter(pc.invert(pc.is_in(old, value_set=alive)))
                if gone.num_rows:
                    yield Changed(self._of_slice(change, gone), None)
            place = pc.index_in(old, value_set=keys)
            hit = batch.filter(place.is_valid())
            if rows is not None and hit.num_rows:
                found = place.drop_null()
                seen[found.to_numpy()] = True
                yield Changed(self._of_slice(change, hit), self._of_slice(change, rows.take(found)))
        if rows is not None and not seen.all():
            yield Changed(None, self._of_slice(change, rows.filter(pa.array(~seen))))

    def _rows(self, change: FileGroupChange, paths: SlicePaths | None, every: bool) -> Iterator[pa.RecordBatch]:
        """The rows of a slice: all of them, or at least those that the commit wrote."""
        if paths is None:
            return
        fixed = (*self.reader.keys, *(self.reader.rules.ordering if change.may_reappear else ()))
        given = (COMMIT_TIME, *fixed, *(name for name in self.columns if name not in META_COLUMNS))
        narrow = None if every or not change.instant else written_by(change.instant)
        only = None if paths is not change.after or not change.instant else frozenset([change.instant])
        yield from self.reader.open(paths, tuple(dict.fromkeys(given)), narrow=narrow, instants=only).rows()

    def _of_slice(self, change: FileGroupChange, rows: pa.RecordBatch) -> pa.RecordBatch:
        return self._finished(change, rows, row_keys(rows, self.reader.keys).combine_chunks())

    def _finished(self, change: FileGroupChange, rows: pa.RecordBatch, keys: pa.Array) -> pa.RecordBatch:
        """The columns, with the meta columns of a change."""
        count, text = rows.num_rows, pa.string()
        commit = pa.repeat(pa.scalar(change.instant, text), count) if change.instant else rows.column(COMMIT_TIME)
        meta = {COMMIT_TIME: commit, RECORD_KEY: keys, PARTITION_PATH: pa.repeat(pa.scalar(change.partition), count)}
        arrays = [
            (meta.get(name) if name in meta else pa.nulls(count, text)) if name in META_COLUMNS else rows.column(name)
            for name in self.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True, slots=True)
class FullChangesTask:
    """The changes of a split as rows with their kind: an update is -U, then +U."""

    changes: RowChanges
    schema: pa.Schema
    predicate: Node | None

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The rows of each commit, in the order of commits; the predicate is asked of each row."""
        for _, changed in self.changes(split):
            if changed.before is None:
                yield from self._out(changed.after, RowKind.INSERT)
            elif changed.after is None:
                yield from self._out(changed.before, RowKind.DELETE)
            else:
                both = pa.Table.from_batches([changed.before, changed.after])
                count = changed.before.num_rows
                turns = np.stack([np.arange(count), np.arange(count) + count], axis=1).reshape(-1)
                kinds = pa.array([RowKind.UPDATE_BEFORE.short, RowKind.UPDATE_AFTER.short]).take(
                    pa.array(np.tile([0, 1], count))
                )
                yield from self._with_kinds(both.take(pa.array(turns)).combine_chunks().to_batches()[0], kinds)

    def _out(self, rows: pa.RecordBatch, kind: RowKind) -> Iterator[pa.RecordBatch]:
        yield from self._with_kinds(rows, pa.repeat(pa.scalar(kind.short), rows.num_rows))

    def _with_kinds(self, rows: pa.RecordBatch, kinds: pa.Array) -> Iterator[pa.RecordBatch]:
        if self.predicate is not None:
            rows = keep(rows.append_column(ROW_KIND_COLUMN, kinds), self.predicate)
            kinds = rows.column(ROW_KIND_COLUMN)
        if rows.num_rows:
            columns = [kinds if name == ROW_KIND_COLUMN else rows.column(name) for name in self.schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
