"""Joins Parquet files without decoding them: row groups are copied byte for byte under one new footer.

Rule: parquet.thrift (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, OffsetIndex). Everything with a position in
the file is moved with the bytes: pages, page indexes, Bloom filters. Column indexes, statistics and additions of later
versions of the format are copied unchanged. In the new file, page indexes and Bloom filters lie together before the
footer, where readers that fetch them in one range expect them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.parquet.checksums import PageChecksums
from lakebed.kernel.parquet.thrift import I16, I32, I64, LIST, Struct, decode, encode

_MAGIC = b"PAR1"
_TAIL = 64 << 10
_PIECE = 8 << 20
_CODECS = ("none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw")

# FileMetaData
_VERSION, _SCHEMA, _ROWS, _ROW_GROUPS, _KEY_VALUES, _CREATED_BY, _COLUMN_ORDERS, _ENCRYPTION = range(1, 9)
# RowGroup
_COLUMNS, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_ORDINAL = 1, 3, 5, 7
# ColumnChunk
_FILE_PATH, _CHUNK_OFFSET, _CHUNK_META, _OFFSET_INDEX, _OFFSET_INDEX_LENGTH = range(1, 6)
_COLUMN_INDEX, _COLUMN_INDEX_LENGTH, _CRYPTO, _ENCRYPTED_META = range(6, 10)
# ColumnMetaData
_CODEC, _COMPRESSED_SIZE, _DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _BLOOM, _BLOOM_LENGTH = 4, 7, 9, 10, 11, 14, 15
# BloomFilterHeader
_BLOOM_BYTES = 1
# OffsetIndex, PageLocation
_PAGES, _PAGE_OFFSET = 1, 1


def _whole(*numbers: int) -> dict[int, Any]:
    return dict.fromkeys(numbers)


_META_SHAPE = _whole(_CODEC, _COMPRESSED_SIZE, _DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _BLOOM, _BLOOM_LENGTH)
_CHUNK_SHAPE = _whole(_CHUNK_OFFSET, _OFFSET_INDEX, _OFFSET_INDEX_LENGTH, _COLUMN_INDEX, _COLUMN_INDEX_LENGTH)
_CHUNK_SHAPE[_CHUNK_META] = _META_SHAPE
_GROUP_SHAPE = {**_whole(_GROUP_ROWS, _GROUP_OFFSET), _COLUMNS: _CHUNK_SHAPE}
_FOOTER_SHAPE = {_ROWS: None, _ROW_GROUPS: _GROUP_SHAPE, _KEY_VALUES: {}}
_PAGES_SHAPE = {_PAGES: {_PAGE_OFFSET: None}}
_BLOOM_SHAPE = {_BLOOM_BYTES: None}
"""The fields that are read or changed; all others are copied undecoded."""


class NotJoinable(Exception):
    """Files cannot be joined; the text says why."""


@dataclass(slots=True)
class ParquetJoin:
    """Writes one new file: call `add` for each input, then `finish`. Before that the output is not a Parquet file.

    `codec` is the compression that every column must have (as Arrow names it), None for any. `rows` counts the rows
    added so far. `split_offsets` has the start of each row group.
    """

    out: pa.NativeFile
    codec: str | None = None
    rows: int = 0
    split_offsets: list[int] = field(default_factory=list)
    _first: Struct | None = None
    _groups: list[Struct] = field(default_factory=list)
    _indexes: list[_Indexes] = field(default_factory=list)
    _pairs: list[bytes] = field(default_factory=list)

    def add(self, source: pa.NativeFile) -> None:
        """Copy the row groups of a file.

        NotJoinable for a file that differs from the first in anything but its rows. CorruptError for a file that is not
        Parquet, or has a page with a wrong checksum.
        """
        file = _Source.open(source)
        self._check(file)
        if self._first is None:
            self.out.write(_MAGIC)
            self._first, self._pairs = file.footer, _pairs(file.footer)
        else:
            others = set(_pairs(file.footer))
            self._pairs = [pair for pair in self._pairs if pair in others]
        self.rows += _get(file.footer, _ROWS)
        for group in _items(file.footer, _ROW_GROUPS):
            if _get(group, _GROUP_ROWS):
                self._copy(file, group)

    def finish(self) -> int:
        """Write page indexes, Bloom filters and the footer. Returns the size of the file in bytes."""
        if self._first is None:
            raise NotJoinable("there is nothing to join")
        for indexes in self._indexes:
            self._put(indexes.column_index, indexes.chunk, _COLUMN_INDEX, _COLUMN_INDEX_LENGTH)
        for indexes in self._indexes:
            self._put(indexes.offset_index, indexes.chunk, _OFFSET_INDEX, _OFFSET_INDEX_LENGTH)
        for indexes in self._indexes:
            self._put(indexes.bloom, indexes.meta, _BLOOM, _BLOOM_LENGTH)
        footer = {**self._first, _ROWS: (I64, self.rows), _ROW_GROUPS: (LIST, self._groups)}
        footer.pop(_KEY_VALUES, None)
        if self._pairs:
            footer[_KEY_VALUES] = LIST, [decode(pair, 0, {})[0] for pair in self._pairs]
        data = encode(footer)
        self.out.write(data + struct.pack("<I", len(data)) + _MAGIC)
        return int(self.out.tell())

    def _put(self, data: bytes, holder: Struct, place: int, length: int) -> None:
        """Write a blob, and its position and length into two fields of a struct."""
        if data:
            holder[place] = I64, self.out.tell()
            holder[length] = I32, len(data)
            self.out.write(data)

    def _check(self, file: _Source) -> None:
        if _ENCRYPTION in file.footer:
            raise NotJoinable("a file is encrypted")
        first = self._first or file.footer
        for number, what in (
            (_SCHEMA, "schemas"),
            (_VERSION, "versions"),
            (_COLUMN_ORDERS, "column orders"),
            (_CREATED_BY, "writers"),
        ):
            if file.footer.get(number) != first.get(number):
                raise NotJoinable(f"the files have different {what}")
        for group in _items(file.footer, _ROW_GROUPS):
            for chunk in _items(group, _COLUMNS):
                if _FILE_PATH in chunk or _CRYPTO in chunk or _ENCRYPTED_META in chunk or _CHUNK_META not in chunk:
                    raise NotJoinable("a file has columns in another file, or encrypted ones")
                codec = _codec(_get(chunk, _CHUNK_META))
                if self.codec not in (None, codec):
                    raise NotJoinable(f"a file is compressed by {codec}, not by {self.codec}")

    def _copy(self, file: _Source, group: Struct) -> None:
        chunks = _items(group, _COLUMNS)
        spans = [_span(_get(chunk, _CHUNK_META)) for chunk in chunks]
        start, end = min(low for low, _ in spans), max(high for _, high in spans)
        shift = self.out.tell() - start
        checksums = PageChecksums(start, spans)
        for piece in file.pieces(start, end):
            checksums.feed(piece)
            self.out.write(piece)
        self.split_offsets.append(spans[0][0] + shift)
        if _GROUP_OFFSET in group:
            group[_GROUP_OFFSET] = I64, _get(group, _GROUP_OFFSET) + shift
        if len(self._groups) < 1 << 15:
            group[_GROUP_ORDINAL] = I16, len(self._groups)
        else:
            group.pop(_GROUP_ORDINAL, None)
        for chunk in chunks:
            self._indexes.append(_move(file, chunk, shift))
        self._groups.append(group)


@dataclass(slots=True)
class _Indexes:
    """The indexes and the Bloom filter of one column chunk, which lie outside the row group; empty for none."""

    chunk: Struct
    meta: Struct
    column_index: bytes
    offset_index: bytes
    bloom: bytes


def _move(file: _Source, chunk: Struct, shift: int) -> _Indexes:
    """Shift the positions in a column chunk. Its indexes get new positions when the file is finished."""
    meta: Struct = _get(chunk, _CHUNK_META)
    column_index = file.blob(chunk, _COLUMN_INDEX, _COLUMN_INDEX_LENGTH)
    offset_index = file.blob(chunk, _OFFSET_INDEX, _OFFSET_INDEX_LENGTH)
    bloom = file.bloom(meta)
    for number in (_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE):
        if meta.get(number, (I64, 0))[1] > 0:
            meta[number] = I64, meta[number][1] + shift
    if chunk.get(_CHUNK_OFFSET, (I64, 0))[1] > 0:
        chunk[_CHUNK_OFFSET] = I64, chunk[_CHUNK_OFFSET][1] + shift
    if offset_index:
        pages, _ = decode(offset_index, 0, _PAGES_SHAPE)
        for page in _items(pages, _PAGES):
            page[_PAGE_OFFSET] = I64, _get(page, _PAGE_OFFSET) + shift
        offset_index = encode(pages)
    return _Indexes(chunk, meta, column_index, offset_index, bloom)


@dataclass(slots=True)
class _Source:
    """A file to read from: its footer, and its last bytes, which mostly include the indexes."""

    file: pa.NativeFile
    size: int
    footer: Struct
    tail: bytes
    tail_start: int

    @classmethod
    def open(cls, file: pa.NativeFile) -> _Source:
        size = int(file.size())
        start = max(0, size - _TAIL)
        tail = bytes(file.read_at(size - start, start))
        if size < 12 or tail[-4:] != _MAGIC:
            if tail[-4:] == b"PARE":
                raise NotJoinable("a file is encrypted")
            raise CorruptError("a file is not a Parquet file", why="it does not end in PAR1")
        at = size - 8 - struct.unpack("<I", tail[-8:-4])[0]
        if at < 4:
            raise CorruptError("a Parquet footer is cut off", why=f"it would start at {at}")
        if at < start:
            start = at
            tail = bytes(file.read_at(size - start, start))
        footer, _ = decode(tail, at - start, _FOOTER_SHAPE)
        return cls(file, size, footer, tail, start)

    def pieces(self, start: int, end: int) -> Iterator[Any]:
        """The bytes of a range, in pieces."""
        while start < end:
            length = min(_PIECE, end - start)
            yield self.read(start, length)
            start += length

    def read(self, start: int, length: int) -> Any:
        if start >= self.tail_start:
            return memoryview(self.tail)[start - self.tail_start : start - self.tail_start + length]
        data = self.file.read_at(length, start)
        if len(data) != length:
            raise CorruptError("a Parquet file is cut off", why=f"{length} bytes are missing at {start}")
        return data

    def blob(self, holder: Struct, place: int, length: int) -> bytes:
        """The bytes whose position and length are in two fields of a struct. The fields are removed."""
        start, size = holder.pop(place, (I64, 0))[1], holder.pop(length, (I64, 0))[1]
        return bytes(self.read(start, size)) if start and size else b""

    def bloom(self, meta: Struct) -> bytes:
        """The Bloom filter of a column chunk. Older writers state its length only in its header."""
        start = meta.pop(_BLOOM, (I64, 0))[1]
        if not start:
            return b""
        length = meta.get(_BLOOM_LENGTH, (I64, 0))[1]
        if not length:
            head = bytes(self.read(start, min(256, self.size - start)))
            header, end = decode(head, 0, _BLOOM_SHAPE)
            length = end + _get(header, _BLOOM_BYTES)
        return bytes(self.read(start, length))


def _span(meta: Struct) -> tuple[int, int]:
    """Where the pages of a column chunk start and end."""
    places = [meta[number][1] for number in (_DATA_PAGE, _DICTIONARY_PAGE) if meta.get(number, (I64, 0))[1] > 0]
    start = min(places)
    return start, start + _get(meta, _COMPRESSED_SIZE)


def _codec(meta: Struct) -> str:
    number = _get(meta, _CODEC)
    name = _CODECS[number] if number < len(_CODECS) else str(number)
    return "lz4" if name == "lz4_raw" else name  # Arrow calls LZ4_RAW lz4


def _pairs(footer: Struct) -> list[bytes]:
    """The key-value metadata, pair by pair."""
    return [encode(pair) for pair in _items(footer, _KEY_VALUES)]


def _items(holder: Struct, number: int) -> list[Any]:
    items: list[Any] = holder[number][1] if number in holder else []
    return items


def _get(holder: Struct, number: int) -> Any:
    if number not in holder:
        raise CorruptError("a Parquet footer lacks a field", why=f"field {number}")
    return holder[number][1]
