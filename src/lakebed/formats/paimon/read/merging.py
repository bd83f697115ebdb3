"""The rows of overlapping files of one bucket, merged by key: a piece of the key range at a time.

Rules: Paimon's MergeTreeReaders and SortMergeReader. Files of one level above 0 are one sorted run. Memory holds a
batch of each run; files of few rows are read whole, so that few files are open at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import SEQUENCE_NUMBER, DataType
from lakebed.formats.paimon.merge import key_runs, merge_function, sort_order
from lakebed.formats.paimon.merge.lookup import Lookup, counting, kept_runs
from lakebed.formats.paimon.merge.sorted_runs import merge_sorted
from lakebed.formats.paimon.options import split_names
from lakebed.kernel.arrays import Int64s, from_numpy, to_numpy
from lakebed.kernel.options import Options

_WHOLE_ROWS = 64 << 10
"""A file of at most so many rows is read whole."""
_MOST_OPEN = 64
"""As many files may be open at once; where a section needs more, all are read whole."""
_MOST_RUNS = 16
"""More runs than these in memory are sorted into one before the merge."""
_LEVEL = "_LEVEL"
"""A column that says at which level a row's file is."""

OpenFile = Callable[[DataFileMeta], Iterator[pa.RecordBatch]]
"""The live rows of a file: sequence number, kind and the columns that the merge needs."""


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

    def merged(self, section: Sequence[DataFileMeta], open_file: OpenFile) -> Iterator[tuple[pa.Table, Int64s]]:
        """Rows and the positions of those that win, in key order, deletes included. Each piece has all rows of its
        keys, and keys ascend from piece to piece."""
        keys = self.schema.trimmed_primary_keys
        pieces = (
            self._at_once(section, open_file)
            if any(field.type.root in ("FLOAT", "DOUBLE") for field in self.schema.project(keys))
            else merge_sorted(self._runs(section, open_file), keys)
        )
        for rows in pieces:
            yield self._winners(rows)

    @property
    def _sequence_fields(self) -> tuple[str, ...]:
        return tuple(split_names(self.options[opt.SEQUENCE_FIELD]))

    def _winners(self, rows: pa.Table) -> tuple[pa.Table, Int64s]:
        descending = self.options[opt.SEQUENCE_ORDER] == "descending"
        sequence = [(rows.column(name).chunk(0), descending) for name in self._sequence_fields]
        sequence.append((rows.column(SEQUENCE_NUMBER).chunk(0), False))
        key_columns = [rows.column(name).chunk(0) for name in self.schema.trimmed_primary_keys]
        order = sort_order(key_columns, sequence)
        sorted_places = from_numpy(order)
        runs = key_runs([column.take(sorted_places) for column in key_columns])
        if Lookup.of(self.options).merges_once:
            counted = counting(to_numpy(rows.column(_LEVEL))[order], runs)
            order, runs = order[counted], kept_runs(counted, runs)[1]
            sorted_places = from_numpy(order)
            rows = rows.drop_columns([_LEVEL])
        if self.options[opt.MERGE_ENGINE] == "deduplicate":
            return rows, order[runs.last]
        engine = merge_function(self.schema, self.options)
        rows = engine.merge(rows.take(sorted_places).combine_chunks(), runs).combine_chunks()
        return rows, np.arange(len(rows))

    # ---- sorted runs ----

    def _at_once(self, section: Sequence[DataFileMeta], open_file: OpenFile) -> Iterator[pa.Table]:
        """All rows as one piece: where keys may be NaN, which Paimon takes for equal to every number, files are not
        sorted reliably."""
        batches = [batch for file in _oldest_first(section) for batch in self._batches(file, open_file)]
        if any(map(len, batches)):
            yield pa.Table.from_batches(batches).combine_chunks()

    def _runs(self, section: Sequence[DataFileMeta], open_file: OpenFile) -> list[Iterator[pa.RecordBatch]]:
        """Sorted runs, the oldest first, those in memory last."""
        whole: list[DataFileMeta] = []
        streamed: list[list[DataFileMeta]] = []
        for chain_of_files in self._chains(section):
            if sum(file.row_count for file in chain_of_files) <= _WHOLE_ROWS:
                whole += chain_of_files
            else:
                streamed.append(chain_of_files)
        if len(streamed) > _MOST_OPEN:
            whole, streamed = [*_oldest_first(section)], []
        runs = [
            chain.from_iterable(map(partial(self._batches, open_file=open_file), chain_of_files))
            for chain_of_files in streamed
        ]
        held = [[*self._batches(file, open_file)] for file in whole]
        if len(held) > _MOST_RUNS:
            held = [self._sorted([batch for batches in held for batch in batches])]
        return [*runs, *map(iter, held)]

    def _sorted(self, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
        rows = pa.Table.from_batches(batches).combine_chunks()
        if not len(rows):
            return []
        order = sort_order([rows.column(name).chunk(0) for name in self.schema.trimmed_primary_keys])
        return list(rows.take(from_numpy(order)).combine_chunks().to_batches())

    def _chains(self, section: Sequence[DataFileMeta]) -> list[list[DataFileMeta]]:
        """Files that follow each other in key order, as the levels above 0 have them; each other file alone."""
        types = [field.type for field in self.schema.project(self.schema.trimmed_primary_keys)]
        chains = [[file] for file in _oldest_first(section) if file.level == 0]
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


def _oldest_first(files: Sequence[DataFileMeta]) -> list[DataFileMeta]:
    return sorted(files, key=lambda file: (-file.level, file.max_sequence_number))


def _low(file: DataFileMeta, types: Sequence[DataType]) -> tuple[Any, ...]:
    return decode_row(without_arity(file.min_key), types)
