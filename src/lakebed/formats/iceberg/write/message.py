"""What one task of a write says, and what becomes of it once the sink has settled."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakebed.formats.iceberg.entries import DataFile, DeleteFile
from lakebed.kernel.staging import Staged
from lakebed.model.commit import CommitMessage


@dataclass(frozen=True, slots=True, eq=False)
class IcebergMessage(CommitMessage):
    """Rows that a task staged, or the files made of what all tasks staged. Picklable.

    `keys` are staged rows of the key columns, each key once, whose older rows a commit removes: row-level deletes are
    found against the snapshot that the commit builds on. `bounds` are the least and the greatest value of each key
    column, in two rows.
    """

    staged: tuple[Staged, ...] = ()
    data_files: tuple[DataFile, ...] = ()
    keys: tuple[Staged, ...] = ()
    bounds: pa.Table | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class RowDeletes:
    """Row-level deletes of one commit: files to add, and deletion vectors that they replace.

    `data_files` are the locations of the data files that rows are removed from; they must still be there.
    """

    added: tuple[DeleteFile, ...] = ()
    replaced: tuple[DeleteFile, ...] = ()
    data_files: tuple[str, ...] = ()
