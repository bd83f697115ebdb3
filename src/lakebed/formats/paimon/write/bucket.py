"""The rows of one bucket on their way into files: sorted by key, merged, numbered, written, described.

Rules: Paimon's MergeTreeWriter (tables with a primary key), AppendOnlyWriter (tables without) and
PostponeBucketWriter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.avro_columns import can_hold
from lakebed.formats.paimon.codec.file_schema import KIND_FIELD, SEQUENCE_FIELD, file_fields, file_schema
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import SEQUENCE_NUMBER, arrow_schema, file_field
from lakebed.formats.paimon.layout import POSTPONE_BUCKET, NameFactory
from lakebed.formats.paimon.merge import Runs, key_runs, merge_function, sort_order
from lakebed.formats.paimon.merge.sorted_runs import merge_sorted
from lakebed.formats.paimon.options import split_names
from lakebed.formats.paimon.write.files import RollingWriter, WrittenFile
from lakebed.formats.paimon.write.formats import FileFormat
from lakebed.formats.paimon.write.statistics.columns import StatsMode
from lakebed.formats.paimon.write.statistics.file_meta import Describer, Part, file_meta
from lakebed.kernel.arrays import Int8s, Int64s
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options

SEQUENCE_COLUMN, KIND_COLUMN = file_field(SEQUENCE_FIELD), file_field(KIND_FIELD)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Rows of one bucket: those at `indices` of fitted `rows`, in order of arrival. `sequence` is the number of the
    first, `kinds` the kind of each row of `rows` (None: all +I), `repeats` the columns worth a dictionary."""

    rows: pa.Table
    indices: Int64s
    kinds: Int8s | None
    sequence: int
    repeats: Collection[str] | None = None

    def kinds_at(self, chosen: Int64s) -> Int8s:
        """The kinds of some rows."""
        return np.zeros(len(chosen), np.int8) if self.kinds is None else self.kinds[chosen]


