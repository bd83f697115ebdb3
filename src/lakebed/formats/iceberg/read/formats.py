"""Data and delete files as they are stored: fields with their ids, and batches of whole columns with row positions.

Arrow decodes Parquet and ORC, DataFusion decodes Avro. Field ids are Parquet's field ids, ORC's attribute `iceberg.id`
and Avro's `field-id`. A file without ids takes them from the table's name mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import DataCleanedError, UnsupportedError
from lakebed.formats.iceberg.codec.name_mapping import NameMapping
from lakebed.formats.iceberg.codec.schema import FIELD_ID
from lakebed.formats.iceberg.data_files import DataFile, DeleteFile
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.read.conform import FileField, avro_fields, file_fields, is_list, with_mapping
from lakebed.kernel.avro.container import take_apart
from lakebed.kernel.avro.decode import read_batches
from lakebed.kernel.avro.schema import checked_schema
from lakebed.kernel.decoding import UNSTATED, Stated, decoding
from lakebed.kernel.orc import OrcReader
from lakebed.kernel.parquet.chunks import fetch_chunks
from lakebed.kernel.schemas import SchemaKey
from lakebed.kernel.scratch import Scratch

BATCH_ROWS = 64 << 10


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring rows of a file: the position of the first, the number of rows, and the requested columns."""

    start: int
    rows: int
    columns: list[pa.Array]


class OpenFile:
    """An open file. `fields` are its top-level fields, `rows` is how many rows it says it has. `arrow` is its schema as
    Arrow has it, None where only decoded rows have it."""

    fields: tuple[FileField, ...]
    rows: int
    arrow: pa.Schema | None = None

    def pieces(self, wanted: Sequence[int], batch_rows: int = BATCH_ROWS) -> Iterator[Piece]:
        """All rows in order, with the columns `wanted` by their numbers, in that order."""
        raise NotImplementedError


