"""Clean up after a first run that failed, so that the next try meets neither an empty table nor a checkpoint.

Only what this run made is removed, and only while nobody has committed to the table since: the files that the new table
consisted of, folders that are empty then, and what is new in the checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import lakebed.formats as formats
from lakebed.errors import CommitUnknownError, LakebedError
from lakebed.kernel.files import Store
from lakebed.model.instant import Instant
from lakebed.spark.stream_sink import USER_FILE
from lakebed.verbs.table import Table


@dataclass(slots=True)
class FirstRun:
    """One run: the files that its checkpoint held before, and the table that it writes to."""

    checkpoint: Store
    _held: frozenset[str]
    _table: Table | None = None
    _newest: Instant | None = None
    _created: tuple[str, ...] = field(default=(), repr=False)
    """The files of the table, where this run created it."""

    @classmethod
    def of(cls, checkpoint: Store) -> FirstRun:
        """Note the files that the checkpoint already has. Call it before the run makes any."""
        return cls(checkpoint, frozenset(info.path for info in checkpoint.walk()))

    def writes_to(self, table: Table, created: bool) -> Table:
        """Note the table, and whether this run created it."""
        self._table = table
        # Only a first run cleans up, and a table that was just created has no commit.
        self._newest = None if created or self._resumes else table.newest_commit()
        self._created = tuple(info.path for info in table.store.walk()) if created else ()
        return table

    @property
    def _resumes(self) -> bool:
        """Whether the checkpoint is that of an earlier run."""
        return USER_FILE in self._held

    @contextmanager
    def or_nothing(self) -> Iterator[None]:
        """Remove what this run made when the block fails or is interrupted before the first commit of a first run."""
        try:
            yield
        except CommitUnknownError:
            raise
        except BaseException:
            with suppress(LakebedError, OSError):  # the first error is the one that matters
                self._remove_what_was_made()
            raise

    def _remove_what_was_made(self) -> None:
        if self._resumes or self._table is None or self._table.newest_commit() != self._newest:
            return
        if self._created:
            formats.drop_created(self._table, self._created)
            _remove_empty_folders(self._table.store)
        self.checkpoint.delete_many([info.path for info in self.checkpoint.walk() if info.path not in self._held])
        _remove_empty_folders(self.checkpoint)


def _remove_empty_folders(store: Store) -> None:
    root = store.local_path("")
    if root is not None:
        for folder, _, _ in os.walk(root, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
