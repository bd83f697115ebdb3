"""Short-lived files for libraries that read paths only: in memory where the system can, else in a temporary folder.

DataFusion decodes Avro from a path and from nothing else. What it shall decode is written here, read once, and gone.
"""

from __future__ import annotations

import os
import tempfile
import urllib.parse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakebed.errors import StorageError
from lakebed.kernel.options import Option

SCRATCH_DIR = Option(
    "lakebed.scratch.dir",
    str,
    "",
    "Folder for short-lived files while Avro is decoded; none given, they lie in memory (Linux) or the system's own.",
    expected="a folder that exists",
)


@dataclass(frozen=True, slots=True)
class Scratch:
    """Where short-lived files lie. `folder` empty: in memory where the system can, else in its temporary folder."""

    folder: str = ""

    @contextmanager
    def holding(self, chunks: Iterable[bytes | memoryview]) -> Iterator[str]:
        """The URL of a file with these bytes, which is gone when the block ends, however it ends.

        On Linux the file has no name in any folder, so that nothing is left even by a killed process. Raises
        StorageError when the folder cannot take it.
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
            except OSError:  # a sandbox without it: a folder serves as well
                pass
        descriptor, path = tempfile.mkstemp(prefix="lakebed-", dir=self.folder or None)
        if _BY_DESCRIPTOR:
            os.unlink(path)
            path = ""
        return _ScratchFile(descriptor, path)


_BY_DESCRIPTOR = os.path.isdir("/proc/self/fd")


class _ScratchFile:
    """An open file; `path` is empty when it has no name and is reached through its descriptor."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._file = os.fdopen(descriptor, "wb")
        self._path = path
        self.url = f"file://{urllib.parse.quote(path or f'/proc/self/fd/{descriptor}')}"

    def fill(self, chunks: Iterable[bytes | memoryview]) -> None:
        self._file.writelines(chunks)
        self._file.flush()

    def close(self) -> None:
        # What a full disk left in the buffer is of no use to anybody.
        try:
            self._file.close()
        except OSError:
            pass
        finally:
            if self._path:
                os.unlink(self._path)
