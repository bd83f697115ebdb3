"""The interface of a store, and the values that it returns."""

from __future__ import annotations

import errno
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar

import pyarrow as pa

from lakebed.errors import StorageError, UnsupportedError, first_line
from lakebed.redaction import redacted

T = TypeVar("T")
R = TypeVar("R")
_WRITES = 16
"""Files written at once to a disk, which takes its time to make each of them last."""


class PutOutcome(StrEnum):
    """How a put-if-absent ended."""

    CREATED = "created"
    """The name has our bytes."""
    EXISTS = "exists"
    """The name has the bytes of another writer."""
    UNKNOWN = "unknown"
    """The store did not tell. The put may be tried again: the bytes are unique to the attempt, so it is idempotent."""


class Version(NamedTuple):
    """Which bytes of a name a store returned, in the store's own terms: S3 has tags, GCS has numbers of generations."""

    tag: str | None
    generation: str | None = None

    @property
    def condition(self) -> dict[str, str]:
        """The condition of a put in place of this version, in obstore's terms."""
        return {name: text for name, text in (("e_tag", self.tag), ("version", self.generation)) if text is not None}


class FileInfo(NamedTuple):
    """One file: its path inside the store and its size in bytes.

    It has no modification time. A copy changes that time, so no decision may depend on it.
    """

    path: str
    size: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Listing:
    """One folder: the names of its folders and its files, each sorted by name."""

    folders: tuple[str, ...]
    files: tuple[FileInfo, ...]

    @property
    def names(self) -> list[str]:
        """The names of the files, without the folder."""
        return [path.rpartition("/")[2] for path, _ in self.files]


class Store(ABC):
    """A folder of files, local or remote. Picklable: a worker builds its own client from the location.

    A missing file raises `FileNotFoundError`. Any other failure is a `StorageError`, or a `RetryableError` where a
    second try may succeed.
    """

    @property
    @abstractmethod
    def location(self) -> str:
        """The root, as an absolute path or a URL without a trailing slash."""

    @abstractmethod
    def list(self, folder: str = "") -> Listing:
        """The direct content of a folder. It is empty when there is no such folder."""

    @abstractmethod
    def walk(self, folder: str = "") -> Iterator[FileInfo]:
        """All files below a folder, in no order, including hidden ones."""

    @abstractmethod
    def size(self, path: str) -> int:
        """The size of a file in bytes."""

    @abstractmethod
    def modified(self, path: str) -> float:
        """When a file was last written, in seconds since 1970.

        Use it only to spare the files of writers that are at work: a copy changes the time.
        """

    @abstractmethod
    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or of a range of it. There are fewer when the file ends before the range does."""

    @abstractmethod
    def open_input(self, path: str, size: int | None = None, mapped: bool = True) -> pa.NativeFile:
        """A random-access Arrow file, for reading Parquet and ORC.

        `size` is what the table's metadata says of the file's bytes: a remote store then knows what to ask for first.
        The file's own `size()` is always the true one. A file on a disk is `mapped` to memory, which copies nothing,
        but what was read of it counts as memory of the process until it is closed. Otherwise it is read as asked for.
        """

    @abstractmethod
    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """A new data file. Its folders are created. When the block ends with an error, the file is removed if
        possible."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Write or replace a whole file. A reader sees the old bytes or the new ones, never a part."""

    def write_briefly(self, path: str, data: bytes) -> None:
        """As `write`, for a file that need not outlive a loss of power, such as a hint: a disk is not waited for."""
        self.write(path, data)

    def write_many(self, files: Mapping[str, bytes]) -> None:
        """Write or replace whole files, given by path, several at a time. The first error is raised after all were
        tried."""
        if len(files) < 2:
            for path, data in files.items():
                self.write(path, data)
            return
        with ThreadPoolExecutor(min(max(_WRITES, self.at_once), len(files))) as pool:
            futures = [pool.submit(self.write, path, data) for path, data in files.items()]
        for future in futures:
            future.result()

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Write a file if its name is free. `data` must be unique to the attempt: a retried put can meet its own bytes.

        NotWrittenError when the store refused, and it is certain that the name does not have our bytes.
        """

    def put_briefly_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """As `put_if_absent`, for a file that need not outlive a loss of power, such as the lock of a process: a disk
        is not waited for."""
        return self.put_if_absent(path, data)

    def read_version(self, path: str) -> tuple[bytes, Version]:
        """The bytes of a small file, and the version that `replace` asks for. UnsupportedError on a disk, which has no
        versions."""
        raise self._has_no_versions(path)

    def replace(self, path: str, data: bytes, version: Version) -> PutOutcome:
        """Write a file in place of the version that was read. `data` must be unique to the attempt.

        EXISTS: another writer replaced or removed the file. UNKNOWN: the store did
        not tell. UnsupportedError on a disk, NotWrittenError when the store refused.
        """
        raise self._has_no_versions(path)

    def _has_no_versions(self, path: str) -> UnsupportedError:
        return UnsupportedError("this store cannot replace one version of a file", table=self.location, file=path)

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file. A missing file is not an error."""

    def delete_folder(self, folder: str) -> None:
        """Remove a folder and everything below it; "" is the whole table. A missing folder is not an error."""
        self.delete_many(info.path for info in self.walk(folder))

    def exists(self, path: str) -> bool:
        """Whether there is a file of that name."""
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def list_many(self, folders: Sequence[str]) -> Sequence[Listing]:
        """The direct content of several folders, in the given order. Several are listed at a time."""
        return self.together(self.list, folders)

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        """The bytes of whole files, in the order of the paths. Several are read at a time.

        All of them are in memory at once, so this is for small files.
        """
        return self.together(self.read, paths)

    def read_immutable(self, files: Sequence[FileInfo]) -> Sequence[bytes]:
        """The bytes of whole files that never change under their name, in the given order. Several are read at a time.

        A remote store keeps them in a bounded cache of the process, by path and size. So this is for files whose names
        are unique for ever (a UUID in them), whose sizes the table's metadata tells.
        """
        return self.read_many([file.path for file in files])

    def write_immutable(self, files: Mapping[str, bytes]) -> None:
        """As `write_many`, for files of which `read_immutable` holds: a remote store keeps their bytes for this
        process's own reads."""
        self.write_many(files)

    @property
    def at_once(self) -> int:
        """How many requests are worth making at once: 1 for a disk, where threads cost more than they gain."""
        return 1

    @property
    def in_flight(self) -> int:
        """How many bytes of files may be open at once while their readers wait for requests."""
        return 256 << 20

    @property
    def patience(self) -> float:
        """Seconds after which whoever waits for this store should be told that it does not answer."""
        return math.inf

    def together(self, act: Callable[[T], R], items: Iterable[T]) -> Sequence[R]:
        """The results of `act`, which makes requests of this store, for each item, in order.

        A remote store runs as many at once as it may make requests, so nobody waits in a row. The first error is raised
        after all have ended.
        """
        return [act(item) for item in items]

    def fetching(self, files: Iterable[FileInfo]) -> AbstractContextManager[None]:
        """A block that is going to read these files whole or in part, with `open_input` or `read`, in about this order.

        A remote store fetches them ahead of the reads, within its bound of bytes in flight. A file larger than
        the bytes that are fetched at once is fetched from its end. What was not read is dropped when the block ends.
        """
        return nullcontext()

    def delete_in_order(self, paths: Iterable[str]) -> None:
        """Remove files one after the other, each only after the ones before it. The first error ends it."""
        for path in paths:
            self.delete(path)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Remove files, several at a time. The first error is raised after all were tried."""
        for error in self.undeleted(paths).values():
            raise error

    def undeleted(self, paths: Iterable[str]) -> Mapping[str, StorageError]:
        """Remove files, several at a time, and return those that stand, each with the error. A missing file does not
        stand."""

        def stands(path: str) -> StorageError | None:
            try:
                self.delete(path)
            except StorageError as error:
                return error
            return None

        paths = [*dict.fromkeys(paths)]
        errors = self.together(stands, paths)
        return {path: error for path, error in zip(paths, errors, strict=True) if error is not None}

    def local_path(self, path: str) -> str | None:
        """The path on this machine's disk, for libraries that read only from paths. None for a remote store."""
        return None

    def url(self, path: str) -> str:
        """The full location of a file, in the spelling of the formats' metadata."""
        return f"{self.location}/{path}" if path else self.location


