"""Record keys of tables without key columns: each row that is added gets one of its own.

Such a key is the instant, a number that the file of the row has, and the number of the row. Rows are staged without
one. Upserts and deletes take rows that were read from the table, which bring their key along.

Rules: Hudi's `AutoRecordGenWrapperKeyGenerator` (the form), `AutoRecordKeyGenerationUtils` (what such a table does not
take: duplicates combined or left out, rows without meta columns).
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import PARTITION_PATH, RECORD_KEY
from lakebed.formats.hudi.write.settings import COMBINE_INSERT, DUP_POLICY, WriteSettings
from lakebed.kernel.arrays import one_chunk

_NUMBERS = 1 << 60
"""How many numbers there are for the files of one instant: too many for two files to draw the same."""


def stored_keys(rows: pa.Table, table: str) -> tuple[pa.StringArray, pa.StringArray]:
    """The record key and the partition path of rows that were read from the table.

    UnsupportedError where they do not say both, since nothing else tells which rows of the table they are.
    """
    missing = [name for name in (RECORD_KEY, PARTITION_PATH) if name not in rows.schema.names]
    columns = [one_chunk(rows.column(name)).cast(pa.string()) for name in (RECORD_KEY, PARTITION_PATH) if not missing]
    if missing or any(column.null_count for column in columns):
        raise UnsupportedError(
            "rows cannot be found in a table that has no record key",
            table=table,
            why=f"no column {missing[0]}" if missing else f"{RECORD_KEY} or {PARTITION_PATH} is null",
            todo="Give rows as they were read from the table, with its meta columns",
        )
    keys, partitions = columns
    return keys, partitions


def check_unmoved(stored: pa.StringArray, made: pa.StringArray, table: str) -> None:
    """Raise UnsupportedError for a row that was read from another partition than its columns name now."""
    moved = pc.not_equal(stored, made)
    if pc.any(moved).as_py():
        at = moved.index(True).as_py()
        raise UnsupportedError(
            "a row cannot change its partition in a table that has no record key",
            table=table,
            why=f"it was read from {stored[at].as_py()!r}, and its columns name {made[at].as_py()!r}",
            todo="Delete the row, and insert it again",
        )


class KeyMaker:
    """Gives rows without a key one that no other row of the table has. One for each file."""

    def __init__(self, instant: str) -> None:
        self._prefix = f"{instant}_{secrets.randbelow(_NUMBERS)}_"
        self._seen = 0

    def __call__(self, rows: Any) -> Any:
        """A batch or a table of rows, with their keys."""
        keys = one_chunk(rows.column(RECORD_KEY))
        if not keys.null_count:
            return rows
        numbers = pa.array(np.arange(self._seen, self._seen + len(keys)))
        self._seen += len(keys)
        made_keys = pc.binary_join_element_wise(self._prefix, numbers.cast(pa.string()), "")
        return rows.set_column(rows.schema.get_field_index(RECORD_KEY), RECORD_KEY, pc.coalesce(keys, made_keys))


def check_keyless(settings: WriteSettings, config: TableConfig, table: str) -> None:
    """Raise UnsupportedError for what a table without key columns does not take."""
    if config.record_keys:
        return
    reasons = {
        f"the option {COMBINE_INSERT.key} is true": settings.combines and not settings.operation.tags,
        f"the option {DUP_POLICY.key} is {settings.duplicates}": settings.duplicates != "none",
        "the index is BUCKET, which hashes keys": bool(settings.index.buckets),
    }
    why = next((reason for reason, holds in reasons.items() if holds), "")
    if why:
        raise UnsupportedError(
            "lakebed cannot do that with a table that has no record key",
            table=table,
            why=why,
            todo="Leave the option out",
        )
