"""Verifies the checksums of Parquet pages while their bytes are copied without decoding.

Rule: parquet.thrift, PageHeader: `crc` is the CRC-32 of a page as it is stored, after its header. Writers may leave it
out. Where Arrow decodes pages, it verifies the checksums itself (`page_checksum_verification`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from lakebed.errors import CorruptError
from lakebed.kernel.parquet.thrift import I32, decode

_STORED_BYTES, _CRC = 3, 4
_SHAPE = {_STORED_BYTES: None, _CRC: None}
_HEADER_BYTES = 1 << 20
"""Something longer is not a page header."""


@dataclass(slots=True)
class PageChecksums:
    """Verifies the bytes of a file from position `at` on, in order. `chunks` are the ranges of its column chunks.

    A chunk whose page headers cannot be read is skipped: its pages cannot be found, which does not mean that its bytes
    are wrong.
    """

    at: int
    chunks: Sequence[tuple[int, int]]
    _place: int = 0
    _held: bytearray = field(default_factory=bytearray)
    _left: int = 0
    _crc: int | None = None
    _sum: int = 0

    def __post_init__(self) -> None:
        self.chunks = sorted(self.chunks)

    def feed(self, piece: bytes | memoryview) -> None:
        """Take the next bytes. CorruptError for a page with a wrong checksum."""
        rest = memoryview(piece)
        while len(rest) and self._place < len(self.chunks):
            start, end = self.chunks[self._place]
            if self.at < start:
                taken = min(start - self.at, len(rest))
            else:
                in_chunk = rest[: end - self.at]
                taken = self._body(in_chunk) if self._left else self._header(in_chunk, end)
            self.at += taken
            rest = rest[taken:]
            if self.at >= end:
                self._next_chunk()

    def _next_chunk(self) -> None:
        self._place += 1
        self._held.clear()
        self._left = 0

    def _body(self, data: memoryview) -> int:
        """Take bytes of a page. Returns how many."""
        part = data[: self._left]
        self._left -= len(part)
        if self._crc is None:
            return len(part)
        self._sum = zlib.crc32(part, self._sum)
        if not self._left and self._sum != self._crc:
            raise CorruptError("a Parquet page has a wrong checksum", why=f"it ends at byte {self.at + len(part)}")
        return len(part)

    def _header(self, data: memoryview, end: int) -> int:
        """Take bytes of a page header, which may have started in an earlier piece. Returns how many."""
        before = len(self._held)
        self._held += data[:_HEADER_BYTES]
        try:
            header, size = decode(bytes(self._held), 0, _SHAPE)
        except CorruptError:
            size = 0
        if not size:
            if len(self._held) > _HEADER_BYTES or self.at + len(data) >= end:
                self._held.clear()
                return len(data)
            return len(data[:_HEADER_BYTES])
        self._held.clear()
        self._left, self._sum = header.get(_STORED_BYTES, (I32, 0))[1], 0
        crc = header.get(_CRC)
        self._crc = None if crc is None else crc[1] & 0xFFFFFFFF
        if self._left < 0:  # not a page size
            self._left = end
            self._crc = None
        return size - before
