"""The rows of one file slice, read by one of the five iterators of Hudi's `MergeOnReadInputFormat`, on Arrow batches.

The iterators: the base file alone; the log alone; base rows, then log rows merged among themselves (skip_merge); base
rows, then log rows unmerged (skip_combine); base rows merged with the log's row of their key, then the log rows not yet
used. The base file streams through batch by batch. The log of the slice is held in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.internal_schema import NO_HISTORY, Renames, SchemaHistory
from lakebed.formats.hudi.codec.log import BlockKind, LogBlock
from lakebed.formats.hudi.codec.record_keys import KeyForm, row_keys
from lakebed.formats.hudi.layout import COMMIT_TIME, META_COLUMNS, parse_base_name
from lakebed.formats.hudi.merge.base_rows import BaseMerge, BaseRows, combine, merge_base, reappeared
from lakebed.formats.hudi.merge.log import MergedLog, merge_log
from lakebed.formats.hudi.merge.rules import MergeRules, known_rules
from lakebed.formats.hudi.read.conform import conform_to_table
from lakebed.formats.hudi.read.delete_markers import marked_deletes, marker_columns
from lakebed.formats.hudi.read.files import BaseFileReader, OpenBaseFile
from lakebed.formats.hudi.read.log_blocks import read_blocks
from lakebed.formats.hudi.read.log_reader import LogReader
from lakebed.formats.hudi.read.partitions import PartitionColumns
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.unmerged import rows_in_log_order, with_operation
from lakebed.formats.hudi.timeline.active import Blocks
from lakebed.kernel.arrays import TEXTS_ONCE, Bools, Int64s, from_numpy, with_plain_texts
from lakebed.kernel.files import Store
from lakebed.kernel.predicates.tree import Call, Column, Literal, Node
from lakebed.kernel.predicates.where import both
from lakebed.kernel.scratch import Scratch

_MEMORY = Scratch()
_KEY_ROWS = 1 << 19
"""Keys are looked up in long runs: for each lookup Arrow hashes all keys of the log anew."""
_STREAMED_ROWS = 1 << 13
"""The rows per batch of base rows: few, since several batches wait for their reader."""


@dataclass(frozen=True, slots=True)
class SliceReader:
    """How the slices of one table are read. Picklable.

    `table_schema` has the type of every column. `keys` are the columns that make the record key; where no meta column
    holds it, its text has the form `key_form`. Without `merge` base rows and log rows are not merged (skip_merge), and
    without `combine` neither are log rows among themselves (skip_combine).
    """

    store: Store
    table_schema: pa.Schema
    keys: tuple[str, ...]
    rules: MergeRules
    blocks: Blocks
    partitions: PartitionColumns
    merge: bool = True
    combine: bool = True
    scratch: Scratch = _MEMORY
    schemas: SchemaHistory = NO_HISTORY
    key_form: KeyForm | None = None

    def target(self, columns: tuple[str, ...], merging: bool) -> pa.Schema:
        """The columns to decode for `columns`; in a merge the key and ordering columns follow them."""
        needed = [*columns, *((*self.keys, *self.rules.ordering) if merging else ()), self.rules.marker_column]
        names = [name for name in dict.fromkeys(needed) if name in self.table_schema.names]
        return pa.schema([self.table_schema.field(name) for name in names])

    def open(
        self,
        paths: SlicePaths,
        columns: tuple[str, ...],
        prune: Node | None = None,
        narrow: Node | None = None,
        instants: frozenset[str] | None = None,
    ) -> MergedSlice:
        """The slice, its log already read.

        `prune` leaves out base rows for which it is certainly false, as their row groups' statistics show. Give it only
        where that cannot change which version of a key wins. `narrow` may be given elsewhere: base rows that it leaves
        out still meet the log, by their keys and ordering values alone. `instants` are those whose rows are wanted
        (None: all).
        """
        self._check_bootstrap(paths, self.target(columns, self.merge and bool(paths.logs)))
        blocks = self.log_blocks(paths, originals=instants is not None) if paths.logs else []
        if not blocks:
            return MergedSlice(self, paths, self.target(columns, False), None, both(prune, narrow))
        if not self.combine:
            return self._open_unmerged(paths, columns, blocks)
        target = self.target(columns, True)
        entries = self.log_reader(target, self.rules, instants).entries(blocks)
        return MergedSlice(self, paths, target, merge_log(entries, self.rules), prune, narrow)

    def replaced(self, paths: SlicePaths) -> Int64s | None:
        """The positions of base rows that are older than the log's version of their key, ascending. None where a base
        row is not, or where a row may be made of several versions: then the slice has other rows than the rest of the
        base file and the log."""
        blocks, target = self.log_blocks(paths), self.target((), True)
        if self.rules.fills or any(block.is_partial for block in blocks):
            return None
        merged = merge_log(self.log_reader(target, self.rules).entries(blocks), self.rules)
        return MergedSlice(self, paths, target, merged, None).replaced(merged)

    def log_blocks(self, paths: SlicePaths, instant: str = "", originals: bool = False) -> list[LogBlock]:
        """The blocks of a slice's log that count, only those of one `instant` where it is given; with `originals` not
        those of log compactions."""
        counting = replace(self.blocks, until=paths.until)
        return read_blocks(self.store, paths.logs, counting, instant, originals, paths.sizes)

    def log_reader(self, target: pa.Schema, rules: MergeRules, instants: frozenset[str] | None = None) -> LogReader:
        """How log blocks are decoded into the columns of `target`."""
        return LogReader(target, self.keys, rules, self.scratch, instants, self.schemas, self.key_form)

    def _check_bootstrap(self, paths: SlicePaths, target: pa.Schema) -> None:
        """Raise UnsupportedError for columns that a bootstrap's skeleton file leaves in the source file."""
        if not paths.is_skeleton:
            return
        absent = next((name for name in target.names if name not in META_COLUMNS), "")
        if absent:
            raise UnsupportedError(
                f"column {absent!r} is in a bootstrap source file, which lakebed does not read",
                table=self.store.location,
                file=paths.base,
                why="the file group was bootstrapped as METADATA_ONLY and not rewritten since: its base file holds the "
                "meta columns alone",
                todo="Rewrite those file groups with Hudi's own engine (an upsert of copy-on-write, a compaction, a "
                "clustering), or bootstrap as FULL_RECORD",
            )

    def merged_log(self, paths: SlicePaths) -> MergedLog:
        """The slice's log merged, before it meets the base file."""
        target = self.target((COMMIT_TIME,), True)
        entries = self.log_reader(target, self.rules).entries(self.log_blocks(paths))
        return merge_log(entries, self.rules)

    def reappeared(self, batch: pa.RecordBatch, earlier: Sequence[MergedLog]) -> Bools:
        """Which rows of a later state the logs of earlier slices had hidden; see `base_rows.reappeared`."""
        rows = self.base_rows(batch)
        back = np.zeros(batch.num_rows, bool)
        for merged in earlier:
            back |= reappeared(merged, rows, batch.column(COMMIT_TIME), self.rules)
        return back

    def base_rows(self, batch: pa.RecordBatch) -> BaseRows:
        """The keys and ordering values of a batch."""
        ordering = tuple(batch.column(name) for name in self.rules.ordering)
        return BaseRows(row_keys(batch, self.keys).combine_chunks(), ordering)

    def _open_unmerged(self, paths: SlicePaths, columns: tuple[str, ...], blocks: Sequence[LogBlock]) -> MergedSlice:
        """Every data row of the log, unmerged: the only way to read a table whose merge rules are not known."""
        target = self.target(columns, False)
        data = [block for block in blocks if block.kind is not BlockKind.DELETE]
        wide = with_operation(self.target(columns, True))
        entries = self.log_reader(wide, known_rules(self.rules)).entries(data)
        rows = rows_in_log_order(entries.rows).select(target.names)
        return MergedSlice(self, paths, target, None, None, None, rows)

    def filled(self, table: pa.Table, partition: str, target: pa.Schema) -> pa.Table:
        """Log rows in the columns of `target`. Partition columns that files leave out come from the path."""
        constants = self.partitions.constants(partition, target)
        if constants:
            table = table.drop_columns([name for name in constants if name in table.column_names])
        return conform_to_table(table, target, constants)


