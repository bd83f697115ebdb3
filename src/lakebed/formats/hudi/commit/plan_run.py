"""Which process runs the plan of a table service: the last one that took it up.

A process that stalls for minutes seems dead, so another one takes up its plan; the first one may wake up then. A file
beside the locks names the last process. Only that one commits the plan and removes what earlier runs left. If a process
lists such files and then finds itself named, it has seen only files of earlier runs.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from lakebed.errors import LakebedError
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel.files import Store

RUNS = f"{HOODIE}/.lakebed/runs"
"""The folder of these files. Each has the name of its plan's instant."""


class PlanRun:
    """One run of a plan."""

    def __init__(self, store: Store, instant: str) -> None:
        self._store, self._path, self._name = store, f"{RUNS}/{instant}", str(uuid.uuid4()).encode()

    def begin(self) -> None:
        """Name this run. Call it under the table's lock."""
        self._store.write(self._path, self._name)

    def is_last(self) -> bool:
        """Whether no other process has taken the plan up since."""
        try:
            return self._store.read(self._path) == self._name
        except FileNotFoundError:
            return False

    def end(self) -> None:
        """Take the name away. Where that fails, the removal of orphan files does so."""
        with suppress(LakebedError, OSError):
            if self.is_last():
                self._store.delete(self._path)
