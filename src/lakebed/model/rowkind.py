"""Row kinds: what a row of changes does to its key. Codes and short names are those of Flink and Paimon."""

from __future__ import annotations

from enum import IntEnum

import pyarrow as pa

ROW_KIND_COLUMN = "_row_kind"
"""The string column that holds the kind (+I -U +U -D) in changes, in streams and in change data that is written."""


class RowKind(IntEnum):
    """The kind of one row. The value is the byte that files store."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        """The two-letter name: +I, -U, +U or -D."""
        return SHORT_NAMES[self.value]


SHORT_NAMES = ("+I", "-U", "+U", "-D")
"""Short names in the order of the codes."""

ROW_KIND_FIELD = pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False)
"""The Arrow field of the row kind column."""
