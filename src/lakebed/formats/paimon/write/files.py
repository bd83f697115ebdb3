"""The data files of a bucket: a new one is begun where the target size is reached.

Rules: Paimon's RollingFileWriter. A file is closed when it has reached `target-file-size`. A row group or stripe is
written whole, so the last one of a file is cut by what a row has taken so far. Paimon's Parquet writer sizes row groups
by `parquet.block.size`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.file_indexes import FileIndexRules
from lakebed.formats.paimon.layout import INDEX_SUFFIX, NameFactory
from lakebed.formats.paimon.write.formats import (
    ENCODERS,
    Encoder,
    FileFormat,
    TextBounds,
    check_values,
    dictionary_columns,
)
from lakebed.kernel.files import Store

_NO_INDEXES = FileIndexRules()
_SLACK = 64
"""A file that lacks less than this part of the target is full."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileTarget:
    """Where and how new files are written: the bucket's folder in a store, the format, what makes their names, and
    which indexes they get. `rolls` false: one file takes all rows."""

    store: Store
    folder: str
    format: FileFormat
    names: NameFactory
    rolls: bool = True
    indexes: FileIndexRules = _NO_INDEXES


@dataclass(frozen=True, slots=True)
class WrittenFile(Generic[T]):
    """A closed file: its `size` in bytes, what `describe` returned for each part of its rows in order, and the bounds
    of text columns that its footer has. Its indexes are `embedded_index`, or in the file `extra_files` beside it."""

    name: str
    size: int
    rows: int
    parts: tuple[T, ...]
    texts: TextBounds
    embedded_index: bytes | None = None
    extra_files: tuple[str, ...] = ()


class RollingWriter(Generic[T]):
    """Writes rows of one bucket into files, in the order given.

    `describe` is called for parts of the rows in order, each part one chunk of rows in one file. `repeats` names the
    columns worth a dictionary; None: the rows decide. `gathers`: rows wait in memory until they make a row group of a
    good size; else each call of `write` begins a row group.
    """

    def __init__(
        self,
        target: FileTarget,
        describe: Callable[[pa.Table], T],
        repeats: Collection[str] | None = None,
        gathers: bool = False,
    ) -> None:
        self._target, self._describe, self._repeats = target, describe, repeats
        self._open: _OpenFile[T] | None = None
        self._closed: list[WrittenFile[T]] = []
        self._least = target.format.piece_bytes // 2 if gathers else 0
        self._held: list[pa.Table] = []
        self._held_bytes = 0

    def write(self, table: pa.Table) -> None:
        """Append rows. When it fails, the open file is removed and the closed ones stay."""
        check_values(table, self._target.format.name, self._target.store.location)
        if len(table):
            self._held.append(table)
            self._held_bytes += table.nbytes
        if self._held_bytes >= self._least:
            self._write_held()

    def _write_held(self) -> None:
        if not self._held:
            return
        table, self._held, self._held_bytes = pa.concat_tables(self._held), [], 0
        start = 0
        while start < len(table):
            rest = table.slice(start)
            if self._open is None:
                repeats = dictionary_columns(rest) if self._repeats is None else self._repeats
                self._open = _OpenFile(self._target, table.schema, repeats)
            with self._open.removed_on_error():
                taken = self._open.fill(rest)
                chunks = rest.slice(0, taken).to_batches()
                self._open.parts += [self._describe(pa.Table.from_batches([chunk])) for chunk in chunks]
                start += taken
                if self._open.is_full:
                    self._roll()

    def close(self) -> tuple[WrittenFile[T], ...]:
        """Close all files written since the last call. The writer may be used again."""
        self._write_held()
        self._roll()
        closed, self._closed = tuple(self._closed), []
        return closed

    def abort(self) -> tuple[str, ...]:
        """Remove the open file. Returns the paths of the closed ones, which the caller removes."""
        self._held, self._held_bytes = [], 0
        if self._open is not None:
            self._open.discard()
            self._open = None
        return tuple(
            f"{self._target.folder}/{name}" for file in self._closed for name in (file.name, *file.extra_files)
        )

    def _roll(self) -> None:
        if self._open is not None:
            opened, self._open = self._open, None
            self._closed.append(opened.close())


class _OpenFile(Generic[T]):
    """A file that is being written. Leaving the store's block by an error removes it."""

    def __init__(self, target: FileTarget, schema: pa.Schema, repeats: Collection[str]) -> None:
        self.name = target.names(f".{target.format.name}")
        self.parts: list[T] = []
        self._size, self._rows, self._rolls = target.format.target_size, 0, target.rolls
        self._piece = target.format.piece_bytes
        self._target, self._index = target, target.indexes.builder()
        self._block = ExitStack()
        self._sink = self._block.enter_context(target.store.open_output(f"{target.folder}/{self.name}"))
        with self.removed_on_error():
            self._encoder: Encoder = ENCODERS[target.format.name](self._sink, schema, target.format, repeats)

    @property
    def is_full(self) -> bool:
        """Whether the target size is reached, or nearly."""
        return self._rolls and bool(self._sink.tell() >= self._size - self._size // _SLACK)

    def fill(self, table: pa.Table) -> int:
        """Write rows until the file is full; returns their number."""
        done = 0
        while done < len(table) and not (done and self.is_full):
            piece = table.slice(done, self._rows_to_write(table))
            self._encoder.write(piece)
            if self._index is not None:
                self._index.add(piece)
            done += len(piece)
            self._rows += len(piece)
        return done

    def close(self) -> WrittenFile[T]:
        """End the file."""
        with self.removed_on_error():
            texts = self._encoder.close()
            size = self._sink.tell()
            embedded, extra = self._close_index()
        try:
            self._block.close()
        except BaseException:
            self._target.store.delete_many([f"{self._target.folder}/{name}" for name in extra])
            raise
        return WrittenFile(self.name, size, self._rows, tuple(self.parts), texts, embedded, extra)

    def _close_index(self) -> tuple[bytes | None, tuple[str, ...]]:
        """The indexes as bytes for the manifest, or the name of the file that they are written to."""
        if self._index is None:
            return None, ()
        try:
            data = self._index.to_bytes()
        except ValueError as error:
            raise UnsupportedError(
                "a file index cannot hold the values of a column",
                table=self._target.store.location,
                why=str(error),
                todo="Leave the column out of the options file-index.….columns",
            ) from error
        if len(data) <= self._target.indexes.in_manifest:
            return data, ()
        name = f"{self.name}{INDEX_SUFFIX}"
        self._target.store.write(f"{self._target.folder}/{name}", data)
        return None, (name,)

    def discard(self) -> None:
        """Remove the file."""
        with suppress(_Discarded), self.removed_on_error():
            raise _Discarded

    @contextmanager
    def removed_on_error(self) -> Iterator[None]:
        """A block; an error that leaves it removes the file and is raised on."""
        try:
            yield
        except BaseException as error:
            with suppress(Exception):  # an Arrow writer that is not closed would close itself much later
                self._encoder.close()
            if not self._block.__exit__(type(error), error, error.__traceback__):
                raise

    def _rows_to_write(self, table: pa.Table) -> int:
        """The rows of the next piece: a fraction of the target by their bytes in memory, and no more than the file
        still takes by the bytes of the rows so far."""
        rows = int(len(table) * self._piece / max(1, table.nbytes))
        size = self._sink.tell()
        # where it is less, the encoder holds rows back, and the size says nothing
        if self._rolls and self._rows and size > self._rows // 64:
            rows = min(rows, int((self._size - size) * self._rows / size) + 1)
        return max(1, rows)


class _Discarded(Exception):
    """Leaves the block of a file that nobody wants."""
