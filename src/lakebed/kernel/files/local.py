"""The store of a folder on the local disk.

A file is written into a staging folder first (`unpublished.py`). A hard link then publishes it under its name, or a
rename replaces an older file. So a killed put leaves a stray only in that folder, where no engine lists, and a later
put removes it. Listings come from the operating system. Only regular files are read and written: a pipe or device in a
table's folder could block a reader for ever.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import starmap

import pyarrow as pa

from lakebed.errors import NotWrittenError, StorageError, UnsupportedError
from lakebed.kernel.files.folders import Folders, open_file
from lakebed.kernel.files.store import FileInfo, Listing, PutOutcome, Store, failed, inside
from lakebed.kernel.files.unpublished import RACES, STAGING, UnpublishedFiles, into_folder

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_NOT_THERE = frozenset({errno.ENOENT, errno.ENAMETOOLONG})
_REFUSALS = _NO_LINKS | {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EMFILE, errno.ENFILE}
"""Errors that say for certain that a link was not created."""
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG})


class LocalStore(Store):
    """A folder on this machine. Links are followed only while they stay inside it."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        self._real_root = os.path.realpath(self._root)
        self._unpublished = UnpublishedFiles(self._root)

    def __reduce__(self) -> tuple[type[LocalStore], tuple[str]]:
        return LocalStore, (self._root,)

    @property
    def location(self) -> str:
        """The absolute path."""
        return self._root

    def local_path(self, path: str) -> str:
        """The absolute path of a file, after the check that it stays inside the table."""
        full = os.path.join(self._root, inside(path)) if path else self._root
        real = os.path.realpath(full) if not path or self._meets_link(path) else ""
        if real and real != self._real_root and not real.startswith(self._real_root + os.sep):
            raise UnsupportedError(
                f"{path} is a link out of the table",
                table=self._root,
                file=path,
                todo="Copy the files into the table's folder, or open the folder that the link names",
            )
        return full

    def list(self, folder: str = "") -> Listing:
        """The direct content of a folder. It is empty when there is no such folder."""
        folders: list[str] = []
        files: list[tuple[str, int]] = []
        prefix = f"{folder}/" if folder else ""
        try:
            with _opened(self.local_path(folder)) as opened, os.scandir(opened) as entries:
                for entry in entries:
                    if entry.is_dir():
                        if entry.name != STAGING:
                            folders.append(entry.name)
                    elif (size := _size_of(entry)) is not None:
                        files.append((prefix + entry.name, size))
        except (FileNotFoundError, NotADirectoryError):
            return Listing((), ())
        except OSError as error:
            raise failed("list", self._root, folder, error) from error
        files.sort()
        return Listing(tuple(sorted(folders)), tuple(starmap(FileInfo, files)))

    def walk(self, folder: str = "") -> Iterator[FileInfo]:
        """All files below a folder, including hidden ones. A link to a folder above itself is skipped."""
        pending = [folder]
        while pending:
            here = pending.pop()
            if self._is_loop(here):
                continue
            listing = self.list(here)
            yield from listing.files
            pending += [f"{here}/{name}" if here else name for name in listing.folders]

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return self._stat(path)[1].st_size

    def modified(self, path: str) -> float:
        """When a file was last written."""
        return self._stat(path)[1].st_mtime

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or of a range of it."""
        try:
            with open(open_file(self.local_path(path)), "rb") as file:
                file.seek(start)
                return file.read() if length is None else file.read(length)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise failed("read", self._root, path, error) from error

    def open_input(self, path: str, size: int | None = None, mapped: bool = True) -> pa.NativeFile:
        """An Arrow file, `mapped` to memory or not. An empty file, which cannot be mapped, is an empty buffer."""
        full, status = self._stat(path)
        try:
            if not status.st_size:
                return pa.BufferReader(b"")
            return pa.memory_map(full) if mapped else pa.OSFile(full)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise failed("read", self._root, path, error) from error

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """A new data file, which is removed when the block fails."""
        full = self.local_path(path)
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            _refuse_special(full)
            sink = pa.OSFile(full, "wb")
        except OSError as error:
            raise failed("write", self._root, path, error) from error
        try:
            with sink:
                yield sink
        except BaseException as error:
            with suppress(OSError):
                os.unlink(full)
            if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
                raise failed("write", self._root, path, error) from error
            raise

    def write_briefly(self, path: str, data: bytes) -> None:
        """As `write`, without waiting for the disk."""
        self._write(path, data, lasting=False)

    def write(self, path: str, data: bytes) -> None:
        """Write or replace a whole file by a rename. A checksum that Hadoop keeps beside the old file goes first: its
        file system refuses to read a file that another program has replaced."""
        self._write(path, data, lasting=True)

    def _write(self, path: str, data: bytes, lasting: bool) -> None:
        full = self.local_path(path)
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(_checksum_of(full))
            with self._unpublished.holding(data, lasting) as staged:
                into_folder(full, lambda: staged.replace(full))
        except OSError as error:
            raise failed("write", self._root, path, error) from error

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Write a file if its name is free, by a hard link, which the file system creates at most once."""
        return self._put(path, data, lasting=True)

    def put_briefly_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """As `put_if_absent`, without waiting for the disk."""
        return self._put(path, data, lasting=False)

    def _put(self, path: str, data: bytes, lasting: bool) -> PutOutcome:
        full = self.local_path(path)
        linking = False
        try:
            with self._unpublished.holding(data, lasting) as staged:
                linking = True
                try:
                    into_folder(full, lambda: staged.link(full))
                except FileExistsError:
                    # On a network file system, a link that was created can be answered so after a lost reply.
                    return PutOutcome.CREATED if staged.is_file(full) else PutOutcome.EXISTS
                return PutOutcome.CREATED
        except OSError as error:
            todo = "Commits need a file system with hard links" if error.errno in _NO_LINKS else ""
            refused = not linking or error.errno in _REFUSALS
            kind = NotWrittenError if refused else StorageError
            raise failed("write", self._root, path, error, kind, todo) from error

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        """The bytes of whole files, one after the other: threads would cost more than they gain.

        Each folder is checked once for links out of the table. A file that is itself a link is checked separately.
        """
        with Folders(self.local_path) as folders:
            return [self._read_in(folders, path) for path in paths]

    def _read_in(self, folders: Folders, path: str) -> bytes:
        try:
            return folders.read(path)
        except FileNotFoundError as error:
            raise FileNotFoundError(error.errno, error.strerror, f"{self._root}/{path}") from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                return self.read(path)
            raise failed("read", self._root, path, error) from error

    def delete_in_order(self, paths: Iterable[str]) -> None:
        """Remove files one after the other. The first error ends it. Each folder is checked once for links out of the
        table."""
        with Folders(self.local_path) as folders:
            for path in paths:
                self._delete_in(folders, path)

    def undeleted(self, paths: Iterable[str]) -> Mapping[str, StorageError]:
        """Remove files, one after the other: threads would cost more than they gain.

        Each folder is checked once for links out of the table.
        """
        errors: dict[str, StorageError] = {}
        with Folders(self.local_path) as folders:
            for path in paths:
                try:
                    self._delete_in(folders, path)
                except StorageError as error:
                    errors[path] = error
        return errors

    def _delete_in(self, folders: Folders, path: str) -> None:
        try:
            folders.unlink(path)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return
            raise failed("delete", self._root, path, error) from error

    def delete(self, path: str) -> None:
        """Remove a file. A missing file is not an error."""
        try:
            os.unlink(self.local_path(path))
        except OSError as error:
            if error.errno in _NOT_THERE:
                return
            raise failed("delete", self._root, path, error) from error

    def delete_folder(self, folder: str) -> None:
        """Remove a folder and everything below it. Others may be removing it at the same time."""
        full = self.local_path(folder)
        try:
            for _ in range(RACES):
                if not os.path.lexists(full):
                    return
                with suppress(FileNotFoundError):
                    shutil.rmtree(full)
        except OSError as error:
            raise failed("delete", self._root, folder, error) from error

    def _stat(self, path: str) -> tuple[str, os.stat_result]:
        """The full path of a regular file and its status, from one system call: a file that another process creates or
        removes meanwhile either exists or does not."""
        full = self.local_path(path)
        try:
            status = os.stat(full)
        except OSError as error:
            if error.errno in _NOT_THERE or error.errno == errno.ENOTDIR:
                raise FileNotFoundError(f"there is no file {full}") from None
            raise failed("read", self._root, path, error) from error
        if stat.S_ISDIR(status.st_mode):
            raise FileNotFoundError(f"{full} is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise failed("read", self._root, path, _special(full))
        return full, status

    def _meets_link(self, path: str) -> bool:
        """Whether a name on the way to a file may be a link. Usually none is: then the file is where its path says, and
        folders above the table need no check."""
        here = self._root
        for name in path.split("/"):
            here = f"{here}/{name}"
            try:
                if stat.S_ISLNK(os.lstat(here).st_mode):
                    return True
            except (FileNotFoundError, NotADirectoryError):
                return False
            except OSError:
                return True
        return False

    def _is_loop(self, folder: str) -> bool:
        full = self.local_path(folder)
        if not os.path.islink(full):
            return False
        above = os.path.realpath(os.path.dirname(full))
        real = os.path.realpath(full)
        return above == real or above.startswith(real + os.sep)


@contextmanager
def _opened(folder: str) -> Iterator[int]:
    """The descriptor of a folder. Its files are looked at through it, without resolving the path each time."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield opened
    finally:
        os.close(opened)


def _size_of(entry: os.DirEntry[str]) -> int | None:
    """The size of a listed file in bytes, None when it was removed meanwhile.

    A dangling link is listed with size 0, and fails when it is read.
    """
    try:
        return entry.stat().st_size if entry.is_file() else 0 if entry.is_symlink() else None
    except FileNotFoundError:
        return None


def _checksum_of(path: str) -> str:
    """Where Hadoop's local file system keeps the checksums of a file."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def _special(path: str) -> OSError:
    return OSError(errno.EINVAL, f"{path} is a pipe, socket or device, not a file")


def _refuse_special(path: str) -> None:
    """Raise OSError when something exists there that is neither a file nor a folder."""
    with suppress(FileNotFoundError):
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise _special(path)
