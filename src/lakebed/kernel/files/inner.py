"""A folder of a store as a store of its own: for a table that lies inside another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from lakebed.kernel.files.store import FileInfo, Listing, PutOutcome, Store, inside

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class InnerStore(Store):
    """The files below `folder` of a store. Paths are relative to that folder, and never leave it."""

    outer: Store
    folder: str

    @property
    def location(self) -> str:
        """The folder's full location."""
        return f"{self.outer.location}/{self.folder}"

    def list(self, folder: str = "") -> Listing:
        """The direct content of a folder, with paths below this one."""
        listing = self.outer.list(self._path(folder))
        return Listing(listing.folders, tuple(self._info(info) for info in listing.files))

    def walk(self, folder: str = "") -> Iterator[FileInfo]:
        """All files below a folder, with paths below this one."""
        return map(self._info, self.outer.walk(self._path(folder)))

    def size(self, path: str) -> int:
        """As the outer store."""
        return self.outer.size(self._path(path))

    def modified(self, path: str) -> float:
        """As the outer store."""
        return self.outer.modified(self._path(path))

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """As the outer store."""
        return self.outer.read(self._path(path), start, length)

    def open_input(self, path: str, size: int | None = None, mapped: bool = True) -> pa.NativeFile:
        """As the outer store."""
        return self.outer.open_input(self._path(path), size, mapped)

    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """As the outer store."""
        return self.outer.open_output(self._path(path))

    def write(self, path: str, data: bytes) -> None:
        """As the outer store."""
        self.outer.write(self._path(path), data)

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """As the outer store."""
        return self.outer.put_if_absent(self._path(path), data)

    def delete(self, path: str) -> None:
        """As the outer store."""
        self.outer.delete(self._path(path))

    def delete_folder(self, folder: str) -> None:
        """As the outer store."""
        self.outer.delete_folder(self._path(folder))

    def local_path(self, path: str) -> str | None:
        """As the outer store."""
        return self.outer.local_path(self._path(path))

    @property
    def at_once(self) -> int:
        """As the outer store."""
        return self.outer.at_once

    @property
    def in_flight(self) -> int:
        """As the outer store."""
        return self.outer.in_flight

    @property
    def patience(self) -> float:
        """As the outer store."""
        return self.outer.patience

    def together(self, act: Callable[[T], R], items: Iterable[T]) -> Sequence[R]:
        """As the outer store."""
        return self.outer.together(act, items)

    def _path(self, path: str) -> str:
        return f"{self.folder}/{inside(path)}" if path else self.folder

    def _info(self, info: FileInfo) -> FileInfo:
        return FileInfo(info.path[len(self.folder) + 1 :], info.size)
