"""Open data files of each format: rows go in; size, metrics and split offsets come out.

Rules: the table properties `write.parquet.*`, `write.orc.*` and `write.avro.*` of the reference engine. Parquet files
have field ids and page indexes; ORC files have the attributes `iceberg.id` and `iceberg.required`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import StorageError, UnsupportedError
from lakebed.formats.iceberg.codec.avro_data import avro_data_schema, plain_avro, plain_avro_field
from lakebed.formats.iceberg.codec.schema import FIELD_ID
from lakebed.formats.iceberg.data_files import Metrics
from lakebed.formats.iceberg.files import Files
from lakebed.formats.iceberg.parquet.annotate import AnnotatedFile
from lakebed.formats.iceberg.write.annotations import Annotations
from lakebed.formats.iceberg.write.file_layout import Layout
from lakebed.formats.iceberg.write.statistics.leaves import Leaf
from lakebed.formats.iceberg.write.statistics.metrics import ColumnMetrics, nan_counts, parquet_metrics, split_offsets
from lakebed.formats.iceberg.write.statistics.modes import MetricsMode
from lakebed.kernel.avro.container import Framing
from lakebed.kernel.avro.encode import encode_records
from lakebed.kernel.decoding import writing
from lakebed.kernel.orc import OrcWriter, misread_times
from lakebed.kernel.parquet.dictionaries import repeating_columns


@dataclass(frozen=True, slots=True)
class Written:
    """A closed file. Sizes are in bytes."""

    rows: int
    size: int
    metrics: Metrics
    split_offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of a file. `leaves` are its primitive columns, `modes` their metrics modes by field id."""

    schema: pa.Schema
    leaves: tuple[Leaf, ...]
    modes: Mapping[int, MetricsMode]


class OpenData:
    """A data file that is being written."""

    def __init__(self, files: Files, url: str, columns: FileColumns, layout: Layout) -> None:
        self._schema, self._leaves, self._modes, self._layout = columns.schema, columns.leaves, columns.modes, layout
        self._url, self._table = url, files.location
        self._held: AbstractContextManager[pa.NativeFile] = files.open_output(url)
        self._sink = self._held.__enter__()
        self.rows = 0

    @property
    def size(self) -> int:
        """The bytes written so far."""
        return int(self._sink.tell())

    def write(self, table: pa.Table) -> None:
        """Add rows, as one row group where the format has row groups. UnsupportedError for rows it cannot store."""
        try:
            with self._errors():
                self._write(table)
        except pa.ArrowException as error:
            raise UnsupportedError(f"rows cannot be written as {self._layout.format}", why=str(error)) from error
        self.rows += len(table)

    def close(self) -> Written:
        """Close the file."""
        with self._errors():
            metrics, offsets = self._finish()
            size = self.size
            self._held.__exit__(None, None, None)
        return Written(self.rows, size, metrics, offsets)

    def abort(self) -> None:
        """Close and remove the file."""
        error = _Abandoned()
        try:
            self._held.__exit__(_Abandoned, error, None)
        except (_Abandoned, OSError, StorageError):  # a full disk refuses the close as well
            return

    def _errors(self) -> AbstractContextManager[None]:
        return writing("cannot write a data file", file=self._url, table=self._table)

    def _write(self, table: pa.Table) -> None:
        raise NotImplementedError

    def _finish(self) -> tuple[Metrics, tuple[int, ...]]:
        raise NotImplementedError


class _Abandoned(Exception):
    """Raised into the store's context manager, so that it removes the file."""


class ParquetOut(OpenData):
    """A Parquet file. The first row group decides which columns use a dictionary."""

    _writer: pq.ParquetWriter | None = None
    _annotated: AnnotatedFile | None = None

    def _write(self, table: pa.Table) -> None:
        if self._writer is None:
            self._nans: dict[int, int] = {}
            self._footers: list[pq.FileMetaData] = []
            self._writer = self._started(table)
        nan_counts(table, self._leaves, self._nans)
        notes = self._annotations
        columns = notes.conformed(table.columns) if notes.types else table.columns
        annotated = pa.Table.from_arrays(columns, schema=notes.schema)
        self._writer.write_table(annotated, row_group_size=max(1, len(annotated)))

    def abort(self) -> None:
        """Close and remove the file. What Arrow's writer still writes is discarded."""
        if self._annotated is not None:
            self._annotated.hold()
        if self._writer is not None:
            self._writer.is_open = False  # else it closes the file again when it is collected
        super().abort()

    def _started(self, table: pa.Table) -> pq.ParquetWriter:
        layout = self._layout
        self._annotations = Annotations.of(self._schema, self._leaves)
        types = self._annotations.types
        self._annotated = AnnotatedFile(self._sink, types) if types else None
        blooms: dict[str, Any] = {}
        if layout.blooms:
            shares = {name: share for name, share in layout.blooms.items() if name in self._schema.names}
            blooms["bloom_filter_options"] = {name: {"fpp": share, "ndv": 1 << 20} for name, share in shares.items()}
        return pq.ParquetWriter(
            self._annotated or self._sink, self._annotations.schema, write_statistics=self._annotations.statistics,
            compression=layout.codec, compression_level=layout.level,
            use_dictionary=repeating_columns(table), data_page_size=layout.page_bytes,
            dictionary_pagesize_limit=layout.dictionary_bytes, max_rows_per_page=layout.page_rows,
            store_decimal_as_integer=True, store_schema=False, write_page_index=True,
            metadata_collector=self._footers, **blooms,
        )  # fmt: skip

    def _finish(self) -> tuple[Metrics, tuple[int, ...]]:
        assert self._writer is not None  # a file is opened only to write rows
        self._writer.add_key_value_metadata({"iceberg.schema": self._layout.schema_json})
        if self._annotated is not None:
            self._annotated.hold()
        self._writer.close()
        if self._annotated is not None:
            self._annotated.finish()
        footer = self._footers[0]
        return parquet_metrics(footer, self._leaves, self._modes, self._nans), split_offsets(footer)


