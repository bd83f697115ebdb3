"""What one task of a Hudi write hands to the commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebed.formats.hudi.metadata_table.change import NEW_GROUP as NEW_GROUP
from lakebed.formats.hudi.metadata_table.change import ColumnRange as ColumnRange
from lakebed.formats.hudi.metadata_table.change import WrittenFile as WrittenFile
from lakebed.model.commit import CommitMessage


@dataclass(frozen=True, slots=True, eq=False)
class HudiMessage(CommitMessage):
    """What one task of a write did. `instant` is the write's instant, "" while rows are only staged.

    `staged` are rows that wait for `finalize`, `written` the files, `replaced` the file ids that the commit takes out
    of use, by partition. `rows` counts the rows that came in.
    """

    instant: str = ""
    written: tuple[WrittenFile, ...] = ()
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    staged: tuple[Any, ...] = ()
    rows: int = 0
