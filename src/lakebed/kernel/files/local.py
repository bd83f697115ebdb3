"""The local disk.

A name is published by a hard link and replaced by a rename, both from a staging folder beside the metadata: a killed put leaves a stray
only there, where no engine lists, and the next put sweeps it. Listings are the operating system's own.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.kernel.files.store import FileInfo, Listing, PutOutcome, Store, failed, inside

STAGING = ".lakebed-staging"
"""The folder of half-made puts, in the table's root; listings leave it out."""
_STRAY_SECONDS = 3600


class LocalStore(Store):
    """A folder of this machine. Links are followed only while they stay inside it."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        self._real_root = os.path.realpath(self._root)
        self._swept = False

    def __reduce__(self) -> tuple[type[LocalStore], tuple[str]]:
        return LocalStore, (self._root,)

    @property
    def location(self) -> str:
        """The absolute path."""
        return self._root

    def local_path(self, path: str) -> str:
        """The absolute path of a file, after the check that it stays inside the table."""
        full = os.path.join(self._root, inside(path)) if path else self._root
        real = os.path.realpath(full)
        if real != self._real_root and not real.startswith(self._real_root + os.sep):
            raise UnsupportedError(
                f"{path} is a link out of the table", table=self._root, file=path,
                todo="Copy the files into the table's folder, or open the folder that the link names",
            )  # fmt: skip
        return full

    def list(self, folder: str = "") -> Listing:
        """The direct content of a folder; empty when there is no such folder."""
        folders: list[str] = []
        files: list[FileInfo] = []
        prefix = f"{folder}/" if folder else ""
        try:
            with os.scandir(self.local_path(folder)) as entries:
                for entry in entries:
                    if entry.is_dir():
                        if entry.name != STAGING:
                            folders.append(entry.name)
                    elif entry.is_file():
                        files.append(FileInfo(prefix + entry.name, entry.stat().st_size))
        except (FileNotFoundError, NotADirectoryError):
            return Listing((), ())
        except OSError as error:
            raise failed("list", self._root, folder, error) from error
        return Listing(tuple(sorted(folders)), tuple(sorted(files, key=lambda info: info.path)))

    def walk(self, folder: str = "") -> Iterator[FileInfo]:
        """All files below a folder, hidden ones too."""
        pending = [folder]
        while pending:
            here = pending.pop()
            listing = self.list(here)
            yield from listing.files
            pending += [f"{here}/{name}" if here else name for name in listing.folders]

    def size(self, path: str) -> int:
        """Bytes of a file."""
        full = self.local_path(path)
        if not os.path.isfile(full):
            raise FileNotFoundError(full)
        return os.path.getsize(full)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or of a range of it."""
        try:
            with open(self.local_path(path), "rb") as file:
                file.seek(start)
                return file.read() if length is None else file.read(length)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise failed("read", self._root, path, error) from error

    def open_input(self, path: str) -> pa.NativeFile:
        """A memory-mapped Arrow file."""
        return pa.memory_map(self.local_path(path))

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """A new data file, removed again when the block fails."""
        full = self.local_path(path)
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            sink = pa.OSFile(full, "wb")
        except OSError as error:
            raise failed("write", self._root, path, error) from error
        try:
            with sink:
                yield sink
        except BaseException:
            with suppress(OSError):
                os.unlink(full)
            raise

    def write(self, path: str, data: bytes) -> None:
        """Put or replace a whole file by a rename."""
        full = self.local_path(path)
        try:
            with self._staged(data) as staged:
                os.makedirs(os.path.dirname(full), exist_ok=True)
                os.replace(staged, full)
        except OSError as error:
            raise failed("write", self._root, path, error) from error

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Claim a name by a hard link, which the file system makes at most once."""
        full = self.local_path(path)
        try:
            with self._staged(data) as staged:
                os.makedirs(os.path.dirname(full), exist_ok=True)
                try:
                    os.link(staged, full)
                except FileExistsError:
                    return PutOutcome.EXISTS
                return PutOutcome.CREATED
        except OSError as error:
            raise failed("write", self._root, path, error) from error

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is no error."""
        try:
            os.unlink(self.local_path(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise failed("delete", self._root, path, error) from error

    def delete_folder(self, folder: str) -> None:
        """Remove a folder and all below it."""
        try:
            shutil.rmtree(self.local_path(folder))
        except FileNotFoundError:
            return
        except OSError as error:
            raise failed("delete", self._root, folder, error) from error

    @contextmanager
    def _staged(self, data: bytes) -> Iterator[str]:
        staging = os.path.join(self._root, STAGING)
        if not self._swept:
            self._sweep(staging)
            self._swept = True
        staged = os.path.join(staging, secrets.token_hex(16))
        try:
            while True:
                os.makedirs(staging, exist_ok=True)
                with suppress(FileNotFoundError):  # another put took the emptied folder away in between
                    file = open(staged, "xb")  # noqa: SIM115 - closed by the with below
                    break
            with file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield staged
        finally:
            with suppress(OSError):
                os.unlink(staged)
            with suppress(OSError):
                os.rmdir(staging)

    @staticmethod
    def _sweep(staging: str) -> None:
        with suppress(OSError), os.scandir(staging) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.stat().st_mtime < time.time() - _STRAY_SECONDS:
                        os.unlink(entry.path)
