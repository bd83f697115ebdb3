"""Base files as Arrow batches of the table's schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.hudi.codec.internal_schema import Renames
from lakebed.formats.hudi.codec.timestamps import Units, mislabels
from lakebed.formats.hudi.read.conform import conform_to_table
from lakebed.formats.hudi.read.missing_files import expecting
from lakebed.kernel.decoding import RESTORE, decoding
from lakebed.kernel.files import Store
from lakebed.kernel.files.remote_file import RemoteInput
from lakebed.kernel.parquet.chunks import fetch_chunks
from lakebed.kernel.predicates.facts import Facts
from lakebed.kernel.predicates.ranges import can_hold
from lakebed.kernel.predicates.row_groups import leaf_of, row_group_facts
from lakebed.kernel.predicates.tree import Node

_BATCH_ROWS = 1 << 17
_READ_BYTES = 1 << 16
"""How much of a column is read at once from a file on a disk."""
_ROWS_PER_BYTE = 16
"""A column of texts that repeat has at least so many rows for each byte of its decompressed pages."""
_RUN_ROWS = 1 << 19
"""Rows whose keys are looked up at once: for each lookup Arrow hashes all keys of the log anew."""


@dataclass(frozen=True, slots=True)
class BaseFileReader:
    """Says how one base file, which may differ from the table's schema, is read.

    `size` is its size in bytes as a listing told it, None where none did. `renames` says what columns are called in the
    file, where the names differ. `units` are the timestamps that the file can label wrongly.
    """

    store: Store
    path: str
    size: int | None = None
    renames: Renames = field(default_factory=dict)
    units: Units = field(default_factory=dict)

    @contextmanager
    def opened(self) -> Iterator[OpenBaseFile]:
        """The file, its footer read, for the length of a block.

        Raises DataCleanedError when the file is gone, CorruptError when it cannot be read, and UnsupportedError for a
        file that is not Parquet.
        """
        store, path = self.store, self.path
        if not path.endswith(".parquet"):
            raise UnsupportedError(
                f"lakebed does not read {path.rpartition('.')[2]} base files",
                table=store.location,
                file=path,
                todo="Rewrite the table with Parquet base files",
            )
        with expecting(store, path):
            opened = store.open_input(path, self.size, mapped=False)
        with opened as source:
            with self._decoding():
                file = pq.ParquetFile(source, page_checksum_verification=True)
            yield OpenBaseFile(self, source, file)

    def schema(self) -> pa.Schema:
        """The Arrow schema of the file."""
        with self.opened() as opened, self._decoding():
            return opened.file.schema_arrow

    def _decoding(self) -> AbstractContextManager[None]:
        todo = "Restore the file from a copy"
        return decoding("cannot read a base file", table=self.store.location, file=self.path, todo=todo)


@dataclass(frozen=True, slots=True)
class OpenBaseFile:
    """A base file that is open. Its methods raise CorruptError when it cannot be read."""

    reader: BaseFileReader
    source: pa.NativeFile
    file: pq.ParquetFile

    def batches(
        self,
        target: pa.Schema,
        groups: Sequence[int] | None = None,
        constants: Mapping[str, pa.Scalar] = {},
        batch_rows: int = _BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some row groups (None: of all) with exactly the columns of `target`.

        A column that the file lacks takes its value from `constants`, else null.
        """
        if groups is None or groups:
            self._fetch(target, groups)
            yield from self._decoded(target, groups, constants, batch_rows)

    def runs(
        self,
        ahead: pa.Schema,
        target: pa.Schema,
        groups: Sequence[int] | None = None,
        constants: Mapping[str, pa.Scalar] = {},
        batch_rows: int = _BATCH_ROWS,
    ) -> Iterator[tuple[pa.RecordBatch, Iterator[pa.RecordBatch]]]:
        """The rows as `batches` gives them, in long runs: first the columns `ahead` of the whole run, which are some of
        `target`, then its batches, to be taken before the next run. No column is decoded twice.
        """
        if groups is not None and not groups:
            return
        self._fetch(target, groups)
        others = pa.schema([column for column in target if column.name not in ahead.names])
        left = _Pieces(self._decoded(others, groups, constants, batch_rows)) if len(others) else None
        for first in self._decoded(ahead, groups, constants, max(_RUN_ROWS, batch_rows)):
            yield first, self._joined(first, left, target, batch_rows)

    def _joined(
        self, first: pa.RecordBatch, others: _Pieces | None, target: pa.Schema, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        at = 0
        while at < first.num_rows:
            if others is None:
                more = first.slice(at, min(batch_rows, first.num_rows - at))
            else:
                with self.reader._decoding():
                    more = others.next(first.num_rows - at)
            columns = {name: first.column(name).slice(at, more.num_rows) for name in first.schema.names}
            columns.update(zip(more.schema.names, more.columns, strict=True))
            at += more.num_rows
            yield pa.RecordBatch.from_arrays([columns[name] for name in target.names], schema=target)

    def _fetch(self, target: pa.Schema, groups: Sequence[int] | None) -> None:
        if isinstance(self.source, RemoteInput):
            with self.reader._decoding():
                fetch_chunks(self.source, self.file.metadata, groups, _leaves(self.file, self._in_file(target)))

    def _in_file(self, target: pa.Schema) -> list[str]:
        """The names that the file has for columns of `target`."""
        present = set(self.file.schema_arrow.names)
        names = [self.reader.renames.get((name,), name) for name in target.names]
        return [name for name in names if name in present]

    def _decoded(
        self, target: pa.Schema, groups: Sequence[int] | None, constants: Mapping[str, pa.Scalar], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        reader, columns = self.reader, self._in_file(target)
        once = self._in_file(pa.schema([column for column in target if pa.types.is_dictionary(column.type)]))
        remote = isinstance(self.source, RemoteInput)
        with reader._decoding():
            # Reads of one ParquetFile share a size of batches, so each read has one of its own.
            file = pq.ParquetFile(
                self.source,
                metadata=self.file.metadata,
                read_dictionary=[*once, *_repeating(self.file.metadata, groups, columns)],
                page_checksum_verification=True,
                # Of a file on a disk a page of each column is held. One that comes by requests has its parts announced.
                pre_buffer=False,
                buffer_size=0 if remote else _READ_BYTES,
            )
            for batch in file.iter_batches(batch_rows, row_groups=groups, columns=columns, use_threads=False):
                yield conform_to_table(batch, target, constants, reader.renames, reader.units)

    def row_groups(self, predicate: Node, schema: pa.Schema) -> tuple[list[int], list[int]]:
        """The row groups that can hold rows for which the predicate is true, by their statistics, and the others.

        `schema` has the types in which the predicate compares values. All are kept where the file labels timestamps
        wrongly.
        """
        file, units = self.file, self.reader.units
        with self.reader._decoding():
            all_groups = range(file.metadata.num_row_groups)
            if units and mislabels(file.schema_arrow, units):
                return list(all_groups), []

            def known(column: tuple[str, ...]) -> list[Facts]:
                facts = _group_facts(file, column[0], schema) if len(column) == 1 else None
                return [] if facts is None else [facts]

            may_match = can_hold(predicate, known, len(all_groups))
        return [group for group in all_groups if may_match[group]], [n for n in all_groups if not may_match[n]]


@dataclass(slots=True)
class _Pieces:
    """Batches, cut where a run of rows ends."""

    batches: Iterator[pa.RecordBatch]
    left: pa.RecordBatch | None = None

    def next(self, most: int) -> pa.RecordBatch:
        """The next batch, or the first `most` rows of it. CorruptError when there is none."""
        batch = self.left
        while batch is None or not batch.num_rows:
            batch = next(self.batches, None)
            if batch is None:
                raise CorruptError("the columns of a base file have different numbers of rows", todo=RESTORE)
        self.left = batch.slice(most)
        return batch.slice(0, most)


def _repeating(metadata: pq.FileMetaData, groups: Sequence[int] | None, columns: Sequence[str]) -> list[str]:
    """The text columns with so few values, in long runs, that it is faster to decode them as a dictionary and spell the
    rows out after that: partition paths, names of files, commit times."""
    wanted = set(columns)
    chosen = range(metadata.num_row_groups) if groups is None else groups
    names = []
    for leaf in range(metadata.num_columns):
        column = metadata.schema.column(leaf)
        if column.path not in wanted or column.path != column.name or column.logical_type.type != "STRING":
            continue
        chunks = (metadata.row_group(group).column(leaf) for group in chosen)
        if all(chunk.total_uncompressed_size * _ROWS_PER_BYTE < chunk.num_values for chunk in chunks):
            names.append(column.path)
    return names


def _leaves(file: pq.ParquetFile, columns: Sequence[str]) -> list[int]:
    """The leaf columns of some columns; a name that begins with another one and a dot may bring more."""
    paths = [file.metadata.schema.column(leaf).path for leaf in range(file.metadata.num_columns)]
    begins = tuple(f"{name}." for name in columns)
    return [leaf for leaf, path in enumerate(paths) if f"{path}.".startswith(begins)]


def _group_facts(file: pq.ParquetFile, name: str, schema: pa.Schema) -> Facts | None:
    """The statistics of a column in each row group of a file. None if the file has no such column, or has it in a type
    that sorts differently than the type in `schema`."""
    place = file.schema_arrow.get_field_index(name)
    leaf = None if place < 0 else leaf_of(file.schema_arrow, place)
    if leaf is None or name not in schema.names:
        return None
    written, target = file.schema_arrow.field(place).type, schema.field(name).type
    if not _keeps_order(written, target):
        return None
    groups = range(file.metadata.num_row_groups)
    return row_group_facts(file.metadata, leaf, groups, written, lambda bounds: bounds.cast(target))


def _keeps_order(written: pa.DataType, target: pa.DataType) -> bool:
    """Whether bounds in one type, cast to the other, are bounds of the conformed values.

    A float is not a bound of the double that Hudi makes of its text.
    """
    if written == target:
        return True
    if pa.types.is_integer(written):
        return bool(pa.types.is_integer(target) or pa.types.is_floating(target) or pa.types.is_decimal(target))
    if pa.types.is_timestamp(written) and pa.types.is_timestamp(target):
        return bool(written.tz == target.tz)
    return bool(
        (pa.types.is_decimal(written) and pa.types.is_decimal(target))
        or (pa.types.is_large_string(written) and pa.types.is_string(target))
    )
