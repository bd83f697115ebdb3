"""Where staged rows are kept: in the table's storage, or on this machine where they stay in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel.files import Store

STAGING = f"{HOODIE}/.lakebed"
"""The folder of staged rows in a table's storage. Nobody lists it."""
_LOCAL = "local:"


@dataclass(frozen=True, slots=True)
class StagingPlace:
    """A `kernel.sizing.staging.Place` over a table's storage and a folder on this machine.

    `folder` is that of one write. With `local` new files go to this machine.
    """

    store: Store
    scratch: Store
    folder: str
    local: bool = False

    @property
    def at_once(self) -> int:
        """How many requests the store takes at once."""
        return 1 if self.local else self.store.at_once

    def together(self, act: Callable[[Any], Any], items: Iterable[Any]) -> Sequence[Any]:
        """The results of `act` for each item, in order."""
        return [act(item) for item in items] if self.local else self.store.together(act, items)

    def path(self, name: str) -> str:
        """The path of a new file."""
        return f"{_LOCAL}{self.folder}/{name}" if self.local else f"{STAGING}/{self.folder}/{name}"

    def open_output(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        """A new file, which is removed when the block fails."""
        store, inner = self._where(path)
        return store.open_output(inner)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes | pa.Buffer:
        """A range of a file. What lies on this machine is mapped, not copied."""
        store, inner = self._where(path)
        if store is not self.scratch:
            return store.read(inner, start, length)
        with store.open_input(inner) as file:
            file.seek(start)
            return file.read_buffer(length)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Remove files. A missing file is not an error."""
        for path in paths:
            store, inner = self._where(path)
            store.delete_many([inner])

    def local_path(self, path: str) -> str | None:
        """Where a file lies on this machine's disk, None in a remote store."""
        store, inner = self._where(path)
        return store.local_path(inner)

    def sweep(self) -> None:
        """Remove all files of the write."""
        self.scratch.delete_folder(self.folder)
        self.store.delete_folder(f"{STAGING}/{self.folder}")

    def _where(self, path: str) -> tuple[Store, str]:
        if path.startswith(_LOCAL):
            return self.scratch, path.removeprefix(_LOCAL)
        return self.store, path
