"""Entries of a log as they stand: every row and every delete in the order of the log, each with its kind.

Rules: the unmerged log iterator of Hudi's Flink source (`MergeOnReadInputFormat`). The kind of a row is that of its
`_hoodie_operation`, which Flink's writers keep; without it a row that says that it is deleted is -D, any other +I.
Flink's iterator passes the deletes of delete blocks over; here they come as -D.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.merge.log import LogEntries
from lakebed.formats.hudi.read.log_blocks import OPERATION
from lakebed.kernel.arrays import Int64s
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
_TEXTS = pa.array(list(_KINDS), pa.string())
_SHORT = pa.array([kind.short for kind in _KINDS.values()], pa.string())


def with_operation(target: pa.Schema) -> pa.Schema:
    """A schema of log rows with the column that their kinds are read from."""
    return target if OPERATION in target.names else target.append(pa.field(OPERATION, pa.string()))


def row_kinds(entries: LogEntries) -> pa.Array:
    """The kind of each data row, decoded in a schema of `with_operation`."""
    flags = entries.deleted if entries.deleted is not None else np.zeros(entries.rows.num_rows, bool)
    plain = pa.array([RowKind.INSERT.short, RowKind.DELETE.short]).take(pa.array(flags.astype(np.int64)))
    operations = entries.rows.column(OPERATION).combine_chunks()
    if not isinstance(operations, pa.Array):
        operations = pa.concat_arrays(operations.chunks) if operations.num_chunks else pa.array([], pa.string())
    return pc.coalesce(_SHORT.take(pc.index_in(operations, value_set=_TEXTS)), plain)


def log_order(entries: LogEntries) -> Int64s:
    """The places of rows and deletes, deletes numbered after the rows, in the order of the log."""
    return np.argsort(np.concatenate([entries.row_at, entries.delete_at]), kind="stable")


def rows_as_they_stand(entries: LogEntries) -> pa.Table:
    """The data rows in the order of the log, without deletes and what updates replaced."""
    kept = pc.is_in(row_kinds(entries), value_set=pa.array([RowKind.INSERT.short, RowKind.UPDATE_AFTER.short]))
    order = np.argsort(entries.row_at, kind="stable")
    return entries.rows.take(pa.array(order)).filter(kept.take(pa.array(order)))
