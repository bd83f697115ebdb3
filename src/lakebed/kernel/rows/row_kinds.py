"""Find the kind of each row that is written: in `_row_kind`, or in a column of the table that an option names.

Rules: Paimon's RowKindGenerator and RowKindFilter. Texts match in any case. Besides the signed ones we accept `I`, `U`
and `D`, which the reference engine refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError
from lakebed.kernel.arrays import Bools, Int8s, one_chunk, to_numpy
from lakebed.kernel.rows.conform import describe_row
from lakebed.model.rowkind import ROW_KIND_COLUMN, SHORT_NAMES, RowKind

_TEXTS = {"+I": 0, "I": 0, "-U": 1, "+U": 2, "U": 2, "-D": 3, "D": 3}
_CODES = np.array(list(_TEXTS.values()), np.int8)


@dataclass(frozen=True, slots=True)
class RowKindRule:
    """Where row kinds come from, and which rows are dropped for their kind.

    `field` is the column of the table that holds kinds, "" for `_row_kind`. `default` is the kind of rows when there
    is no such column.
    """

    field: str = ""
    default: RowKind = RowKind.INSERT
    ignore_delete: bool = False
    ignore_update_before: bool = False

    def kinds(self, data: pa.Table, key: Sequence[str], table: str) -> Int8s | None:
        """The code of each row's kind, None when all are +I.

        SchemaError, with the key of the row, for a null and for a text that is not a row kind.
        """
        name = self.field or (ROW_KIND_COLUMN if ROW_KIND_COLUMN in data.schema.names else "")
        if not name:
            return None if self.default is RowKind.INSERT else np.full(len(data), self.default, np.int8)
        codes = self._codes(one_chunk(data.column(name)), name, data, key, table)
        return codes if codes.any() else None

    def kept(self, kinds: Int8s | None) -> Bools | None:
        """Which rows are written, None for all."""
        if kinds is None or not (self.ignore_delete or self.ignore_update_before):
            return None
        dropped = kinds == RowKind.UPDATE_BEFORE
        if self.ignore_delete:
            dropped |= kinds == RowKind.DELETE
        return ~dropped if dropped.any() else None

    def _codes(self, column: pa.Array, name: str, data: pa.Table, key: Sequence[str], table: str) -> Int8s:
        if pa.types.is_integer(column.type):
            raise SchemaError(
                f"column {name!r} holds numbers, not row kinds",
                table=table,
                todo=f"Row kinds are {', '.join(SHORT_NAMES)}",
            )
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        places = pc.index_in(pc.utf8_upper(column.cast(pa.string())), pa.array(list(_TEXTS)))
        if places.null_count:
            row = int(np.flatnonzero(to_numpy(places.is_null()))[0])
            columns = [one_chunk(data.column(k)) for k in key if k in data.schema.names]
            raise SchemaError(
                f"row kind {column[row].as_py()!r} in column {name!r}",
                table=table,
                why=f"row {row}{' has ' + describe_row(columns, key, row) if columns else ''}",
                todo=f"Row kinds are {', '.join(SHORT_NAMES)}, I, U and D, in any case, and never null",
            )
        codes: Int8s = _CODES[to_numpy(places)]
        return codes
