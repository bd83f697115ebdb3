"""Encoders of data files: Parquet and ORC through Arrow, Avro by our own encoder. The counterpart of `read.formats`.

Rules: Paimon's KeyValueDataFileWriter and its format writers. Values that one of Paimon's own readers cannot take are
refused before a byte is written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import OptionError, UnsupportedError
from lakebed.formats.paimon import compaction_options as compaction
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.avro_columns import avro_schema, encode_records
from lakebed.formats.paimon.codec.types import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from lakebed.kernel.arrays import leaves
from lakebed.kernel.avro.container import Framing
from lakebed.kernel.options import Options
from lakebed.kernel.orc import OrcWriter, misread_times
from lakebed.kernel.parquet.dictionaries import repeating_columns

FOOTER_TEXT_BYTES = 4096
"""Parquet footers leave out the bounds of a column chunk with longer values."""
_PAGE_ROWS = 32_768
_AVRO_BLOCK_ROWS = 8192
_LEAST_STRIPE_BYTES = 64 << 10
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
"""Target size in bytes of the files of a table: True with a primary key, False without."""
_PIECES_PER_FILE = 4
_LEAST_PIECE_BYTES = 64 << 10

TextBounds = Mapping[str, tuple[tuple[str, str], ...]]
"""The least and the greatest value of text columns, one pair for each part of a file for which its format has one."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How data files are written; `target_size`, and `block_size` of the largest row group, in bytes."""

    name: str
    compression: str
    zstd_level: int
    target_size: int
    block_size: int

    @classmethod
    def of(cls, options: Options, has_key: bool, level: int = 0, changelog: bool = False) -> FileFormat:
        """The format of new files of a level, or of its changelog. OptionError for a compression that lakebed does not
        have."""
        own = of_level(options[opt.FILE_FORMAT_PER_LEVEL], level)
        name = opt.FILE_FORMAT.read(own) if own else options[opt.FILE_FORMAT]
        compression = (
            of_level(options[compaction.COMPRESSION_PER_LEVEL], level) or options[opt.FILE_COMPRESSION]
        ).lower()
        if changelog:
            name = options[compaction.CHANGELOG_FORMAT] or name
            compression = (options[compaction.CHANGELOG_COMPRESSION] or compression).lower()
        if compression not in _COMPRESSIONS:
            raise OptionError.ill_typed(opt.FILE_COMPRESSION.key, compression, f"one of {', '.join(_COMPRESSIONS)}")
        target = options[opt.TARGET_FILE_SIZE] or _DEFAULT_TARGET[has_key]
        return cls(name, _COMPRESSIONS[compression], options[opt.ZSTD_LEVEL], target, options[opt.BLOCK_SIZE])

    @property
    def piece_bytes(self) -> int:
        """How much Arrow data becomes one row group: a fraction of the target, so that files end near it, and no more
        than the block size."""
        return min(max(self.target_size // _PIECES_PER_FILE, _LEAST_PIECE_BYTES), self.block_size)


def of_level(text: str, level: int) -> str:
    """What an option such as `0:avro,5:parquet` says for a level, "" for nothing."""
    for item in filter(None, text.split(",")):
        which, _, value = item.partition(":")
        if which.strip() == str(level):
            return value.strip()
    return ""


class Encoder(Protocol):
    """One open data file."""

    def write(self, table: pa.Table) -> None:
        """Append rows, as one row group where the format has row groups."""
        ...

    def close(self) -> TextBounds:
        """Write the end of the file."""
        ...


class ParquetEncoder:
    """One row group per call of `write`.

    Paimon's own reader wants timestamps of nanoseconds as INT96. Arrow then writes every timestamp of the file as
    INT96, which that reader takes too. Values are plain or in dictionaries: several engines that read Paimon tables
    know no other encoding.
    """

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema, how: FileFormat, repeats: Collection[str]) -> None:
        self._schema, self._footers = schema, list[pq.FileMetaData]()
        self._writer = pq.ParquetWriter(
            sink,
            schema,
            compression=how.compression,
            compression_level=how.zstd_level if how.compression == "zstd" else None,
            use_dictionary=[name for name in schema.names if name in repeats],
            use_deprecated_int96_timestamps=_has_nanoseconds(schema),
            store_decimal_as_integer=True,
            store_schema=False,
            write_page_index=False,
            write_batch_size=_PAGE_ROWS,
            metadata_collector=self._footers,
        )

    def write(self, table: pa.Table) -> None:
        """Append one row group."""
        self._writer.write_table(table, row_group_size=len(table))

    def close(self) -> TextBounds:
        """The bounds of text columns in the footer, which the writer has made anyway."""
        self._writer.close()
        footer = self._footers[0]
        texts = {field.name for field in self._schema if pa.types.is_string(field.type)}
        bounds: dict[str, tuple[tuple[str, str], ...]] = {}
        for place in range(footer.num_columns):
            name = footer.schema.column(place).path
            if name in texts:
                chunks = [footer.row_group(group).column(place).statistics for group in range(footer.num_row_groups)]
                bounds[name] = tuple((chunk.min, chunk.max) for chunk in chunks if chunk and chunk.has_min_max)
        return bounds


class OrcEncoder:
    """Writes a time of day, which ORC lacks, as its number of milliseconds, as Paimon does."""

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema, how: FileFormat, repeats: Collection[str]) -> None:
        stripe = max(_LEAST_STRIPE_BYTES, min(64 << 20, how.target_size // 4))
        codec = how.compression.replace("none", "uncompressed")
        self._writer = OrcWriter(sink, compression=codec, stripe_size=stripe)

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        for place, field in enumerate(table.schema):
            if pa.types.is_time(field.type):
                numbers = [chunk.view(pa.int32()) for chunk in table.column(place).chunks]
                table = table.set_column(place, field.name, pa.chunked_array(numbers, pa.int32()))
        self._writer.write(table)

    def close(self) -> TextBounds:
        """Always empty: ORC gives no bounds of text columns."""
        self._writer.close()
        return {}


class AvroEncoder:
    """Writes blocks of some thousand rows. OptionError for a compression other than zstd and none."""

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema, how: FileFormat, repeats: Collection[str]) -> None:
        if how.compression not in ("zstd", "none"):
            raise OptionError.ill_typed(opt.FILE_COMPRESSION.key, how.compression, "zstd or none, for Avro files")
        framing = Framing.new("zstandard", how.zstd_level) if how.compression == "zstd" else Framing.new()
        self._sink, self._framing = sink, framing
        sink.write(framing.header({"avro.schema": json.dumps(avro_schema(schema)).encode()}))

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        for batch in table.to_batches(max_chunksize=_AVRO_BLOCK_ROWS):
            self._sink.write(self._framing.block(len(batch), encode_records(batch)))

    def close(self) -> TextBounds:
        """Always empty: an Avro file has no footer."""
        return {}


ENCODERS: dict[str, type[ParquetEncoder] | type[OrcEncoder] | type[AvroEncoder]] = {
    "parquet": ParquetEncoder,
    "orc": OrcEncoder,
    "avro": AvroEncoder,
}


def check_values(table: pa.Table, format_name: str, location: str) -> None:
    """Raise UnsupportedError for values that Paimon's own reader would not read back from a file of that format."""
    if format_name == "orc":
        _refuse_misread_times(table, location)
    if format_name == "parquet" and _has_nanoseconds(table.schema):
        _refuse_far_times(table, location)


def dictionary_columns(table: pa.Table) -> frozenset[str]:
    """The plain columns whose values repeat, so that a dictionary is worth it; with the names that key columns and row
    kinds have in data files."""
    plain = [
        f.name for f in table.schema if not pa.types.is_nested(f.type) and f.name not in (SEQUENCE_NUMBER, VALUE_KIND)
    ]
    repeating = repeating_columns(table.select(plain))
    return frozenset({*repeating, *(KEY_PREFIX + name for name in repeating), VALUE_KIND})


def _has_nanoseconds(schema: pa.Schema) -> bool:
    return any("timestamp[ns" in str(kind) for kind in schema.types)


def _refuse_misread_times(table: pa.Table, location: str) -> None:
    """Refuse times before 1970: the C++ library writes those with a fraction of a second in a form on which Paimon's
    own ORC reader fails. It reads none after 2262."""
    for field in table.schema:
        if pa.types.is_nested(field.type) and "timestamp" in str(field.type):
            raise UnsupportedError(
                f"lakebed does not write times inside {field.name!r} to ORC files",
                table=location,
                todo="Use file.format=parquet",
            )
    misread = misread_times(table)
    if misread is not None:
        raise UnsupportedError(
            f"column {misread[0]!r} has times {misread[1]} from ORC files",
            table=location,
            todo="Use file.format=parquet",
        )


def _refuse_far_times(table: pa.Table, location: str) -> None:
    """Refuse times inside nested columns that nanoseconds cannot hold, which end in the years 1677 and 2262: beside a
    column of nanoseconds they are INT96, and are read as nanoseconds."""
    for field in table.schema:
        if not pa.types.is_nested(field.type):
            continue
        for times in leaves(table.column(field.name)):
            if not pa.types.is_timestamp(times.type) or times.type.unit == "ns":
                continue
            bounds = pc.min_max(times)
            most = _NANOSECONDS // {"ms": 10**6, "us": 10**3}[times.type.unit]
            if bounds["min"].is_valid and not -most <= bounds["min"].value <= bounds["max"].value <= most:
                raise UnsupportedError(
                    f"column {field.name!r} holds times outside the years 1678 to 2261, which a nested column of a "
                    f"Parquet file cannot hold beside columns of nanoseconds",
                    table=location,
                    todo="Use timestamps of at most six digits in all columns of the table",
                )
