"""The checksums of Parquet pages, held against their bytes while these are copied and not decoded.

Rule: parquet.thrift, PageHeader: `crc` is the CRC-32 of a page as it is stored, after its header. Writers may leave it
out. Arrow verifies it where it decodes (`page_checksum_verification`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.parquet.thrift import I32, decode

_STORED_BYTES, _CRC = 3, 4
_SHAPE = {_STORED_BYTES: None, _CRC: None}
_HEADER_BYTES = 1 << 20
"""A page's header that is longer is none."""


@dataclass(slots=True)
class PageChecksums:
    """Fed with the bytes of a file from `at` on, in order; `chunks` are the ranges of its column chunks.

    A chunk whose pages cannot be told apart is passed over: not its bytes are wrong then, but what is known of them.
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
        """The next bytes. CorruptError for a page whose checksum does not hold."""
        rest = memoryview(piece)
        while len(rest) and self._place < len(self.chunks):
            start, end = self.chunks[self._place]
            if self.at < start:
                taken = min(start - self.at, len(rest))
            else:
                some = rest[: end - self.at]
                taken = self._body(some) if self._left else self._header(some, end)
            self.at += taken
            rest = rest[taken:]
            if self.at >= end:
                self._next_chunk()

    def _next_chunk(self) -> None:
        self._place += 1
        self._held.clear()
        self._left = 0

    def _body(self, some: memoryview) -> int:
        part = some[: self._left]
        self._left -= len(part)
        if self._crc is None:
            return len(part)
        self._sum = zlib.crc32(part, self._sum)
        if not self._left and self._sum != self._crc:
            raise CorruptError("a Parquet page has a wrong checksum", why=f"it ends at byte {self.at + len(part)}")
        return len(part)

    def _header(self, some: memoryview, end: int) -> int:
        """The bytes taken for a header, which may have begun in an earlier piece."""
        before = len(self._held)
        self._held += some[:_HEADER_BYTES]
        try:
            found, size = decode(bytes(self._held), 0, _SHAPE)
        except CorruptError:
            size = 0
        if not size:
            if len(self._held) > _HEADER_BYTES or self.at + len(some) >= end:
                self._held.clear()
                return len(some)
            return len(some[:_HEADER_BYTES])
        self._held.clear()
        self._left, self._sum = found.get(_STORED_BYTES, (I32, 0))[1], 0
        crc = found.get(_CRC)
        self._crc = None if crc is None else crc[1] & 0xFFFFFFFF
        if self._left < 0:  # no size of a page
            self._left = end
            self._crc = None
        return size - before
