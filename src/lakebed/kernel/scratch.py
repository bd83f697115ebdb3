"""Short-lived files: for libraries that read only from paths, and for rows that do not fit into memory.

DataFusion decodes Avro only from a path. `Scratch` writes the bytes to a file that exists as long as they are read: in
memory where the system allows it, else in a temporary folder. `SpillFile` keeps rows on disk that wait for the end of a
write.
"""

from __future__ import annotations

import os
import tempfile
import urllib.parse
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from lakebed.errors import StorageError
from lakebed.kernel.options import Option

SCRATCH_DIR = Option(
    "lakebed.scratch.dir",
    str,
    "",
    "Folder for short-lived files; by default memory for Avro (on Linux), the system's temporary folder for rows.",
    expected="a folder that exists",
)


@dataclass(frozen=True, slots=True)
class Scratch:
    """Where short-lived files are kept: in `folder`; when that is empty, in memory where the system allows it, else in
    its temporary folder."""

    folder: str = ""

    @contextmanager
    def holding(self, chunks: Iterable[bytes | memoryview]) -> Iterator[str]:
        """A file with these bytes, which is removed when the block ends. Yields its URL.

        On Linux the file has no name in any folder, so even a killed process leaves nothing behind. StorageError when
        the folder has no room for it.
        """
        file = self._filled(chunks)
        try:
            yield file.url
        finally:
            file.close()

    def _filled(self, chunks: Iterable[bytes | memoryview]) -> _ScratchFile:
        try:
            file = self._open()
            try:
                file.fill(chunks)
            except BaseException:
                file.close()
                raise
        except OSError as error:
            raise StorageError(
                f"cannot write a scratch file in {self.folder or 'memory or the temporary folder'}",
                why=str(error),
                todo=f"Name a folder with room in the option {SCRATCH_DIR.key!r}",
            ) from error
        return file

    def _open(self) -> _ScratchFile:
        if not self.folder and _BY_DESCRIPTOR and hasattr(os, "memfd_create"):
            try:
                return _ScratchFile(os.memfd_create("lakebed"), "")
            except OSError:  # a sandbox may forbid it; a folder works too
                pass
        descriptor, path = tempfile.mkstemp(prefix="lakebed-", dir=self.folder or None)
        if _BY_DESCRIPTOR:
            os.unlink(path)
            path = ""
        return _ScratchFile(descriptor, path)


_BY_DESCRIPTOR = os.path.isdir("/proc/self/fd")


class _ScratchFile:
    """An open file. `path` is empty when it has no name and is reached through its descriptor."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._file = os.fdopen(descriptor, "wb")
        self._path = path
        self.url = f"file://{urllib.parse.quote(path or f'/proc/self/fd/{descriptor}')}"

    def fill(self, chunks: Iterable[bytes | memoryview]) -> None:
        self._file.writelines(chunks)
        self._file.flush()

    def close(self) -> None:
        # Nobody needs what a full disk left in the buffer.
        try:
            self._file.close()
        except OSError:
            pass
        finally:
            if self._path:
                os.unlink(self._path)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range of a spill file, in bytes, that holds batches."""

    start: int
    length: int


class SpillFile:
    """A file on disk for batches that do not fit into memory. `close` removes it.

    On Linux it has no name in any folder, so even a killed process leaves nothing behind. `size` is in bytes.
    """

    def __init__(self, folder: str = "", compression: str | None = "lz4") -> None:
        self._options = pa.ipc.IpcWriteOptions(compression=compression)
        self._folder = folder
        with self._room():
            descriptor, path = tempfile.mkstemp(prefix="lakebed-", suffix=".arrows", dir=folder or None)
            self._file = os.fdopen(descriptor, "wb")
            self._path = "" if _BY_DESCRIPTOR else path
            if _BY_DESCRIPTOR:
                os.unlink(path)
        self.size = 0
        self._finalizer = weakref.finalize(self, _remove, self._file, self._path)

    def write(self, rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> Stretch:
        """Append batches as one stretch. StorageError when the disk has no room for them."""
        start = self.size
        with self._room():
            sink = pa.PythonFile(self._file, mode="w")
            with pa.ipc.new_stream(sink, schema, options=self._options) as writer:
                for batch in rows:
                    writer.write_batch(batch)
            self._file.flush()
            self.size = os.fstat(self._file.fileno()).st_size
        return Stretch(start, self.size - start)

    def read(self, stretch: Stretch) -> Iterator[pa.RecordBatch]:
        """The batches of a stretch, one in memory at a time. Several stretches may be read at once, also in threads."""
        with pa.OSFile(self._path or f"/proc/self/fd/{self._file.fileno()}") as source:
            source.seek(stretch.start)
            yield from pa.ipc.open_stream(source)

    def close(self) -> None:
        """Remove the file. It is also removed with the last reference to this object."""
        self._finalizer()

    @contextmanager
    def _room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"cannot write a scratch file in {self._folder or 'the temporary folder'}",
                why=str(error),
                todo=f"Name a folder with room in the option {SCRATCH_DIR.key!r}",
            ) from error


class SpillingTables:
    """Keeps tables of one schema, in order: the first `most` bytes in memory, everything after that on disk."""

    def __init__(self, folder: str = "", most: int = 32 << 20) -> None:
        self._folder, self._left = folder, most
        self._tables: list[pa.Table] = []
        self._file: SpillFile | None = None
        self._stretches: list[Stretch] = []

    def add(self, table: pa.Table) -> None:
        """Keep another table."""
        self._left -= table.nbytes
        if self._left >= 0:
            self._tables.append(table)
            return
        if self._file is None:
            self._file = SpillFile(self._folder)
        self._stretches.append(self._file.write(table.to_batches(), table.schema))

    def __iter__(self) -> Iterator[pa.Table]:
        yield from self._tables
        for stretch in self._stretches:
            assert self._file is not None
            yield pa.Table.from_batches(self._file.read(stretch))


def _remove(file: BinaryIO, path: str) -> None:
    with suppress(OSError):
        file.close()
    if path:
        with suppress(OSError):
            os.unlink(path)
