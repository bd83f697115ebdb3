"""The store as one actor sees it: each call is a place where others may go first, and where it may fail or be the last.

A crash is told by `Crash` (`lakebed.testing.faults`), and every later call of the same handle raises it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import pyarrow as pa

from lakebed.errors import LakebedError, RetryableError, StorageError
from lakebed.kernel.files import FileInfo, Listing, PutOutcome, Store, Version
from lakebed.kernel.files.unpublished import STAGING
from lakebed.testing.faults import Crash
from lakebed.testing.simulation.schedule import Kind, StoreKind
from lakebed.testing.simulation.subject import Subject
from lakebed.testing.simulation.world import Running, World

S = TypeVar("S")
Changed = Callable[[Running, str, str], None]
"""Told of each change that has happened: who made it, by which call, and the path."""


class SimulatedStore(Store):
    """One process's handle of the store `real`. `inner` is the folder that it is opened at, "" for the table."""

    def __init__(
        self, world: World, who: Running, real: Store, changed: Changed, subject: Subject, inner: str = ""
    ) -> None:
        self._world, self.who, self._real, self._changed, self._subject = world, who, real, changed, subject
        self._inner = inner
        self.dead = [False]

    def __reduce__(self) -> tuple[type[Store], tuple[()]]:
        raise TypeError("a simulated store does not leave its process")

    def at(self, folder: str) -> SimulatedStore:
        """A handle of the same process for a folder of the store."""
        handle = SimulatedStore(self._world, self.who, self._real, self._changed, self._subject, folder)
        handle.dead = self.dead
        return handle

    @property
    def real(self) -> Store:
        """The store behind it, for a server that the process calls."""
        return self._real

    @property
    def location(self) -> str:
        """The location of the table, or of the folder in it."""
        return self._real.url(self._inner)

    def list(self, folder: str = "") -> Listing:
        """A call that reads."""
        here = self._path(folder)
        listing = self._reading("list", here, lambda: self._real.list(here))
        return Listing(listing.folders, tuple(map(self._info, listing.files)))

    def walk(self, folder: str = "") -> Iterator[FileInfo]:
        """A call that reads, when it begins."""
        here = self._path(folder)
        return map(self._info, self._reading("walk", here, lambda: [*self._real.walk(here)]))

    def size(self, path: str) -> int:
        """A call that reads."""
        return self._reading("size", self._path(path), lambda: self._real.size(self._path(path)))

    def modified(self, path: str) -> float:
        """A call that reads."""
        return self._reading("modified", self._path(path), lambda: self._real.modified(self._path(path)))

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """A call that reads."""
        return self._reading("read", self._path(path), lambda: self._real.read(self._path(path), start, length))

    def open_input(self, path: str, size: int | None = None, mapped: bool = True) -> pa.NativeFile:
        """A call that reads, when it begins: the file stays readable, as an open file of a disk does."""
        return self._reading("open", self._path(path), lambda: self._real.open_input(self._path(path), size, mapped))

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """Two calls that change: the opening and the end. On a disk the file exists from the opening on."""
        here, disk = self._path(path), self._world.schedule.store is StoreKind.DISK
        empty = (lambda: self._real.write(here, b"")) if disk else _nothing
        self._changing("create", here, empty, empty)
        sink = pa.BufferOutputStream()
        try:
            yield sink
        except BaseException:
            if disk and not self.dead[0]:
                self._real.delete(here)
            raise
        data: bytes = sink.getvalue().to_pybytes()
        half = (lambda: self._real.write(here, data[: len(data) // 2])) if disk else _nothing
        self._changing("close", here, lambda: self._real.write(here, data), half)

    def write(self, path: str, data: bytes) -> None:
        """A call that changes. Where it is torn, a disk has a stray in the staging folder."""
        here = self._path(path)
        self._changing("write", here, lambda: self._real.write(here, data), lambda: self._stray(data))

    def write_many(self, files: Mapping[str, bytes]) -> None:
        """One call for each file, one after the other. The first error is raised after all were tried."""
        failures: list[Exception] = []
        for path, data in files.items():
            try:
                self.write(path, data)
            except LakebedError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """A call that changes. Where it is torn, a disk has a stray in the staging folder."""
        here = self._path(path)
        return self._putting("put", here, lambda: self._real.put_if_absent(here, data), lambda: self._stray(data))

    def read_version(self, path: str) -> tuple[bytes, Version]:
        """A call that reads."""
        return self._reading("read", self._path(path), lambda: self._real.read_version(self._path(path)))

    def replace(self, path: str, data: bytes, version: Version) -> PutOutcome:
        """A call that changes."""
        here = self._path(path)
        return self._putting("replace", here, lambda: self._real.replace(here, data, version), _nothing)

    def apart(self, verb: str, path: str, act: Callable[[Store], PutOutcome]) -> PutOutcome:
        """A call to a server that works on the store behind this handle: with CREATED it has changed `path`."""
        return self._putting(verb, path, lambda: act(self._real), _nothing)

    def delete(self, path: str) -> None:
        """A call that changes."""
        here = self._path(path)
        self._changing("delete", here, lambda: self._real.delete(here), _nothing)

    def undeleted(self, paths: Iterable[str]) -> Mapping[str, StorageError]:
        """One call for each file, one after the other."""
        errors: dict[str, StorageError] = {}
        for path in dict.fromkeys(paths):
            try:
                self.delete(path)
            except StorageError as error:
                errors[path] = error
        return errors

    def _path(self, path: str) -> str:
        return f"{self._inner}/{path}".strip("/") if self._inner else path

    def _info(self, info: FileInfo) -> FileInfo:
        return FileInfo(info.path[len(self._inner) + 1 :], info.size) if self._inner else info

    def _arrive(self, verb: str, path: str) -> Kind | None:
        if self.dead[0]:
            raise Crash("the process is dead")
        fault = self._world.call(
            self.who, verb, path, self._subject.commits(verb, path), self._subject.plans(verb, path)
        )
        if fault is None or fault.kind in (Kind.DELAY, Kind.JUMP):
            return None
        return fault.kind

    def _reading(self, verb: str, path: str, act: Callable[[], S]) -> S:
        kind = self._arrive(verb, path)
        if kind is not None:
            self._fail(kind, verb, path)
        return act()

    def _changing(self, verb: str, path: str, act: Callable[[], S], torn: Callable[[], object]) -> S:
        kind = self._arrive(verb, path)
        if kind is None:
            result = act()
            self._changed(self.who, verb, path)
            return result
        if kind.endswith("after"):
            act()
            self._changed(self.who, verb, path)
        elif kind.endswith("torn"):
            torn()
        self._fail(kind, verb, path)

    def _putting(self, verb: str, path: str, act: Callable[[], PutOutcome], torn: Callable[[], object]) -> PutOutcome:
        kind = self._arrive(verb, path)
        if kind is not None and kind.endswith("torn"):
            torn()
        if kind is None or kind.endswith("after"):
            outcome = act()
            if outcome is PutOutcome.CREATED:
                self._changed(self.who, verb, path)
            if kind is None:
                return outcome
        if kind.startswith("unknown"):
            return PutOutcome.UNKNOWN
        self._fail(kind, verb, path)

    def _fail(self, kind: Kind, verb: str, path: str) -> NoReturn:
        if kind.startswith("crash"):
            self.dead[0] = True
            raise Crash(f"killed in {verb} {path}")
        raise RetryableError(f"cannot {verb} {path}", file=path, why="the simulation wants it so")

    def _stray(self, data: bytes) -> None:
        if self._world.schedule.store is StoreKind.DISK:
            self._real.write(os.path.join(STAGING, self._world.random_bytes(8).hex()), data[: len(data) // 2])


def _nothing() -> None:
    return None
