"""The log files of a slice as entries to merge: which blocks count, their rows and deletes in order.

Which blocks count (Hudi's `BaseHoodieLogRecordReader`): those of instants that are committed and inside the reader's
bound; not those that a rollback block further on takes back; not those that a log compaction replaced, whose block
stands where the last of them stood. A block of an instant beyond the bound is passed over, what follows it is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import CorruptBlocksWarning, CorruptError, UnsupportedError
from lakebed.formats.hudi.codec.avro import decode_blocks, record_run
from lakebed.formats.hudi.codec.internal_schema import NO_HISTORY, SchemaHistory
from lakebed.formats.hudi.codec.log import BlockKind, CorruptRange, LogBlock, parse_log
from lakebed.formats.hudi.codec.parquet_block import decode_parquet_block
from lakebed.formats.hudi.codec.record_keys import KeyForm, row_keys
from lakebed.formats.hudi.codec.schema import writer_schema
from lakebed.formats.hudi.codec.timestamps import bare_unit, mended_units, units_of_block
from lakebed.formats.hudi.merge.log import LogEntries
from lakebed.formats.hudi.merge.rules import MergeRules
from lakebed.formats.hudi.read.conform import conform_table
from lakebed.formats.hudi.read.deletes import Deletes
from lakebed.formats.hudi.read.files import fitted
from lakebed.formats.hudi.read.missing_files import needed
from lakebed.formats.hudi.timeline.active import Blocks
from lakebed.kernel.arrays import Bools, Int64s
from lakebed.kernel.decoding import decoding
from lakebed.kernel.files import Store
from lakebed.kernel.scratch import Scratch
from lakebed.redaction import redacting_logger

IS_DELETED = "_hoodie_is_deleted"
OPERATION = "_hoodie_operation"
_MEMORY = Scratch()
_DELETING = ("D", "-D", "-U")


_LOG = redacting_logger("lakebed.hudi")


@dataclass(frozen=True, slots=True)
class LogScanned:
    """The blocks of a slice that count, in merge order, and how many corrupt ranges were passed over."""

    blocks: tuple[LogBlock, ...]
    corrupt: int


def scan_logs(store: Store, paths: Sequence[str], counted: Blocks, instant: str = "") -> LogScanned:
    """Read log files and choose the blocks that count, of one `instant` where it is given.

    Torn bytes, which a writer leaves that died, are passed over, counted, and told as a CorruptBlocksWarning. A block
    that was whole once and is not now raises CorruptError: its rows are lost.
    """
    found: list[LogBlock] = []
    corrupt = 0
    for path in paths:
        try:
            with needed(store, path):
                data = store.read(path)
            scan = parse_log(data)
        except (CorruptError, UnsupportedError) as error:
            error.table, error.file = store.location, path
            raise
        if scan.corrupt:
            _report(scan.corrupt, store.location, path)
        elif not scan.blocks:
            _report_empty(len(data), store.location, path)
        corrupt += len(scan.corrupt)
        found += scan.blocks
    if instant:
        found = [block for block in found if block.is_rollback or block.instant_time == instant]
    return LogScanned(tuple(_that_count(found, counted)), corrupt)


def _report(corrupt: Sequence[CorruptRange], table: str, file: str) -> None:
    """Raise for a damaged block, warn of torn bytes, once a file; the log names each place."""
    for bad in corrupt:
        if bad.framed:
            raise CorruptError(
                f"a log block at offset {bad.offset} is damaged",
                table=table,
                file=file,
                why=bad.reason,
                todo="Restore the file from a copy; its rows are lost otherwise",
            )
        _LOG.warning("%s/%s: %d bytes at offset %d: %s", table, file, bad.length, bad.offset, bad.reason)
    size = sum(bad.length for bad in corrupt)
    what = f"passed over {size} torn bytes in {len(corrupt)} places of {file}, from offset {corrupt[0].offset} on"
    warnings.warn(CorruptBlocksWarning(what, table=table, file=file, ranges=len(corrupt), size=size), stacklevel=2)


def _report_empty(size: int, table: str, file: str) -> None:
    """A log file without a block: its writer died before the first one was whole, or a copy lost its content."""
    what = f"passed over {file}, which has {size} bytes and no block"
    warnings.warn(CorruptBlocksWarning(what, table=table, file=file, ranges=0, size=size), stacklevel=2)


def _that_count(blocks: Sequence[LogBlock], counted: Blocks) -> list[LogBlock]:
    last_rollback: dict[str, int] = {}
    for place, block in enumerate(blocks):
        if block.is_rollback:
            last_rollback[block.target_instant_time] = place
    alive = [
        (place, block)
        for place, block in enumerate(blocks)
        if not block.is_rollback
        and block.kind is not BlockKind.CDC_DATA
        and counted.counts(block.instant_time)
        and last_rollback.get(block.instant_time, -1) < place
    ]
    replaced = {instant for _, block in alive for instant in block.compacted_instants}
    if not replaced:
        return [block for _, block in alive]
    last_of = {block.instant_time: place for place, block in enumerate(blocks)}
    placed = []
    for place, block in alive:
        if block.instant_time in replaced:
            continue
        compacted = [last_of[instant] for instant in block.compacted_instants if instant in last_of]
        placed.append((max(compacted) if compacted else place, place, block))
    return [block for _, _, block in sorted(placed, key=lambda entry: entry[:2])]


@dataclass(frozen=True, slots=True)
class LogReader:
    """How the entries of log blocks are decoded: into the columns of `target`, keyed by `keys` (the record key meta
    column, or the key fields, whose text in delete blocks has the form `key_form`)."""

    target: pa.Schema
    keys: tuple[str, ...]
    rules: MergeRules
    scratch: Scratch = _MEMORY
    instants: frozenset[str] | None = None
    schemas: SchemaHistory = NO_HISTORY
    key_form: KeyForm | None = None

    def entries(self, blocks: Sequence[LogBlock]) -> LogEntries:
        """All rows and deletes of the blocks that count, decoded schema by schema and numbered in block order."""
        data = [block for block in blocks if block.kind is not BlockKind.DELETE]
        starts, at = {}, 0
        deletes = []
        for block in blocks:
            starts[id(block)] = at
            if block.kind is BlockKind.DELETE:
                decoded = Deletes.of(block, self._ordering_types(), self.scratch, self._ordering_units())
                if self.key_form is not None:
                    decoded = replace(decoded, keys=self._keys_as_rows_have_them(decoded.keys, self.key_form))
                deletes.append((at, decoded, block))
                at += len(decoded.keys)
            else:
                at += _row_count(block)
        thin = self._thin(data)
        tables, row_at, flags, masks = [], [], [], []
        for same in self._by_schema(data, thin):
            table, deleted = self._decoded(same, same[0].instant_time in thin)
            tables.append(table)
            flags.append(deleted)
            for block in same:
                count = _row_count(block)
                row_at.append(np.arange(starts[id(block)], starts[id(block)] + count))
                masks.append((count, self._provided(block)))
        rows = pa.concat_tables(tables) if tables else self.target.empty_table()
        row_numbers = np.concatenate(row_at).astype(np.int64) if row_at else np.zeros(0, np.int64)
        return self._combined(rows, row_numbers, _joined(flags, tables), masks, deletes)

    def _keys_as_rows_have_them(self, keys: pa.Array, form: KeyForm) -> pa.Array:
        """The keys of a delete block as the text that `row_keys` gives rows of a table without meta columns."""
        fields = [self.target.field(name) for name in self.keys]
        units = [bare_unit(field.type, self.schemas.units.get((field.name,))) for field in fields]
        return row_keys(form.columns(keys, fields, units), self.keys).combine_chunks()

    def _ordering_types(self) -> tuple[pa.DataType, ...]:
        return tuple(self.target.field(name).type for name in self.rules.ordering)

    def _ordering_units(self) -> tuple[str, ...]:
        fields = [self.target.field(name) for name in self.rules.ordering]
        return tuple(bare_unit(field.type, self.schemas.units.get((field.name,))) for field in fields)

    def _by_schema(self, blocks: Sequence[LogBlock], thin: frozenset[str]) -> list[list[LogBlock]]:
        """Blocks that are decoded alike together, in order of first sight."""
        groups: dict[tuple[object, ...], list[LogBlock]] = {}
        for block in blocks:
            written = self.schemas.version(block.instant_time)
            key = (block.kind, block.schema, block.is_partial, block.instant_time in thin, written)
            groups.setdefault(key, []).append(block)
        return list(groups.values())

    def _thin(self, blocks: Sequence[LogBlock]) -> frozenset[str]:
        """Instants whose rows are wanted for who wins alone. Rows of partial updates can show up in any other's."""
        if self.instants is None or self.rules.fills or any(block.is_partial for block in blocks):
            return frozenset()
        return frozenset(block.instant_time for block in blocks) - self.instants

    def _decoded(self, blocks: Sequence[LogBlock], thin: bool) -> tuple[pa.Table, Bools | None]:
        """The rows of blocks of one schema, fitted to the target, and which of them are deletes; `thin` leaves columns
        empty that do not say who wins."""
        first = blocks[0]
        there = [column.name for column in writer_schema(first.schema).columns]
        control = [name for name in (IS_DELETED, OPERATION, self.rules.marker_column) if name and name in there]
        deciding = {*self.keys, *self.rules.ordering, "_hoodie_commit_time"}
        target = {name for name in self.target.names if not thin or name in deciding}
        renames = self.schemas.renames(first.instant_time)
        sources = {renames.get((name,), name) for name in target}
        wanted = [name for name in there if name in sources or name in control]
        if first.kind is BlockKind.PARQUET_DATA:
            found = pa.concat_tables([parquet_rows(block, wanted) for block in blocks])
        else:
            found = decode_blocks(blocks, wanted, self.scratch)
        units = units_of_block(self.schemas.units, first.schema, renames)
        return fitted(found, self.target, renames=renames, units=units), deleting(found, self.rules)

    def _provided(self, block: LogBlock) -> frozenset[str] | None:
        """The columns that a partial update brings, None for a whole row."""
        if not block.is_partial:
            return None
        return frozenset(column.name for column in writer_schema(block.schema).columns)

    def _combined(
        self,
        rows: pa.Table,
        row_at: Int64s,
        deleted: Bools | None,
        masks: list[tuple[int, frozenset[str] | None]],
        deletes: list[tuple[int, Deletes, LogBlock]],
    ) -> LogEntries:
        ordering = []
        for place, name in enumerate(self.rules.ordering):
            field = self.target.field(name)
            parts = [*rows.column(name).chunks, *(found.ordering[place] for _, found, _ in deletes)]
            ordering.append(pa.concat_arrays(parts) if parts else pa.nulls(0, field.type))
        row_key = row_keys(rows, self.keys)
        if row_key.null_count:
            raise CorruptError("a row of a log has no record key", why=f"{', '.join(self.keys)} is null")
        keys = [*row_key.chunks, *(found.keys for _, found, _ in deletes)]
        natural = [found.natural for _, found, _ in deletes]
        return LogEntries(
            rows=rows,
            row_at=row_at,
            delete_at=_numbers([np.arange(at, at + len(found.keys)) for at, found, _ in deletes]),
            keys=pa.concat_arrays(keys) if keys else pa.array([], pa.string()),
            ordering=tuple(ordering),
            deleted=deleted,
            natural=np.concatenate(natural) if natural else np.zeros(0, bool),
            delete_instants=_repeated([(block.instant_time, len(found.keys)) for _, found, block in deletes]),
            provides=_partial_masks(masks, self.target.names),
        )


