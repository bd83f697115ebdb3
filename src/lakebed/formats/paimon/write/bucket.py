"""The rows of one bucket on their way into files: sorted by key, merged, numbered, written, described.

Rules: Paimon's MergeTreeWriter (tables with a primary key), AppendOnlyWriter (tables without) and
PostponeBucketWriter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon.codec.avro_columns import can_hold
from lakebed.formats.paimon.codec.file_schema import KIND_FIELD, SEQUENCE_FIELD, file_fields, file_schema
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import SEQUENCE_NUMBER, arrow_schema, file_field
from lakebed.formats.paimon.file_indexes import FileIndexRules
from lakebed.formats.paimon.layout import NameFactory
from lakebed.formats.paimon.merge import Runs, key_runs, merge_function, sort_order
from lakebed.formats.paimon.merge.sorted_runs import merge_sorted
from lakebed.formats.paimon.write.files import FileTarget, RollingWriter, WrittenFile
from lakebed.formats.paimon.write.options import WriteOptions
from lakebed.formats.paimon.write.statistics.file_meta import Describer, Part, file_meta
from lakebed.formats.paimon.write.statistics.modes import StatsModes, StatsRules
from lakebed.kernel.arrays import Int8s, Int64s, from_numpy
from lakebed.kernel.files import Store

SEQUENCE_COLUMN, KIND_COLUMN = file_field(SEQUENCE_FIELD), file_field(KIND_FIELD)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Rows of one bucket in order of arrival: those at `indices` of `rows`, which are in the table's columns and types.

    `sequence` is the sequence number of the first, `kinds` the kind of each row of `rows` (None: all +I), `repeats` the
    columns worth a dictionary.
    """

    rows: pa.Table
    indices: Int64s
    kinds: Int8s | None
    sequence: int
    repeats: Collection[str] | None = None

    def kinds_at(self, indices: Int64s) -> Int8s:
        """The kinds of the rows at these indices."""
        return np.zeros(len(indices), np.int8) if self.kinds is None else self.kinds[indices]


@dataclass(frozen=True, slots=True)
class BucketOutput:
    """The files that a bucket got: level-0 data files, and changelog files with every row as it came."""

    files: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()


