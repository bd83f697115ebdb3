"""What one task of a write says, and what becomes of it once the sink has settled."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakebed.formats.iceberg.data_files import DataFile, DeleteFile
from lakebed.kernel.sizing.staging import Staged
from lakebed.model.commit import CommitMessage


@dataclass(frozen=True, slots=True)
class RowDeletes:
    """Row-level deletes of one commit: files to add, and deletion vectors that they replace.

    `data_files` are the locations of the data files that rows are removed from; they must still be there.
    """

    added: tuple[DeleteFile, ...] = ()
    replaced: tuple[DeleteFile, ...] = ()
    data_files: tuple[str, ...] = ()

    def __add__(self, other: RowDeletes) -> RowDeletes:
        return RowDeletes(self.added + other.added, self.replaced + other.replaced, self.data_files + other.data_files)


@dataclass(frozen=True, slots=True, eq=False)
class IcebergMessage(CommitMessage):
    """Rows that a task staged, or the files made of what all tasks staged. Picklable.

    `added` are rows staged by partition, `changed` rows staged by key with their kinds; neither is left once the sink
    has settled.

    `keys` are staged rows of the key columns, each key once, whose older rows a commit removes; `bounds` are the least
    and the greatest value of each, in two rows. `deletes` are those of rows in the snapshot `planned_on`; a commit on
    top of another one finds them anew.
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
        """Whether rows wait to be made files."""
        return bool(self.added or self.changed)

    @property
    def staged_paths(self) -> list[str]:
        """Files of staged rows and keys."""
        return [one.path for one in (*self.added, *self.changed, *self.keys) if one.path]
