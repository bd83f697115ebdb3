"""One file slice as rows: the five iterators of Hudi's `MergeOnReadInputFormat`, on Arrow batches.

Base file alone; log files alone; base rows as they are, then the log's, merged among themselves (skip_merge) or not
(skip_combine); base rows merged with the log's row of their key, then the log rows not yet used. The base file streams
through batch by batch; the log of the slice is held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.internal_schema import NO_HISTORY, Renames, SchemaHistory
from lakebed.formats.hudi.codec.log import BlockKind
from lakebed.formats.hudi.codec.record_keys import KeyForm, row_keys
from lakebed.formats.hudi.layout import META_COLUMNS, parse_base_name
from lakebed.formats.hudi.merge.log import BaseMerge, MergedLog, came_back, log_rows, merge_base, merge_log, overlaid
from lakebed.formats.hudi.merge.rules import MergeRules
from lakebed.formats.hudi.read.files import base_batches, fitted, row_groups
from lakebed.formats.hudi.read.log_blocks import LogReader, deleting, scan_logs
from lakebed.formats.hudi.read.partitions import PartitionColumns
from lakebed.formats.hudi.read.split import SlicePaths
from lakebed.formats.hudi.read.unmerged import rows_as_they_stand, with_operation
from lakebed.formats.hudi.timeline.active import Blocks
from lakebed.kernel.arrays import Bools
from lakebed.kernel.files import Store
from lakebed.kernel.scratch import Scratch

_MEMORY = Scratch()
_LEAST_BATCH_ROWS = 1 << 17
_MOST_BATCH_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class SliceReader:
    """How the slices of one table are read. Picklable.

    `table_schema` gives every column its type; `keys` are the columns that make the record key, whose text has the form
    `key_form` where no meta column holds it. `merge` false is skip_merge, with `combine`
    false skip_combine.
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
        """The columns to decode for some that are asked for: in a merge the key and ordering columns too, added at the
        end."""
        needed = [*columns, *((*self.keys, *self.rules.ordering) if merging else ()), self.rules.marker_column]
        names = [name for name in dict.fromkeys(needed) if name in self.table_schema.names]
        return pa.schema([self.table_schema.field(name) for name in names])

    def open(
        self,
        paths: SlicePaths,
        columns: tuple[str, ...],
        prune: pc.Expression | None = None,
        narrow: pc.Expression | None = None,
        instants: frozenset[str] | None = None,
    ) -> MergedSlice:
        """The slice, its log read.

        `prune` may leave out base rows for which it is certainly false where that cannot change the merge of others.
        `narrow` too, where it can: such base rows are still held against the log, by their keys and ordering values
        alone.
        """
        self._check_bootstrap(paths, self.target(columns, self.merge and bool(paths.logs)))
        if not paths.logs:
            return MergedSlice(self, paths, self.target(columns, False), None, _both(prune, narrow))
        scanned = scan_logs(self.store, paths.logs, replace(self.blocks, until=paths.until))
        if not scanned.blocks:
            return MergedSlice(self, paths, self.target(columns, False), None, _both(prune, narrow))
        if not self.combine:
            return self._open_unmerged(paths, columns)
        target = self.target(columns, True)
        decoding = LogReader(target, self.keys, self.rules, self.scratch, instants, self.schemas, self.key_form)
        entries = decoding.entries(scanned.blocks)
        return MergedSlice(self, paths, target, merge_log(entries, self.rules), prune, narrow)

    def _check_bootstrap(self, paths: SlicePaths, target: pa.Schema) -> None:
        """Raise UnsupportedError for columns that the skeleton of a bootstrap leaves in its source file."""
        if not paths.is_skeleton:
            return
        absent = next((name for name in target.names if name not in META_COLUMNS), "")
        if absent:
            raise UnsupportedError(
                f"column {absent!r} stands in a bootstrap source file, which lakebed does not read",
                table=self.store.location,
                file=paths.base,
                why="the file group was bootstrapped as METADATA_ONLY and not rewritten since: its base file holds the "
                "meta columns alone",
                todo="Rewrite those file groups with Hudi's own engine (an upsert of copy-on-write, a compaction, a "
                "clustering), or bootstrap as FULL_RECORD",
            )

    def merged_log(self, paths: SlicePaths) -> MergedLog:
        """What the slice's log makes of its versions, before it meets the base file."""
        scanned = scan_logs(self.store, paths.logs, replace(self.blocks, until=paths.until))
        target = self.target(("_hoodie_commit_time",), True)
        decoding = LogReader(target, self.keys, self.rules, self.scratch, None, self.schemas, self.key_form)
        return merge_log(decoding.entries(scanned.blocks), self.rules)

    def came_back(self, batch: pa.RecordBatch, earlier: Sequence[MergedLog]) -> Bools:
        """Which rows of a later state the logs of earlier slices had hidden; see `merge.came_back`."""
        keys = row_keys(batch, self.keys).combine_chunks()
        ordering = [batch.column(name) for name in self.rules.ordering]
        back = np.zeros(batch.num_rows, bool)
        for merged in earlier:
            back |= came_back(merged, keys, batch.column("_hoodie_commit_time"), ordering, self.rules)
        return back

    def _open_unmerged(self, paths: SlicePaths, columns: tuple[str, ...]) -> MergedSlice:
        """Every data row of the log as it stands: all that can be had of a table whose rules are not known."""
        target = self.target(columns, False)
        scanned = scan_logs(self.store, paths.logs, replace(self.blocks, until=paths.until))
        data = [block for block in scanned.blocks if block.kind is not BlockKind.DELETE]
        wide = with_operation(self.target(columns, True))
        rules = MergeRules() if self.rules.refused else self.rules
        decoding = LogReader(wide, self.keys, rules, self.scratch, None, self.schemas, self.key_form)
        rows = rows_as_they_stand(decoding.entries(data)).select(target.names)
        return MergedSlice(self, paths, target, None, None, None, rows)

    def filled(self, table: pa.Table, partition: str, target: pa.Schema) -> pa.Table:
        """Log rows in the columns of `target`; partition columns that files leave out come from the path."""
        constants = self.partitions.constants(partition, target)
        if constants:
            table = table.drop_columns([name for name in constants if name in table.column_names])
        return fitted(table, target, constants)


