"""Rows marked as deletes: by `_hoodie_is_deleted`, `_hoodie_operation`, or the marker column of the merge rules."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.merge.rules import MergeRules
from lakebed.kernel.arrays import Bools, to_numpy

IS_DELETED = "_hoodie_is_deleted"
OPERATION = "_hoodie_operation"
_DELETING = ("D", "-D", "-U")


def marker_columns(rules: MergeRules) -> tuple[str, ...]:
    """The columns that can mark a row as a delete."""
    return tuple(name for name in (IS_DELETED, OPERATION, rules.marker_column) if name)


def marked_deletes(rows: pa.Table | pa.RecordBatch, rules: MergeRules) -> Bools | None:
    """Which rows are marked as deletes, None when none is."""
    marks: pa.Array | pa.ChunkedArray | None = None
    names = rows.schema.names
    if IS_DELETED in names and pa.types.is_boolean(rows.schema.field(IS_DELETED).type):
        marks = pc.fill_null(rows.column(IS_DELETED), False)
    if OPERATION in names:
        operation = pc.is_in(rows.column(OPERATION), value_set=pa.array(_DELETING))
        marks = operation if marks is None else pc.or_(marks, operation)
    if rules.marker_column and rules.marker_column in names:
        marker = pc.fill_null(pc.equal(rows.column(rules.marker_column).cast(pa.string()), rules.marker), False)
        marks = marker if marks is None else pc.or_(marks, marker)
    if marks is None:
        return None
    flags: Bools = to_numpy(marks)
    return flags if flags.any() else None
