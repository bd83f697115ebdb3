"""Log rows unmerged: the row kind of each, and the rows in the order of the log.

Rules: the unmerged log iterator of Hudi's Flink source (`MergeOnReadInputFormat`). The row kind is that of
`_hoodie_operation`, which Flink's writers keep. Without it, a row that is marked as a delete is -D and any other row
is +I. Flink's iterator skips the deletes of delete blocks; the changelog gives them as -D.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.merge.log_entries import LogRows
from lakebed.formats.hudi.read.delete_markers import OPERATION
from lakebed.kernel.arrays import from_numpy, from_values, one_chunk
from lakebed.model.rowkind import RowKind

_KINDS = {
    "I": RowKind.INSERT,
    "+I": RowKind.INSERT,
    "-U": RowKind.UPDATE_BEFORE,
    "U": RowKind.UPDATE_AFTER,
    "+U": RowKind.UPDATE_AFTER,
    "D": RowKind.DELETE,
    "-D": RowKind.DELETE,
}
"""Texts of `HoodieOperation`."""
_TEXTS = from_values(list(_KINDS), pa.string())
_SHORT = from_values([kind.short for kind in _KINDS.values()], pa.string())


def with_operation(target: pa.Schema) -> pa.Schema:
    """A schema of log rows with the column that row kinds are read from."""
    return target if OPERATION in target.names else target.append(pa.field(OPERATION, pa.string()))


def row_kinds(rows: LogRows) -> pa.Array:
    """The row kind of each data row. The rows have a schema of `with_operation`."""
    deleted = rows.deleted if rows.deleted is not None else np.zeros(rows.table.num_rows, bool)
    plain = pa.array([RowKind.INSERT.short, RowKind.DELETE.short]).take(from_numpy(deleted.astype(np.int64)))
    operations = one_chunk(rows.table.column(OPERATION))
    return pc.coalesce(_SHORT.take(pc.index_in(operations, value_set=_TEXTS)), plain)


def rows_in_log_order(rows: LogRows) -> pa.Table:
    """The data rows in the order of the log, without deletes and without the rows that updates replaced."""
    kept = pc.is_in(row_kinds(rows), value_set=pa.array([RowKind.INSERT.short, RowKind.UPDATE_AFTER.short]))
    order = pa.array(np.argsort(rows.positions, kind="stable"))
    return rows.table.take(order).filter(kept.take(order))
