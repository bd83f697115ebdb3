"""The partial-update engine: a row replaces the columns that it has values for, and its nulls change nothing.

Rule: Paimon's PartialUpdateMergeFunction. Each sequence group has an order of its own. Within a group, the row with the
greatest sequence wins with all its columns, nulls too. A row whose sequence columns are all null does not change the
group. A -D or -U row that wins a group sets its columns to null, or removes the row where
`partial-update.remove-record-on-sequence-group` names the group's sequence. Without groups a -D is an error, unless
`partial-update.remove-record-on-delete` says that it removes the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakebed.errors import UsageError
from lakebed.formats.paimon import options as opt
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import SEQUENCE_NUMBER, VALUE_KIND
from lakebed.formats.paimon.merge.aggregates import Aggregate, last_valid, take_or_null
from lakebed.formats.paimon.merge.aggregation import after_deletes, rows_after
from lakebed.formats.paimon.merge.nested import codes
from lakebed.formats.paimon.merge.options import aggregate_of, sequence_groups
from lakebed.formats.paimon.merge.ordering import Runs, sort_order
from lakebed.formats.paimon.options import split_names
from lakebed.kernel.arrays import Bools, Int8s, Int64s, from_numpy, to_numpy
from lakebed.kernel.options import Options
from lakebed.model.rowkind import RowKind


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns that follow the order of the `sequence` columns; those in `aggregates` fold by a function.

    With `removes`, a -D that wins the group removes the row.
    """

    sequence: tuple[str, ...]
    columns: tuple[str, ...]
    aggregates: tuple[Aggregate, ...] = field(default=())
    removes: bool = False


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """The engine. `keys` are the columns of the primary key."""

    keys: tuple[str, ...]
    groups: tuple[SequenceGroup, ...]
    remove_on_delete: bool

    @classmethod
    def of(cls, schema: TableSchema, options: Options) -> PartialUpdate:
        """The engine of a table.

        Raises OptionError and UsageError for options that exclude each other, UnsupportedError for a function that
        lakebed lacks.
        """
        removing = set(split_names(options[opt.PARTIAL_UPDATE_REMOVE_GROUP]))
        _check_removal(options, removing)
        groups: list[SequenceGroup] = []
        for sequence, columns in sequence_groups(options).items():
            for name in (*sequence, *columns):
                if name not in schema.names:
                    raise UsageError(f"a sequence group names the unknown column {name!r}")
                if name in {*schema.primary_keys, *(name for group in groups for name in group.columns)}:
                    raise UsageError(f"a sequence group names {name!r}, which is a key column or in another group")
            configured = [aggregate_of(schema, options, name, "") for name in columns]
            aggregates = tuple(aggregate for aggregate in configured if aggregate is not None)
            groups.append(SequenceGroup(sequence, columns, aggregates, bool(removing & set(sequence))))
        grouped = {name for group in groups for name in (*group.sequence, *group.columns)}
        for name in schema.names:
            if name in grouped or name in schema.primary_keys:
                continue
            ungrouped = aggregate_of(schema, options, name, "")
            if ungrouped is not None and ungrouped.function != "last_non_null_value":
                raise UsageError(
                    f"column {name!r} has an aggregate function but is in no sequence group",
                    why="partial-update folds only columns of sequence groups",
                )
        return cls(schema.primary_keys, tuple(groups), options[opt.PARTIAL_UPDATE_REMOVE])

    def needs(self, columns: set[str]) -> set[str]:
        """`columns`, and the sequence columns of each group that has one of them or can remove rows."""
        relevant = [g for g in self.groups if g.removes or columns & {*g.columns, *g.sequence}]
        return columns | {name for group in relevant for name in group.sequence}

    def merge(self, rows: pa.Table, runs: Runs) -> pa.Table:
        """One row per key, of kind +I, or -D for a key with retractions only."""
        kinds = to_numpy(rows.column(VALUE_KIND).chunk(0))
        retracts = (kinds == RowKind.DELETE) | (kinds == RowKind.UPDATE_BEFORE)
        result_kinds = np.zeros(len(runs), np.int8)
        result_kinds[np.logical_and.reduceat(retracts, runs.starts)] = RowKind.DELETE
        if retracts.any() and not self.groups:
            if not self.remove_on_delete or (kinds == RowKind.UPDATE_BEFORE).any():
                raise UsageError(
                    "merge-engine partial-update does not accept -D or -U rows",
                    todo="Set ignore-delete=true, partial-update.remove-record-on-delete=true or sequence "
                    "groups on the table",
                )
            result_kinds[kinds[runs.last] == RowKind.DELETE] = RowKind.DELETE
            rows, kinds, runs = after_deletes(rows, kinds, runs)
            retracts = kinds == RowKind.DELETE
        removed = self._removals(rows, kinds, runs)
        if (removed >= 0).any():
            result_kinds[removed == runs.last] = RowKind.DELETE
            rows, kinds, runs = rows_after(removed, rows, kinds, runs)
            retracts = (kinds == RowKind.DELETE) | (kinds == RowKind.UPDATE_BEFORE)
        merged: dict[str, pa.Array] = {
            SEQUENCE_NUMBER: rows.column(SEQUENCE_NUMBER).chunk(0).take(from_numpy(runs.last)),
            VALUE_KIND: pa.array(result_kinds),
        }
        for group in self.groups:
            if {*group.sequence} <= set(rows.column_names):
                merged |= self._merge_group(group, rows, retracts, runs)
        for name in rows.column_names:
            if name not in merged:
                merged[name] = self._merge_column(name, rows.column(name).chunk(0), retracts, runs)
        return pa.Table.from_arrays([merged[name] for name in rows.column_names], schema=rows.schema)

    def _removals(self, rows: pa.Table, kinds: Int8s, runs: Runs) -> Int64s:
        """The position of the last -D of each run that wins a group with `removes`, -1 for none.

        A -D wins when its sequence is not below the greatest sequence of the group since the last -D that won. The rows
        of a key are therefore taken in order: the first row of all keys, then the second row of all keys.
        """
        removals = np.full(len(runs), -1, np.int64)
        deletes = kinds == RowKind.DELETE
        groups = [group for group in self.groups if group.removes]
        if not groups or not deletes.any():
            return removals
        codes_by_group = np.stack([self._sequence_codes(group, rows) for group in groups])
        seen = np.full((len(groups), len(runs)), -1, np.int64)
        lengths = runs.ends - runs.starts
        for step in range(int(lengths.max())):
            alive = np.flatnonzero(lengths > step)
            at = runs.starts[alive] + step
            now = codes_by_group[:, at]
            wins = (deletes[at] & (now >= 0) & (now >= seen[:, alive])).any(axis=0)
            removals[alive[wins]] = at[wins]
            seen[:, alive] = np.where(wins, -1, np.maximum(seen[:, alive], now))
        return removals

    def _sequence_codes(self, group: SequenceGroup, rows: pa.Table) -> Int64s:
        """Numbers that sort as the sequences of rows do, equal for equal sequences; -1 where all columns are null."""
        sequence = [rows.column(name).chunk(0) for name in group.sequence]
        order = sort_order([], [(column, False) for column in sequence])
        sorted_columns = [column.take(from_numpy(order)) for column in sequence]
        is_new = np.zeros(len(order), np.bool_)
        for column in sorted_columns:
            numbers = codes(column)
            is_new[1:] |= numbers[1:] != numbers[:-1]
        sequence_codes = np.empty(len(order), np.int64)
        sequence_codes[order] = np.cumsum(is_new)
        return np.where(_has_sequence(sequence), sequence_codes, -1)

    def _merge_column(self, name: str, values: pa.Array, retracts: Bools, runs: Runs) -> pa.Array:
        """The last value that is not null and not from a retraction. Key columns take the last value."""
        if name in self.keys:
            return values.take(from_numpy(runs.last))
        if retracts.any():
            values = _nulled(values, retracts)
        return take_or_null(values, last_valid(values, runs))

    def _merge_group(self, group: SequenceGroup, rows: pa.Table, retracts: Bools, runs: Runs) -> dict[str, pa.Array]:
        sequence = [rows.column(name).chunk(0) for name in group.sequence]
        given = _has_sequence(sequence)
        order = sort_order(
            [pa.array(runs.ids())], [(pa.array(given), False), *((column, False) for column in sequence)]
        )
        winner = np.where(given[order[runs.last]], order[runs.last], -1)
        emptied = (winner >= 0) & retracts[np.maximum(winner, 0)]
        merged = {name: take_or_null(column, winner) for name, column in zip(group.sequence, sequence, strict=True)}
        aggregates = {item.column: item for item in group.aggregates}
        for name in group.columns:
            if name not in rows.column_names:
                continue
            values = rows.column(name).chunk(0)
            if name in aggregates:
                merged[name] = self._fold(aggregates[name], values, given, retracts, order, runs)
            else:
                merged[name] = take_or_null(values, np.where(emptied, -1, winner))
        return merged

    def _fold(
        self,
        aggregate: Aggregate,
        values: pa.Array,
        given: Bools,
        retracts: Bools,
        order: Int64s,
        runs: Runs,
    ) -> pa.Array:
        """The aggregate of the rows that change the group, in the group's order."""
        ordered = _nulled(values, ~given).take(from_numpy(order))
        return aggregate.apply(ordered, (retracts & given)[order], runs)


