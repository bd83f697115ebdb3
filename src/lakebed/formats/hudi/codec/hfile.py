"""HFile images, version 3, as Hudi keeps the metadata table in base files and log blocks.

A file is a sequence of blocks: data blocks with sorted keys, then the blocks that are loaded on open (the root of the
data index, the index of meta blocks, the file info), then a trailer of 4096 bytes. Integers are big-endian. A block:

    8 bytes   what it is (`DATABLK*`, `IDXROOT2`, ...)
    int32     bytes after this head, checksums included
    int32     bytes of the content, uncompressed
    int64     offset of the previous block of its kind, or -1
    byte      kind of checksum: 0 none, 1 CRC-32, 2 CRC-32C
    int32     bytes that one checksum covers
    int32     bytes of head and content, checksums not included
    ...       content, compressed, then 4 bytes of checksum for each run of covered bytes, the head included

An entry of a data block is int32 length of the key, int32 length of the value, the key, the value, and one byte, the
memory store time 0. A key is int16 length of the row, the row, one byte 0 (no family), int64 time stamp, one byte kind.
The row is the record's key, and the value its Avro datum.

Rules: HBase's `HFileBlock`, `FixedFileTrailer` and `HFileBlockIndex`; Hudi's `HFileReaderImpl`. Release 1.1 writes
index keys without time stamp and kind, and no checksums.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.kernel.arrays import from_numpy
from lakebed.kernel.decoding import RESTORE, decoding
from lakebed.kernel.inflate import INFLATED_BYTES, inflated
from lakebed.kernel.remembered import remembered

TRAILER_BYTES = 4096
DATA, LEAF, INTERMEDIATE, ROOT, FILE_INFO = b"DATABLK*", b"IDXLEAF2", b"IDXINTE2", b"IDXROOT2", b"FILEINF2"
_TRAILER = b'TRABLK"$'
_HEAD = struct.Struct(">8siiqBii")
_ENTRY = struct.Struct(">ii")
_INDEXED = struct.Struct(">qi")
_ROW_LENGTH = 2
_MEMSTORE_BYTES = 1
_MOST_LEVELS = 16
"""How deep an index may be. HBase's own block sizes give a file of terabytes four levels."""
_GZIP, _NONE = 1, 2
_PROTOBUF = b"PBUF"


@dataclass(frozen=True, slots=True)
class Trailer:
    """The trailer: where the blocks are that are loaded on open, and how the file is built."""

    info: int
    load_on_open: int
    indexed: int
    entries: int
    levels: int
    codec: int


