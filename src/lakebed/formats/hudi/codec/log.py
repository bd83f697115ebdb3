"""Hudi log files: a sequence of framed blocks, appended one after another.

The frame is that of Hudi's log format version 1 (`HoodieLogFormat`, `HoodieLogFileReader`), integers big-endian:

    6 bytes   marker `#HUDI#`
    int64     size S: the bytes from here + 8 to the block's end, reverse pointer included
    int32     log format version
    int32     block kind
    int32     number of headers, then for each int32 key, int32 length, UTF-8 text
    int64     content length, then the content
    int32     number of footers, as the headers
    int64     reverse pointer: the block's length without these last 8 bytes, that is S + 6

A writer may die half way, and another may append after it, so a file can hold torn blocks, doubled markers and foreign
bytes. A block counts when its size, its reverse pointer and all lengths inside agree. Whatever lies between two such
blocks is a corrupt range, reported and skipped up to the next marker. Hudi also requires that the next marker follows a
block at once. Here a block that is whole by its own lengths is kept, whatever follows it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.kernel.decoding import RESTORE

MAGIC = b"#HUDI#"
LOG_FORMAT_VERSION = 1


class BlockKind(IntEnum):
    """What a block holds. The numbers are those on disk (`HoodieLogBlockType`)."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """What a header says. The numbers are those on disk (`HeaderMetadataType`)."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One whole block.

    `content` is a slice of the parsed bytes, not a copy. `offset` and `length` are bytes in the file and include the
    marker and the reverse pointer.
    """

    kind: BlockKind
    headers: Mapping[HeaderKey, str]
    content: memoryview
    offset: int
    length: int

    @property
    def instant_time(self) -> str:
        """The instant that wrote the block, "" where the block names none (archive files)."""
        return self.headers.get(HeaderKey.INSTANT_TIME, "")

    @property
    def target_instant_time(self) -> str:
        """The instant that a rollback block undoes, "" for other blocks."""
        return self.headers.get(HeaderKey.TARGET_INSTANT_TIME, "")

    @property
    def schema(self) -> str:
        """The writer's Avro schema as JSON text. Raises CorruptError when the block has none."""
        try:
            return self.headers[HeaderKey.SCHEMA]
        except KeyError:
            raise CorruptError(
                f"the {self.kind.name} block at offset {self.offset} has no SCHEMA header",
                instant=self.instant_time,
                todo=RESTORE,
            ) from None

    @property
    def is_partial(self) -> bool:
        """Whether the rows hold only the meta columns and the columns that changed."""
        return self.headers.get(HeaderKey.IS_PARTIAL, "").lower() == "true"

    @property
    def compacted_instants(self) -> tuple[str, ...]:
        """The instants whose blocks this one replaces (log compaction)."""
        text = self.headers.get(HeaderKey.COMPACTED_BLOCK_TIMES, "")
        return tuple(part.strip() for part in text.split(",") if part.strip())

    @property
    def is_rollback(self) -> bool:
        """Whether the block takes back the blocks of `target_instant_time` before it."""
        return self.kind is BlockKind.COMMAND


@dataclass(frozen=True, slots=True)
class CorruptRange:
    """Bytes that are not a block: where, how many, and what was wrong with the first of them.

    `framed` says that size and reverse pointer agreed and only the inside did not. Such a block was written whole and
    damaged later: a torn write leaves no frame.
    """

    offset: int
    length: int
    reason: str
    framed: bool = False


@dataclass(frozen=True, slots=True)
class LogScan:
    """The content of one log file, in the order of the file. Adjacent bad bytes make one range."""

    blocks: tuple[LogBlock, ...]
    corrupt: tuple[CorruptRange, ...]