Writer = RollingWriter[Part]


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """How buckets of one table are written. Made once a task."""

    store: Store
    schema: TableSchema
    options: Options

    @property
    def sorts(self) -> bool:
        """Whether rows are sorted by key and merged; else files have them in order of arrival."""
        return bool(self.schema.primary_keys) and not self._postpones

    @property
    def keeps_changes(self) -> bool:
        """Whether every row is also written as it came, into changelog files."""
        return self.sorts and bool(self.options[opt.CHANGELOG_PRODUCER] == "input")

    def write(
        self, folder: str, arrivals: Arrivals, names: NameFactory
    ) -> tuple[tuple[DataFileMeta, ...], tuple[DataFileMeta, ...]]:
        """Sorted buckets: new level-0 files of the rows, merged; and changelog files of them, not merged."""
        order, keys = self._order(arrivals)
        made = self._written(folder, names, [self._merged(arrivals, order, keys)], False, arrivals.repeats)
        if not self.keeps_changes:
            return made, ()
        try:
            every = self._sorted(arrivals, order)
            return made, self._written(folder, names, [every], True, arrivals.repeats)
        except BaseException:
            self.store.delete_many([f"{folder}/{file.file_name}" for file in made])
            raise

    def run(self, arrivals: Arrivals) -> pa.Table:
        """The rows sorted by key but not merged, with their numbers and kinds: what `write_runs` takes."""
        return self._sorted(arrivals, self._order(arrivals)[0])

    def write_runs(
        self, folder: str, runs: Sequence[Iterator[pa.RecordBatch]], names: NameFactory
    ) -> tuple[tuple[DataFileMeta, ...], tuple[DataFileMeta, ...]]:
        """As `write`, for sorted runs, oldest first. Holds a batch of each run in memory and the row group under
        way."""
        files, changes = self.writer(folder, names), self.writer(folder, names, changelog=self.keeps_changes)
        try:
            for piece in merge_sorted(runs, self.schema.trimmed_primary_keys):
                order, bounds = self._piece_order(piece)
                if self.keeps_changes:
                    changes.write(self._file_table(_taken(piece, order)))
                files.write(self._file_table(self._fold(piece, order, bounds)))
            return self.metas(files.close()), self.metas(changes.close())
        except BaseException:
            self.store.delete_many([*files.abort(), *changes.abort()])
            raise

    def write_merged(
        self, folder: str, runs: Sequence[Iterator[pa.RecordBatch]], names: NameFactory
    ) -> tuple[DataFileMeta, ...]:
        """Only the files of `write_runs`, without changelog."""
        pieces = merge_sorted(runs, self.schema.trimmed_primary_keys)
        return self._written(folder, names, (self._fold(piece, *self._piece_order(piece)) for piece in pieces), False)

    def joined(self, runs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.Table]:
        """Sorted runs as one, nothing merged."""
        for piece in merge_sorted(runs, self.schema.trimmed_primary_keys):
            yield _taken(piece, self._piece_order(piece)[0])

    def write_changes(
        self, folder: str, runs: Sequence[Iterator[pa.RecordBatch]], names: NameFactory
    ) -> tuple[DataFileMeta, ...]:
        """Changelog files of sorted runs, nothing merged."""
        return self._written(folder, names, self.joined(runs), True)

    def writer(
        self, folder: str, names: NameFactory, *, changelog: bool = False, sequence: int = 0,
        repeats: Collection[str] | None = None, rolls: bool = True,
    ) -> Writer:  # fmt: skip
        """A writer of the bucket's files. Of tables without a key `sequence` is the first row's number. `rolls` false:
        one file takes all rows."""
        how = FileFormat.of(self.options, bool(self.schema.primary_keys))
        if self._postpones and can_hold(file_schema(file_fields(self.schema, self.options[opt.THIN_MODE]))):
            how = replace(how, name="avro")  # whatever the table's format is, as the reference's writer does
        if changelog:
            names = names.under(self.options[opt.CHANGELOG_FILE_PREFIX])
        describe = Describer(self.schema, self._stats_mode, how.name == "parquet", sequence)
        return RollingWriter(self.store, folder, how, names, describe, repeats, rolls)

    def arrived(self, arrivals: Arrivals) -> pa.Table:
        """The rows as they are written where nothing is sorted."""
        values = arrivals.rows.take(pa.array(arrivals.indices))
        if not self.schema.primary_keys:
            return self.file_rows(values)
        unnumbered = np.full(len(values), -1, np.int64)  # the compaction that gives them buckets numbers them
        return self._file_table(_with_system(values, unnumbered, arrivals.kinds_at(arrivals.indices)))

    def file_rows(self, values: pa.Table) -> pa.Table:
        """Rows of a table without a key as the columns of a data file."""
        return pa.Table.from_arrays(values.columns, schema=file_schema(file_fields(self.schema)))

    def metas(self, files: Sequence[WrittenFile[Part]]) -> tuple[DataFileMeta, ...]:
        """Files as manifests name them."""
        numbered = bool(self.schema.primary_keys) or self.options[opt.BUCKET] >= 0
        return tuple(file_meta(file, self.schema, self._stats_mode, numbered) for file in files)

    @property
    def _postpones(self) -> bool:
        return bool(self.options[opt.BUCKET] == POSTPONE_BUCKET)

    @property
    def _stats_mode(self) -> StatsMode:
        return StatsMode.parse("none" if self._postpones else self.options[opt.STATS_MODE])

    def _written(
        self, folder: str, names: NameFactory, pieces: Sequence[pa.Table] | Iterator[pa.Table], changelog: bool,
        repeats: Collection[str] | None = None,
    ) -> tuple[DataFileMeta, ...]:  # fmt: skip
        writer = self.writer(folder, names, changelog=changelog, repeats=repeats)
        try:
            for piece in pieces:
                writer.write(self._file_table(piece))
            return self.metas(writer.close())
        except BaseException:
            self.store.delete_many(writer.abort())
            raise

    # ---- order and merge ----

    def _order(self, arrivals: Arrivals) -> tuple[Int64s, list[pa.Array]]:
        """Positions in `indices` in the order of keys, sequence fields and arrival; and the key columns at
        `indices`."""
        rows, indices = arrivals.rows, arrivals.indices
        picked = None if len(indices) == len(rows) else pa.array(indices)

        def column(name: str) -> pa.Array:
            whole = rows.column(name).chunk(0)
            return whole if picked is None else whole.take(picked)

        keys = [column(name) for name in self.schema.trimmed_primary_keys]
        return sort_order(keys, [(column(name), down) for name, down in self._sequence_fields]), keys

    @property
    def _sequence_fields(self) -> list[tuple[str, bool]]:
        down = self.options[opt.SEQUENCE_ORDER] == "descending"
        return [(name, down) for name in split_names(self.options[opt.SEQUENCE_FIELD])]

    def _piece_order(self, piece: pa.Table) -> tuple[Int64s, Runs]:
        """The order of rows that have their numbers, and the runs of each key in it."""
        keys = [piece.column(name).chunk(0) for name in self.schema.trimmed_primary_keys]
        then = [(piece.column(name).chunk(0), down) for name, down in self._sequence_fields]
        order = sort_order(keys, [*then, (piece.column(SEQUENCE_NUMBER).chunk(0), False)])
        at = pa.array(order)
        return order, key_runs([key.take(at) for key in keys])

    def _sorted(self, arrivals: Arrivals, order: Int64s) -> pa.Table:
        """The rows in an order, with numbers and kinds."""
        chosen = arrivals.indices[order]
        values = arrivals.rows.take(pa.array(chosen))
        return _with_system(values, arrivals.sequence + order, arrivals.kinds_at(chosen))

    def _merged(self, arrivals: Arrivals, order: Int64s, keys: Sequence[pa.Array]) -> pa.Table:
        """One row a key, with numbers and kinds."""
        at = pa.array(order)
        runs = key_runs([key.take(at) for key in keys])
        if len(runs) == len(order):  # nothing to merge
            return self._sorted(arrivals, order)
        if self._deduplicates:  # the winner is known before any value is fetched
            return self._sorted(arrivals, order[runs.last])
        engine = merge_function(self.schema, self.options)
        return engine.merge(self._sorted(arrivals, order).combine_chunks(), runs).combine_chunks()

    def _fold(self, piece: pa.Table, order: Int64s, runs: Runs) -> pa.Table:
        if self._deduplicates:
            return _taken(piece, order if len(runs) == len(order) else order[runs.last])
        ordered = _taken(piece, order).combine_chunks()
        return merge_function(self.schema, self.options).merge(ordered, runs).combine_chunks()

    @property
    def _deduplicates(self) -> bool:
        return bool(self.options[opt.MERGE_ENGINE] == "deduplicate")

    def _file_table(self, rows: pa.Table) -> pa.Table:
        """Rows with numbers and kinds as the columns of a data file."""
        thin = self.options[opt.THIN_MODE]
        keys = [] if thin else [rows.column(name) for name in self.schema.trimmed_primary_keys]
        return pa.Table.from_arrays([*keys, *rows.columns], schema=file_schema(file_fields(self.schema, thin)))


def run_schema(schema: TableSchema) -> pa.Schema:
    """The columns of sorted runs: numbers, kinds, then the table's columns."""
    return arrow_schema([SEQUENCE_FIELD, KIND_FIELD, *schema.fields])


def _taken(rows: pa.Table, order: Int64s) -> pa.Table:
    """The rows in an order; as they are where it changes nothing."""
    if len(order) == len(rows) and (order[1:] > order[:-1]).all():
        return rows
    return rows.take(pa.array(order))


def _with_system(values: pa.Table, sequences: Int64s, kinds: Int8s) -> pa.Table:
    columns = [pa.array(sequences), pa.array(kinds), *values.columns]
    return pa.Table.from_arrays(columns, schema=pa.schema([SEQUENCE_COLUMN, KIND_COLUMN, *values.schema]))
