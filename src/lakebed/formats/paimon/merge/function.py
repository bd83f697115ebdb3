"""The merge functions by engine.

A function takes rows sorted by key, sequence fields and sequence number, with the columns `_SEQUENCE_NUMBER` and
`_VALUE_KIND` before the values, and gives one row a key in the same columns: kind +I (or what the winning row has),
or -D for a key that is gone.

Rules: Paimon's DeduplicateMergeFunction, FirstRowMergeFunction, PartialUpdateMergeFunction, AggregateMergeFunction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import VALUE_KIND
from lakebed.formats.paimon.merge.aggregation import Aggregation
from lakebed.formats.paimon.merge.ordering import Runs
from lakebed.formats.paimon.merge.partial_update import PartialUpdate
from lakebed.kernel.options import Options
from lakebed.model.rowkind import RowKind


class MergeFunction(Protocol):
    """One merge engine with its settings. Picklable."""

    def needs(self, columns: set[str]) -> set[str]:
        """The columns that must be there to merge `columns`."""
        ...

    def merge(self, rows: pa.Table, runs: Runs) -> pa.Table:
        """One row a key."""
        ...


class Deduplicate:
    """The last row of a key."""

    def needs(self, columns: set[str]) -> set[str]:
        """Nothing more."""
        return columns

    def merge(self, rows: pa.Table, runs: Runs) -> pa.Table:
        """The last row of each run."""
        return rows if len(runs) == len(rows) else rows.take(pa.array(runs.last))


class FirstRow:
    """The first row of a key; it has no way to take one back."""

    def needs(self, columns: set[str]) -> set[str]:
        """Nothing more."""
        return columns

    def merge(self, rows: pa.Table, runs: Runs) -> pa.Table:
        """The first row of each run. UsageError for a -D or -U row, unless the table ignores them."""
        kinds = rows.column(VALUE_KIND).to_numpy()
        if np.isin(kinds, (RowKind.DELETE, RowKind.UPDATE_BEFORE)).any():
            raise UsageError(
                "merge-engine first-row takes no -D or -U rows",
                todo="Filter them, or set ignore-delete=true on the table",
            )
        return rows if len(runs) == len(rows) else rows.take(pa.array(runs.starts))


@dataclass(frozen=True, slots=True)
class Reduced:
    """A folding engine that leaves a key's only row as it is, kind and all, so that a lone -D still takes back what
    older files hold.

    Rule: Paimon's ReducerMergeFunctionWrapper.
    """

    engine: Aggregation | PartialUpdate

    def needs(self, columns: set[str]) -> set[str]:
        """What the engine needs."""
        return self.engine.needs(columns)

    def merge(self, rows: pa.Table, runs: Runs) -> pa.Table:
        """One row a key: the engine's where there are more rows than one."""
        lengths = runs.ends - runs.starts
        many = lengths > 1
        if not many.any():
            return rows
        if many.all():
            return self.engine.merge(rows, runs)
        ends = np.cumsum(lengths[many])
        folded = rows.take(pa.array(np.flatnonzero(np.repeat(many, lengths)))).combine_chunks()
        made = self.engine.merge(folded, Runs(ends - lengths[many], ends))
        place = np.where(many, len(rows) + np.cumsum(many) - 1, runs.starts)
        return pa.concat_tables([rows, made]).take(pa.array(place))


def merge_function(schema: TableSchema, options: Options) -> MergeFunction:
    """The function of a table's `merge-engine`; UnsupportedError names an aggregate function that lakebed lacks."""
    match options[opt.MERGE_ENGINE]:
        case "partial-update":
            return Reduced(PartialUpdate.of(schema, options))
        case "aggregation":
            return Reduced(Aggregation.of(schema, options))
        case "first-row":
            return FirstRow()
    return Deduplicate()
