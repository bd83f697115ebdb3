"""The aggregation engine: each column is folded by its aggregate function.

Rule: Paimon's AggregateMergeFunction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import SEQUENCE_NUMBER, VALUE_KIND
from lakebed.formats.paimon.merge.aggregates import Aggregate
from lakebed.formats.paimon.merge.options import aggregate_of
from lakebed.formats.paimon.merge.ordering import Runs
from lakebed.formats.paimon.options import split_names
from lakebed.kernel.arrays import Int8s, Int64s, from_numpy, to_numpy
from lakebed.kernel.options import Options
from lakebed.model.rowkind import RowKind


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The engine. `aggregates` has one function for each column of the table."""

    aggregates: tuple[Aggregate, ...]
    remove_on_delete: bool

    @classmethod
    def of(cls, schema: TableSchema, options: Options) -> Aggregation:
        """The engine of a table. Key columns keep their value, and sequence fields take the last one.

        Raises OptionError for options that exclude each other, UnsupportedError for a function that lakebed lacks.
        """
        sequence = split_names(options[opt.SEQUENCE_FIELD])
        aggregates: list[Aggregate] = []
        for name in schema.names:
            if name in schema.primary_keys:
                aggregates.append(Aggregate(name, "primary_key"))
            elif name in sequence:
                aggregates.append(Aggregate(name, "last_value"))
            else:
                configured = aggregate_of(schema, options, name, "last_non_null_value")
                aggregates.append(configured or Aggregate(name, "last_non_null_value"))
        for aggregate in aggregates:
            if options[opt.AGGREGATION_REMOVE] and aggregate.ignore_retract:
                key = f"fields.{aggregate.column}.ignore-retract"
                raise opt.refuse(opt.AGGREGATION_REMOVE, "true", f"it cannot be combined with {key}")
        return cls(tuple(aggregates), options[opt.AGGREGATION_REMOVE])

    def needs(self, columns: set[str]) -> set[str]:
        """`columns` alone: each column is folded on its own."""
        return columns

    def merge(self, rows: pa.Table, runs: Runs) -> pa.Table:
        """One row per key, of kind +I, or -D when a delete removed the key."""
        kinds = to_numpy(rows.column(VALUE_KIND).chunk(0))
        result_kinds = np.zeros(len(runs), np.int8)
        if self.remove_on_delete:
            result_kinds[kinds[runs.last] == RowKind.DELETE] = RowKind.DELETE
            rows, kinds, runs = after_deletes(rows, kinds, runs)
        retracts = (kinds == RowKind.DELETE) | (kinds == RowKind.UPDATE_BEFORE)
        if self.remove_on_delete:
            retracts &= kinds != RowKind.DELETE
        functions = {aggregate.column: aggregate for aggregate in self.aggregates}
        columns = []
        for name in rows.column_names:
            values = rows.column(name).chunk(0)
            if name == SEQUENCE_NUMBER:
                columns.append(values.take(from_numpy(runs.last)))
            elif name == VALUE_KIND:
                columns.append(pa.array(result_kinds))
            else:
                columns.append(functions[name].apply(values, retracts, runs))
        return pa.Table.from_arrays(columns, schema=rows.schema)


def after_deletes(rows: pa.Table, kinds: Int8s, runs: Runs) -> tuple[pa.Table, Int8s, Runs]:
    """The rows after the last -D of each run; that -D itself where nothing follows it. Earlier rows do not count."""
    deletes = np.where(kinds == RowKind.DELETE, np.arange(len(kinds)), -1)
    return rows_after(np.maximum.reduceat(deletes, runs.starts), rows, kinds, runs)


def rows_after(last: Int64s, rows: pa.Table, kinds: Int8s, runs: Runs) -> tuple[pa.Table, Int8s, Runs]:
    """The rows of each run after the position `last`, or all rows where it is -1.

    The row at `last` itself stays only where nothing follows it.
    """
    begins = np.where(last >= 0, last, runs.starts)
    begins = np.where((last >= 0) & (last < runs.last), last + 1, begins)
    if (begins == runs.starts).all():
        return rows, kinds, runs
    lengths = runs.ends - begins
    ends = np.cumsum(lengths)
    keep = np.arange(int(ends[-1])) + np.repeat(begins - (ends - lengths), lengths)
    return rows.take(from_numpy(keep)).combine_chunks(), kinds[keep], Runs(ends - lengths, ends)
