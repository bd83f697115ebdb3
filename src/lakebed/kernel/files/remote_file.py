"""A file of an object store as Arrow reads it: its end is there, and the parts to be read are fetched ahead."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakebed.kernel.files.waiting import Budget, waiting

NEAR = 512 << 10
"""Ranges with at most so many bytes between them are fetched by one request."""
PART = 8 << 20
"""A range of more bytes is fetched by several requests at once."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a file, or the whole of it: its bytes from `start` on. `size` is the true size of the file."""

    data: memoryview
    start: int
    size: int

    @property
    def is_whole(self) -> bool:
        """Whether these are all bytes of the file."""
        return self.start == 0


@dataclass(slots=True, eq=False)
class _Part:
    """One request: the bytes [start, stop). `unread` of them were announced and not read yet."""

    start: int
    stop: int
    unread: int
    arriving: Future[memoryview] | None = None


class RemoteFile(io.RawIOBase):
    """Reads an object: from its end, which is at hand, from parts that were announced, else by a request for each read.

    `fetch(start, stop)` reads a range, `submit` runs a function on a thread for requests. Announced parts are requested
    in order, as many as the budget allows, at least the one that is read; a part is dropped once it was read.
    """

    def __init__(
        self, end: End, fetch: Callable[[int, int], memoryview], submit: Callable[..., Future[Any]], budget: Budget
    ) -> None:
        super().__init__()
        self._end, self._fetch, self._submit, self._budget = end, fetch, submit, budget
        self._parts: list[_Part] = []
        self._starts: list[int] = []
        self._next = 0
        self._held = 0
        self._at = 0

    def announce(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Say which ranges [start, stop) are going to be read, in this order. They replace those announced before."""
        self._drop(self._parts)
        self._parts = _parts([(start, min(stop, self._end.start)) for start, stop in ranges])
        self._parts.sort(key=lambda part: part.start)
        self._starts = [part.start for part in self._parts]
        self._next = 0
        self._start_more()

    def size(self) -> int:
        """The size of the file in bytes."""
        return self._end.size

    def readable(self) -> bool:
        """Arrow asks this of a file: true."""
        return True

    def seekable(self) -> bool:
        """Arrow asks this of a file: true."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a byte."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end.size}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> Any:
        """The next bytes, as something that has the buffer protocol."""
        left = max(self._end.size - self._at, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        pieces = self._pieces(self._at, self._at + wanted)
        self._at += wanted
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Drop what was announced and not read."""
        if not self.closed:
            self._drop(self._parts)
            self._parts, self._starts = [], []
        super().close()

    def _pieces(self, start: int, stop: int) -> list[memoryview]:
        """The bytes [start, stop), cut where they come from different requests."""
        pieces: list[memoryview] = []
        while start < stop:
            if start >= self._end.start:
                pieces.append(self._end.data[start - self._end.start : stop - self._end.start])
                break
            part = self._part_at(start)
            if part is not None:
                until = min(stop, part.stop)
                pieces.append(self._arrived(part)[start - part.start : until - part.start])
                self._was_read(part, until - start)
            else:
                until = min(stop, self._end.start, self._next_start(start))
                pieces.append(self._fetch(start, until))
            start = until
        return pieces

    def _part_at(self, at: int) -> _Part | None:
        place = bisect_right(self._starts, at) - 1
        part = self._parts[place] if place >= 0 else None
        return part if part is not None and at < part.stop and part.unread > 0 else None

    def _next_start(self, at: int) -> int:
        """Where the next part that is still to be read begins."""
        later = (part.start for part in self._parts[bisect_right(self._starts, at) :] if part.unread > 0)
        return next(later, self._end.size)

    def _arrived(self, part: _Part) -> memoryview:
        if part.arriving is None:
            self._start(part, force=True)
            self._start_more()
        assert part.arriving is not None
        with waiting():
            return part.arriving.result()

    def _was_read(self, part: _Part, size: int) -> None:
        part.unread -= size
        if part.unread <= 0:
            self._drop([part])
            self._start_more()

    def _start_more(self) -> None:
        """Request further parts while the budget lasts; one is always under way or at hand."""
        while self._next < len(self._parts):
            part = self._parts[self._next]
            if part.arriving is None and part.unread > 0 and not self._start(part, force=self._held == 0):
                return
            self._next += 1

    def _start(self, part: _Part, force: bool) -> bool:
        if not self._budget.take(part.stop - part.start, force):
            return False
        self._held += part.stop - part.start
        part.arriving = self._submit(self._fetch, part.start, part.stop)
        return True

    def _drop(self, parts: Iterable[_Part]) -> None:
        for part in parts:
            if part.arriving is not None:
                part.arriving.cancel()
                part.arriving, part.unread = None, 0
                self._held -= part.stop - part.start
                self._budget.give(part.stop - part.start)


class RemoteInput(pa.PythonFile):  # type: ignore[misc]  # pyarrow has no types
    """A `RemoteFile` for Arrow."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self.file = file


def _parts(ranges: Iterable[tuple[int, int]]) -> list[_Part]:
    """The requests for ranges: neighbours with little between them are joined, large ones are cut."""
    parts: list[_Part] = []
    for start, stop in sorted(wanted for wanted in ranges if wanted[0] < wanted[1]):
        last = parts[-1] if parts else None
        if last is not None and start < last.stop:  # announced twice, or overlapping
            start = last.stop
            if start >= stop:
                continue
        if last is not None and start - last.stop <= NEAR and stop - last.start <= PART:
            last.stop = stop
            last.unread += stop - start
            continue
        for at in range(start, stop, PART):
            parts.append(_Part(at, min(at + PART, stop), min(at + PART, stop) - at))
    return parts