class ParquetData(OpenFile):
    """A Parquet file, whose row groups can be read alone."""

    arrow: pa.Schema

    def __init__(self, source: pa.NativeFile, dictionaries: Sequence[str] = ()) -> None:
        self._source = source
        self._file = pq.ParquetFile(
            source,
            coerce_int96_timestamp_unit="us",
            read_dictionary=list(dictionaries) or None,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        self.metadata: pq.FileMetaData = self._file.metadata
        self.rows = self.metadata.num_rows
        self.arrow = self._file.schema_arrow
        columns = _columns_of(SchemaKey(self.arrow))
        self.fields, self._leaves, self._nested = columns.fields, columns.leaves, columns.nested

    def leaf(self, column: int) -> int | None:
        """The number of a top-level column's only leaf; None for a nested column."""
        leaves = self._leaves[column]
        return leaves.start if len(leaves) == 1 and not self._nested[column] else None

    def groups_in(self, start: int, end: int) -> list[int]:
        """The row groups that begin at a byte in [start, end)."""
        return [n for n in range(self.metadata.num_row_groups) if start <= _offset(self.metadata, n) < end]

    def pieces(
        self, wanted: Sequence[int], batch_rows: int = BATCH_ROWS, groups: Sequence[int] | None = None
    ) -> Iterator[Piece]:
        """The rows of these row groups, by default of all, in order. Positions count in the whole file."""
        starts = [0]
        for n in range(self.metadata.num_row_groups):
            starts.append(starts[-1] + self.metadata.row_group(n).num_rows)
        leaves = [leaf for column in sorted(set(wanted)) for leaf in self._leaves[column]]
        places = {column: place for place, column in enumerate(sorted(set(wanted)))}
        fetch_chunks(self._source, self.metadata, groups, leaves)
        for run in _runs(range(self.metadata.num_row_groups) if groups is None else groups):
            position = starts[run[0]]
            if not wanted:
                yield from _rowless(position, starts[run[-1] + 1], batch_rows)
                continue
            for batch in self._file.reader.iter_batches(batch_rows, run, leaves, use_threads=False):
                yield Piece(position, len(batch), [batch.column(places[column]) for column in wanted])
                position += len(batch)


class OrcData(OpenFile):
    """An ORC file, read stripe by stripe."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._file = OrcReader(source)
        self.arrow = self._file.schema
        self._names = list(self._file.schema.names)
        self.rows = self._file.rows
        self.fields = file_fields(self._file.schema, b"iceberg.id")

    def pieces(self, wanted: Sequence[int], batch_rows: int = BATCH_ROWS) -> Iterator[Piece]:
        """The rows in order, one stripe at a time."""
        if not wanted:
            yield from _rowless(0, self.rows, batch_rows)
            return
        position = 0
        for rows in self._file.stripes([self._names[column] for column in wanted]):
            for start in range(0, len(rows), batch_rows):
                batch = rows.slice(start, batch_rows)
                yield Piece(position, len(batch), batch.columns)
                position += len(batch)


class AvroData(OpenFile):
    """An Avro file, read whole: `data` are its bytes."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._container = take_apart(data)
        self.fields = avro_fields(checked_schema(self._container.metadata["avro.schema"]))
        self.rows = self._container.rows

    def pieces(self, wanted: Sequence[int], batch_rows: int = BATCH_ROWS) -> Iterator[Piece]:
        """The rows in order, one block at a time."""
        position = 0
        for batch in read_batches(self._container, wanted, batch_rows, Scratch()):
            for start in range(0, len(batch), batch_rows):
                rows = min(batch_rows, len(batch) - start)
                yield Piece(position, rows, [column.slice(start, rows) for column in batch.columns])
                position += rows


def stated_of(file: DataFile | DeleteFile) -> Stated:
    """The size and row count in a manifest entry. Old importers wrote -1 for rows that they had not counted."""
    return Stated(file.size or -1, file.record_count)


@contextmanager
def opened(
    files: Files, path: str, format: str, mapping: NameMapping | None = None, dictionaries: Sequence[str] = (),
    stated: Stated = UNSTATED,
) -> Iterator[OpenFile]:  # fmt: skip
    """Open a data or delete file. `dictionaries` names text columns of Parquet to leave dictionary encoded.

    Raises DataCleanedError when the file is gone, CorruptError when it cannot be read or has another size or number of
    rows than `stated`, UnsupportedError for a format that lakebed does not read, and for a file without field ids in a
    table without a name mapping.
    """
    openers: dict[str, Callable[[pa.NativeFile], OpenFile]] = {
        "PARQUET": lambda source: ParquetData(source, dictionaries),
        "ORC": OrcData,
        "AVRO": lambda source: AvroData(memoryview(source.read_buffer())),
    }
    if format not in openers:
        raise UnsupportedError(f"lakebed does not read {format} files", table=files.home.location, file=path)
    try:
        with decoding("a file cannot be read", table=files.home.location, file=path):
            source = files.open_input(path, stated.size if stated.size > 0 else None)
            stated.check_size(source.size())
            file = openers[format](source)
            stated.check_rows(file.rows)
            if not any(field.has_ids for field in file.fields):
                file.fields = _named(file.fields, mapping, path)
            yield file
    except FileNotFoundError as error:
        raise gone(files, path) from error


def gone(files: Files, path: str) -> DataCleanedError:
    """The error for a data or delete file that is missing."""
    return DataCleanedError(
        "a data or delete file is gone",
        table=files.home.location,
        file=path,
        why=files.why_missing or "the snapshot that names it has expired, or something removed it",
        todo="Copy the whole table" if files.why_missing else "Read a newer snapshot",
    )


def _named(fields: tuple[FileField, ...], mapping: NameMapping | None, path: str) -> tuple[FileField, ...]:
    if mapping is None:
        raise UnsupportedError(
            "a data file has no field ids",
            file=path,
            why="the table has no name mapping for such files",
            todo="Set the table property schema.name-mapping.default",
        )
    return with_mapping(fields, mapping)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The top-level columns of Parquet files with one schema: their fields, the numbers of the leaves of each, and
    whether it is nested."""

    fields: tuple[FileField, ...]
    leaves: tuple[range, ...]
    nested: tuple[bool, ...]


@lru_cache(maxsize=64)
def _columns_of(key: SchemaKey) -> _Columns:
    """Worked out once per schema: the files of a table have few."""
    leaves: list[range] = []
    start = 0
    for field in key.schema:
        count = leaf_count(field.type)
        leaves.append(range(start, start + count))
        start += count
    nested = tuple(_is_nested(field.type) for field in key.schema)
    return _Columns(file_fields(key.schema, FIELD_ID), tuple(leaves), nested)


def leaf_count(kind: pa.DataType) -> int:
    """How many leaves Parquet has of a type."""
    if isinstance(kind, pa.BaseExtensionType):
        return leaf_count(kind.storage_type)
    if pa.types.is_struct(kind):
        return sum(leaf_count(kind.field(n).type) for n in range(kind.num_fields))
    if pa.types.is_map(kind):
        return leaf_count(kind.key_type) + leaf_count(kind.item_type)
    return leaf_count(kind.value_type) if is_list(kind) else 1


def _is_nested(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) or bool(pa.types.is_nested(kind))


def _offset(metadata: pq.FileMetaData, group: int) -> int:
    """The byte at which a row group begins."""
    first = metadata.row_group(group).column(0)
    places = [place for place in (first.dictionary_page_offset, first.data_page_offset) if place]
    return int(min(places))


def _runs(groups: Sequence[int]) -> list[list[int]]:
    """Row groups as runs of neighbours."""
    runs: list[list[int]] = []
    for group in groups:
        if runs and runs[-1][-1] + 1 == group:
            runs[-1].append(group)
        else:
            runs.append([group])
    return runs


def _rowless(start: int, end: int, batch_rows: int) -> Iterator[Piece]:
    for position in range(start, end, batch_rows):
        yield Piece(position, min(batch_rows, end - position), [])
