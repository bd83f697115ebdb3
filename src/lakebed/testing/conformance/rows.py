"""Compare rows: as bags, and as the state that changes lead to. And predicates that keep some of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.model.rowkind import ROW_KIND_COLUMN

Rows = list[dict[str, Any]]


def bag(data: pa.Table | pa.RecordBatchReader) -> list[str]:
    """The rows in a fixed order, so that equal bags of rows are equal lists."""
    table = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())


def replay(rows: Rows, changes: Rows, key: Sequence[str], excluding: Sequence[str] = ()) -> dict[tuple[Any, ...], Any]:
    """Apply changes to rows, in order, and return the rows by key, without the columns in `excluding`."""
    state = {}
    for row in [*rows, *changes]:
        row = {name: value for name, value in row.items() if name not in excluding}
        kind = row.pop(ROW_KIND_COLUMN, "+I")
        where = tuple(row[name] for name in key)
        if kind in ("+I", "+U"):
            state[where] = row
        else:
            state.pop(where, None)
    return state


def some_predicate(rows: pa.Table, name: str) -> pc.Expression:
    """A predicate on a column that keeps some of the rows. It keeps all rows where values cannot be compared."""
    kind = rows.schema.field(name).type
    values = [value for value in rows[name].to_pylist() if value is not None]
    if not values or pa.types.is_nested(kind):
        return pc.field(name).is_valid()
    return pc.field(name) <= pa.scalar(values[len(values) // 2], kind)
