"""The rows of one bucket on their way into files: sorted by key, merged, numbered, written, described.

Rules: Paimon's MergeTreeWriter (tables with a primary key) and AppendOnlyWriter (tables without).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.avro_columns import can_hold
from lakebed.formats.paimon.codec.binary_row import EMPTY_ROW, encode_row, plain, with_arity
from lakebed.formats.paimon.codec.file_schema import KIND_FIELD, SEQUENCE_FIELD, file_fields, file_schema
from lakebed.formats.paimon.codec.manifest import SOURCE_APPEND, DataFileMeta, SimpleStats
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import file_field
from lakebed.formats.paimon.definition import split_names
from lakebed.formats.paimon.layout import POSTPONE_BUCKET, NameFactory
from lakebed.formats.paimon.merge import key_runs, merge_function, sort_order
from lakebed.formats.paimon.write.files import FileFormat, WrittenFile, write_files
from lakebed.formats.paimon.write.kinds import Kinds
from lakebed.formats.paimon.write.stats import KEY_TRUNCATION, StatsMode, column_stats, value_stats
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options
from lakebed.model.rowkind import RowKind

Numbers = npt.NDArray[np.int64]
SEQUENCE_COLUMN, KIND_COLUMN = file_field(SEQUENCE_FIELD), file_field(KIND_FIELD)
_NO_KEY = with_arity(EMPTY_ROW, 0)


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """How buckets of one table are written. Made once a task."""

    store: Store
    schema: TableSchema
    options: Options

    def write(
        self,
        folder: str,
        rows: pa.Table,
        indices: Numbers,
        kinds: Kinds | None,
        sequence: int,
        names: NameFactory,
    ) -> tuple[DataFileMeta, ...]:
        """Write the rows at `indices` (in order of arrival) of fitted `rows` as new level-0 files; `sequence` is the
        first row's number."""
        if self.options[opt.BUCKET] == POSTPONE_BUCKET:
            return self._write_postponed(folder, rows, indices, kinds, names)
        if self.schema.primary_keys:
            return self._write_keyed(folder, rows, indices, kinds, sequence, names)
        return self._write_appended(folder, rows.take(pa.array(indices)), sequence, names)

    def _write_keyed(
        self,
        folder: str,
        rows: pa.Table,
        indices: Numbers,
        kinds: Kinds | None,
        sequence: int,
        names: NameFactory,
    ) -> tuple[DataFileMeta, ...]:
        values, sequences, kind = self._merged(rows, indices, kinds, sequence)
        return self._write_rows(folder, values, sequences, kind, names, self.options[opt.STATS_MODE])

    def _write_rows(
        self, folder: str, values: pa.Table, sequences: Numbers, kind: Kinds, names: NameFactory, stats: str
    ) -> tuple[DataFileMeta, ...]:
        thin = self.options[opt.THIN_MODE]
        keys = [values.column(name) for name in self.schema.trimmed_primary_keys]
        made = pa.Table.from_arrays(
            [*([] if thin else keys), pa.array(sequences), pa.array(kind), *values.columns],
            schema=file_schema(file_fields(self.schema, thin)),
        )
        how = FileFormat.of(self.options, True)
        if self.options[opt.BUCKET] == POSTPONE_BUCKET and can_hold(made.schema):
            how = replace(how, name="avro")  # whatever the table's format is, as the reference's writer does
        return tuple(
            self._keyed_meta(file, values, sequences, kind, StatsMode.parse(stats))
            for file in write_files(self.store, folder, made, how, names)
        )

    def write_changelog(
        self, folder: str, rows: pa.Table, indices: Numbers, kinds: Kinds | None, sequence: int, names: NameFactory
    ) -> tuple[DataFileMeta, ...]:
        """With changelog-producer=input every row as it came, sorted by key like the data but not merged; else
        nothing."""
        if self.options[opt.CHANGELOG_PRODUCER] != "input" or self.options[opt.BUCKET] == POSTPONE_BUCKET:
            return ()
        order = self._order(rows, indices)[0]
        chosen = indices[order]
        kind = np.zeros(len(chosen), np.int8) if kinds is None else kinds[chosen]
        values = rows.take(pa.array(chosen))
        named = names.under(self.options[opt.CHANGELOG_FILE_PREFIX])
        return self._write_rows(folder, values, sequence + order, kind, named, self.options[opt.STATS_MODE])

    def _write_postponed(
        self, folder: str, rows: pa.Table, indices: Numbers, kinds: Kinds | None, names: NameFactory
    ) -> tuple[DataFileMeta, ...]:
        """Rows as they come, neither sorted nor merged nor numbered: the compaction that gives them buckets does it."""
        values = rows.take(pa.array(indices))
        kind = np.zeros(len(indices), np.int8) if kinds is None else kinds[indices]
        return self._write_rows(folder, values, np.full(len(indices), -1, np.int64), kind, names, "none")

    def _merged(
        self, rows: pa.Table, indices: Numbers, kinds: Kinds | None, sequence: int
    ) -> tuple[pa.Table, Numbers, Kinds]:
        """The rows at `indices`, sorted by key and merged: values, sequence numbers and kinds."""
        order, keys = self._order(rows, indices)
        at = pa.array(order)
        runs = key_runs([key.take(at) for key in keys])
        engine = merge_function(self.schema, self.options)
        deduplicates = self.options[opt.MERGE_ENGINE] == "deduplicate"
        if deduplicates:  # the winner is known before any value is fetched
            order = order if len(runs) == len(order) else order[runs.last]
        chosen = indices[order]
        values = rows.take(pa.array(chosen))
        kind = np.zeros(len(chosen), np.int8) if kinds is None else kinds[chosen]
        if deduplicates:
            return values, sequence + order, kind
        whole = values.add_column(0, KIND_COLUMN, pa.array(kind)).add_column(
            0, SEQUENCE_COLUMN, pa.array(sequence + order)
        )
        made = engine.merge(whole.combine_chunks(), runs).combine_chunks()
        numbers, codes = made.column(0).to_numpy(), made.column(1).to_numpy()
        return made.select(list(values.column_names)), numbers, codes

    def _order(self, rows: pa.Table, indices: Numbers) -> tuple[Numbers, list[pa.Array]]:
        """Positions in `indices` in the order of keys, sequence fields and arrival; and the key columns at
        `indices`."""
        down = self.options[opt.SEQUENCE_ORDER] == "descending"
        picked = None if len(indices) == len(rows) else pa.array(indices)

        def column(name: str) -> pa.Array:
            whole = rows.column(name).chunk(0)
            return whole if picked is None else whole.take(picked)

        keys = [column(name) for name in self.schema.trimmed_primary_keys]
        then = [(column(name), down) for name in split_names(self.options[opt.SEQUENCE_FIELD])]
        return sort_order(keys, then), keys

    def _write_appended(
        self, folder: str, rows: pa.Table, sequence: int, names: NameFactory
    ) -> tuple[DataFileMeta, ...]:
        made = pa.Table.from_arrays(rows.columns, schema=file_schema(file_fields(self.schema)))
        how = FileFormat.of(self.options, False)
        mode = StatsMode.parse(self.options[opt.STATS_MODE])
        return tuple(
            self._meta(
                file,
                rows,
                (_NO_KEY, _NO_KEY),
                SimpleStats(),
                mode,
                (sequence + file.start, sequence + file.start + file.rows - 1),
                0,
            )
            for file in write_files(self.store, folder, made, how, names)
        )

    def _keyed_meta(
        self, file: WrittenFile, values: pa.Table, sequences: Numbers, kinds: Kinds, mode: StatsMode
    ) -> DataFileMeta:
        part = slice(file.start, file.start + file.rows)
        fields = self.schema.project(self.schema.trimmed_primary_keys)
        types = [field.type for field in fields]
        keys = [_piece(values, field.name, file) for field in fields]
        first, last = (
            with_arity(encode_row([plain(key[at]) for key in keys], types), len(types)) for at in (0, file.rows - 1)
        )
        mode = StatsMode.parse(self.options[opt.STATS_MODE])
        stats = column_stats(keys, types, StatsMode(True, KEY_TRUNCATION)) if mode.counts else SimpleStats(
            *(with_arity(encode_row([None] * len(types), types), len(types)),) * 2, (None,) * len(types)
        )  # fmt: skip
        deletes = int(((kinds[part] == RowKind.DELETE) | (kinds[part] == RowKind.UPDATE_BEFORE)).sum())
        numbers = int(sequences[part].min()), int(sequences[part].max())
        return self._meta(file, values, (first, last), stats, mode, numbers, deletes)

    def _meta(
        self,
        file: WrittenFile,
        values: pa.Table,
        keys: tuple[bytes, bytes],
        key_stats: SimpleStats,
        mode: StatsMode,
        numbers: tuple[int, int],
        deletes: int,
    ) -> DataFileMeta:
        columns = [_piece(values, field.name, file) for field in self.schema.fields]
        stats, covered = value_stats(columns, self.schema.fields, mode)
        return DataFileMeta(
            file.name,
            file.size,
            file.rows,
            *keys,
            key_stats,
            stats,
            *numbers,
            self.schema.id,
            level=0,
            creation_time=int(time.time() * 1000),
            delete_row_count=deletes,
            file_source=SOURCE_APPEND,
            value_stats_cols=covered,
        )


def _piece(values: pa.Table, name: str, file: WrittenFile) -> pa.Array:
    return values.column(name).chunk(0).slice(file.start, file.rows)
