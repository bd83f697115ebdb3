"""Data files of a bucket: format, compression, and a new file where the target size is reached.

Rules: Paimon's RollingFileWriter. A file is closed when it has reached `target-file-size`; a row group or stripe is
written whole, so the last one of a file is cut to what the bytes so far say of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from lakebed.formats.paimon.layout import NameFactory
from lakebed.formats.paimon.write.formats import (
    ENCODERS,
    Encoder,
    FileFormat,
    TextBounds,
    check_values,
    dictionary_columns,
)
from lakebed.kernel.files import Store

_PIECES_A_FILE = 4
_SLACK = 64
"""A file that lacks less than this part of the target is full."""
_LEAST_PIECE_BYTES = 64 << 10
_GREATEST_PIECE_BYTES = 128 << 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WrittenFile(Generic[T]):
    """A closed file: `size` in bytes, what `describe` said of each part of its rows in order, and the bounds of text
    columns that its footer has."""

    name: str
    size: int
    rows: int
    parts: tuple[T, ...]
    texts: TextBounds


class RollingWriter(Generic[T]):
    """Rows of one bucket into files, in the order given. `describe` is asked once for the rows that one call gives to
    one file; `repeats` names the columns worth a dictionary, judged by the rows when not given. `rolls` false: one file
    takes all rows."""

    def __init__(
        self, store: Store, folder: str, how: FileFormat, names: NameFactory, describe: Callable[[pa.Table], T],
        repeats: Collection[str] | None = None, rolls: bool = True,
    ) -> None:  # fmt: skip
        self._store, self._folder, self._how, self._names = store, folder, how, names
        self._describe, self._repeats, self._rolls = describe, repeats, rolls
        self._open: _OpenFile[T] | None = None
        self._closed: list[WrittenFile[T]] = []

    def write(self, table: pa.Table) -> None:
        """Append rows. When it fails, the file that was open is gone; those before it stay."""
        check_values(table, self._how.name, self._store.location)
        start = 0
        while start < len(table):
            rest = table.slice(start)
            if self._open is None:
                repeats = dictionary_columns(rest) if self._repeats is None else self._repeats
                self._open = _OpenFile(
                    self._store, self._folder, table.schema, self._how, self._names, repeats, self._rolls
                )
            with self._open.undone_on_error():
                taken = self._open.fill(rest)
                self._open.parts.append(self._describe(rest.slice(0, taken)))
                start += taken
                if self._open.is_full:
                    self._roll()

    def close(self) -> tuple[WrittenFile[T], ...]:
        """All files since the last call, closed. More may be written."""
        self._roll()
        closed, self._closed = tuple(self._closed), []
        return closed

    def abort(self) -> tuple[str, ...]:
        """Remove the open file; the paths of the closed ones, which are the caller's to remove."""
        if self._open is not None:
            self._open.discard()
            self._open = None
        return tuple(f"{self._folder}/{file.name}" for file in self._closed)

    def _roll(self) -> None:
        if self._open is not None:
            opened, self._open = self._open, None
            self._closed.append(opened.close())


class _OpenFile(Generic[T]):
    """A file on its way. Leaving the store's block by an error is what removes it."""

    def __init__(
        self, store: Store, folder: str, schema: pa.Schema, how: FileFormat, names: NameFactory,
        repeats: Collection[str], rolls: bool,
    ) -> None:  # fmt: skip
        self.name = names(f".{how.name}")
        self.parts: list[T] = []
        self._target, self._rows, self._rolls = how.target_size, 0, rolls
        self._block = ExitStack()
        self._sink = self._block.enter_context(store.open_output(f"{folder}/{self.name}"))
        with self.undone_on_error():
            self._encoder: Encoder = ENCODERS[how.name](self._sink, schema, how, repeats)

    @property
    def is_full(self) -> bool:
        """Whether the target size is reached, or nearly."""
        return self._rolls and bool(self._sink.tell() >= self._target - self._target // _SLACK)

    def fill(self, table: pa.Table) -> int:
        """Write rows until the file is full; how many they were."""
        done = 0
        while done < len(table) and not (done and self.is_full):
            some = table.slice(done, self._rows_to_write(table))
            self._encoder.write(some)
            done += len(some)
            self._rows += len(some)
        return done

    def close(self) -> WrittenFile[T]:
        """End the file."""
        with self.undone_on_error():
            texts = self._encoder.close()
            size = self._sink.tell()
        self._block.close()
        return WrittenFile(self.name, size, self._rows, tuple(self.parts), texts)

    def discard(self) -> None:
        """Remove the file."""
        with suppress(_Discarded), self.undone_on_error():
            raise _Discarded

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """A block; an error that leaves it removes the file and goes on."""
        try:
            yield
        except BaseException as error:
            with suppress(Exception):  # an Arrow writer that is not closed would close itself much later
                self._encoder.close()
            if not self._block.__exit__(type(error), error, error.__traceback__):
                raise

    def _rows_to_write(self, table: pa.Table) -> int:
        """A fraction of the target by the bytes in memory, and no more than the file still takes by the bytes that its
        rows took so far."""
        rows = int(len(table) * piece_bytes(self._target) / max(1, table.nbytes))
        size = self._sink.tell()
        # where it is less, the encoder holds rows back, and the size says nothing
        if self._rolls and self._rows and size > self._rows // 64:
            rows = min(rows, int((self._target - size) * self._rows / size) + 1)
        return max(1, rows)


def piece_bytes(target: int) -> int:
    """How much Arrow data becomes one row group of files of that size."""
    return min(max(target // _PIECES_A_FILE, _LEAST_PIECE_BYTES), _GREATEST_PIECE_BYTES)


class _Discarded(Exception):
    """Leaves the block of a file that nobody wants."""
