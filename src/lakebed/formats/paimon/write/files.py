"""Writing rows of a bucket into data files: format, compression, rolling at the target size.

Rules: Paimon's RollingFileWriter and KeyValueDataFileWriter. A file is closed when it has reached `target-file-size`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from lakebed.errors import OptionError, UnsupportedError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.avro_columns import avro_schema, encode_records
from lakebed.formats.paimon.codec.avro_file import Framing
from lakebed.formats.paimon.layout import NameFactory
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options

_SAMPLE_ROWS = 512
_PIECES_A_FILE = 4
_LEAST_PIECE_BYTES = 64 << 10
_GREATEST_PIECE_BYTES = 128 << 20
_AVRO_BLOCK_ROWS = 8192
_NANOSECONDS = 2**63 - 1
_COMPRESSIONS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "none": "none",
    "uncompressed": "none",
}
_DEFAULT_TARGET = {True: 128 << 20, False: 256 << 20}
"""Bytes of a file of a table with and without a primary key."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How data files are written."""

    name: str
    compression: str
    zstd_level: int
    target_size: int

    @classmethod
    def of(cls, options: Options, has_key: bool, level: int = 0) -> FileFormat:
        """The format of new files of a level."""
        name = options[opt.FILE_FORMAT]
        for item in filter(None, options[opt.FILE_FORMAT_PER_LEVEL].split(",")):
            which, _, format_name = item.partition(":")
            if which.strip() == str(level):
                name = opt.FILE_FORMAT.read(format_name)
        compression = options[opt.FILE_COMPRESSION].lower()
        if compression not in _COMPRESSIONS:
            raise OptionError.ill_typed(opt.FILE_COMPRESSION.key, compression, f"one of {', '.join(_COMPRESSIONS)}")
        target = options[opt.TARGET_FILE_SIZE] or _DEFAULT_TARGET[has_key]
        return cls(name, _COMPRESSIONS[compression], options[opt.ZSTD_LEVEL], target)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A closed file: `rows` of the table given, from `start` on; `size` in bytes."""

    name: str
    size: int
    start: int
    rows: int


def write_files(
    store: Store, folder: str, table: pa.Table, how: FileFormat, names: NameFactory
) -> Iterator[WrittenFile]:
    """Write a table into as many files as the target size asks for, in order."""
    start = 0
    while start < len(table):
        name = names(f".{how.name}")
        rows, size = _WRITERS[how.name](store, f"{folder}/{name}", table.slice(start), how)
        yield WrittenFile(name, size, start, rows)
        start += rows


def _write_parquet(store: Store, path: str, table: pa.Table, how: FileFormat) -> tuple[int, int]:
    """Write rows until the target size is reached: the rows written and the file's bytes.

    Paimon's own reader wants timestamps of nanoseconds as INT96. Arrow then writes every timestamp of the file so, and
    that reader takes them.
    """
    piece = _rows_a_piece(table, how.target_size)
    nanoseconds = any("timestamp[ns" in str(kind) for kind in table.schema.types)
    if nanoseconds:
        _refuse_far_times(table, store.location)
    done = 0
    with store.open_output(path) as sink:
        with pq.ParquetWriter(
            sink,
            table.schema,
            compression=how.compression,
            compression_level=how.zstd_level if how.compression == "zstd" else None,
            use_dictionary=_dictionary_columns(table),
            use_deprecated_int96_timestamps=nanoseconds,
            store_decimal_as_integer=True,
            store_schema=False,
            write_page_index=False,
        ) as writer:
            while done < len(table) and sink.tell() < how.target_size:
                some = table.slice(done, piece)
                writer.write_table(some, row_group_size=len(some))
                done += len(some)
        size = sink.tell()
    return done, size


def _write_orc(store: Store, path: str, table: pa.Table, how: FileFormat) -> tuple[int, int]:
    """As `_write_parquet`. ORC has no time of day: it is kept as its number of milliseconds, as Paimon does."""
    _refuse_early_times(table, store.location)
    piece = _rows_a_piece(table, how.target_size)
    done = 0
    with store.open_output(path) as sink:
        with orc.ORCWriter(sink, compression=how.compression.replace("none", "uncompressed")) as writer:
            while done < len(table) and sink.tell() < how.target_size:
                some = table.slice(done, piece)
                for place, field in enumerate(some.schema):
                    if pa.types.is_time(field.type):
                        numbers = [chunk.view(pa.int32()) for chunk in some.column(place).chunks]
                        some = some.set_column(place, field.name, pa.chunked_array(numbers, pa.int32()))
                writer.write(some)
                done += len(some)
        size = sink.tell()
    return done, size


def _refuse_early_times(table: pa.Table, location: str) -> None:
    """Times before 1970 with a fraction of a second: the C++ library writes them so that Paimon's own ORC reader
    fails."""
    for field in table.schema:
        if pa.types.is_nested(field.type) and "timestamp" in str(field.type):
            raise UnsupportedError(
                f"lakebed does not write times inside {field.name!r} to ORC files",
                table=location,
                todo="Use file.format=parquet",
            )
        if pa.types.is_timestamp(field.type):
            least = pc.min(table.column(field.name))
            if least.is_valid and least.value < 0:
                raise UnsupportedError(
                    f"column {field.name!r} has times before 1970, which ORC files of lakebed would not carry "
                    f"to Paimon's reader",
                    table=location,
                    todo="Use file.format=parquet",
                )


def _refuse_far_times(table: pa.Table, location: str) -> None:
    """INT96 is read in nanoseconds, which end in the years 1677 and 2262; nested times are taken as they are."""
    for field in table.schema:
        if pa.types.is_timestamp(field.type) and field.type.unit != "ns":
            found = pc.min_max(table.column(field.name))
            most = _NANOSECONDS // {"ms": 10**6, "us": 10**3}[field.type.unit]
            if found["min"].is_valid and not -most <= found["min"].value <= found["max"].value <= most:
                raise UnsupportedError(
                    f"column {field.name!r} has times outside the years 1678 to 2261, which a Parquet file with "
                    f"nanosecond columns beside it does not carry",
                    table=location,
                    todo="Use timestamps of at most six digits in all columns of the table",
                )


def _write_avro(store: Store, path: str, table: pa.Table, how: FileFormat) -> tuple[int, int]:
    """As `_write_parquet`."""
    if how.compression not in ("zstd", "none"):
        raise OptionError.ill_typed(opt.FILE_COMPRESSION.key, how.compression, "zstd or none, for Avro files")
    framing = Framing.new(how.zstd_level if how.compression == "zstd" else 0)
    done = 0
    with store.open_output(path) as sink:
        sink.write(framing.header(avro_schema(table.schema)))
        for batch in table.to_batches(max_chunksize=_AVRO_BLOCK_ROWS):
            sink.write(framing.block(len(batch), encode_records(batch)))
            done += len(batch)
            if sink.tell() >= how.target_size:
                break
        size = sink.tell()
    return done, size


def _rows_a_piece(table: pa.Table, target: int) -> int:
    """Rows of a row group: files end between row groups, so these are a fraction of the target, before compression."""
    wanted = min(max(target // _PIECES_A_FILE, _LEAST_PIECE_BYTES), _GREATEST_PIECE_BYTES)
    return max(1, int(len(table) * wanted / max(1, table.nbytes)))


def _dictionary_columns(table: pa.Table) -> list[str]:
    """The columns whose values repeat, judged by a small sample: for others a dictionary only costs.

    Of a column of some 2,500 values, nine in ten of the sampled rows differ.
    """
    step = -(-len(table) // _SAMPLE_ROWS)
    sample = table.take(pa.array(np.arange(0, len(table), step))) if step > 1 else table
    limit = len(sample) * 9 // 10
    return [
        field.name
        for field in table.schema
        if not pa.types.is_nested(field.type)
        and not pa.types.is_boolean(field.type)
        and pc.count_distinct(sample.column(field.name), mode="all").as_py() <= limit
    ]


_WRITERS = {"parquet": _write_parquet, "orc": _write_orc, "avro": _write_avro}
