"""One split of full changes: what each commit did to the rows of a file group, as aligned batches of old and new rows.

A change log in the mode data_before_after is taken as it is. Otherwise the slices on both sides of the commit are
compared. Rows of the later slice that the commit wrote are updates where the earlier slice has their key, and inserts
elsewhere; keys that are missing in the later slice were deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import DataCleanedError, UnsupportedError
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
from lakebed.kernel.arrays import from_numpy, one_chunk, to_numpy
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import keep
from lakebed.model.rowkind import ROW_KIND_COLUMN, RowKind

_RUN_ROWS, _RUN_BYTES = 1 << 19, 64 << 20
"""How many rows of the earlier slice are looked up at once, at most."""


class ChangedRows(NamedTuple):
    """Rows that one commit changed in the same way, at least one.

    Inserts have no `before`, deletes no `after`. For updates row i of both belongs to one key.
    """

    before: pa.RecordBatch | None
    after: pa.RecordBatch | None


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Reads the changes of one split in some columns.

    Of the meta columns in `columns`, commit time (that of the change), record key and partition path have values; the
    others are null. `log_keys` are the columns that make the record key of a change log's rows, which have no meta
    columns; without `log_keys` change logs are not read.
    """

    reader: SliceReader
    columns: tuple[str, ...]
    log_keys: tuple[str, ...]

    def __call__(self, split: HudiSplit) -> Iterator[tuple[FileGroupChange, ChangedRows]]:
        """The changes of each commit, in the order of commits.

        Of one commit the deletes come first, so that a key that moved is deleted where it was before it is inserted
        where it went.
        """
        with split.fetched_ahead(self.reader.store):
            for _, of_commit in groupby(split.changes, key=lambda change: change.instant):
                changes = list(of_commit)
                if len(changes) == 1:
                    yield from self._group_changes(changes[0])
                else:
                    yield from self._deletes_first(changes)

    def _deletes_first(self, changes: Sequence[FileGroupChange]) -> Iterator[tuple[FileGroupChange, ChangedRows]]:
        """The changes of one commit to several file groups: deletes, then updates and inserts.

        Memory holds the rows that the commit wrote to groups which also lost keys.
        """
        deferred = []
        losing = [change for change in changes if change.deletes or change.logs]
        for change in losing:
            for group_change, rows in self._group_changes(change):
                if rows.after is None:
                    yield group_change, rows
                else:
                    deferred.append((group_change, rows))
        yield from deferred
        for change in changes:
            if not (change.deletes or change.logs):
                yield from self._group_changes(change)

    def _group_changes(self, change: FileGroupChange) -> Iterator[tuple[FileGroupChange, ChangedRows]]:
        """The changes of one file group in one commit."""
        blocks = self._full_blocks(change)
        for rows in self._logged(change, blocks) if blocks else self._compared(change):
            yield change, rows

    @property
    def schema(self) -> pa.Schema:
        """The columns, all nullable."""
        return pa.schema([self.reader.table_schema.field(name).with_nullable(True) for name in self.columns])

    def _full_blocks(self, change: FileGroupChange) -> list[LogBlock]:
        """The blocks of the commit's change logs, none where they do not hold whole rows.

        Raises DataCleanedError where the slices, which would have to replace the logs, were cleaned.
        """
        blocks: list[LogBlock] = []
        for path, _ in change.logs if self.log_keys else ():
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
        if change.logs and change.before is None and change.after is None:
            raise UnsupportedError(
                "the change log of a compaction cannot be read",
                table=self.reader.store.location,
                instant=change.instant,
                why="it is damaged, or its rows do not tell their record keys",
                todo="Set read.cdc.from.changelog = false: changes then come with the commits that made them",
            )
        return []

    def _logged(self, change: FileGroupChange, blocks: list[LogBlock]) -> Iterator[ChangedRows]:
        """The changes that change logs hold."""
        for block in blocks:
            rows = decode_blocks([block], ["op", "before", "after"], self.reader.scratch).combine_chunks()
            renames = self.reader.schemas.renames(change.instant)
            units = units_of_block(self.reader.schemas.units, block.schema, renames, ("after",))
            for batch in rows.to_batches():
                for op, has_before, has_after in (("d", True, False), ("u", True, True), ("i", False, True)):
                    changed = batch.filter(pc.equal(batch.column("op"), op))
                    if changed.num_rows:
                        yield ChangedRows(
                            self._image(change, changed.column("before"), units) if has_before else None,
                            self._image(change, changed.column("after"), units) if has_after else None,
                        )

    def _image(self, change: FileGroupChange, rows: pa.StructArray, units: Units) -> pa.RecordBatch:
        """The rows before or the rows after, which a change log writes with one schema."""
        wanted = [name for name in dict.fromkeys([*self.columns, *self.log_keys]) if name not in META_COLUMNS]
        fields = [self.reader.table_schema.field(name).with_nullable(True) for name in wanted]
        flat = pa.RecordBatch.from_arrays(rows.flatten(), schema=pa.schema(list(rows.type)))
        target = pa.schema(fields)
        constants = self.reader.partitions.constants(change.partition, target)
        conformed = conform_to_table(flat, target, constants, self.reader.schemas.renames(change.instant), units)
        return self._finished(change, conformed, row_keys(conformed, self.log_keys).combine_chunks())

    def _compared(self, change: FileGroupChange) -> Iterator[ChangedRows]:
        """The changes between the slices on both sides of the commit."""
        new: list[pa.RecordBatch] = []
        alive: list[pa.Array] = []
        hiding = [self.reader.merged_log(change.before)] if change.may_reappear and change.before else []
        for batch in self._rows(change, change.after, every=change.deletes or bool(hiding)):
            if change.deletes:
                alive += row_keys(batch, self.reader.keys).chunks
            rows = batch
            if change.instant:
                rows = batch.filter(self._changed_by(change, batch, hiding))
            if rows.num_rows and change.before is None:
                yield ChangedRows(None, self._of_slice(change, rows))
            elif rows.num_rows:
                new.append(rows)
        if change.before is None or not (new or change.deletes):
            return
        yield from self._compared_with(change, change.before, new, alive)

    def _changed_by(self, change: FileGroupChange, batch: pa.RecordBatch, hiding: list[MergedLog]) -> pa.Array:
        """A mask of the rows that the commit wrote, or that show again once the logs `hiding` no longer apply."""
        written = pc.equal(batch.column(COMMIT_TIME), change.instant)
        return pc.or_(written, pa.array(self.reader.reappeared(batch, hiding))) if hiding else written

    def _compared_with(
        self, change: FileGroupChange, before: SlicePaths, new: list[pa.RecordBatch], alive: list[pa.Array]
    ) -> Iterator[ChangedRows]:
        """Deletes and updates in the order of the slice before, then inserts.

        `new` are the rows of the later slice that the commit wrote, `alive` all of its keys where the commit deletes.
        """
        rows = pa.Table.from_batches(new).combine_chunks().to_batches()[0] if new else None
        keys = row_keys(rows, self.reader.keys).combine_chunks() if rows is not None else pa.array([], pa.string())
        alive_keys = pa.concat_arrays(alive) if alive else pa.array([], pa.string())
        updated = np.zeros(len(keys), bool)
        for batch, matches, stays in self._matched(self._rows(change, before, every=True), keys, alive_keys):
            if change.deletes:
                gone = batch.filter(pc.invert(stays))
                if gone.num_rows:
                    yield ChangedRows(self._of_slice(change, gone), None)
            replaced = batch.filter(matches.is_valid())
            if rows is not None and replaced.num_rows:
                matching = matches.drop_null()
                updated[to_numpy(matching)] = True
                yield ChangedRows(self._of_slice(change, replaced), self._of_slice(change, rows.take(matching)))
        if rows is not None and not updated.all():
            yield ChangedRows(None, self._of_slice(change, rows.filter(from_numpy(~updated))))

    def _matched(
        self, batches: Iterator[pa.RecordBatch], keys: pa.Array, alive: pa.Array
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array, pa.Array]]:
        """Each batch with the places of its rows' keys in `keys`, and with whether `alive` has them.

        A lookup hashes all keys that it looks in, so many batches share one.
        """
        for run in _runs(batches):
            old = pa.chunked_array([one_chunk(row_keys(batch, self.reader.keys)) for batch in run], pa.string())
            matches = one_chunk(pc.index_in(old, value_set=keys))
            stays = one_chunk(pc.is_in(old, value_set=alive))
            first = 0
            for batch in run:
                count = batch.num_rows
                yield batch, matches.slice(first, count), stays.slice(first, count)
                first += count

    def _rows(self, change: FileGroupChange, paths: SlicePaths | None, every: bool) -> Iterator[pa.RecordBatch]:
        """The rows of a slice: with `every` all of them, else at least those that the commit wrote."""
        if paths is None:
            return
        fixed = (*self.reader.keys, *(self.reader.rules.ordering if change.may_reappear else ()))
        columns = (COMMIT_TIME, *fixed, *(name for name in self.columns if name not in META_COLUMNS))
        narrow = None if every or not change.instant else written_by(change.instant)
        instants = None if paths is not change.after or not change.instant else frozenset([change.instant])
        yield from self.reader.open(paths, tuple(dict.fromkeys(columns)), narrow=narrow, instants=instants).rows()

    def _of_slice(self, change: FileGroupChange, rows: pa.RecordBatch) -> pa.RecordBatch:
        return self._finished(change, rows, row_keys(rows, self.reader.keys).combine_chunks())

    def _finished(self, change: FileGroupChange, rows: pa.RecordBatch, keys: pa.Array) -> pa.RecordBatch:
        """The rows in the columns of `schema`, with the meta columns of the change."""
        count, text = rows.num_rows, pa.string()
        commit = pa.repeat(pa.scalar(change.instant, text), count) if change.instant else rows.column(COMMIT_TIME)
        meta = {COMMIT_TIME: commit, RECORD_KEY: keys, PARTITION_PATH: pa.repeat(pa.scalar(change.partition), count)}
        arrays = [
            (meta.get(name) if name in meta else pa.nulls(count, text)) if name in META_COLUMNS else rows.column(name)
            for name in self.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches that follow each other, of so many rows and bytes together that memory holds them with ease."""
    run: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        run.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _RUN_ROWS or size >= _RUN_BYTES:
            yield run
            run, rows, size = [], 0, 0
    if run:
        yield run


@dataclass(frozen=True, slots=True)
class FullChangesTask:
    """Reads the changes of a split as rows with their row kind. An update is -U, then +U."""

    changes: RowChanges
    schema: pa.Schema
    predicate: Node | None

    def __call__(self, split: HudiSplit) -> Iterator[pa.RecordBatch]:
        """The rows of each commit, in the order of commits. The predicate filters each row on its own."""
        for _, changed in self.changes(split):
            if changed.before is None:
                yield from self._out(changed.after, RowKind.INSERT)
            elif changed.after is None:
                yield from self._out(changed.before, RowKind.DELETE)
            else:
                both = pa.Table.from_batches([changed.before, changed.after])
                count = changed.before.num_rows
                alternating = np.stack([np.arange(count), np.arange(count) + count], axis=1).reshape(-1)
                kinds = pa.array([RowKind.UPDATE_BEFORE.short, RowKind.UPDATE_AFTER.short]).take(
                    from_numpy(np.tile([0, 1], count))
                )
                yield from self._with_kinds(both.take(from_numpy(alternating)).combine_chunks().to_batches()[0], kinds)

    def _out(self, rows: pa.RecordBatch, kind: RowKind) -> Iterator[pa.RecordBatch]:
        yield from self._with_kinds(rows, pa.repeat(pa.scalar(kind.short), rows.num_rows))

    def _with_kinds(self, rows: pa.RecordBatch, kinds: pa.Array) -> Iterator[pa.RecordBatch]:
        if self.predicate is not None:
            rows = keep(rows.append_column(ROW_KIND_COLUMN, kinds), self.predicate)
            kinds = rows.column(ROW_KIND_COLUMN)
        if rows.num_rows:
            columns = [kinds if name == ROW_KIND_COLUMN else rows.column(name) for name in self.schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