class OrcOut(OpenData):
    """An ORC file. ORC has no time of day, so it is stored as a number of microseconds, as by the reference engine."""

    _writer: OrcWriter | None = None

    def _write(self, table: pa.Table) -> None:
        orc = pa.Table.from_arrays([_orc_column(column) for column in table.columns], schema=_orc_schema(self._schema))
        _refuse_misread_times(orc)
        if self._writer is None:
            self._metrics = ColumnMetrics(self._leaves, self._modes)
            self._writer = OrcWriter(self._sink, compression=self._layout.codec.replace("none", "uncompressed"))
        self._metrics.add(table)
        self._writer.write(orc)

    def _finish(self) -> tuple[Metrics, tuple[int, ...]]:
        assert self._writer is not None  # a file is opened only to write rows
        self._writer.close()
        return self._metrics.finish(), ()


def _orc_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([_orc_field(field) for field in schema])


def _orc_field(field: pa.Field) -> pa.Field:
    kind, attributes = field.type, {}
    if pa.types.is_time(kind):
        kind, attributes = pa.int64(), {"iceberg.long-type": "TIME"}
    elif pa.types.is_int64(kind):
        attributes = {"iceberg.long-type": "LONG"}
    elif isinstance(kind, pa.BaseExtensionType):
        kind, attributes = pa.binary(), {"iceberg.binary-type": "UUID"}
    elif pa.types.is_fixed_size_binary(kind):
        attributes = {"iceberg.binary-type": "FIXED", "iceberg.length": str(kind.byte_width)}
        kind = pa.binary()
    elif pa.types.is_struct(kind):
        kind = pa.struct([_orc_field(kind.field(n)) for n in range(kind.num_fields)])
    elif pa.types.is_map(kind):
        kind = pa.map_(_orc_field(kind.key_field), _orc_field(kind.item_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_orc_field(kind.value_field))
    id = (field.metadata or {}).get(FIELD_ID, b"").decode()
    attributes |= {"iceberg.id": id, "iceberg.required": str(not field.nullable).lower()}
    return pa.field(field.name, kind, field.nullable, attributes)


def _orc_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage.cast(pa.binary()) for chunk in column.chunks], pa.binary())
    if pa.types.is_time(kind):
        return pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks], pa.int64())
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_nested(kind) and _is_unwritable(kind):
        raise UnsupportedError(
            f"lakebed does not write {kind} to ORC files", todo="Set write.format.default=parquet for this table"
        )
    return column


def _is_unwritable(kind: pa.DataType) -> bool:
    """Whether a nested type has a time of day, a UUID or fixed bytes inside, which ORC files would not get."""
    inner = [kind.field(n).type for n in range(kind.num_fields)]
    return any(
        pa.types.is_time(child)
        or pa.types.is_fixed_size_binary(child)
        or isinstance(child, pa.BaseExtensionType)
        or (pa.types.is_nested(child) and _is_unwritable(child))
        for child in inner
    )


def _refuse_misread_times(table: pa.Table) -> None:
    """UnsupportedError for times before 1970: Arrow's ORC writer stores fractions of a second there in a way that Java
    reads as other times. It reads none after 2262."""
    misread = misread_times(table)
    if misread is not None:
        raise UnsupportedError(
            f"column {misread[0]!r} has times {misread[1]} from ORC files",
            todo="Set write.format.default=parquet for this table",
        )


class AvroOut(OpenData):
    """An Avro file. It has no metrics but its number of rows, as with the reference engine."""

    _framing: Framing | None = None

    def _write(self, table: pa.Table) -> None:
        schema = avro_data_schema(self._schema)
        if self._framing is None:
            plain_codec = self._layout.codec == "none"
            self._framing = Framing.new() if plain_codec else Framing.new("zstandard", self._layout.level or 3)
            metadata = {
                "avro.schema": json.dumps(schema).encode(),
                "iceberg.schema": self._layout.schema_json.encode(),
            }
            self._sink.write(self._framing.header(metadata))
        plain = pa.Table.from_arrays(
            [plain_avro(column, field) for column, field in zip(table.columns, self._schema, strict=True)],
            schema=pa.schema([plain_avro_field(field) for field in self._schema]),
        )
        for batch in plain.combine_chunks().to_batches(max_chunksize=_AVRO_BLOCK_ROWS):
            self._sink.write(self._framing.block(len(batch), encode_records(batch)))

    def _finish(self) -> tuple[Metrics, tuple[int, ...]]:
        return Metrics(), ()


_AVRO_BLOCK_ROWS = 8192


_FORMATS: Mapping[str, type[OpenData]] = {"PARQUET": ParquetOut, "ORC": OrcOut, "AVRO": AvroOut}


def open_data_file(files: Files, url: str, columns: FileColumns, layout: Layout) -> OpenData:
    """A new data file at a location, in the format of the layout."""
    return _FORMATS[layout.format](files, url, columns, layout)
