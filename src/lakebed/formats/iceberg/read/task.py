"""The live rows of one data file, as Arrow batches in the requested schema.

Columns are found by field id and converted (`read/conform.py`), and deletes are applied (`read/deletes.py`). Columns
that no file holds are computed: the place of a row, and the row lineage of format version 3, which a file holds only
after a rewrite has written it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import NestedField

from lakebed.formats.iceberg.codec.bounds import plain_type
from lakebed.formats.iceberg.codec.schema import FILE, LAST_UPDATED, POS, ROW_ID, SPEC_ID, arrow_field
from lakebed.formats.iceberg.data_files import DataFile, FileTask
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read.conform import conformed, missing
from lakebed.formats.iceberg.read.context import ReadContext
from lakebed.formats.iceberg.read.deletes import (
    EqualityGroup,
    KeyReader,
    deleted_positions,
    deletes_ahead,
    equality_groups,
    key_reader,
    large_sets,
    rows_outside,
    small_set,
)
from lakebed.formats.iceberg.read.formats import BATCH_ROWS, OpenFile, ParquetData, Piece, opened, stated_of
from lakebed.formats.iceberg.read.key_sets import KeySet
from lakebed.formats.iceberg.read.pruning import Pruning
from lakebed.formats.iceberg.read.split import ByteRange
from lakebed.kernel.arrays import Bools, Int64s, from_numpy, scalar_of, to_numpy
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import keep

_PASS_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows and columns of a data file to read.

    `columns` are names of the context's schema or of metadata columns, None for all of the schema. With `lineage`,
    `_row_id` and `_last_updated_sequence_number` come last. `predicate` keeps rows, `part` row groups, and `positions`
    the rows at these positions of the file, in ascending order; None keeps all. Unless it `filters`, the predicate only
    rules out row groups: the caller looks at each row anyway.
    """

    columns: Sequence[str] | None = None
    predicate: Node | None = None
    lineage: bool = False
    part: ByteRange | None = None
    positions: Int64s | None = None
    filters: bool = True


def read_task(
    files: Files, context: ReadContext, task: FileTask, selection: Selection = Selection()
) -> Iterator[pa.RecordBatch]:
    """The selected live rows of a data file, in the order of the file.

    It holds one batch at a time, and as many bytes of equality deletes as the context allows. Raises DataCleanedError
    when a file is gone, CorruptError when it cannot be read.
    """
    predicate = selection.predicate
    fields = context.columns(selection.columns, selection.lineage)
    names = [field.name for field in fields]
    if predicate is not None:
        used = predicate.columns()
        fields += tuple(field for field in context.columns(used) if field.name not in names)
    with _opened(files, context, task) as file:
        groups = _groups(file, predicate, context, selection.part)
        live = _LiveRows(files, context, task, file, groups, selection.positions)
        for batch in live.batches(fields or (POS,)):
            kept = batch if predicate is None or not selection.filters else keep(batch, predicate)
            if kept.num_rows:
                yield kept.select(names)


def live_positions(files: Files, context: ReadContext, task: FileTask) -> Int64s:
    """The positions of a data file's live rows, ascending."""
    with _opened(files, context, task) as file:
        live = _LiveRows(files, context, task, file)
        positions = [to_numpy(batch.column(0)) for batch in live.batches((POS,))]
    return np.concatenate(positions) if positions else np.empty(0, np.int64)


@contextmanager
def _opened(files: Files, context: ReadContext, task: FileTask) -> Iterator[OpenFile]:
    """A task's data file. Its deletes are read at the same time, where that saves time."""
    data = task.data
    with (
        deletes_ahead(files, context, task),
        opened(files, data.path, data.format, context.mapping, stated=stated_of(data)) as file,
    ):
        yield file


def predicate_schema(context: ReadContext) -> pa.Schema:
    """The columns that a predicate may name, in the types in which their values are compared."""
    fields = context.schema.fields
    return pa.schema([pa.field(f.name, plain_type(f.field_type), not f.required) for f in fields])


def _groups(file: OpenFile, predicate: Node | None, context: ReadContext, part: ByteRange | None) -> list[int] | None:
    """The row groups to read, None for all."""
    if not isinstance(file, ParquetData) or (predicate is None and part is None):
        return None
    all_groups = range(file.metadata.num_row_groups)
    groups = list(all_groups) if part is None else file.groups_in(part.start, part.end)
    if predicate is None or len(groups) == 0:
        return groups
    return Pruning(predicate, context.schema).row_groups(file, groups)