Writer = RollingWriter[Part]


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """Writes files of one table's buckets. Picklable."""

    store: Store
    schema: TableSchema
    options: WriteOptions

    @property
    def sorts(self) -> bool:
        """Whether rows are sorted by key and merged; else files hold them in order of arrival."""
        return bool(self.schema.primary_keys) and not self.options.postpones

    @property
    def keeps_changes(self) -> bool:
        """Whether every row is also written as it came, into changelog files."""
        return self.sorts and self.options.input_changelog

    def write(self, folder: str, arrivals: Arrivals, names: NameFactory) -> BucketOutput:
        """Write rows of a bucket that sorts: merged into data files, and all of them into changelog files."""
        order, keys = self._order(arrivals)
        files = self._written(folder, names, [self._merged(arrivals, order, keys)], repeats=arrivals.repeats)
        if not self.keeps_changes:
            return BucketOutput(files)
        try:
            rows = self._sorted(arrivals, order)
            return BucketOutput(files, self._written(folder, names, [rows], True, arrivals.repeats))
        except BaseException:
            self.store.delete_many([f"{folder}/{name}" for file in files for name in file.names])
            raise

    def sorted_run(self, arrivals: Arrivals) -> pa.Table:
        """The rows sorted by key but not merged, with sequence numbers and kinds: a run that `write_runs` takes."""
        return self._sorted(arrivals, self._order(arrivals)[0])

    def write_runs(self, folder: str, runs: Sequence[Iterator[pa.RecordBatch]], names: NameFactory) -> BucketOutput:
        """As `write`, for sorted runs, oldest first. Memory holds a batch of each run and the row group under way."""
        files = self.writer(folder, names, gathers=True)
        changes = self.writer(folder, names, changelog=self.keeps_changes, gathers=True)
        try:
            for piece in merge_sorted(runs, self.schema.trimmed_primary_keys):
                order, bounds = self.piece_order(piece)
                if self.keeps_changes:
                    changes.write(self.file_table(_taken(piece, order)))
                files.write(self.file_table(self._fold(piece, order, bounds)))
            return BucketOutput(self.metas(files.close()), self.metas(changes.close(), self.keeps_changes))
        except BaseException:
            self.store.delete_many([*files.abort(), *changes.abort()])
            raise

    def write_merged(
        self, folder: str, runs: Sequence[Iterator[pa.RecordBatch]], names: NameFactory
    ) -> tuple[DataFileMeta, ...]:
        """The data files of `write_runs`, without changelog."""
        pieces = merge_sorted(runs, self.schema.trimmed_primary_keys)
        return self._written(folder, names, (self._fold(piece, *self.piece_order(piece)) for piece in pieces))

    def write_changes(
        self, folder: str, runs: Sequence[Iterator[pa.RecordBatch]], names: NameFactory
    ) -> tuple[DataFileMeta, ...]:
        """The changelog files of `write_runs`."""
        return self._written(folder, names, self.joined(runs), True)

    def joined(self, runs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.Table]:
        """Sorted runs as one, nothing merged."""
        for piece in merge_sorted(runs, self.schema.trimmed_primary_keys):
            yield _taken(piece, self.piece_order(piece)[0])

    def writer(
        self,
        folder: str,
        names: NameFactory,
        *,
        changelog: bool = False,
        sequence: int = 0,
        repeats: Collection[str] | None = None,
        rolls: bool = True,
        gathers: bool = False,
    ) -> Writer:
        """A writer of the bucket's files. `sequence` is the sequence number of the first row, for tables without a key.
        `rolls` false: one file takes all rows. `gathers`: rows of several calls make one row group."""
        options, file_format = self.options, self.options.format
        if options.postpones and can_hold(file_schema(file_fields(self.schema, options.thin_mode))):
            file_format = replace(file_format, name="avro")  # whatever the table's format, as the reference's writer
        stats = options.stats
        if changelog:
            names, file_format, stats = (
                names.under(options.changelog_prefix),
                options.changelog_format,
                options.changelog_stats,
            )
        indexes = FileIndexRules() if changelog or options.postpones else options.indexes
        modes = self._modes(stats, file_format.name == "avro")
        describe = Describer(self.schema, modes, file_format.name == "parquet", sequence)
        return RollingWriter(
            FileTarget(self.store, folder, file_format, names, rolls, indexes), describe, repeats, gathers
        )

    def arrived(self, arrivals: Arrivals) -> pa.Table:
        """The rows as they are written where nothing is sorted."""
        values = arrivals.rows.take(from_numpy(arrivals.indices))
        if not self.schema.primary_keys:
            return self.file_rows(values)
        unnumbered = np.full(len(values), -1, np.int64)  # the compaction that gives them buckets numbers them
        return self.file_table(_with_system(values, unnumbered, arrivals.kinds_at(arrivals.indices)))

    def file_rows(self, values: pa.Table) -> pa.Table:
        """Rows of a table without a key as the columns of a data file."""
        return pa.Table.from_arrays(values.columns, schema=file_schema(file_fields(self.schema)))

    def metas(self, files: Sequence[WrittenFile[Part]], changelog: bool = False) -> tuple[DataFileMeta, ...]:
        """Files as manifests name them."""
        numbered = bool(self.schema.primary_keys) or self.options.buckets >= 0
        rules = self.options.changelog_stats if changelog else self.options.stats
        modes = {avro: self._modes(rules, avro) for avro in (False, True)}
        return tuple(file_meta(file, self.schema, modes[file.name.endswith(".avro")], numbered) for file in files)

    def _modes(self, rules: StatsRules, avro: bool) -> StatsModes:
        return rules.modes(self.schema, avro, self.options.thin_mode and bool(self.schema.primary_keys))

    def _written(
        self,
        folder: str,
        names: NameFactory,
        pieces: Iterable[pa.Table],
        changelog: bool = False,
        repeats: Collection[str] | None = None,
    ) -> tuple[DataFileMeta, ...]:
        writer = self.writer(folder, names, changelog=changelog, repeats=repeats, gathers=True)
        try:
            for piece in pieces:
                writer.write(self.file_table(piece))
            return self.metas(writer.close(), changelog)
        except BaseException:
            self.store.delete_many(writer.abort())
            raise

    # ---- order and merge ----

    def _order(self, arrivals: Arrivals) -> tuple[Int64s, list[pa.Array]]:
        """Positions in `indices` in the order of keys, sequence fields and arrival; and the key columns at
        `indices`."""
        rows, indices = arrivals.rows, arrivals.indices
        at = None if len(indices) == len(rows) else from_numpy(indices)

        def column(name: str) -> pa.Array:
            whole = rows.column(name).chunk(0)
            return whole if at is None else whole.take(at)

        keys = [column(name) for name in self.schema.trimmed_primary_keys]
        return sort_order(keys, [(column(name), down) for name, down in self.options.sequence_fields]), keys

    def piece_order(self, piece: pa.Table) -> tuple[Int64s, Runs]:
        """The order of rows that have sequence numbers, and the run of each key in it."""
        keys = [piece.column(name).chunk(0) for name in self.schema.trimmed_primary_keys]
        then = [(piece.column(name).chunk(0), down) for name, down in self.options.sequence_fields]
        order = sort_order(keys, [*then, (piece.column(SEQUENCE_NUMBER).chunk(0), False)])
        at = from_numpy(order)
        return order, key_runs([key.take(at) for key in keys])

    def _sorted(self, arrivals: Arrivals, order: Int64s) -> pa.Table:
        """The rows in an order, with sequence numbers and kinds."""
        indices = arrivals.indices[order]
        values = arrivals.rows.take(from_numpy(indices))
        return _with_system(values, arrivals.sequence + order, arrivals.kinds_at(indices))

    def _merged(self, arrivals: Arrivals, order: Int64s, keys: Sequence[pa.Array]) -> pa.Table:
        """One row per key, with sequence numbers and kinds."""
        at = from_numpy(order)
        runs = key_runs([key.take(at) for key in keys])
        if len(runs) == len(order):  # nothing to merge
            return self._sorted(arrivals, order)
        if self._deduplicates:  # the winner is known before any value is fetched
            return self._sorted(arrivals, order[runs.last])
        function = merge_function(self.schema, self.options.table)
        return function.merge(self._sorted(arrivals, order).combine_chunks(), runs).combine_chunks()

    def _fold(self, piece: pa.Table, order: Int64s, runs: Runs) -> pa.Table:
        """Merge a piece into one row per key."""
        if self._deduplicates:
            return _taken(piece, order if len(runs) == len(order) else order[runs.last])
        ordered = _taken(piece, order).combine_chunks()
        return merge_function(self.schema, self.options.table).merge(ordered, runs).combine_chunks()

    @property
    def _deduplicates(self) -> bool:
        return self.options.merge_engine == "deduplicate"

    def file_table(self, rows: pa.Table) -> pa.Table:
        """Rows with sequence numbers and kinds as the columns of a data file."""
        thin = self.options.thin_mode
        keys = [] if thin else [rows.column(name) for name in self.schema.trimmed_primary_keys]
        return pa.Table.from_arrays([*keys, *rows.columns], schema=file_schema(file_fields(self.schema, thin)))


def run_schema(schema: TableSchema) -> pa.Schema:
    """The columns of sorted runs: sequence number, kind, then the table's columns."""
    return arrow_schema([SEQUENCE_FIELD, KIND_FIELD, *schema.fields])


def _taken(rows: pa.Table, order: Int64s) -> pa.Table:
    """The rows in an order; the same table where the order changes nothing."""
    if len(order) == len(rows) and (order[1:] > order[:-1]).all():
        return rows
    return rows.take(from_numpy(order))


def _with_system(values: pa.Table, sequences: Int64s, kinds: Int8s) -> pa.Table:
    columns = [from_numpy(sequences), from_numpy(kinds), *values.columns]
    return pa.Table.from_arrays(columns, schema=pa.schema([SEQUENCE_COLUMN, KIND_COLUMN, *values.schema]))