@dataclass(frozen=True, slots=True)
class Block:
    """The content of one block, uncompressed. `length` are its bytes in the file."""

    kind: bytes
    content: bytes | memoryview
    length: int


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A block that an index names: its first row, offset and bytes."""

    row: bytes
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class HFile:
    """One image. `read(start, length)` gives its bytes; `index` is its root, whose levels are `trailer.levels`. `info`
    are the texts of the file info: the Avro schema of the values is `schema`."""

    read: Callable[[int, int], bytes]
    trailer: Trailer
    index: tuple[IndexEntry, ...]
    info: Mapping[str, str]

    def data_blocks(self) -> list[IndexEntry]:
        """All data blocks, in the order of their keys."""
        entries, seen = list(self.index), set[int]()
        if not 0 < self.trailer.levels <= _MOST_LEVELS:
            raise _damaged(f"its index has {self.trailer.levels} levels")
        for _ in range(self.trailer.levels - 1):
            places = {entry.offset for entry in entries}
            if len(places) < len(entries) or places & seen:  # each block has one place in the tree
                raise _damaged("its index names a block twice")
            seen |= places
            entries = [inner for entry in entries for inner in _leaf_entries(self._block(entry, LEAF, INTERMEDIATE))]
        if len({entry.offset for entry in entries}) < len(entries):
            raise _damaged("its index names a block twice")
        return entries

    @decoding("an HFile cannot be read")
    def scan(self, blocks: Sequence[IndexEntry] | None = None) -> pa.Table:
        """The entries of some data blocks, or of all, in order: columns key and value, both binary."""
        wanted = self.data_blocks() if blocks is None else blocks
        batches = [_entries(bytes(self._block(entry, DATA))) for entry in wanted]
        return pa.Table.from_batches(batches, _SCHEMA)

    @decoding("an HFile cannot be read")
    def around(self, rows: Sequence[bytes]) -> pa.Table:
        """The entries of those data blocks that can hold one of these rows, which need not be sorted."""
        blocks = self.data_blocks()
        firsts = [entry.row for entry in blocks]
        places = sorted({_place(firsts, row) for row in rows} - {-1})
        return self.scan([blocks[place] for place in places])

    @decoding("an HFile cannot be read")
    def starting(self, prefixes: Sequence[bytes]) -> pa.Table:
        """The entries whose rows begin with one of these bytes, and others beside them."""
        blocks = self.data_blocks()
        firsts = [entry.row for entry in blocks]
        places: set[int] = set()
        for prefix in prefixes:
            after = prefix.rstrip(b"\xff")
            last = _place(firsts, after[:-1] + bytes([after[-1] + 1])) if after else len(blocks) - 1
            places.update(range(max(_place(firsts, prefix), 0), last + 1))
        return self.scan([blocks[place] for place in sorted(places)])

    def _block(self, entry: IndexEntry, *kinds: bytes) -> bytes | memoryview:
        block = parse_block(self.read(entry.offset, entry.size), 0, self.trailer.codec)
        if block.kind not in kinds:
            raise _damaged(f"its index names a block {block.kind!r}")
        return block.content


_SCHEMA = pa.schema([pa.field("key", pa.binary(), False), pa.field("value", pa.binary(), False)])


@decoding("an HFile cannot be read")
def open_hfile(read: Callable[[int, int], bytes], size: int) -> HFile:
    """An image of `size` bytes, whose bytes `read(start, length)` gives: its trailer and its index are read.

    UnsupportedError for another version or compression of HFiles than Hudi writes.
    """
    trailer = parse_trailer(read(max(size - TRAILER_BYTES, 0), TRAILER_BYTES))
    start = trailer.load_on_open
    opened = read(start, size - TRAILER_BYTES - start)
    root = parse_block(opened, 0, trailer.codec)
    if root.kind != ROOT:
        raise _damaged(f"its index is a block {root.kind!r}")
    info = parse_block(opened, trailer.info - start, trailer.codec)
    if info.kind != FILE_INFO:
        raise _damaged(f"its file info is a block {info.kind!r}")
    return HFile(read, trailer, tuple(_index_entries(root.content, trailer.indexed)), _texts(info.content))


@remembered
def hfile_of(data: bytes) -> HFile:
    """An image whose bytes are all here."""
    return open_hfile(lambda start, length: data[start : start + length], len(data))


def parse_trailer(data: bytes) -> Trailer:
    """The trailer of a file from its last bytes."""
    if len(data) != TRAILER_BYTES or not data.startswith(_TRAILER):
        raise _damaged("it has no trailer")
    version = int.from_bytes(data[-3:], "big")
    if version != 3:
        raise UnsupportedError(
            f"HFile version {version} is not supported", why="Hudi writes version 3", todo="Use a newer lakebed"
        )
    fields = _numbers(data, len(_TRAILER))
    trailer = Trailer(*(fields.get(number, 0) for number in (1, 2, 5, 7, 8, 12)))
    if trailer.codec not in (_GZIP, _NONE):
        raise UnsupportedError(
            f"compression {trailer.codec} of an HFile is not supported",
            why="Hudi writes gzip",
            todo="Use a newer lakebed",
        )
    return trailer


def parse_block(data: bytes | memoryview, at: int, codec: int) -> Block:
    """The block at an offset. CorruptError where its lengths do not fit."""
    kind, after_head, length, _, _, _, without_checksums = _HEAD.unpack_from(data, at)
    whole = _HEAD.size + after_head
    if not _HEAD.size <= without_checksums <= whole <= len(data) - at or not 0 <= length <= INFLATED_BYTES:
        raise _damaged(f"the lengths of its block {kind!r} do not fit")
    content: bytes | memoryview = memoryview(data)[at + _HEAD.size : at + without_checksums]
    if codec == _GZIP:
        content = inflated(content, "gzip", length) if length else b""
    if len(content) != length:
        raise _damaged(f"its block {kind!r} has {len(content)} bytes, not {length}")
    return Block(kind, content, whole)


@remembered
def _entries(content: bytes) -> pa.RecordBatch:
    """The entries of a data block. The walk over its frames is the one loop: where an entry begins, only the entry
    before it tells."""
    starts: list[tuple[int, int, int]] = []
    at, end, unpack = 0, len(content), _ENTRY.unpack_from
    while at < end:
        key, value = unpack(content, at)
        starts.append((at, key, value))
        at += _ENTRY.size + key + value + _MEMSTORE_BYTES
        if key < _ROW_LENGTH or value < 0:
            break
    if at != end:
        raise _damaged("the entries of a data block do not fit it")
    frames = np.array(starts, np.int64).reshape(-1, 3)
    place, keys, values = frames.T
    raw = np.frombuffer(content, np.uint8)
    row_at = place + _ENTRY.size + _ROW_LENGTH
    rows = (raw[row_at - 2].astype(np.int64) << 8) | raw[row_at - 1]
    value_at = place + _ENTRY.size + keys
    if ((rows > keys - _ROW_LENGTH) | (rows < 0)).any():
        raise _damaged("a row is longer than its key")
    bounds = np.column_stack([row_at, row_at + rows, value_at, value_at + values]).astype(np.int32).reshape(-1)
    ends = pa.py_buffer(np.append(bounds, np.int32(end) if len(bounds) else np.int32(0)).astype(np.int32))
    pieces = pa.BinaryArray.from_buffers(pa.binary(), len(bounds), [None, ends, pa.py_buffer(content)])
    first = np.arange(0, len(bounds), 4)
    return pa.RecordBatch.from_arrays(
        [pieces.take(from_numpy(first)), pieces.take(from_numpy(first + 2))], schema=_SCHEMA
    )


def _index_entries(content: bytes | memoryview, count: int) -> list[IndexEntry]:
    entries, at = [], 0
    for _ in range(count):
        offset, size = _INDEXED.unpack_from(content, at)
        length, at = _hadoop_number(content, at + _INDEXED.size)
        entries.append(IndexEntry(_row(bytes(content[at : at + length])), offset, size))
        at += length
    return entries


def _leaf_entries(content: bytes | memoryview) -> list[IndexEntry]:
    """A leaf or intermediate index: a count, count + 1 offsets of its entries, the entries."""
    (count,) = struct.unpack_from(">i", content)
    begin = 4 * (count + 2)
    if count < 0 or begin > len(content):
        raise _damaged("an index has no room for its entries")
    offsets = struct.unpack_from(f">{count + 1}i", content, 4)
    entries = []
    for start, end in pairwise(offsets):
        offset, size = _INDEXED.unpack_from(content, begin + start)
        key = bytes(content[begin + start + _INDEXED.size : begin + end])
        entries.append(IndexEntry(_row(key), offset, size))
    return entries


def _row(key: bytes) -> bytes:
    length = int.from_bytes(key[:_ROW_LENGTH], "big")
    if len(key) < _ROW_LENGTH + length:
        raise _damaged("a row is longer than its key")
    return key[_ROW_LENGTH : _ROW_LENGTH + length]


def _place(firsts: Sequence[bytes], row: bytes) -> int:
    low, high = 0, len(firsts)
    while low < high:
        middle = (low + high) // 2
        if firsts[middle] <= row:
            low = middle + 1
        else:
            high = middle
    return low - 1


def _hadoop_number(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """A number as Hadoop's `WritableUtils.writeVLong` writes it, not negative, and where it ends."""
    first = data[at] - 256 if data[at] > 127 else data[at]
    if first >= -112:
        return first, at + 1
    length = -112 - first
    if length > 8:
        raise _damaged("the length of a key is negative")
    return int.from_bytes(data[at + 1 : at + 1 + length], "big"), at + 1 + length


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift > 63:
            raise _damaged("a number of its trailer has no end")