@dataclass
class MergedSlice:
    """A slice being read. `rows` gives its live rows with the columns of `target`; once they are taken, `deleted` tells
    the deletes that stand."""

    reader: SliceReader
    paths: SlicePaths
    target: pa.Schema
    merged: MergedLog | None
    prune: pc.Expression | None
    narrow: pc.Expression | None = None
    unmerged: pa.Table | None = None
    _taken: Bools = field(default_factory=lambda: np.zeros(0, bool))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Live rows: those of the base file in its order, then those of the log."""
        groups, others = self._row_groups()
        if self.merged is None:
            yield from self._plain(self._base(self.target, groups, _LEAST_BATCH_ROWS))
            if self.unmerged is not None:
                yield from self._filled(self.unmerged).to_batches()
            return
        merged = self.merged
        self._taken = np.zeros(merged.count, bool)
        size = min(max(merged.count, _LEAST_BATCH_ROWS), _MOST_BATCH_ROWS)
        for batch in self._plain(self._base(self.target, groups, size)):
            if self.reader.merge:
                yield from self._merge(batch, merged)
            else:
                yield batch
        if self.reader.merge and self.reader.rules.ordering:
            for batch in self._plain(self._base(self.reader.target((), True), others, size)):
                self._held_against(batch, merged)
        places = np.flatnonzero(~merged.gone & ~self._taken)
        if len(places):
            yield from self._filled(log_rows(merged, places, self.target.names)).to_batches()

    def deleted(self) -> tuple[pa.Array, pa.Array, tuple[pa.Array, ...]]:
        """Keys whose newest version is a delete that a log holds, the instants of those deletes, and their ordering
        values; call it after `rows`."""
        if self.merged is None:
            return pa.array([], pa.string()), pa.array([], pa.string()), ()
        merged, entries = self.merged, self.merged.entries
        places = np.flatnonzero(merged.gone & ~self._taken)
        winners = merged.winner[places]
        n_rows = len(entries.row_at)
        instants = pa.concat_arrays([self._row_instants(), entries.delete_instants]).take(pa.array(winners))
        lowest = np.zeros(len(winners), bool)
        in_delete = winners >= n_rows
        lowest[in_delete] = entries.natural[winners[in_delete] - n_rows]
        ordering = tuple(column.take(pa.array(winners, mask=lowest)) for column in entries.ordering)
        return merged.keys.take(pa.array(places)), instants, ordering

    def _row_instants(self) -> pa.Array:
        assert self.merged is not None
        rows = self.merged.entries.rows
        if "_hoodie_commit_time" not in rows.column_names:
            return pa.nulls(rows.num_rows, pa.string())
        found = rows.column("_hoodie_commit_time").combine_chunks()
        return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)

    def _row_groups(self) -> tuple[list[int] | None, list[int]]:
        """The row groups to read, None for all, and those of which keys and ordering values are enough."""
        if not self.paths.base:
            return [], []
        groups: list[int] | None = None
        if self.prune is not None and not self._renames():
            groups, _ = row_groups(self.reader.store, self.paths.base, self.prune, self.reader.schemas.units)
        if self.merged is None or self.narrow is None or self.merged.sources or self.reader.rules.fills:
            return groups, []
        kept, others = row_groups(self.reader.store, self.paths.base, self.narrow, self.reader.schemas.units)
        others = self._that_could_win(self.merged, others)
        if groups is None:
            return kept, others
        return [group for group in kept if group in groups], [group for group in others if group in groups]

    def _renames(self) -> Renames:
        parsed = parse_base_name(self.paths.base.rpartition("/")[2])
        return self.reader.schemas.renames(parsed[1].instant) if parsed else {}

    def _that_could_win(self, merged: MergedLog, groups: list[int]) -> list[int]:
        """The row groups whose statistics do not rule out that a base row beats one of the log."""
        ordering = self.reader.rules.ordering
        open_winners = pa.array(merged.winner[~merged.final])
        if not groups or not ordering or not len(open_winners):
            return []
        if self._renames():
            return groups
        first = merged.entries.ordering[0].take(open_winners)
        if first.null_count or pa.types.is_floating(first.type) or self.reader.rules.sequences:
            return groups
        least, column = pc.min(first), pc.field(ordering[0])
        could = column > least if len(ordering) == 1 else column >= least
        kept, _ = row_groups(self.reader.store, self.paths.base, could, self.reader.schemas.units)
        return [group for group in groups if group in kept]

    def _base(self, target: pa.Schema, groups: list[int] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if self.paths.base:
            constants = self.reader.partitions.constants(self.paths.partition, target)
            yield from base_batches(
                self.reader.store,
                self.paths.base,
                target,
                groups,
                constants,
                self._renames(),
                batch_rows,
                self.reader.schemas.units,
            )

    def _plain(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Base rows, less those that say of themselves that they are deletes."""
        for batch in batches:
            gone = deleting(batch, self.reader.rules) if self.reader.rules.marker_column else None
            yield batch if gone is None else batch.filter(pa.array(~gone))

    def _held_against(self, batch: pa.RecordBatch, merged: MergedLog) -> BaseMerge:
        """What becomes of base rows; the log's rows of keys that lose or are merged into one are marked as taken."""
        keys = row_keys(batch, self.reader.keys).combine_chunks()
        ordering = [batch.column(name) for name in self.reader.rules.ordering]
        found = merge_base(merged, keys, ordering, self.reader.rules)
        self._taken[found.taken] = True
        return found

    def _merge(self, batch: pa.RecordBatch, merged: MergedLog) -> Iterator[pa.RecordBatch]:
        found = self._held_against(batch, merged)
        kept = batch if found.keep.all() else batch.filter(pa.array(found.keep))
        if kept.num_rows:
            yield kept
        if len(found.updated):
            rules, rows = self.reader.rules, pa.array(found.updated)
            base = pa.Table.from_batches([batch.take(rows)])
            ordering = [batch.column(name).take(rows) for name in rules.ordering]
            yield from overlaid(merged, base, found, ordering, rules).combine_chunks().to_batches()

    def _filled(self, table: pa.Table) -> pa.Table:
        return self.reader.filled(table, self.paths.partition, self.target)


def _both(one: pc.Expression | None, other: pc.Expression | None) -> pc.Expression | None:
    return one & other if one is not None and other is not None else one if other is None else other
