"""Files by the absolute locations in Iceberg's metadata, in whichever store they lie.

Metadata spells a location in many ways (`/x`, `file:/x`, `file:///x`, `s3a://b/k`). Locations are literal: percent
escapes are not decoded. Files lie below the table, or in a place that a catalog or the caller named (`write.data.path`,
files that were added where they are). Any other location is refused before it is touched.

A table that was moved or copied still names the folder where it was created. A location below that folder means the
same path below the folder where the table was opened, and never the old one: a copy cannot read or change its original.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from lakebed.errors import LakebedError, UnsupportedError, UsageError
from lakebed.kernel.files import FileInfo, PutOutcome, Store, open_store, parse_location
from lakebed.kernel.files.credentials import Credentials
from lakebed.kernel.files.location import REMOTE_SCHEMES
from lakebed.kernel.files.objects import RemoteStore
from lakebed.kernel.files.places import Places, is_below

T = TypeVar("T")
R = TypeVar("R")
_AHEAD = 64 << 20
"""How many bytes `ahead` reads at most."""
_GUESSED = 64 << 10
"""How many bytes a file of unknown size counts for."""


class Files:
    """Reads and writes files by absolute location. Picklable without secrets: workers build their own clients.

    `home` is the table's own store. `named` are the other places that the table may touch, with `credentials`.
    `made_at` is the table's location in the metadata, where it is not spelled like that of `home`. `locked` is the
    reason why the table may only be read: with one, every change is refused. `planned_for` is the table's name where
    its catalog plans scans, and nobody else may read its manifests.
    """

    __slots__ = (
        "_ahead", "_alias", "_others", "_places", "credentials", "home", "locked", "made_at", "named", "planned_for",
    )  # fmt: skip

    def __init__(
        self, home: Store, credentials: Credentials | None = None, named: Sequence[str] = (), made_at: str = "",
        locked: str = "", planned_for: str = "",
    ) -> None:  # fmt: skip
        self.home, self.credentials = home, credentials or Credentials()
        self.named, self.made_at, self.locked, self.planned_for = tuple(named), made_at, locked, planned_for
        self._others: dict[str, Store] = {}
        self._ahead: Mapping[str, bytes] = {}
        self._places = Places(home.location, (home.location, *self.named))
        self._alias = _comparable(made_at)
        if self._alias and self._places.root_of(self._alias) is not None:
            self._alias = ""  # the caller named the place where the table was created: its files are read there

    def __reduce__(self) -> tuple[Any, ...]:
        return Files, (self.home, self.credentials, self.named, self.made_at, self.locked, self.planned_for)

    @property
    def location(self) -> str:
        """The location of the table's own store."""
        return self.home.location

    def also(self, *places: str) -> Files:
        """The same files, and those below further places. Their locations have the spelling of `spelled`."""
        named = (*self.named, *places)
        return Files(self.home, self.credentials, named, self.made_at, self.locked, self.planned_for)

    def place(self, url: str) -> tuple[Store, str]:
        """The store of a location, and the path in it. UnsupportedError for one that the table may not touch."""
        text = self._here(url)
        root = self._places.root_of(text)
        if root is None:
            raise self._places.refused(url)
        return self._store(root), text[len(root) :].lstrip("/")

    @property
    def why_missing(self) -> str:
        """Why a file that the metadata names may be missing, for a table that was moved or copied; else ""."""
        if not self.locked:
            return ""
        return f"the table was moved or copied from {self.made_at}, and this file did not come along"

    def moved(self, url: str) -> str:
        """The present location of a file that is named below the old folder. Other locations stay as they are."""
        here = self._here(url)
        return here if self._alias and is_below(here, self.home.location) and here != _comparable(url) else url

    def reaches(self, url: str) -> bool:
        """Whether the table may touch a location."""
        try:
            return self._places.root_of(self._here(url)) is not None
        except LakebedError:
            return False

    def read(self, url: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or of a range of it. FileNotFoundError when it is missing."""
        store, path = self.place(url)
        return store.read(path, start, length)

    def size(self, url: str) -> int:
        """The size of a file in bytes. FileNotFoundError when it is missing."""
        store, path = self.place(url)
        return store.size(path)

    def modified(self, url: str) -> float:
        """When a file was last written, in seconds since 1970. FileNotFoundError when it is missing."""
        store, path = self.place(url)
        return store.modified(path)

    def exists(self, url: str) -> bool:
        """Whether a file exists."""
        store, path = self.place(url)
        return store.exists(path)

    def open_input(self, url: str, size: int | None = None) -> pa.NativeFile:
        """A random-access Arrow file. `size` is the number of bytes that the metadata states, if it does."""
        store, path = self.place(url)
        return store.open_input(path, size)

    @property
    def at_once(self) -> int:
        """How many requests are worth making at once: 1 for a disk."""
        return self.home.at_once

    def together(self, act: Callable[[T], R], items: Iterable[T]) -> Sequence[R]:
        """The results of `act`, which makes requests, for each item, in order: many at once where the table is
        remote."""
        return self.home.together(act, items)

    def read_immutable(self, files: Sequence[tuple[str, int]]) -> Sequence[bytes]:
        """The bytes of whole files that never change under their name, by location and size, in the given order."""
        if not files:
            return []
        if self._ahead:
            others = [file for file in files if file[0] not in self._ahead]
            read = dict(zip((url for url, _ in others), self._read_immutable(others), strict=True))
            return [self._ahead[url] if url in self._ahead else read[url] for url, _ in files]
        return self._read_immutable(files)

    def ahead(self, files: Iterable[tuple[str, int]]) -> Files:
        """The same files, with the bytes of some that never change at hand for `read_immutable`: read together, as far
        as memory allows. These are files by location and size that are going to be read soon, in about this order. On a
        local disk nothing is read."""
        if self.home.at_once == 1 or self.planned_for:
            return self
        free, wanted = _AHEAD - sum(map(len, self._ahead.values())), {}
        for url, size in files:
            free -= size if size >= 0 else _GUESSED
            if url not in self._ahead and free >= 0:
                wanted[url] = size
        held = Files(self.home, self.credentials, self.named, self.made_at, self.locked)
        held._others, held._ahead = self._others, self._ahead
        with suppress(FileNotFoundError, LakebedError):  # raised where the file is read
            read = self._read_immutable([*wanted.items()])
            held._ahead = {**self._ahead, **dict(zip(wanted, read, strict=True))}
        return held

    def _read_immutable(self, files: Sequence[tuple[str, int]]) -> Sequence[bytes]:
        if not files:
            return []
        places = [(*self.place(url), size) for url, size in files]
        store = places[0][0]
        if all(other is store for other, _, _ in places):
            return store.read_immutable([FileInfo(path, size) for _, path, size in places])
        return [other.read_immutable([FileInfo(path, size)])[0] for other, path, size in places]

    @contextmanager
    def fetching(self, files: Iterable[tuple[str, int]]) -> Iterator[None]:
        """A block that is going to read these files, by location and size, in about this order."""
        by_store: dict[int, tuple[Store, list[FileInfo]]] = {}
        for url, size in files:
            store, path = self.place(url)
            by_store.setdefault(id(store), (store, []))[1].append(FileInfo(path, size))
        with ExitStack() as stack:
            for store, infos in by_store.values():
                stack.enter_context(store.fetching(infos))
            yield

    def open_output(self, url: str) -> AbstractContextManager[pa.NativeFile]:
        """A new data file. It is removed when the block fails."""
        store, path = self._changed(url)
        return store.open_output(path)

    def write(self, url: str, data: bytes) -> None:
        """Write or replace a whole file."""
        store, path = self._changed(url)
        store.write(path, data)

    def side_by_side(self, *acts: Callable[[], None]) -> None:
        """Do several things that make requests, all at once where the table is remote, else one after the other. The
        first error is raised, once all have ended where the table is remote."""

        def done(act: Callable[[], None]) -> None:
            act()

        self.together(done, acts)

    def write_many(self, files: Mapping[str, bytes], *also: Callable[[], None]) -> None:
        """Write or replace whole files, by location, and do what else is given, as `side_by_side`."""
        self.side_by_side(*(partial(self.write, url, data) for url, data in files.items()), *also)

    def put_if_absent(self, url: str, data: bytes) -> PutOutcome:
        """Write a file if there is none. The bytes must be unique to this attempt."""
        store, path = self._changed(url)
        return store.put_if_absent(path, data)

    def delete_many(self, urls: Iterable[str]) -> None:
        """Remove files. Missing files are no error. The first other error is raised once all files were tried."""
        for error in self.undeleted(urls).values():
            raise error

    def undeleted(self, urls: Iterable[str]) -> Mapping[str, Exception]:
        """Remove files, and return those that stand, each with the error. A missing file does not stand."""
        by_store: dict[int, tuple[Store, dict[str, str]]] = {}
        standing: dict[str, Exception] = {}
        for url in urls:
            try:
                store, path = self._changed(url)
            except LakebedError as error:
                standing[url] = error
                continue
            by_store.setdefault(id(store), (store, {}))[1][path] = url
        for store, places in by_store.values():
            try:
                errors: Mapping[str, Exception] = store.undeleted(places)
            except Exception as error:  # noqa: BLE001  # the other stores come next
                errors = dict.fromkeys(places, error)
            standing |= {places[path]: error for path, error in errors.items()}
        return standing

    def local_path(self, url: str) -> str | None:
        """The path on this machine's disk; None for a remote file."""
        store, path = self.place(url)
        return store.local_path(path)

    def walk(self, url: str) -> Iterator[tuple[str, int]]:
        """All files below a folder, as (location, bytes), in no order. Locations begin like that of the folder."""
        store, folder = self.place(url)
        prefix = spelled(url).rstrip("/")
        for info in store.walk(folder):
            yield f"{prefix}/{info.path[len(folder) :].lstrip('/')}", info.size

    def remove_folder(self, url: str) -> None:
        """Remove all files below a folder, and the folder itself where the store has folders."""
        self.delete_many([path for path, _ in self.walk(url)])
        self.remove_empty(url)

    def remove_empty(self, url: str) -> bool:
        """Remove an empty folder on disk. Whether it was removed."""
        store, path = self._changed(url)
        local = store.local_path(path)
        try:
            if local is not None:
                os.rmdir(local)
        except OSError:  # it has files of others, or does not exist
            return False
        return local is not None

    def _here(self, url: str) -> str:
        """A location in its one spelling. One below the folder where the table was created is now below its home."""
        try:
            text = spelled(url)
        except LakebedError:  # a scheme that no store here serves
            if self._alias and url.startswith(f"{self.made_at}/"):
                return self.home.location + url[len(self.made_at) :]
            raise
        if self._alias and is_below(text, self._alias) and not is_below(text, self.home.location):
            return self.home.location + text[len(self._alias) :]
        return text

    def _changed(self, url: str) -> tuple[Store, str]:
        """The store and path of a file that is about to be changed."""
        if self.locked:
            raise UnsupportedError(
                "this table may not be changed where it lies", table=self.home.location, file=url, why=self.locked
            )
        return self.place(url)

    def _store(self, root: str) -> Store:
        if root == self.home.location:
            return self.home
        if root not in self._others:
            local = root.startswith("/")
            self._others[root] = open_store(root) if local else RemoteStore(root, self.credentials)
        return self._others[root]


def _comparable(location: str) -> str:
    """A location in its one spelling; as it is where no store serves it; "" for none."""
    text = location
    with suppress(LakebedError):
        text = spelled(location) if location else ""
    return text if text.strip("/") else ""


def spelled(url: str) -> str:
    """The one spelling of a location: an absolute path, or `s3://bucket/key`, without a trailing slash.

    Two locations name the same file if and only if their spellings are equal. UsageError for a relative path.
    """
    scheme, colon, rest = url.partition(":")
    if colon and "/" not in scheme and len(scheme) > 1:
        lower = scheme.lower()
        if lower == "file":
            if rest.startswith("//"):
                host, _, tail = rest[2:].partition("/")
                if host.lower() not in ("", "localhost"):
                    raise UsageError(f"location {url!r} names the host {host!r}", todo="Write file:///PATH")
                rest = "/" + tail
            return "/" + os.path.normpath(rest).lstrip("/")
        if lower in REMOTE_SCHEMES and rest.startswith("//"):
            return f"{REMOTE_SCHEMES[lower]}:{rest.rstrip('/')}"
        return parse_location(url).text  # names what is wrong with it
    if not url.startswith("/"):
        raise UsageError(
            f"location {url!r} is relative",
            why="Iceberg's metadata holds absolute locations",
            todo="Give an absolute one, also where a catalog's setting names it (lakebed.catalog.warehouse)",
        )
    return "/" + os.path.normpath(url).lstrip("/")


def spelling_of(location: str) -> str:
    """A location in its one spelling; as it is where no store serves it, since names can still be compared."""
    try:
        return spelled(location)
    except LakebedError:
        return location
