"""The rows of overlapping files of one bucket, merged by key: a piece of the key range at a time.

Rules: Paimon's MergeTreeReaders and SortMergeReader. Files of one level above 0 are one sorted run. Memory holds a
batch of each run; files of few rows are read whole, so that few files are open at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import lt
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import SEQUENCE_NUMBER, DataType
from lakebed.formats.paimon.merge import Runs, key_runs, merge_function, sort_order
from lakebed.formats.paimon.merge.lookup import Lookup, counting, kept_runs
from lakebed.formats.paimon.merge.sorted_runs import key_ranges, oldest_first
from lakebed.formats.paimon.options import split_names
from lakebed.kernel.arrays import Bools, Int64s, from_numpy, one_chunk, to_numpy
from lakebed.kernel.options import Options

_WHOLE_ROWS = 64 << 10
"""A file of at most so many rows is read whole."""
_MOST_OPEN = 64
"""As many files may be open at once; where a section needs more, all are read whole."""
_MOST_RUNS = 16
"""More runs than these in memory are sorted into one before the merge."""
_FEW_ROWS = 16 << 10
"""Runs with fewer rows than these in a piece are returned together, and in key order where all are so short."""
_LEVEL = "_LEVEL"
"""A column that says at which level a row's file is."""

OpenFile = Callable[[DataFileMeta], Iterator[pa.RecordBatch]]
"""The live rows of a file: sequence number (unless the section is ordered), kind, and the other columns needed."""


