"""Read ORC files from object stores, and write them to a disk that may be full.

ORC's own reader asks for small parts of each stream of each column. So a remote file is read ahead: whole stripes where
many columns are read, else in windows that grow while the reads follow each other.

ORC's own writer finishes the file in its destructor, where an error of the disk would end the whole process. So we give
it a sink that never fails. The sink remembers the first error, which is raised once the writer has returned.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

from lakebed.errors import UnsupportedError
from lakebed.kernel.arrays import leaves
from lakebed.kernel.files.remote_file import RemoteFile, RemoteInput

_LAST = 2**63 - 1
"""The last moment that nanoseconds since 1970 hold."""
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DENSE = 4
"""Whole stripes are fetched when at least one column in so many is read."""
_FIRST, _MOST = 512 << 10, 32 << 20
"""The bytes of the first window of reads that follow each other, and of the largest one."""
_NEAR = 64 << 10
"""A read that begins so many bytes after the window at most follows the reads before it."""


class OrcReader:
    """An ORC file over a file of `Store.open_input`."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._ahead = _ReadAhead(source.file) if isinstance(source, RemoteInput) else None
        self._file = orc.ORCFile(source if self._ahead is None else pa.PythonFile(self._ahead, mode="r"))
        self.rows: int = self._file.nrows
        self.schema: pa.Schema = self._file.schema

    def stripes(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The named columns of each stripe, in the order of the names."""
        is_dense = len(names) * _DENSE >= len(self.schema.names)
        for stripe in range(self._file.nstripes):
            if self._ahead is not None:
                self._ahead.begin_stripe(is_dense)
            yield self._stripe(stripe, names)

    def _stripe(self, stripe: int, names: Sequence[str]) -> pa.RecordBatch:
        """UnsupportedError for times that nanoseconds cannot hold: Arrow reads those of ORC files as such."""
        try:
            return self._file.read_stripe(stripe, columns=names).select(names)
        except pa.ArrowInvalid as error:
            if "out of range for nanosecond" not in str(error):
                raise
            raise UnsupportedError(
                "an ORC file has times before 1677 or after 2262",
                why=str(error),
                todo="Read the other columns, or let the table's own engine write Parquet files",
            ) from error


def misread_times(table: pa.Table) -> tuple[str, str] | None:
    """A column with times that are not read back from an ORC file that Arrow wrote, and what they are; None where there
    is no such column."""
    for name in table.schema.names:
        for times in leaves(table.column(name)):
            if not pa.types.is_timestamp(times.type):
                continue
            least, greatest = pc.min_max(times).values()
            if least.is_valid and least.value < 0:
                return name, "before 1970, which other readers would not read back"
            if greatest.is_valid and greatest.value > _LAST // _NANOSECONDS[times.type.unit]:
                return name, "after 2262-04-11, which lakebed would not read back"
    return None


class _ReadAhead(io.RawIOBase):
    """A remote file that announces what is likely to be read next: a whole stripe, or a window of bytes.

    Of a stripe, ORC's reader reads the footer first, which is at its end. The stripe begins where the one before ended.
    """

    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self._file, self._at = file, 0
        self._start = self._stop = self._width = 0
        self._stripe_end, self._awaits_footer, self._is_dense = 0, False, False

    def begin_stripe(self, is_dense: bool) -> None:
        """Say that the next stripe is read, most of it where `is_dense`."""
        self._awaits_footer, self._is_dense = True, is_dense

    def read(self, size: int | None = -1) -> Any:
        left = max(self._file.size() - self._at, 0)
        stop = self._at + (left if size is None or size < 0 else min(size, left))
        if self._awaits_footer:
            self._announce_stripe(stop)
        elif not self._start <= self._at <= stop <= self._stop:
            self._move(stop)
        self._file.seek(self._at)
        data = self._file.read(stop - self._at)
        self._at = stop
        return data

    def _announce_stripe(self, end: int) -> None:
        """Announce the stripe that ends at `end`, if most of it is read."""
        start, self._stripe_end, self._awaits_footer = self._stripe_end, end, False
        if self._is_dense and start < end:
            self._start, self._stop, self._width = start, end, 0
            self._file.announce([(start, end)])

    def _move(self, stop: int) -> None:
        """Announce the window for a read up to `stop`."""
        follows = self._start <= self._at <= self._stop + _NEAR
        self._width = min(max(2 * self._width, _FIRST), _MOST) if follows else 0
        self._start, self._stop = self._at, min(max(stop, self._at + self._width), self._file.size())
        self._file.announce([(self._start, self._stop)])

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = self._file.seek(offset, whence)
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        """The size of the file in bytes."""
        return self._file.size()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class OrcWriter:
    """Arrow's ORCWriter over a file. `options` are the keyword arguments of ORCWriter."""

    def __init__(self, sink: pa.NativeFile, **options: Any) -> None:
        self._sink = _NeverFailing(sink)
        self._writer = orc.ORCWriter(pa.PythonFile(self._sink, mode="w"), **options)

    def write(self, table: pa.Table) -> None:
        """Add rows. Raises whatever the file raised."""
        self._writer.write(table)
        self._sink.check()

    def close(self) -> None:
        """Finish the ORC file; `sink` stays open. Raises whatever the file raised."""
        self._writer.close()
        self._sink.check()


class _NeverFailing:
    """Accepts all bytes, and passes them on until the file fails."""

    closed = False

    def __init__(self, sink: pa.NativeFile) -> None:
        self._sink, self._written, self._error = sink, 0, None

    _error: Exception | None

    def write(self, data: Any) -> int:
        if self._error is None:
            try:
                self._sink.write(data)
            except Exception as error:  # noqa: BLE001  # raised by `check`, where it is safe
                self._error = error
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Do nothing: no bytes are buffered."""

    def close(self) -> None:
        self.closed = True

    def check(self) -> None:
        if self._error is not None:
            raise self._error