def parse_log(data: bytes | bytearray | memoryview) -> LogScan:
    """All blocks of a log file, and the ranges of bytes that are not blocks.

    The time is linear in the file's length, whatever its bytes are. Raises UnsupportedError for a whole block of an
    unknown log format version, kind, header or command, since skipping it could hide rows.
    """
    view = memoryview(data).cast("B")
    blocks: list[LogBlock] = []
    corrupt: list[CorruptRange] = []
    at, end = 0, len(view)
    while at < end:
        try:
            block = _parse_block(view, at)
        except _NoBlock as bad:
            after = at + bad.length if bad.length else _next_frame(view, at + 1)
            _add_range(corrupt, CorruptRange(at, after - at, bad.reason, bad.framed))
            at = after
        else:
            blocks.append(block)
            at += block.length
    return LogScan(tuple(blocks), tuple(corrupt))


class _NoBlock(Exception):
    """The bytes at an offset are not a block. `length` is set when all lengths agree, so that the end is known."""

    def __init__(self, reason: str, framed: bool = False, length: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.framed, self.length = reason, framed, length


_SIZE = struct.Struct(">q")
_INT = struct.Struct(">i")
_VERSION_KIND_COUNT = struct.Struct(">iii")
_KEY_LENGTH = struct.Struct(">ii")
_SIZE_AT = len(MAGIC)
_BODY_AT = _SIZE_AT + _SIZE.size
_LEAST_SIZE = _VERSION_KIND_COUNT.size + _SIZE.size + _INT.size + _SIZE.size
# A lookahead: two markers can share a # when one of them was torn.
_FIND_MAGIC = re.compile(b"(?=%s)" % re.escape(MAGIC))


def _next_frame(view: memoryview, start: int) -> int:
    """The offset of the next marker whose size and reverse pointer agree, the file's end when there is none."""
    length = len(view)
    for marker in _FIND_MAGIC.finditer(view, start):
        body = marker.start() + _BODY_AT
        if body + _LEAST_SIZE > length:
            break
        (size,) = _SIZE.unpack_from(view, marker.start() + _SIZE_AT)
        if _LEAST_SIZE <= size <= length - body:
            (pointer,) = _SIZE.unpack_from(view, body + size - _SIZE.size)
            if pointer == size + _SIZE_AT:
                return marker.start()
    return length


def _add_range(ranges: list[CorruptRange], new: CorruptRange) -> None:
    last = ranges[-1] if ranges else None
    if last and last.offset + last.length == new.offset:
        ranges[-1] = CorruptRange(last.offset, last.length + new.length, last.reason, last.framed or new.framed)
    else:
        ranges.append(new)


def _parse_block(view: memoryview, at: int) -> LogBlock:
    if view[at : at + _SIZE_AT] != MAGIC:
        raise _NoBlock("no block marker")
    end = at + _BODY_AT + _framed_size(view, at)
    version, kind, header_count = _VERSION_KIND_COUNT.unpack_from(view, at + _BODY_AT)
    _refuse_unknown(version, kind, at)
    limit = end - _SIZE.size
    headers, place = _parse_texts(view, at + _BODY_AT + _VERSION_KIND_COUNT.size, limit, header_count, "header")
    if place + _SIZE.size + _INT.size > limit:
        raise _NoBlock("the headers leave no room for the content", framed=True)
    (content_length,) = _SIZE.unpack_from(view, place)
    place += _SIZE.size
    if not 0 <= content_length <= limit - _INT.size - place:
        raise _NoBlock(f"content length {content_length} does not fit the block", framed=True)
    content = view[place : place + content_length]
    place += content_length
    (footer_count,) = _INT.unpack_from(view, place)
    _, place = _parse_texts(view, place + _INT.size, limit, footer_count, "footer")
    if place != limit:
        raise _NoBlock(f"{limit - place} bytes are left between footers and reverse pointer", framed=True)
    try:
        texts = {key: str(text, "utf-8") for key, text in headers.items()}
    except UnicodeDecodeError:
        raise _NoBlock("a header is not UTF-8", framed=True, length=end - at) from None
    block = LogBlock(BlockKind(kind), _known_headers(texts, at), content, at, end - at)
    _check_meaning(block)
    return block


def _framed_size(view: memoryview, at: int) -> int:
    room = len(view) - at - _BODY_AT
    if room < _LEAST_SIZE:
        raise _NoBlock("the file ends inside the block's frame")
    (size,) = _SIZE.unpack_from(view, at + _SIZE_AT)
    if size < _LEAST_SIZE:
        raise _NoBlock(f"block size {size} is too small")
    if size > room:
        raise _NoBlock(f"block size {size} reaches past the end of the file")
    (pointer,) = _SIZE.unpack_from(view, at + _BODY_AT + size - _SIZE.size)
    if pointer != size + _SIZE_AT:
        raise _NoBlock(f"block size {size} and reverse pointer {pointer} disagree")
    return int(size)


def _refuse_unknown(version: int, kind: int, at: int) -> None:
    if version != LOG_FORMAT_VERSION:
        raise UnsupportedError(
            f"the log block at offset {at} has log format version {version}",
            why=f"lakebed knows version {LOG_FORMAT_VERSION} only (0 is that of Hudi before 0.4)",
            todo="Compact the table with the Hudi release that wrote it, then read it again",
        )
    if kind not in BlockKind.__members__.values():
        raise UnsupportedError(
            f"the log block at offset {at} is of unknown kind {kind}",
            why=f"the kinds are {', '.join(f'{known.value} {known.name}' for known in BlockKind)}",
            todo="Compact the table with the Hudi release that wrote it, then read it again",
        )


# A block has each header at most once. The bound keeps hostile counts from making the scan quadratic.
_MOST_TEXTS = 64


def _parse_texts(view: memoryview, place: int, limit: int, count: int, what: str) -> tuple[dict[int, memoryview], int]:
    if not 0 <= count <= _MOST_TEXTS:
        raise _NoBlock(f"{what} count {count} is out of range", framed=True)
    texts: dict[int, memoryview] = {}
    for _ in range(count):
        if place + _KEY_LENGTH.size > limit:
            raise _NoBlock(f"a {what} reaches past the block", framed=True)
        key, length = _KEY_LENGTH.unpack_from(view, place)
        place += _KEY_LENGTH.size
        if not 0 <= length <= limit - place:
            raise _NoBlock(f"a {what} of length {length} reaches past the block", framed=True)
        if key in texts:
            raise _NoBlock(f"{what} {key} comes twice", framed=True)
        texts[key] = view[place : place + length]
        place += length
    return texts, place


def _known_headers(headers: dict[int, str], at: int) -> Mapping[HeaderKey, str]:
    try:
        return MappingProxyType({HeaderKey(key): text for key, text in headers.items()})
    except ValueError:
        unknown = sorted(set(headers) - set(HeaderKey))
        raise UnsupportedError(
            f"the log block at offset {at} has a header of unknown kind {unknown[0]}",
            why="a newer Hudi may have written it, and it could change which rows count",
            todo="Compact the table with the Hudi release that wrote it, then read it again",
        ) from None


def _check_meaning(block: LogBlock) -> None:
    if block.kind is BlockKind.CORRUPT:
        raise _NoBlock("a block of kind CORRUPT", framed=True, length=block.length)
    if block.kind is BlockKind.COMMAND:
        command = block.headers.get(HeaderKey.COMMAND_BLOCK_TYPE, "")
        if command != _ROLLBACK:
            raise UnsupportedError(
                f"the command block at offset {block.offset} has command {command!r}",
                instant=block.instant_time,
                why=f"lakebed knows only {_ROLLBACK} (rollback)",
                todo="Compact the table with the Hudi release that wrote it, then read it again",
            )
        if not block.target_instant_time:
            raise _NoBlock("a rollback that names no instant", framed=True, length=block.length)


_ROLLBACK = "0"
