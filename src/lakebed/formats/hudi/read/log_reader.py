"""Log blocks decoded to entries: their rows and deletes in the columns of a read, numbered in the order of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import CorruptError
from lakebed.formats.hudi.codec.avro import decode_blocks, record_run
from lakebed.formats.hudi.codec.internal_schema import NO_HISTORY, SchemaHistory
from lakebed.formats.hudi.codec.log import BlockKind, LogBlock
from lakebed.formats.hudi.codec.parquet_block import decode_parquet_block
from lakebed.formats.hudi.codec.record_keys import KeyForm, row_keys
from lakebed.formats.hudi.codec.schema import writer_schema
from lakebed.formats.hudi.codec.timestamps import bare_unit, mislabelled_units, units_of_block
from lakebed.formats.hudi.layout import COMMIT_TIME
from lakebed.formats.hudi.merge.log_entries import LogDeletes, LogEntries, LogRows
from lakebed.formats.hudi.merge.rules import MergeRules
from lakebed.formats.hudi.read.conform import conform_table, conform_to_table
from lakebed.formats.hudi.read.delete_markers import marked_deletes, marker_columns
from lakebed.formats.hudi.read.deletes import OrderingType, read_deletes
from lakebed.kernel.arrays import Bools
from lakebed.kernel.decoding import RESTORE, decoding
from lakebed.kernel.scratch import Scratch

_MEMORY = Scratch()


@dataclass(frozen=True, slots=True)
class LogReader:
    """How log blocks are decoded.

    Rows come in the columns of `target`. `keys` are the columns of the record key: its meta column, or the key fields,
    whose text in delete blocks has the form `key_form`. Rows of instants outside `instants` (None: of no instant) need
    only say who wins, so their other columns may be left empty.
    """

    target: pa.Schema
    keys: tuple[str, ...]
    rules: MergeRules
    scratch: Scratch = _MEMORY
    instants: frozenset[str] | None = None
    schemas: SchemaHistory = NO_HISTORY
    key_form: KeyForm | None = None

    def entries(self, blocks: Sequence[LogBlock]) -> LogEntries:
        """All rows and deletes of some blocks, which stand in merge order. Blocks of one schema are decoded together.

        Raises CorruptError for a block that cannot be decoded and for a row without a record key.
        """
        starts: dict[int, int] = {}
        deletes: list[LogDeletes] = []
        position = 0
        for block in blocks:
            starts[id(block)] = position
            if block.kind is BlockKind.DELETE:
                deletes.append(self._deletes(block, position))
                position += len(deletes[-1].keys)
            else:
                position += _row_count(block)
        data = [block for block in blocks if block.kind is not BlockKind.DELETE]
        return LogEntries.of(self._rows(data, starts), deletes)

    def _deletes(self, block: LogBlock, position: int) -> LogDeletes:
        """The deletes of a block, their keys as the text that `row_keys` gives the table's rows."""
        fields = [self.target.field(name) for name in self.rules.ordering]
        types = [OrderingType(field.type, self._bare_unit(field)) for field in fields]
        deletes = read_deletes(block, types, self.scratch, position)
        if self.key_form is None:
            return deletes
        key_fields = [self.target.field(name) for name in self.keys]
        columns = self.key_form.columns(deletes.keys, key_fields, [self._bare_unit(field) for field in key_fields])
        return replace(deletes, keys=row_keys(columns, self.keys).combine_chunks())

    def _bare_unit(self, field: pa.Field) -> str:
        return bare_unit(field.type, self.schemas.units.get((field.name,)))

    def _rows(self, blocks: Sequence[LogBlock], starts: Mapping[int, int]) -> LogRows:
        """The rows of data blocks. `starts` has the position of each block's first row, by the block's `id`."""
        thin = self._thin(blocks)
        tables, positions, deleted, provided = [], [], [], []
        for alike in self._decoded_alike(blocks, thin):
            table, flags = self._decoded(alike, alike[0].instant_time in thin)
            tables.append(table)
            deleted.append(flags)
            for block in alike:
                start, count = starts[id(block)], _row_count(block)
                positions.append(np.arange(start, start + count))
                provided.append((count, _provided_columns(block)))
        rows = pa.concat_tables(tables) if tables else self.target.empty_table()
        keys = row_keys(rows, self.keys)
        if keys.null_count:
            raise CorruptError("a row of a log has no record key", why=f"{', '.join(self.keys)} is null", todo=RESTORE)
        return LogRows(
            table=rows,
            positions=np.concatenate(positions) if positions else np.zeros(0, np.int64),
            keys=keys,
            ordering=tuple(rows.column(name) for name in self.rules.ordering),
            deleted=_concat_flags(deleted, tables),
            provides=_partial_masks(provided, self.target.names),
        )

    def _decoded_alike(self, blocks: Sequence[LogBlock], thin: frozenset[str]) -> list[list[LogBlock]]:
        """The blocks in groups that are decoded together, in order of first sight."""
        groups: dict[tuple[object, ...], list[LogBlock]] = {}
        for block in blocks:
            version = self.schemas.version(block.instant_time)
            key = (block.kind, block.schema, block.is_partial, block.instant_time in thin, version)
            groups.setdefault(key, []).append(block)
        return list(groups.values())

    def _thin(self, blocks: Sequence[LogBlock]) -> frozenset[str]:
        """Instants whose rows need only say who wins; none where values can show through from one row to another."""
        if self.instants is None or self.rules.fills or any(block.is_partial for block in blocks):
            return frozenset()
        if any(block.compacted_instants for block in blocks):  # its rows are of other instants
            return frozenset()
        return frozenset(block.instant_time for block in blocks) - self.instants

    def _decoded(self, blocks: Sequence[LogBlock], thin: bool) -> tuple[pa.Table, Bools | None]:
        """The rows of blocks of one schema in the columns of `target`, and which of them are deletes.

        With `thin`, columns that do not say who wins are left empty.
        """
        first = blocks[0]
        names = [column.name for column in writer_schema(first.schema).columns]
        deciding = {*self.keys, *self.rules.ordering, COMMIT_TIME}
        target = {name for name in self.target.names if not thin or name in deciding}
        renames = self.schemas.renames(first.instant_time)
        sources = {*(renames.get((name,), name) for name in target), *marker_columns(self.rules)}
        wanted = [name for name in names if name in sources]
        if first.kind is BlockKind.PARQUET_DATA:
            rows = pa.concat_tables([parquet_rows(block, wanted) for block in blocks])
        else:
            rows = decode_blocks(blocks, wanted, self.scratch)
        units = units_of_block(self.schemas.units, first.schema, renames)
        return conform_to_table(rows, self.target, renames=renames, units=units), marked_deletes(rows, self.rules)