def inside(path: str) -> str:
    """The path itself, if it stays inside the store.

    UnsupportedError for a path that leads out of the store, whether it comes from a table's metadata or from the caller
    (in the name of a branch), and for one that no disk can have.
    """
    try:
        if not path.isascii():
            os.fsencode(path)
    except UnicodeEncodeError as error:
        raise UnsupportedError(f"path {path!r} has no name on disk", why="it has half of a character") from error
    if path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise UnsupportedError(
            f"path {path!r} leaves the table", todo="Paths inside a table are relative and have no '..'"
        )
    return path


_NAMELESS = re.compile(r"//|(^|/)\.(/|$)|[\x00-\x1f\x7f]")


def name_in_bucket(path: str) -> str:
    """The path itself, if it stays inside the store and an object can have that name: else UnsupportedError."""
    if _NAMELESS.search(inside(path)):
        raise UnsupportedError(
            f"path {path!r} has no name in a bucket", why="it has an empty name, '.' or a control character"
        )
    return path


def failed(
    verb: str, location: str, path: str, error: Exception, kind: type[StorageError] = StorageError, todo: str = ""
) -> StorageError:
    """The error to raise for a failure of a store. The original error, which is shown as its cause, loses its secrets
    too."""
    why = first_line(error)
    if getattr(error, "errno", None) == errno.ENAMETOOLONG and not todo:
        part = max(path.split("/"), key=lambda name: len(os.fsencode(name)))
        todo = (
            f"Give rows a shorter partition value: a name on a disk has at most 255 bytes, and {part[:60]!r}... has"
            f" {len(os.fsencode(part))}"
        )
    if not isinstance(error, OSError) or error.errno is None:
        error.args = tuple(redacted(arg) if isinstance(arg, str) else arg for arg in error.args)
    return kind(f"cannot {verb} {path or 'the folder'}", table=location, file=path, why=why, todo=todo)