def parquet_rows(block: LogBlock, columns: Sequence[str] | None) -> pa.Table:
    """The rows of a PARQUET_DATA block, in order, with the types of the block's own schema.

    `columns` None gives all of the block's schema, otherwise those, in the order asked. Raises CorruptError as
    `decode_parquet_block` does.
    """
    writer = writer_schema(block.schema)
    wanted = writer.columns if columns is None else tuple(writer.column(name) for name in columns)
    target = pa.schema([column.field() for column in wanted])
    return conform_table(decode_parquet_block(block, target.names), target, units=mended_units(block.schema))


def deleting(rows: pa.Table | pa.RecordBatch, rules: MergeRules) -> Bools | None:
    """Which rows say of themselves that they are deletes, None when no column could."""
    found: pa.Array | None = None
    names = rows.schema.names
    if IS_DELETED in names and pa.types.is_boolean(rows.schema.field(IS_DELETED).type):
        found = pc.fill_null(rows.column(IS_DELETED), False)
    if OPERATION in names:
        operation = pc.is_in(rows.column(OPERATION), value_set=pa.array(_DELETING))
        found = operation if found is None else pc.or_(found, operation)
    if rules.marker_column and rules.marker_column in names:
        marked = pc.fill_null(pc.equal(rows.column(rules.marker_column).cast(pa.string()), rules.marker), False)
        found = marked if found is None else pc.or_(found, marked)
    if found is None:
        return None
    flags: Bools = found.to_numpy(zero_copy_only=False) if isinstance(found, pa.Array) else found.to_numpy()
    return flags if flags.any() else None


def _row_count(block: LogBlock) -> int:
    if block.kind is BlockKind.PARQUET_DATA:
        with decoding(f"the PARQUET_DATA block at offset {block.offset} cannot be decoded", instant=block.instant_time):
            return int(pq.read_metadata(pa.BufferReader(block.content)).num_rows)
    return record_run(block)[0]


def _joined(flags: list[Bools | None], tables: list[pa.Table]) -> Bools | None:
    if all(flag is None for flag in flags):
        return None
    return np.concatenate(
        [np.zeros(table.num_rows, bool) if flag is None else flag for flag, table in zip(flags, tables, strict=True)]
    )


def _numbers(parts: list[Int64s]) -> Int64s:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def _repeated(parts: list[tuple[str, int]]) -> pa.Array:
    arrays = [pa.repeat(pa.scalar(text), count) for text, count in parts]
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.string())


def _partial_masks(masks: list[tuple[int, frozenset[str] | None]], names: list[str]) -> dict[str, Bools]:
    """For each column that some partial update lacks, which rows bring it."""
    lacking = {name for _, columns in masks if columns is not None for name in names if name not in columns}
    return {
        name: np.concatenate([np.full(count, columns is None or name in columns) for count, columns in masks])
        for name in lacking
    }
