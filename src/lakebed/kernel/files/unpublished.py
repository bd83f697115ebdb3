"""Files of a local store that are complete but not published yet: they wait in a staging folder for their name.

The staging folder is in the table's root. It is used through its descriptor, and a link in its place is refused: what a
table's folder holds must not send our files elsewhere, nor the removal of strays.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from lakebed.errors import UnsupportedError

R = TypeVar("R")

STAGING = ".lakebed-staging"
"""The staging folder, in the table's root. Listings leave it out."""
RACES = 100
"""How often others may remove a folder that we are using before we assume that something else is wrong."""
_STRAY_SECONDS = 3600
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class UnpublishedFiles:
    """The staging folder of the store at `root`. It is created for a put, and removed when it is empty."""

    def __init__(self, root: str) -> None:
        self._root, self._path = root, os.path.join(root, STAGING)
        self._swept = False

    @contextmanager
    def holding(self, data: bytes, lasting: bool = True) -> Iterator[UnpublishedFile]:
        """A file with these bytes, removed when the block ends, and synced to disk where it must be `lasting`. OSError
        as the system raises it."""
        descriptor, name = self._filled(data, lasting)
        try:
            yield UnpublishedFile(descriptor, name)
        finally:
            with suppress(OSError):
                os.unlink(name, dir_fd=descriptor)
            os.close(descriptor)
            with suppress(OSError):
                os.rmdir(self._path)

    def _filled(self, data: bytes, lasting: bool) -> tuple[int, str]:
        name = secrets.token_hex(16)
        for attempt in range(RACES):  # another put may remove the empty folder at any time
            try:
                descriptor = self._opened()
            except FileNotFoundError:
                if attempt == RACES - 1:
                    raise
                continue
            try:
                _write(name, data, descriptor, lasting)
            except BaseException as error:
                with suppress(OSError):
                    os.unlink(name, dir_fd=descriptor)
                os.close(descriptor)
                if isinstance(error, FileNotFoundError) and attempt < RACES - 1:
                    continue
                raise
            if not self._swept:
                self._swept = True
                _sweep(descriptor, name)
            return descriptor, name
        raise AssertionError("unreachable")

    def _opened(self) -> int:
        with suppress(FileExistsError):
            os.makedirs(self._path, exist_ok=True)
        try:
            descriptor = os.open(self._path, _FOLDER)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise UnsupportedError(
                    f"{STAGING} is a link or a file, not a folder",
                    table=self._root,
                    file=STAGING,
                    why="writers keep unpublished files there, and these must not leave the table",
                    todo="Remove it: a writer creates the folder itself",
                ) from error
            raise
        return descriptor


class UnpublishedFile:
    """One file in the staging folder."""

    def __init__(self, folder: int, name: str) -> None:
        self._folder, self._name = folder, name

    def link(self, path: str) -> None:
        """Give the file a second name. FileExistsError when the name is taken."""
        os.link(self._name, path, src_dir_fd=self._folder)

    def replace(self, path: str) -> None:
        """Move the file to a name, replacing what has that name."""
        os.replace(self._name, path, src_dir_fd=self._folder)

    def is_file(self, path: str) -> bool:
        """Whether a path is a name of this file."""
        try:
            ours, named = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False), os.lstat(path)
        except FileNotFoundError:
            return False
        return os.path.samestat(ours, named)


def into_folder(path: str, act: Callable[[], R]) -> R:
    """Run `act`, which needs the folder of `path`. The folder is created when it is missing, and again when somebody
    removes it in between."""
    for attempt in range(RACES):
        try:
            return act()
        except FileNotFoundError:
            if attempt == RACES - 1:
                raise
        with suppress(FileExistsError):  # removed again while makedirs ran, or a file, for which `act` raises
            os.makedirs(os.path.dirname(path), exist_ok=True)
    raise AssertionError("unreachable")


def _write(name: str, data: bytes, folder: int, lasting: bool) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    with open(descriptor, "wb") as file:
        file.write(data)
        if lasting and data:  # an empty file has nothing that a loss of power could tear
            file.flush()
            os.fsync(descriptor)


def _sweep(folder: int, ours: str) -> None:
    """Remove what killed puts left: files more than an hour older than the one just written, by the disk's clock."""
    with suppress(OSError), os.scandir(folder) as entries:
        oldest = os.stat(ours, dir_fd=folder).st_mtime - _STRAY_SECONDS
        for entry in entries:
            with suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(about.st_mode) and about.st_mtime < oldest:
                    os.unlink(entry.name, dir_fd=folder)
