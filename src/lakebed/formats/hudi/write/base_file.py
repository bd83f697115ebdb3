"""One base file: rows with their meta columns, and a footer that says what the bloom index and other engines need.

Rules: Hudi's `HoodieRowParquetWriteSupport`, `HoodieBloomFilterWriteSupport` (keys of the footer), `HoodieCreateHandle`
(meta columns: the sequence number is instant, task and row; the file name is that of the file where the row now lies).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.formats.hudi.codec.avro_schema import with_meta_fields
from lakebed.formats.hudi.layout import COMMIT_TIME, META_COLUMNS, PARTITION_PATH, RECORD_KEY, file_path
from lakebed.formats.hudi.metadata_table.change import NEW_GROUP, ColumnRange, WrittenFile
from lakebed.formats.hudi.read.task import MergedSlice
from lakebed.formats.hudi.write.files import FileTarget, base_name
from lakebed.formats.hudi.write.key_summary import BLOOM, KeySummary
from lakebed.formats.hudi.write.statistics import column_ranges, has_nan
from lakebed.kernel.arrays import TEXTS_ONCE, one_chunk, repeated
from lakebed.kernel.parquet.dictionaries import repeating_columns
from lakebed.kernel.parquet.gzip_pages import parquet_writer

_SEQNO, _FILE_NAME = META_COLUMNS[1], META_COLUMNS[4]
REPEATING = (COMMIT_TIME, PARTITION_PATH, _FILE_NAME)
"""The meta columns in which few texts repeat."""


def known_keys(target: FileTarget, rows: MergedSlice, footer: Mapping[bytes, bytes]) -> KeySummary | None:
    """What the footer of a slice's base file tells of the keys of a file with the slice's rows: all but those that only
    the log has. None where rows may go, so that only the rows themselves tell."""
    log = rows.merged
    if rows.reader.rules.marker_column or (log is not None and log.deleted.any()):
        return None
    return KeySummary.continued(target.options.bloom, footer)


class KeyChange(NamedTuple):
    """The keys that come to a file group and those that leave it."""

    added: pa.Array
    removed: pa.Array | None = None


class BaseFileWriter:
    """Writes one base file, batch by batch. `abort` removes it; without `close` it does not exist.

    `keys` is what is known of all of its keys, None where rows tell it as they come.
    """

    def __init__(
        self,
        target: FileTarget,
        partition: str,
        file_id: str,
        token: str,
        marker: str = "CREATE",
        keys: KeySummary | None = None,
    ) -> None:
        self._target, self._partition, self._file_id, self._token = target, partition, file_id, token
        self.name = base_name(file_id, token, target.instant)
        self.path = file_path(partition, self.name)
        target.prepare(partition)
        target.markers(self.path, marker)
        options = target.options
        self._schema = target.file_schema
        self._held_schema = with_dictionaries(target.kept_schema)
        self._summary = keys or KeySummary(options.bloom if target.config.meta_fields else None)
        self.rows = 0
        self.new_rows = 0
        self._notes_keys = target.wanted.keys and marker == "CREATE"
        self._keys: list[pa.Array] = []
        wanted = target.wanted.columns
        floats = (f.name for f in self._held_schema if wanted is not None and pa.types.is_floating(f.type))
        self._without_nan = {*floats}
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._open, self._parquet = ExitStack(), ExitStack()
        self._sink = self._open.enter_context(target.store.open_output(self.path))
        self._writer: pq.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add rows with the user's columns, `_hoodie_record_key` and `_hoodie_partition_path`. A table without meta
        columns takes none of their values.

        Rows that lie in the table already bring `_hoodie_commit_time` and `_hoodie_commit_seqno`; where these are null
        or missing, the row is new.
        """
        count = batch.num_rows
        if not count:
            return
        columns = {name: one_chunk(batch.column(name)) for name in batch.schema.names}
        if self._target.config.meta_fields:
            self._identify(columns, count)
        else:
            columns |= dict.fromkeys(META_COLUMNS, pa.nulls(count, pa.string()))
        arrays = [_in_type(columns[f.name], f.type) for f in self._held_schema]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._held_schema)
        self._without_nan -= {name for name in self._without_nan if has_nan(rows.column(name))}
        self.rows += count
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= self._target.options.row_group:
            self._flush()

    def _identify(self, columns: dict[str, pa.Array], count: int) -> None:
        """Give new rows the meta columns that say when they came, and note the keys of all."""
        times = columns.get(COMMIT_TIME)
        new = count if times is None else times.null_count
        if new:
            numbers = pa.array(np.arange(self.new_rows, self.new_rows + count))
            prefix = f"{self._target.instant}_{self._token.partition('-')[0]}_"
            ids = pc.binary_join_element_wise(prefix, numbers.cast(pa.string()), "")
            instant = self._target.instant
            columns[COMMIT_TIME] = (
                repeated(instant, count) if times is None else times.cast(pa.string()).fill_null(instant)
            )
            columns[_SEQNO] = ids if times is None else pc.coalesce(columns[_SEQNO], ids)
            self.new_rows += count
        self._summary.add(columns[RECORD_KEY])
        if self._notes_keys:
            self._keys.append(columns[RECORD_KEY])

    @property
    def size(self) -> int:
        """The bytes of the file so far, without the row group that is still in memory."""
        return int(self._sink.tell())

    def _flush(self) -> None:
        if self._held:
            held = pa.Table.from_batches(self._held, self._held_schema).unify_dictionaries()
            self._held, self._held_bytes = [], 0
            count, own = len(held), self._target.config.meta_fields
            name = repeated(self.name, count) if own else pa.nulls(count, TEXTS_ONCE)
            table = held.add_column(self._schema.get_field_index(_FILE_NAME), _FILE_NAME, name)
            self._opened(table).write_table(table, row_group_size=max(1, table.num_rows))

    def _opened(self, rows: pa.Table) -> pq.ParquetWriter:
        """The writer of the file. Columns that repeat in its first rows get a dictionary."""
        if self._writer is None:
            self._writer = self._parquet.enter_context(base_file_writer(self._sink, self._target, rows))
        return self._writer

    def close(self, previous: str = NEW_GROUP, keys: KeyChange | None = None, **counts: int | str) -> WrittenFile:
        """Finish the file. `keys` are those that come to the file group and leave it, where that is known and not all
        keys are new; `counts` are further fields of what is reported of it."""
        self._flush()
        footer = {"writer.model.name": "avro", "parquet.avro.schema": with_meta_fields(self._target.avro)}
        footer |= self._summary.footer()
        writer = self._opened(with_dictionaries(self._schema).empty_table())
        writer.add_key_value_metadata(footer)
        self._parquet.close()
        size = self._sink.tell()
        ranges: tuple[ColumnRange, ...] = ()
        if self._target.wanted.columns is not None:
            metadata, wanted = writer.writer.metadata, self._target.wanted.columns
            ranges = column_ranges(metadata, self._schema, wanted, self._without_nan)
        self._open.close()
        values: dict[str, object] = {"writes": self.rows, "inserts": self.rows, **counts}
        return WrittenFile(
            self._partition,
            self._file_id,
            self.path,
            size,
            previous,
            ranges=ranges,
            bloom=footer.get(BLOOM, "").encode() if self._target.wanted.bloom else b"",
            added=self._added(keys),
            removed=keys.removed if keys is not None else None,
            **values,  # type: ignore[arg-type]
        )

    def _added(self, keys: KeyChange | None) -> pa.Array | None:
        if keys is not None:
            return keys.added
        return pa.concat_arrays([*self._keys, pa.array([], pa.string())]) if self._notes_keys else None

    def abort(self) -> None:
        """Remove the file."""
        with ExitStack() as stack:
            stack.push(self._open.pop_all())
            self._parquet.close()
        self._target.store.delete_many([self.path])


def base_file_writer(
    output: pa.NativeFile, target: FileTarget, rows: pa.Table
) -> AbstractContextManager[pq.ParquetWriter]:
    """The Parquet writer of a base file of which these are the first rows."""
    return parquet_writer(
        output,
        rows.schema,
        target.options.compression,
        target.options.compression_level,
        use_dictionary=repeating_columns(rows) if target.options.dictionary else False,
        write_page_checksum=True,
        store_schema=False,
    )


def with_dictionaries(schema: pa.Schema) -> pa.Schema:
    """The columns of a base file as its writer takes them: the meta columns that repeat hold each text once."""
    return pa.schema([f.with_type(TEXTS_ONCE) if f.name in REPEATING else f for f in schema])


def _in_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    return column.cast(pa.string()).dictionary_encode() if kind == TEXTS_ONCE else column.cast(kind)
