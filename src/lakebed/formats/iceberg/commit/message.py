"""The commit message: what a task of a write staged, or the files that the sink made of it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakebed.formats.iceberg.data_files import DataFile, DeleteFile
from lakebed.kernel.sizing.staging import Staged
from lakebed.model.commit import CommitMessage


@dataclass(frozen=True, slots=True)
class RowDeletes:
    """Row-level deletes of one commit: delete files to add, and the deletion vectors that they replace.

    `data_files` has the locations of the data files that lose rows. They must still be live when it is committed.
    """

    added: tuple[DeleteFile, ...] = ()
    replaced: tuple[DeleteFile, ...] = ()
    data_files: tuple[str, ...] = ()

    def __add__(self, other: RowDeletes) -> RowDeletes:
        return RowDeletes(self.added + other.added, self.replaced + other.replaced, self.data_files + other.data_files)


@dataclass(frozen=True, slots=True, eq=False)
class IcebergMessage(CommitMessage):
    """Rows that a task staged, or the files that were made of what all tasks staged. Picklable.

    `added` has rows staged by partition, `changed` rows staged by key with their kinds. Both are empty once the sink
    has finalized.

    `keys` has staged rows of the key columns, each key once: the commit removes older rows with these keys. `bounds`
    has the least and the greatest value of each key column, in two rows. `deletes` are the row-level deletes for the
    snapshot `planned_on`; a commit on top of another snapshot finds them anew.
    """

    added: tuple[Staged, ...] = ()
    changed: tuple[Staged, ...] = ()
    data_files: tuple[DataFile, ...] = ()
    keys: tuple[Staged, ...] = ()
    bounds: pa.Table | None = None
    deletes: RowDeletes | None = None
    planned_on: int | None = None
    rows: int = 0

    @property
    def is_staged(self) -> bool:
        """Whether it has staged rows that are not in files yet."""
        return bool(self.added or self.changed)

    @property
    def staged_paths(self) -> list[str]:
        """The files of staged rows and keys."""
        return [staged.path for staged in (*self.added, *self.changed, *self.keys) if staged.path]
