"""What one task of a Hudi write hands to the commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakebed.formats.hudi.metadata_table.change import NEW_GROUP as NEW_GROUP
from lakebed.formats.hudi.metadata_table.change import ColumnRange as ColumnRange
from lakebed.formats.hudi.metadata_table.change import WrittenFile as WrittenFile
from lakebed.model.commit import CommitMessage


@dataclass(frozen=True, slots=True, eq=False)
class HudiMessage(CommitMessage):
    """What one task of a write did: rows that it staged, for the commit to look up and write.

    `staged` are the rows, in the columns of `schema`, `rows` their number, and `partitions` the paths that they name.
    `changes` says that they have row kinds, so that a write that would add rows is an upsert.
    """

    staged: tuple[Any, ...] = ()
    schema: pa.Schema | None = None
    rows: int = 0
    partitions: tuple[str, ...] = ()
    changes: bool = False