def _numbers(data: bytes, at: int) -> dict[int, int]:
    """The numbers of a protobuf message that its own length precedes; its texts are passed over."""
    length, at = _varint(data, at)
    end, numbers = at + length, {}
    if end > len(data):
        raise _damaged("its trailer is cut short")
    while at < end:
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == 2:
            at += value
        elif tag & 7 == 0:
            numbers[tag >> 3] = value
        else:
            raise _damaged("its trailer has a field of another kind")
    return numbers


def _texts(content: bytes | memoryview) -> dict[str, str]:
    """The file info: a protobuf message of pairs of bytes, of which those that are text are kept."""
    if bytes(content[: len(_PROTOBUF)]) != _PROTOBUF:
        raise _damaged("its file info is not a protobuf message")
    length, at = _varint(content, len(_PROTOBUF))
    end, texts = at + length, {}
    while at < end:
        _, at = _varint(content, at)
        size, at = _varint(content, at)
        pair, stop = [], at + size
        while at < stop:
            _, at = _varint(content, at)
            size, at = _varint(content, at)
            pair.append(bytes(content[at : at + size]))
            at += size
        key, value = pair
        texts[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return texts


def _damaged(why: str) -> CorruptError:
    return CorruptError("an HFile is damaged", why=why, todo=RESTORE)