class _LiveRows:
    """The rows of one open data file without the deleted ones: of these row groups and positions, None for all."""

    def __init__(
        self, files: Files, context: ReadContext, task: FileTask, file: OpenFile, groups: list[int] | None = None,
        positions: Int64s | None = None,
    ) -> None:  # fmt: skip
        self._file, self._task, self._groups, self._selected = file, task, groups, positions
        self._constants = context.constants(task.data)
        self._deleted = deleted_positions(files, task)
        self._sets: list[tuple[KeySet, EqualityGroup]] = []
        if groups == []:
            return
        for group in equality_groups(context, task):
            key_set = small_set(files, context, group)
            if key_set is not None:
                self._sets.append((key_set, group))
            else:
                for part in large_sets(files, context, group):
                    self._delete_rows_of(part, group)

    def batches(self, fields: Sequence[NestedField]) -> Iterator[pa.RecordBatch]:
        """The live rows, with the columns of `fields`."""
        readers = [(keys, key_reader(self._file, group.columns, self._constants)) for keys, group in self._sets]
        makers = Makers(self._file, self._task.data, self._constants, fields)
        wanted = tuple(dict.fromkeys([*makers.wanted, *(n for _, reader in readers for n in reader.wanted)]))
        schema = pa.schema([arrow_field(field) for field in fields])
        for piece in self._pieces(wanted, BATCH_ROWS):
            by_number = dict(zip(wanted, piece.columns, strict=True))
            kept = self._kept(piece, by_number, readers)
            batch = pa.RecordBatch.from_arrays(makers.columns(piece, by_number), schema=schema)
            if kept is None:
                yield batch
            elif kept.any():
                yield batch.filter(from_numpy(kept))

    def _kept(
        self, piece: Piece, by_number: Mapping[int, pa.Array], readers: Sequence[tuple[KeySet, KeyReader]]
    ) -> Bools | None:
        """Which rows of a piece are live and selected, None for all."""
        kept = None if self._deleted is None else rows_outside(self._deleted, piece.start, piece.rows)
        if self._selected is not None:
            outside = rows_outside(self._selected, piece.start, piece.rows)
            selected = np.zeros(piece.rows, np.bool_) if outside is None else ~outside
            kept = selected if kept is None else kept & selected
        for key_set, reader in readers:
            keys = reader.columns(piece.rows, [by_number[n] for n in reader.wanted])
            deleted = key_set.contains(keys)
            if deleted.any():
                kept = ~deleted if kept is None else kept & ~deleted
        return kept

    def _delete_rows_of(self, key_set: KeySet, group: EqualityGroup) -> None:
        """Find the rows of a large set in a pass over the key columns alone, and add them to the deleted positions."""
        reader = key_reader(self._file, group.columns, self._constants)
        positions: list[Int64s] = [] if self._deleted is None else [self._deleted]
        for piece in self._pieces(reader.wanted, _PASS_ROWS):
            deleted = key_set.contains(reader.columns(piece.rows, piece.columns))
            if deleted.any():
                positions.append(np.flatnonzero(deleted) + piece.start)
        if positions:
            self._deleted = np.unique(np.concatenate(positions))

    def _pieces(self, wanted: Sequence[int], batch_rows: int) -> Iterator[Piece]:
        if isinstance(self._file, ParquetData):
            return self._file.pieces(wanted, batch_rows, self._groups)
        return self._file.pieces(wanted, batch_rows)


Maker = Callable[[Piece, Mapping[int, pa.Array]], pa.Array]


class Makers:
    """Makes the requested columns out of a file's columns, whose numbers are `wanted`."""

    def __init__(
        self, file: OpenFile, data: DataFile, constants: Mapping[int, pa.Scalar], fields: Sequence[NestedField]
    ) -> None:
        self._places = {field.id: number for number, field in enumerate(file.fields) if field.id is not None}
        self._file, self._data, self._constants = file, data, constants
        self.wanted = tuple(self._places[f.field_id] for f in fields if f.field_id in self._places)
        self._makers = [self._maker(field) for field in fields]

    def columns(self, piece: Piece, by_number: Mapping[int, pa.Array]) -> list[pa.Array]:
        """The requested columns of a piece."""
        return [make(piece, by_number) for make in self._makers]

    def _maker(self, field: NestedField) -> Maker:
        if field.field_id in _COMPUTED:
            return self._computed(field)
        place = self._places.get(field.field_id)
        if place is not None:
            source, number = self._file.fields[place], place
            return lambda piece, by_number: conformed(by_number[number], source, field)
        constant = self._constants.get(field.field_id)
        if constant is not None:
            return lambda piece, by_number: pa.repeat(constant, piece.rows)
        return lambda piece, by_number: missing(field, piece.rows)

    def _computed(self, field: NestedField) -> Maker:
        if field.field_id == FILE.field_id:
            return lambda piece, by_number: pa.repeat(scalar_of(self._data.path, pa.string()), piece.rows)
        if field.field_id == SPEC_ID.field_id:
            return lambda piece, by_number: pa.repeat(scalar_of(self._data.spec_id, pa.int32()), piece.rows)
        if field.field_id == POS.field_id:
            return lambda piece, by_number: _positions(piece, 0)
        first, sequence = self._data.first_row_id, self._data.sequence_number
        if first is None:
            return lambda piece, by_number: pa.nulls(piece.rows, pa.int64())
        if field.field_id == ROW_ID.field_id:
            return self._inherited(field, lambda piece: _positions(piece, first))
        return self._inherited(field, lambda piece: pa.repeat(scalar_of(sequence, pa.int64()), piece.rows))

    def _inherited(self, field: NestedField, inherit: Callable[[Piece], pa.Array]) -> Maker:
        """A column of row lineage: the values that the file holds; where one is null, the inherited value."""
        place = self._places.get(field.field_id)
        if place is None:
            return lambda piece, by_number: inherit(piece)
        number = place
        return lambda piece, by_number: pc.coalesce(by_number[number].cast(pa.int64()), inherit(piece))


_COMPUTED = {field.field_id for field in (FILE, SPEC_ID, POS, ROW_ID, LAST_UPDATED)}


def _positions(piece: Piece, first: int) -> pa.Array:
    start = first + piece.start
    return from_numpy(np.arange(start, start + piece.rows, dtype=np.int64))
