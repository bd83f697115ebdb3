"""The orders in which a clustering can write rows: column after column, along a z-order, or along a Hilbert curve.

Rules: Hudi's `LayoutOptimizationStrategy`; a linear order is ascending, with nulls first, as Spark sorts.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import OptionError
from lakebed.formats.hudi.rewrite.options import SORT_COLUMNS
from lakebed.kernel.arrays import one_chunk
from lakebed.kernel.sort_keys import Direction, comparable
from lakebed.kernel.space_curves import hilbert, interleaved, ordered_bytes

_WIDTH = 8
"""How many bytes of a text count on a curve."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Sorts rows by columns. `layout` is linear, z-order or hilbert."""

    columns: tuple[str, ...]
    layout: str

    def keys(self, rows: pa.Table) -> pa.Table:
        """The sort keys of rows."""
        columns = [one_chunk(rows.column(name)) for name in self.columns]
        if self.layout == "linear" or len(columns) == 1:
            return comparable(columns, [Direction()] * len(columns))
        curve = hilbert if self.layout == "hilbert" else interleaved
        return comparable([curve([ordered_bytes(column, _WIDTH) for column in columns])], [Direction()])


def order_of(text: str, layout: str, schema: pa.Schema) -> RowOrder | None:
    """The order that sort columns and a layout ask for, None for no columns. OptionError for a column that is not there
    or cannot be sorted by."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if name not in schema.names:
            raise OptionError.unknown(name, schema.names, where="the columns to sort by")
        if pa.types.is_nested(schema.field(name).type):
            raise OptionError.ill_typed(SORT_COLUMNS.key, name, "columns that are not structs, lists or maps")
    return RowOrder(names, layout) if names else None