def _check_removal(options: Options, removing: set[str]) -> None:
    """OptionError for options that remove rows together with ignored deletes, or with each other."""
    sequence_columns = {name for sequence in sequence_groups(options) for name in sequence}
    if removing - sequence_columns:
        key = opt.PARTIAL_UPDATE_REMOVE_GROUP
        raise opt.refuse(
            key, options[key], f"no sequence group has the sequence {', '.join(sorted(removing - sequence_columns))}"
        )
    if options[opt.PARTIAL_UPDATE_REMOVE]:
        if sequence_columns:
            raise opt.refuse(opt.PARTIAL_UPDATE_REMOVE, "true", "it cannot be combined with sequence groups")
        if options[opt.IGNORE_DELETE]:
            raise opt.refuse(opt.PARTIAL_UPDATE_REMOVE, "true", "it cannot be combined with ignore-delete")


def _has_sequence(sequence: Sequence[pa.Array]) -> Bools:
    """Whether each row has a value in one of the sequence columns."""
    given = np.zeros(len(sequence[0]), np.bool_)
    for column in sequence:
        given |= to_numpy(column.is_valid())
    return given


def _nulled(values: pa.Array, where: Bools) -> pa.Array:
    """The values, null where the mask is true."""
    if not where.any():
        return values
    return values.take(pa.array(np.arange(len(values)), mask=where))
