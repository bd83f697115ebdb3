"""A store in memory, for simulated tables: what an object store or a disk does, without either.

Names are listed at once, as S3, Google Cloud Storage, Azure and a local disk do. With `late`, a new name is read at
once and listed later, as on a network disk that keeps the entries of folders for a while.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from lakebed.kernel.files import FileInfo, Listing, PutOutcome, Store, Version
from lakebed.kernel.files.store import inside
from lakebed.kernel.files.unpublished import STAGING

_AFTER_SLASH = "0"
"""The character that comes after the slash."""


@dataclass(frozen=True, slots=True)
class Content:
    """One version of a file: its bytes, when it was written and since when its name exists (seconds since 1970), and
    its number among all versions of the store."""

    data: bytes
    modified: float
    named: float
    version: int


class MemoryStore(Store):
    """Files in a dictionary. Every change is atomic. `now` is the store's clock, in seconds since 1970; `late` is how
    many seconds after its creation a name is listed."""

    def __init__(self, location: str, now: Callable[[], float], late: float = 0.0) -> None:
        self._location, self._now, self.late = location, now, late
        self.files: dict[str, Content] = {}
        self._paths: list[str] = []
        """The sorted paths of all files."""
        self._versions = 0
        self.lost: dict[str, Content] = {}
        """Files that are gone, though nobody removed them."""
        self._noted: dict[str, int] | None = None

    @property
    def location(self) -> str:
        """The URL that it was made with."""
        return self._location

    def list(self, folder: str = "") -> Listing:
        """The direct content of a folder, of the names that are listed by now."""
        prefix = f"{inside(folder)}/" if folder else ""
        folders: dict[str, None] = {}
        files: list[FileInfo] = []
        at, end = self._range(prefix)
        while at < end:
            path = self._paths[at]
            name, slash, _ = path[len(prefix) :].partition("/")
            file = self.files[path]
            listed = not self.late or file.named <= self._now() - self.late
            if not slash and listed:
                files.append(FileInfo(path, len(file.data)))
            elif slash and listed:
                folders[name] = None
                at = bisect_left(self._paths, f"{prefix}{name}{_AFTER_SLASH}", at) - 1
            at += 1
        return Listing(tuple(sorted(folders)), tuple(files))

    def walk(self, folder: str = "") -> Iterator[FileInfo]:
        """All files below a folder, sorted, of the names that are listed by now."""
        prefix, since = f"{inside(folder)}/" if folder else "", self._now() - self.late
        at, end = self._range(prefix)
        listed = [(path, self.files[path]) for path in self._paths[at:end]]
        return iter([FileInfo(path, len(file.data)) for path, file in listed if file.named <= since])

    def _range(self, prefix: str) -> tuple[int, int]:
        """The places of the paths that begin with a folder's prefix, among all of them."""
        paths = self._paths
        return (
            (bisect_left(paths, prefix), bisect_left(paths, prefix[:-1] + _AFTER_SLASH)) if prefix else (0, len(paths))
        )

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return len(self._file(path).data)

    def modified(self, path: str) -> float:
        """When a file was last written, by the store's clock."""
        return self._file(path).modified

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or of a range of it."""
        data = self._file(path).data
        return data[start:] if length is None else data[start : start + length]

    def open_input(self, path: str, size: int | None = None, mapped: bool = True) -> pa.NativeFile:
        """The file as it is now: a later change of the name is not seen."""
        return pa.BufferReader(self._file(path).data)

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """A file that exists when the block has ended well."""
        sink = pa.BufferOutputStream()
        yield sink
        self.write(path, sink.getvalue().to_pybytes())

    def write(self, path: str, data: bytes) -> None:
        """Write or replace a file."""
        self._versions += 1
        now, before = self._now(), self.files.get(inside(path))
        self.files[path] = Content(bytes(data), now, before.named if before else now, self._versions)
        if before is None and not path.startswith(f"{STAGING}/"):
            insort(self._paths, path)

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Write a file if its name is free."""
        if inside(path) in self.files:
            return PutOutcome.EXISTS
        self.write(path, data)
        return PutOutcome.CREATED

    def read_version(self, path: str) -> tuple[bytes, Version]:
        """The bytes of a file, and its version."""
        file = self._file(path)
        return file.data, Version(str(file.version))

    def replace(self, path: str, data: bytes, version: Version) -> PutOutcome:
        """Write a file in place of a version."""
        file = self.files.get(inside(path))
        if file is None or str(file.version) != version.tag:
            return PutOutcome.EXISTS
        self.write(path, data)
        return PutOutcome.CREATED

    def delete(self, path: str) -> None:
        """Remove a file. A missing one is no error."""
        self.lost.pop(path, None)
        if self.files.pop(inside(path), None) is not None and not path.startswith(f"{STAGING}/"):
            del self._paths[bisect_left(self._paths, path)]

    def lose(self, path: str) -> None:
        """A file is gone, by a fault of the disk."""
        content = self.files[path]
        self.delete(path)
        self.lost[path] = content

    def bring_back(self) -> None:
        """All files that are gone are there again, as they were."""
        while self.lost:
            path, content = self.lost.popitem()
            self.files[path] = content
            insort(self._paths, path)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """A block that sees the files that are gone, too: the judge knows what was in them."""
        lost = dict(self.lost)
        self.bring_back()
        try:
            yield
        finally:
            for path in lost:
                self.lose(path)

    @contextmanager
    def noting(self) -> Iterator[dict[str, int]]:
        """The versions of all files that are looked at in the block, 0 for one that is not there."""
        noted: dict[str, int] = {}
        self._noted = noted
        try:
            yield noted
        finally:
            self._noted = None

    def has(self, versions: Mapping[str, int]) -> bool:
        """Whether files still have the versions that were noted."""
        now = ((self.files.get(path), version) for path, version in versions.items())
        return all((file.version if file is not None else 0) == version for file, version in now)

    def _file(self, path: str) -> Content:
        file = self.files.get(path)
        if self._noted is not None:
            self._noted[path] = file.version if file is not None else 0
        if file is None:
            inside(path)
            raise FileNotFoundError(f"there is no file {path}")
        return file
