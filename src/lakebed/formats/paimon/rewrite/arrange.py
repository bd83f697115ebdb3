"""The orders in which a rewrite of a table without a primary key can write rows: a z-order, a Hilbert curve, or one
column after the other.

Rules: Paimon's TableSorter and CoreOptions.clusteringStrategy. `kernel/sorting.py` sorts rows in bounded memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import OptionError, UsageError
from lakebed.formats.paimon import compaction_options as compaction
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.options import split_names
from lakebed.formats.paimon.rewrite.options import ORDER_BY, ORDER_STRATEGY
from lakebed.kernel.options import Options
from lakebed.kernel.predicates.where import find_column
from lakebed.kernel.sort_keys import Direction, comparable
from lakebed.kernel.space_curves import hilbert, interleaved, ordered_bytes

_TEXT_BYTES = 8
"""The bytes of a text that count in a curve."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order by columns: `strategy` is order, zorder or hilbert. Implements `lakebed.kernel.sorting.Keys`."""

    strategy: str
    columns: tuple[str, ...]

    def keys(self, rows: pa.Table) -> pa.Table:
        """The sort keys of rows. Nulls come first."""
        columns = [rows.column(name).combine_chunks() for name in self.columns]
        if self.strategy == "order":
            return comparable(columns, [Direction()] * len(columns))
        parts = [ordered_bytes(_numbers(column), _TEXT_BYTES) for column in columns]
        curve = interleaved(parts) if self.strategy == "zorder" else hilbert(parts)
        return comparable([curve], [Direction()])


def order_of(own: Options, options: Options, schema: TableSchema, table: str) -> Order | None:
    """The order that the options of a rewrite ask for, None for none. With `auto` the table's own clustering.

    Raises OptionError for columns that cannot be sorted by, UsageError where none is named.
    """
    strategy, names = own[ORDER_STRATEGY], split_names(own[ORDER_BY])
    if strategy == "none":
        if names:
            raise OptionError(
                f"option {ORDER_BY.key!r} is {own[ORDER_BY]!r}, but {ORDER_STRATEGY.key!r} is none",
                key=ORDER_BY.key,
                table=table,
                todo=f"Give {ORDER_STRATEGY.key} too: order, zorder, hilbert or auto",
            )
        return None
    names = names or split_names(options[compaction.CLUSTERING_COLUMNS])
    if not names:
        raise UsageError(
            "a sorted rewrite needs columns to sort by",
            table=table,
            todo=f"Give the option {ORDER_BY.key}, or set {compaction.CLUSTERING_COLUMNS.key} of the table",
        )
    columns = tuple(_column(name, schema, table) for name in names)
    if strategy == "auto":
        strategy = options[compaction.CLUSTERING_STRATEGY]
    if strategy == "auto":
        strategy = "order" if len(columns) == 1 else "zorder" if len(columns) < 5 else "hilbert"
    return Order(strategy, columns)


def _column(name: str, schema: TableSchema, table: str) -> str:
    column = find_column(name, schema.names)
    if column is None:
        raise OptionError.unknown(name, schema.names, where="the columns to sort by")
    if column in schema.partition_keys or schema.field(column).type.is_nested:
        why = "a partition has one value of it" if column in schema.partition_keys else "it is nested"
        raise OptionError(
            f"rows cannot be sorted by column {column!r}", key=ORDER_BY.key, table=table, why=why,
            todo="Name other columns",
        )  # fmt: skip
    return column


def _numbers(column: pa.Array) -> pa.Array:
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