@dataclass(frozen=True, slots=True)
class SectionMerge:
    """Merges the files of one section of a table with a primary key."""

    schema: TableSchema
    options: Options

    def needs(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns that the merge must read to return `columns`, in the table's order."""
        wanted = merge_function(self.schema, self.options).needs({*columns})
        wanted |= {*self.schema.trimmed_primary_keys, *self._sequence_fields}
        return tuple(name for name in self.schema.names if name in wanted)

    def is_ordered(self, section: Sequence[DataFileMeta]) -> bool:
        """Whether the order of the sorted runs tells which row of a key is the newest, so that `merged` does without
        sequence numbers: by what manifests say, those of each run are greater than those of all older ones."""
        if self.options[opt.MERGE_ENGINE] != "deduplicate" or self._has_float_keys:
            return False
        chains = self._chains(section)
        lows = [min(file.min_sequence_number for file in files) for files in chains]
        highs = [max(file.max_sequence_number for file in files) for files in chains]
        return len(chains) <= _MOST_RUNS and all(map(lt, highs, lows[1:]))

    def merged(self, section: Sequence[DataFileMeta], open_file: OpenFile) -> Iterator[tuple[pa.Table, Int64s]]:
        """Rows, and the positions of those that win, deletes included: all in all one row per key. Keys come in ranges
        that ascend, but within a range in any order."""
        keys = self.schema.trimmed_primary_keys
        at_once = self._has_float_keys
        pieces = self._at_once(section, open_file) if at_once else key_ranges(self._runs(section, open_file), keys)
        for rows_of_runs in pieces:
            if self.options[opt.MERGE_ENGINE] == "deduplicate":
                yield from self._winners(rows_of_runs)
            else:
                yield self._folded(pa.concat_tables(rows_of_runs).combine_chunks())

    @property
    def _has_float_keys(self) -> bool:
        keys = self.schema.project(self.schema.trimmed_primary_keys)
        return any(field.type.root in ("FLOAT", "DOUBLE") for field in keys)

    @property
    def _sequence_fields(self) -> tuple[str, ...]:
        return tuple(split_names(self.options[opt.SEQUENCE_FIELD]))

    def _winners(self, rows_of_runs: Sequence[pa.Table]) -> Iterator[tuple[pa.Table, Int64s]]:
        """The rows of each run with those that win. Only columns that decide are looked at, and no row is moved but
        those of a piece of short runs, which come in key order."""
        deciding = [*self.schema.trimmed_primary_keys, *self._sequence_fields, SEQUENCE_NUMBER, _LEVEL]
        names = [name for name in rows_of_runs[0].column_names if name in deciding]
        order, runs = self._order(pa.concat_tables([rows.select(names) for rows in rows_of_runs]).combine_chunks())
        if all(len(rows) < _FEW_ROWS for rows in rows_of_runs):
            winners = pa.concat_tables(rows_of_runs).take(from_numpy(order[runs.last])).combine_chunks()
            yield winners, np.arange(len(winners))
            return
        wins: Bools = np.zeros(sum(map(len, rows_of_runs)), np.bool_)
        wins[order[runs.last]] = True
        few: list[tuple[pa.Table, Bools]] = []
        start = 0
        for rows in rows_of_runs:
            wins_here = wins[start : start + len(rows)]
            start += len(rows)
            if len(rows) < _FEW_ROWS:
                few.append((rows, wins_here))
            else:
                yield rows.combine_chunks(), np.flatnonzero(wins_here)
        if few:
            together = pa.concat_tables([rows for rows, _ in few]).combine_chunks()
            yield together, np.flatnonzero(np.concatenate([wins_here for _, wins_here in few]))

    def _folded(self, rows: pa.Table) -> tuple[pa.Table, Int64s]:
        """The rows of each key merged into one."""
        order, runs = self._order(rows)
        if _LEVEL in rows.column_names:
            rows = rows.drop_columns([_LEVEL])
        engine = merge_function(self.schema, self.options)
        rows = engine.merge(rows.take(from_numpy(order)).combine_chunks(), runs).combine_chunks()
        return rows, np.arange(len(rows))

    def _order(self, rows: pa.Table) -> tuple[Int64s, Runs]:
        """The positions of the rows that count, in merge order, and the run of each key."""
        descending = self.options[opt.SEQUENCE_ORDER] == "descending"
        sequence = [(one_chunk(rows.column(name)), descending) for name in self._sequence_fields]
        if SEQUENCE_NUMBER in rows.column_names:
            sequence.append((one_chunk(rows.column(SEQUENCE_NUMBER)), False))
        key_columns = [one_chunk(rows.column(name)) for name in self.schema.trimmed_primary_keys]
        order = sort_order(key_columns, sequence)
        sorted_places = from_numpy(order)
        runs = key_runs([column.take(sorted_places) for column in key_columns])
        if not Lookup.of(self.options).merges_once:
            return order, runs
        counted = counting(to_numpy(rows.column(_LEVEL))[order], runs)
        return order[counted], kept_runs(counted, runs)[1]

    # ---- sorted runs ----

    def _at_once(self, section: Sequence[DataFileMeta], open_file: OpenFile) -> Iterator[list[pa.Table]]:
        """All rows as one piece: where keys may be NaN, which Paimon takes for equal to every number, files are not
        sorted reliably."""
        batches = [batch for file in oldest_first(section) for batch in self._batches(file, open_file)]
        if any(map(len, batches)):
            yield [pa.Table.from_batches(batches)]

    def _runs(self, section: Sequence[DataFileMeta], open_file: OpenFile) -> list[Iterator[pa.RecordBatch]]:
        """Sorted runs, the oldest first. Where many are in memory, these are one, which comes last."""
        chains = self._chains(section)
        streams = [sum(file.row_count for file in files) > _WHOLE_ROWS for files in chains]
        if sum(streams) > _MOST_OPEN:
            chains, streams = [[file] for file in oldest_first(section)], [False] * len(section)
        batches = partial(self._batches, open_file=open_file)
        opened: list[Iterator[pa.RecordBatch]] = [chain.from_iterable(map(batches, files)) for files in chains]
        runs = [run if streamed else iter([*run]) for run, streamed in zip(opened, streams, strict=True)]
        if streams.count(False) <= _MOST_RUNS:
            return runs
        held = [batch for run, streamed in zip(runs, streams, strict=True) if not streamed for batch in run]
        return [*(run for run, streamed in zip(runs, streams, strict=True) if streamed), iter(self._sorted(held))]

    def _sorted(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        rows = pa.Table.from_batches(batches).combine_chunks()
        if not len(rows):
            return []
        order = sort_order([rows.column(name).chunk(0) for name in self.schema.trimmed_primary_keys])
        return list(rows.take(from_numpy(order)).combine_chunks().to_batches())

    def _chains(self, section: Sequence[DataFileMeta]) -> list[list[DataFileMeta]]:
        """Files that follow each other in key order, as the levels above 0 have them; each other file alone. The oldest
        come first."""
        types = [field.type for field in self.schema.project(self.schema.trimmed_primary_keys)]
        chains = [[file] for file in oldest_first(section) if file.level == 0]
        above: list[list[DataFileMeta]] = []
        reached: tuple[Any, ...] = ()
        levels = [file for file in section if file.level > 0]
        for file in sorted(levels, key=lambda file: (-file.level, _low(file, types))):
            if above and above[-1][0].level == file.level and reached < _low(file, types):
                above[-1].append(file)
            else:
                above.append([file])
            reached = decode_row(without_arity(file.max_key), types)
        return [*above, *chains]

    def _batches(self, file: DataFileMeta, open_file: OpenFile) -> Iterator[pa.RecordBatch]:
        batches = open_file(file)
        if not Lookup.of(self.options).merges_once:
            return batches
        return (batch.append_column(_LEVEL, from_numpy(np.full(len(batch), file.level, np.int8))) for batch in batches)


def _low(file: DataFileMeta, types: Sequence[DataType]) -> tuple[Any, ...]:
    return decode_row(without_arity(file.min_key), types)
