"""Parquet files with gzip pages, from a writer that does not compress: ISA-L compresses four times as fast as zlib.

Arrow writes pages in the order of the file, each after its header, and a copy of a column chunk's metadata after the
chunk. `GzipPages` compresses each page as it comes, and puts what changed by that into the page's header and into the
footer: lengths, checksums, places and the codec. Copies of the chunks' metadata, which no reader uses, are left out.

Rules: Parquet's `parquet.thrift`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib

from lakebed.errors import CorruptError
from lakebed.kernel.parquet.thrift import I32, I64, LIST, Shape, Struct, decode, encode

_MAGIC = b"PAR1"
_GZIP, _LEVEL, _GZIP_WINDOW = 2, 1, 31
_PAGE_SIZE, _PAGE_CRC = 3, 4  # of a PageHeader
_ROW_GROUPS = 4  # of a FileMetaData
_COLUMNS, _GROUP_OFFSET, _GROUP_COMPRESSED = 1, 5, 6  # of a RowGroup
_CHUNK_OFFSET, _CHUNK_METADATA = 2, 3  # of a ColumnChunk
_CODEC, _COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE = 4, 7, 9, 11  # of a ColumnMetaData
_PAGE_SHAPE: Shape = {_PAGE_SIZE: None, _PAGE_CRC: None}
_METADATA_SHAPE: Shape = {_CODEC: None, _COMPRESSED: None, _DATA_PAGE: None, _DICTIONARY_PAGE: None}
_CHUNK_SHAPE: Shape = {_CHUNK_OFFSET: None, _CHUNK_METADATA: _METADATA_SHAPE}
_GROUP_SHAPE: Shape = {_COLUMNS: _CHUNK_SHAPE, _GROUP_OFFSET: None, _GROUP_COMPRESSED: None}
_FOOTER_SHAPE: Shape = {_ROW_GROUPS: _GROUP_SHAPE}


@contextmanager
def parquet_writer(
    output: pa.NativeFile, schema: pa.Schema, compression: str, level: int | None = None, **more: Any
) -> Iterator[pq.ParquetWriter]:
    """A `ParquetWriter` that writes to `output`, which stays open. `compression` is one of pyarrow's names; `level` is
    not used for gzip. The file is whole when the block ends; a block that fails leaves it unfinished."""
    if compression != "gzip":
        writer = pq.ParquetWriter(output, schema, compression=compression, compression_level=level, **more)
        yield writer
        writer.close()
        return
    pages = pa.PythonFile(GzipPages(output), "w")
    writer = pq.ParquetWriter(pages, schema, compression="none", **more)
    yield writer
    writer.close()
    pages.close()


class Output(Protocol):
    """A file that is written from its beginning to its end."""

    def write(self, data: Any, /) -> Any:
        """Add bytes."""
        ...


class GzipPages:
    """A file for `pyarrow.PythonFile`: takes an uncompressed Parquet file and writes one with gzip pages to `output`.

    `close` ends the Parquet file, and leaves `output` open.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._waiting = bytearray()
        self._given = self._written = 0
        """How many bytes of the file without compression were taken apart, and how many were written."""
        self._places: dict[int, int] = {}
        """The offset of each page in the compressed file, by its offset without compression."""
        self._page_ends: list[tuple[int, int]] = []
        """The end of each page, without compression and with it."""
        self._page: Struct = {}
        """The header of the page whose content comes next."""
        self._page_start = 0
        self._footer: Struct = {}
        self.closed = False

    def write(self, data: Any) -> int:
        """Take the next bytes. Arrow gives a page's header and its content in one piece each: these are not copied."""
        if self._page and not self._waiting and len(data) == self._page[_PAGE_SIZE][1]:
            self._compress(data)
            return len(data)
        self._waiting += data
        while self._step():
            pass
        return len(data)

    def flush(self) -> None:
        """Do nothing: pages are written as they fill up."""

    def tell(self) -> int:
        """The number of bytes taken so far."""
        return self._given + len(self._waiting)

    def readable(self) -> bool:
        """False: the file is only written."""
        return False

    def writable(self) -> bool:
        """True: the file is only written."""
        return True

    def seekable(self) -> bool:
        """False: the file is only written, from its start to its end."""
        return False

    def close(self) -> None:
        """Write the footer, once all was written."""
        if self.closed:
            return
        self.closed = True
        if self._footer:
            footer = self._moved_footer()
            self._put(footer + struct.pack("<i", len(footer)) + _MAGIC)

    def _step(self) -> bool:
        """Take one header, one page or one struct. False where more bytes must come first."""
        if not self._given:
            if len(self._waiting) < len(_MAGIC):
                return False
            self._put(_MAGIC)
            self._take(len(_MAGIC))
            return True
        if self._page:
            size = self._page[_PAGE_SIZE][1]
            if len(self._waiting) < size:
                return False
            with memoryview(self._waiting) as waiting, waiting[:size] as content:
                self._compress(content)
            del self._waiting[:size]
            return True
        if self._footer or not self._waiting:
            return False
        try:
            kinds, end = decode(self._waiting, 0, {})
        except CorruptError:  # its end has not come yet
            return False
        if _is_page(kinds):
            self._page, _ = decode(self._waiting, 0, _PAGE_SHAPE)
            self._page_start = self._given
        elif _is_footer(kinds):
            self._footer, _ = decode(self._waiting, 0, _FOOTER_SHAPE)
        self._take(end)
        return True

    def _compress(self, content: Any) -> None:
        """Write the page whose header came last."""
        page = isal_zlib.compress(content, _LEVEL, _GZIP_WINDOW)
        header, self._page = self._page, {}
        header[_PAGE_SIZE] = (I32, len(page))
        if _PAGE_CRC in header:
            header[_PAGE_CRC] = (I32, _signed(isal_zlib.crc32(page)))
        self._places[self._page_start] = self._written
        self._put(encode(header))
        self._put(page)
        self._given += len(content)
        self._page_ends.append((self._given, self._written))

    def _take(self, count: int) -> None:
        del self._waiting[:count]
        self._given += count

    def _put(self, data: bytes) -> None:
        self._output.write(data)
        self._written += len(data)

    def _moved_footer(self) -> bytes:
        """The footer with the places and sizes that the chunks now have."""
        ends = dict(self._page_ends)
        for group in self._footer[_ROW_GROUPS][1]:
            compressed = 0
            for chunk in group[_COLUMNS][1]:
                metadata = chunk[_CHUNK_METADATA][1]
                start = min(metadata[each][1] for each in (_DICTIONARY_PAGE, _DATA_PAGE) if each in metadata)
                size = ends[start + metadata[_COMPRESSED][1]] - self._places[start]
                metadata[_CODEC] = (I32, _GZIP)
                metadata[_COMPRESSED] = (I64, size)
                for each in (_DICTIONARY_PAGE, _DATA_PAGE):
                    if each in metadata:
                        metadata[each] = (I64, self._places[metadata[each][1]])
                chunk[_CHUNK_OFFSET] = (I64, 0)
                compressed += size
            if _GROUP_OFFSET in group:
                group[_GROUP_OFFSET] = (I64, self._places[group[_GROUP_OFFSET][1]])
            if _GROUP_COMPRESSED in group:
                group[_GROUP_COMPRESSED] = (I64, compressed)
        return encode(self._footer)


def _signed(checksum: int) -> int:
    return checksum - (1 << 32) if checksum >> 31 else checksum


def _is_page(fields: Struct) -> bool:
    """Whether a struct is the header of a page: the second field of footers and of chunks' metadata is a list."""
    return fields[2][0] == I32


def _is_footer(fields: Struct) -> bool:
    """Whether a struct is a file's metadata: only that has a list for its fourth field."""
    return _ROW_GROUPS in fields and fields[_ROW_GROUPS][0] == LIST