def parquet_rows(block: LogBlock, columns: Sequence[str] | None) -> pa.Table:
    """The rows of a PARQUET_DATA block, in order, with the types of the block's own schema.

    `columns` are the columns to read, in their order; None reads all of the block's schema. Raises CorruptError as
    `decode_parquet_block` does.
    """
    writer = writer_schema(block.schema)
    wanted = writer.columns if columns is None else tuple(writer.column(name) for name in columns)
    target = pa.schema([column.field() for column in wanted])
    return conform_table(decode_parquet_block(block, target.names), target, units=mislabelled_units(block.schema))


def _row_count(block: LogBlock) -> int:
    if block.kind is BlockKind.PARQUET_DATA:
        with decoding(f"the PARQUET_DATA block at offset {block.offset} cannot be decoded", instant=block.instant_time):
            return int(pq.read_metadata(pa.BufferReader(block.content)).num_rows)
    return record_run(block)[0]


def _provided_columns(block: LogBlock) -> frozenset[str] | None:
    """The columns that a partial update brings, None for whole rows."""
    if not block.is_partial:
        return None
    return frozenset(column.name for column in writer_schema(block.schema).columns)


def _concat_flags(flags: Sequence[Bools | None], tables: Sequence[pa.Table]) -> Bools | None:
    """Flags over the rows of all tables, None where no table has any."""
    if all(flag is None for flag in flags):
        return None
    return np.concatenate(
        [np.zeros(table.num_rows, bool) if flag is None else flag for flag, table in zip(flags, tables, strict=True)]
    )


def _partial_masks(provided: Sequence[tuple[int, frozenset[str] | None]], names: Sequence[str]) -> dict[str, Bools]:
    """For each column that some partial update lacks, a mask of the rows that bring it."""
    lacking = {name for _, columns in provided if columns is not None for name in names if name not in columns}
    return {
        name: np.concatenate([np.full(count, columns is None or name in columns) for count, columns in provided])
        for name in lacking
    }
