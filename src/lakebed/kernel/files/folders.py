"""Read and remove files of a local disk through the descriptor of their folder.

The path to a folder is resolved, and checked for links out of the table, once. Each of its files then costs one step. A
link in the place of a file is never followed here.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from types import TracebackType

from lakebed.kernel.files.store import inside

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Without O_NONBLOCK, opening a pipe waits for its writer."""
_SMALL = 16 << 10
"""A file of up to so many bytes is read without asking for its size first."""


class Folders:
    """Reads and removes files. The folder of the last file stays open until the block ends.

    `find` returns the absolute path of a folder in the store, and checks that it stays inside.
    """

    def __init__(self, find: Callable[[str], str]) -> None:
        self._find = find
        self._found: dict[str, str] = {}
        self._open: str | None = None
        self._descriptor = -1

    def __enter__(self) -> Folders:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def read(self, path: str) -> bytes:
        """The bytes of a whole file. OSError as the operating system raises it, ELOOP for a link."""
        folder, _, name = path.rpartition("/")
        descriptor = open_file(_plain(name), os.O_NOFOLLOW, self._of(folder))
        try:
            return _whole(descriptor)
        finally:
            os.close(descriptor)

    def unlink(self, path: str) -> None:
        """Remove a file, or the link in its place. OSError as the operating system raises it."""
        folder, _, name = path.rpartition("/")
        os.unlink(_plain(name), dir_fd=self._of(folder))

    def _of(self, folder: str) -> int:
        if folder != self._open:
            self._close()
            if folder not in self._found:
                self._found[folder] = self._find(folder)
            self._descriptor = os.open(self._found[folder], _FOLDER)
            self._open = folder
        return self._descriptor

    def _close(self) -> None:
        if self._open is not None:
            self._open = None
            os.close(self._descriptor)


def open_file(path: str, flags: int = 0, folder: int | None = None) -> int:
    """Open a regular file for reading and return its descriptor. OSError as the operating system raises it, EINVAL for
    a pipe, socket or device."""
    try:
        descriptor = os.open(path, _FILE | flags, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ENXIO:  # the error for a socket
            raise OSError(errno.EINVAL, f"{path} is a socket or device, not a file") from error
        raise
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, f"{path} is a pipe or device, not a file")


def _plain(name: str) -> str:
    """The name itself, if it does not lead out of its folder."""
    return name if name != ".." and "\0" not in name else inside(name)


def _whole(descriptor: int) -> bytes:
    """All bytes of a file. A small one takes two reads, the second of which finds the end."""
    data = os.read(descriptor, _SMALL)
    if len(data) < _SMALL and not os.read(descriptor, 1):
        return data
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        return file.readall()
