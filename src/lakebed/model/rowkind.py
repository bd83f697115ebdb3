"""Row kinds: what a row says of its key. Codes and short names are those of Flink and Paimon."""

from __future__ import annotations

from enum import IntEnum

import pyarrow as pa

ROW_KIND_COLUMN = "_row_kind"
"""The string column that changes, streams and change-data input carry the kind in: +I -U +U -D."""


class RowKind(IntEnum):
    """The kind of one row; the value is the byte that the formats store."""

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
