"""Files by the absolute locations that Iceberg's metadata holds, whatever store they lie in.

Metadata spells one place in many ways (`/x`, `file:/x`, `file:///x`, `s3a://b/k`), literally: no percent escapes are
undone. Most files lie below the table; those that do not (`write.data.path`, `add_files`) get a store of
their own, unlocked by the same credentials.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.kernel.files import PutOutcome, Store, open_store, parse_location
from lakebed.kernel.files.credentials import Credentials
from lakebed.kernel.files.location import REMOTE_SCHEMES
from lakebed.kernel.files.objects import RemoteStore


class Files:
    """Reads and writes by absolute location. Picklable: workers build their own clients; secrets stay behind.

    `home` is the table's own store; `credentials` unlock what lies elsewhere.
    """

    __slots__ = ("_others", "credentials", "home")

    def __init__(self, home: Store, credentials: Credentials | None = None) -> None:
        self.home, self.credentials = home, credentials or Credentials()
        self._others: dict[str, Store] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Files, (self.home, self.credentials)

    def place(self, url: str) -> tuple[Store, str]:
        """The store of a location and the path in it."""
        text = spelled(url)
        root = self.home.location
        if text == root:
            return self.home, ""
        if text.startswith(root + "/"):
            return self.home, text[len(root) + 1 :]
        if text.startswith("/"):
            folder, _, name = text.rpartition("/")
            return self._other(folder or "/"), name
        scheme, _, rest = text.partition("://")
        bucket, _, path = rest.partition("/")
        return self._other(f"{scheme}://{bucket}"), path

    def read(self, url: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or of a range of it; FileNotFoundError when it is missing."""
        store, path = self.place(url)
        return store.read(path, start, length)

    def size(self, url: str) -> int:
        """Bytes of a file; FileNotFoundError when it is missing."""
        store, path = self.place(url)
        return store.size(path)

    def modified(self, url: str) -> float:
        """When a file was last written, in seconds since 1970; FileNotFoundError when it is missing."""
        store, path = self.place(url)
        return store.modified(path)

    def exists(self, url: str) -> bool:
        """Whether the file is there."""
        store, path = self.place(url)
        return store.exists(path)

    def open_input(self, url: str) -> pa.NativeFile:
        """A random-access Arrow file."""
        store, path = self.place(url)
        return store.open_input(path)

    def open_output(self, url: str) -> AbstractContextManager[pa.NativeFile]:
        """A new data file, removed again when the block fails."""
        store, path = self.place(url)
        return store.open_output(path)

    def write(self, url: str, data: bytes) -> None:
        """Put or replace a whole file."""
        store, path = self.place(url)
        store.write(path, data)

    def put_if_absent(self, url: str, data: bytes) -> PutOutcome:
        """Claim a name; the bytes must be unique to this attempt."""
        store, path = self.place(url)
        return store.put_if_absent(path, data)

    def delete_many(self, urls: Iterable[str]) -> None:
        """Remove files; missing ones are no error, and the first other error is raised after all were tried."""
        by_store: dict[int, tuple[Store, list[str]]] = {}
        for url in urls:
            store, path = self.place(url)
            by_store.setdefault(id(store), (store, []))[1].append(path)
        first: Exception | None = None
        for store, paths in by_store.values():
            try:
                store.delete_many(paths)
            except Exception as error:  # noqa: BLE001  # raised below, once all stores were tried
                first = first or error
        if first is not None:
            raise first

    def local_path(self, url: str) -> str | None:
        """The path on this machine's disk, None for a remote file."""
        store, path = self.place(url)
        return store.local_path(path)

    def walk(self, url: str) -> Iterator[tuple[str, int]]:
        """All files below a folder, as (location, bytes), in no order."""
        text = spelled(url)
        root = self.home.location
        if text == root or text.startswith(root + "/"):
            store, folder = self.home, text[len(root) + 1 :]
        elif text.startswith("/"):
            store, folder = self._other(text), ""
        else:
            store, folder = self.place(text)
        for info in store.walk(folder):
            yield f"{store.location.rstrip('/')}/{info.path}", info.size

    def remove_folder(self, url: str) -> None:
        """Remove all files below a folder of one write, and the folder itself where folders are."""
        self.delete_many([path for path, _ in self.walk(url)])
        self.remove_empty(url)

    def remove_empty(self, url: str) -> bool:
        """Remove a folder on disk that holds nothing; whether it was one."""
        local = self.local_path(url)
        try:
            if local is not None:
                os.rmdir(local)
        except OSError:  # others' files are there, or there is no such folder
            return False
        return local is not None

    def _other(self, root: str) -> Store:
        """A store outside the table; a folder on disk gets one of its own, since puts are staged in a store's root."""
        if root not in self._others:
            local = root.startswith("/")
            self._others[root] = open_store(root) if local else RemoteStore(root, self.credentials)
        return self._others[root]


def spelled(url: str) -> str:
    """The one spelling of a location: an absolute path, or `s3://bucket/key`; no trailing slash.

    Two locations name one file if and only if their spellings are equal. UsageError for a relative path.
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
        raise UsageError(f"location {url!r} is relative", todo="Iceberg's metadata holds absolute locations")
    return "/" + os.path.normpath(url).lstrip("/")