def written_by(instant: str) -> Node:
    """The rows that a commit wrote."""
    return Call("equal", (Column((COMMIT_TIME,)), Literal.of(instant)))


@dataclass
class MergedSlice:
    """A slice being read. `rows` gives its live rows in the columns of `target`; after them, `deleted` gives the
    deletes that the log holds, and `kept` says of how many rows of the base file the log has no newer version."""

    reader: SliceReader
    paths: SlicePaths
    target: pa.Schema
    merged: MergedLog | None
    prune: Node | None
    narrow: Node | None = None
    unmerged: pa.Table | None = None
    kept: int = 0
    _used: Bools = field(default_factory=lambda: np.zeros(0, bool))
    _met: Bools = field(default_factory=lambda: np.zeros(0, bool))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Live rows: those of the base file in its order, then those of the log."""
        if self.merged is not None:
            self._used = np.zeros(self.merged.count, bool)
            self._met = np.zeros(self.merged.count, bool)
        if self.paths.base:
            with self._file().opened() as file:
                yield from self._base_rows(file)
        if self.unmerged is not None:
            yield from self._filled(self.unmerged).to_batches()
        if self.merged is not None:
            left = np.flatnonzero(~self.merged.deleted & ~self._used)
            if len(left):
                yield from self._of_log(self._filled(self.merged.rows(left, self.target.names)).to_batches())

    def _of_log(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """The rows that the log brings, alone or combined with those of the base file."""
        return batches

    def _base_rows(self, file: OpenBaseFile) -> Iterator[pa.RecordBatch]:
        """The live rows of the base file, merged with the log's row of their key."""
        groups, others = self._row_groups(file)
        if self.merged is None or not self.reader.merge:
            yield from self._live(self._base(file, self.target, groups, _STREAMED_ROWS))
            return
        deciding = self._deciding()
        for first, batches in self._runs(file, deciding, self.target, groups):
            merge, start = self._merge_keys(first, self.merged), 0
            for batch in self._live(batches):
                part = merge.part(start, batch.num_rows)
                start += batch.num_rows
                yield from self._merge(batch, part, self.merged)
        if self.reader.rules.ordering:
            for first, _ in self._runs(file, deciding, deciding, others):
                self._merge_keys(first, self.merged)

    def replaced(self, merged: MergedLog) -> Int64s | None:
        """The positions of base rows that lose to the log, ascending. None where one does not."""
        replaced, start = [np.zeros(0, np.int64)], 0
        with self._file().opened() as file:
            for batch in self._base(file, self._deciding(), None, _KEY_ROWS):
                merge = merge_base(merged, self.reader.base_rows(batch), self.reader.rules)
                if len(merge.used_keys):
                    return None
                replaced.append(start + np.flatnonzero(~merge.keep))
                start += batch.num_rows
        return np.concatenate(replaced)

    def _deciding(self) -> pa.Schema:
        """The columns that say what becomes of a base row."""
        rules = self.reader.rules
        names = {*self.reader.keys, *rules.ordering, *marker_columns(rules)}
        return pa.schema([column for column in self.target if column.name in names])

    def _runs(
        self, file: OpenBaseFile, first: pa.Schema, target: pa.Schema, groups: list[int] | None
    ) -> Iterator[tuple[pa.RecordBatch, Iterator[pa.RecordBatch]]]:
        constants = self.reader.partitions.constants(self.paths.partition, target)
        for ahead, batches in file.runs(first, target, groups, constants, _STREAMED_ROWS):
            yield next(self._live(iter((ahead,)))), batches

    def deleted(self) -> tuple[pa.Array, pa.Array, tuple[pa.Array, ...]]:
        """Keys whose newest version is a delete that the log holds, the instants of those deletes, and their ordering
        values. Call it after `rows`."""
        if self.merged is None:
            return pa.array([], pa.string()), pa.array([], pa.string()), ()
        merged, entries = self.merged, self.merged.entries
        keys = np.flatnonzero(merged.deleted & ~self._used)
        winners = merged.winner[keys]
        return merged.keys.take(from_numpy(keys)), entries.instants(winners), entries.ordering_values(winners)

    def kept_and_lost(self) -> tuple[pa.Array, pa.Array]:
        """The keys of the log that the rows have, and those that they do not. Call it after `rows`."""
        if self.merged is None:
            return pa.array([], pa.string()), pa.array([], pa.string())
        kept = pa.array(~self.merged.deleted | self._used)
        return self.merged.keys.filter(kept), self.merged.keys.filter(pc.invert(kept))

    def repeating(self, names: Collection[str]) -> Self:
        """The same slice, some text columns of which are dictionaries: what repeats is held once. Columns that decide
        about rows stay as they are."""
        texts = {*names} - {*self._deciding().names}
        fields = [column.with_type(TEXTS_ONCE) if column.name in texts else column for column in self.target]
        return replace(self, target=pa.schema(fields))

    def new_keys(self) -> pa.Array:
        """The keys of the log that the base file does not have. Call it after `rows`."""
        return pa.array([], pa.string()) if self.merged is None else self.merged.keys.filter(from_numpy(~self._met))

    def counts(self) -> tuple[int, int, int, int]:
        """How many keys the log added to the base file, changed in it and deleted from it, and how many it has. Call it
        after `rows`."""
        if self.merged is None:
            return 0, 0, 0, 0
        met, deleted = self._met, self.merged.deleted
        counts = (~met & ~deleted, met & ~deleted, met & deleted)
        inserts, updates, deletes = (int(np.count_nonzero(mask)) for mask in counts)
        return inserts, updates, deletes, self.merged.count

    def base_footer(self) -> tuple[int, Mapping[bytes, bytes]]:
        """How many rows the base file has, and the key-value pairs of its footer; 0 and none without a base file."""
        if not self.paths.base:
            return 0, {}
        with self._file().opened() as file:
            return int(file.file.metadata.num_rows), file.file.metadata.metadata or {}

    def _row_groups(self, file: OpenBaseFile) -> tuple[list[int] | None, list[int]]:
        """The row groups to read (None: all), and those of which only keys and ordering values are needed."""
        groups: list[int] | None = None
        if self.prune is not None and not self._renames():
            groups, _ = file.row_groups(self.prune, self.reader.table_schema)
        if self.merged is None or self.narrow is None or self.merged.sources or self.reader.rules.fills:
            return groups, []
        kept, others = file.row_groups(self.narrow, self.reader.table_schema)
        others = self._that_could_win(file, self.merged, others)
        if groups is None:
            return kept, others
        return [group for group in kept if group in groups], [group for group in others if group in groups]

    def _renames(self) -> Renames:
        parsed = parse_base_name(self.paths.base.rpartition("/")[2])
        return self.reader.schemas.renames(parsed[1].instant) if parsed else {}

    def _file(self) -> BaseFileReader:
        paths, schemas = self.paths, self.reader.schemas
        return BaseFileReader(self.reader.store, paths.base, paths.base_size, self._renames(), schemas.units)

    def _that_could_win(self, file: OpenBaseFile, merged: MergedLog, groups: list[int]) -> list[int]:
        """The row groups in which, by their statistics, a base row may beat a version of the log."""
        ordering = self.reader.rules.ordering
        undecided = pa.array(merged.winner[~merged.beats_base])
        if not groups or not ordering or not len(undecided):
            return []
        if self._renames():
            return groups
        first = merged.entries.ordering[0].take(undecided)
        if first.null_count or pa.types.is_floating(first.type) or self.reader.rules.sequences:
            return groups
        beats = "greater" if len(ordering) == 1 else "greater_equal"
        could_win = Call(beats, (Column((ordering[0],)), Literal(pc.min(first))))
        kept, _ = file.row_groups(could_win, self.reader.table_schema)
        return [group for group in groups if group in kept]

    def _base(
        self, file: OpenBaseFile, target: pa.Schema, groups: list[int] | None, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        constants = self.reader.partitions.constants(self.paths.partition, target)
        yield from file.batches(target, groups, constants, batch_rows)

    def _live(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Base rows without those that a marker column marks as deletes."""
        marker = self.reader.rules.marker_column
        for batch in batches:
            # by that column alone, which is always decoded: the rows do not depend on the columns that are asked for
            has_marker = marker in batch.schema.names
            deleted = marked_deletes(batch.select([marker]), self.reader.rules) if has_marker else None
            yield batch if deleted is None else batch.filter(from_numpy(~deleted))

    def _merge_keys(self, batch: pa.RecordBatch, merged: MergedLog) -> BaseMerge:
        """Hold base rows against the log, and mark the keys of the log that need no row of their own any more."""
        merge = merge_base(merged, self.reader.base_rows(batch), self.reader.rules)
        self._used[merge.used_keys] = True
        self._met[merge.met_keys] = True
        return merge

    def _merge(self, batch: pa.RecordBatch, merge: BaseMerge, merged: MergedLog) -> Iterator[pa.RecordBatch]:
        """The rows of a base batch that stay, then those that are combined with the log."""
        self.kept += int(np.count_nonzero(merge.keep)) + int(np.count_nonzero(merge.newer))
        kept = batch if merge.keep.all() else batch.filter(from_numpy(merge.keep))
        if kept.num_rows:
            yield kept
        if len(merge.combined):
            rows = pa.Table.from_batches([batch.take(from_numpy(merge.combined))])
            combined = combine(merged, with_plain_texts(rows), merge, self.reader.rules)
            combined = conform_to_table(combined, self.target).combine_chunks()
            yield from self._of_log(combined.to_batches())

    def _filled(self, table: pa.Table) -> pa.Table:
        return self.reader.filled(table, self.paths.partition, self.target)
