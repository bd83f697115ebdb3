"""The merge functions, one per merge engine.

A function takes rows sorted by key, sequence fields and sequence number. The columns `_SEQUENCE_NUMBER` and
`_VALUE_KIND` come before the values. It returns one row per key in the same columns: kind +I (or the winning row's own
kind), or -D for a deleted key.

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
from lakebed.kernel.arrays import from_numpy, to_numpy
from lakebed.kernel.options import Options
from lakebed.model.rowkind import RowKind


class MergeFunction(Protocol):
    """One merge engine with its settings. Picklable."""

    def needs(self, columns: set[str]) -> set[str]:
        """The columns that the merge must read to return `columns`."""
        ...

    def merge(self, rows: pa.Table, runs: Runs) -> pa.Table:
        """Merge the rows of each run into one row per key."""
        ...


class Deduplicate:
    """Keeps the last row of each key."""

    def needs(self, columns: set[str]) -> set[str]:
        """`columns` alone."""
        return columns

    def merge(self, rows: pa.Table, runs: Runs) -> pa.Table:
        """The last row of each run."""
        return rows if len(runs) == len(rows) else rows.take(from_numpy(runs.last))


class FirstRow:
    """Keeps the first row of each key. It cannot undo a row."""

    def needs(self, columns: set[str]) -> set[str]:
        """`columns` alone."""
        return columns

    def merge(self, rows: pa.Table, runs: Runs) -> pa.Table:
        """The first row of each run. Raises UsageError for a -D or -U row, unless the table ignores them."""
        kinds = to_numpy(rows.column(VALUE_KIND))
        if np.isin(kinds, (RowKind.DELETE, RowKind.UPDATE_BEFORE)).any():
            raise UsageError(
                "merge-engine first-row does not accept -D or -U rows",
                todo="Filter them, or set ignore-delete=true on the table",
            )
        return rows if len(runs) == len(rows) else rows.take(from_numpy(runs.starts))


@dataclass(frozen=True, slots=True)
class Reduced:
    """A folding engine that returns a key's only row unchanged, with its kind, so that a single -D can still undo rows
    of older files.

    Rule: Paimon's ReducerMergeFunctionWrapper.
    """

    engine: Aggregation | PartialUpdate

    def needs(self, columns: set[str]) -> set[str]:
        """The columns that the folding engine needs."""
        return self.engine.needs(columns)

    def merge(self, rows: pa.Table, runs: Runs) -> pa.Table:
        """One row per key: folded by the engine where a key has several rows, else its only row."""
        lengths = runs.ends - runs.starts
        several = lengths > 1
        if not several.any():
            return rows
        if several.all():
            return self.engine.merge(rows, runs)
        ends = np.cumsum(lengths[several])
        foldable = rows.take(from_numpy(np.flatnonzero(np.repeat(several, lengths)))).combine_chunks()
        folded = self.engine.merge(foldable, Runs(ends - lengths[several], ends))
        place = np.where(several, len(rows) + np.cumsum(several) - 1, runs.starts)
        return pa.concat_tables([rows, folded]).take(from_numpy(place))


def merge_function(schema: TableSchema, options: Options) -> MergeFunction:
    """The function of a table's `merge-engine`.

    Raises UnsupportedError for an aggregate function that lakebed lacks, OptionError and UsageError for options that
    exclude each other.
    """
    match options[opt.MERGE_ENGINE]:
        case "partial-update":
            return Reduced(PartialUpdate.of(schema, options))
        case "aggregation":
            return Reduced(Aggregation.of(schema, options))
        case "first-row":
            return FirstRow()
    return Deduplicate()
