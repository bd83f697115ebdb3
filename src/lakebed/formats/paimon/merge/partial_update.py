"""The partial-update engine: columns that are given replace, columns that are null leave what was there; sequence
groups each have their own order.

Rule: Paimon's PartialUpdateMergeFunction. Within a group the row with the greatest sequence wins with all its
columns, nulls too; a row whose sequence columns are all null does not touch the group; a -D or -U that wins a group
empties it, or removes the row where `partial-update.remove-record-on-sequence-group` names the group's sequence.
Without groups a -D is an error, unless `partial-update.remove-record-on-delete` says that it removes the row.
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
from lakebed.kernel.arrays import Bools, Int8s, Int64s
from lakebed.kernel.options import Options
from lakebed.model.rowkind import RowKind


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns that follow the order of `sequence` columns; some of them fold by an aggregate function. With `removes`
    a -D that wins the group removes the row."""

    sequence: tuple[str, ...]
    columns: tuple[str, ...]
    aggregates: tuple[Aggregate, ...] = field(default=())
    removes: bool = False


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """`keys` are the primary key's columns."""

    keys: tuple[str, ...]
    groups: tuple[SequenceGroup, ...]
    remove_on_delete: bool

    @classmethod
    def of(cls, schema: TableSchema, options: Options) -> PartialUpdate:
        """The engine of a table. OptionError and UsageError for options that do not go together, UnsupportedError for
        what lakebed lacks."""
        removing = set(split_names(options[opt.PARTIAL_UPDATE_REMOVE_GROUP]))
        _check_removal(options, removing)
        groups: list[SequenceGroup] = []
        for sequence, columns in sequence_groups(options).items():
            for name in (*sequence, *columns):
                if name not in schema.names:
                    raise UsageError(f"a sequence group names the unknown column {name!r}")
                if name in {*schema.primary_keys, *(name for group in groups for name in group.columns)}:
                    raise UsageError(f"the sequence groups name {name!r}, which is in the key or in another group")
            found = [aggregate_of(schema, options, name, "") for name in columns]
            folded = tuple(item for item in found if item is not None)
            groups.append(SequenceGroup(sequence, columns, folded, bool(removing & set(sequence))))
        grouped = {name for group in groups for name in (*group.sequence, *group.columns)}
        for name in schema.names:
            if name in grouped or name in schema.primary_keys:
                continue
            loose = aggregate_of(schema, options, name, "")
            if loose is not None and loose.function != "last_non_null_value":
                raise UsageError(
                    f"column {name!r} has an aggregate function but is in no sequence group",
                    why="partial-update needs one",
                )
        return cls(schema.primary_keys, tuple(groups), options[opt.PARTIAL_UPDATE_REMOVE])

    def needs(self, columns: set[str]) -> set[str]:
        """The sequence columns of the groups that are asked for, or that remove rows."""
        asked = [g for g in self.groups if g.removes or columns & {*g.columns, *g.sequence}]
        return columns | {name for group in asked for name in group.sequence}

    def merge(self, rows: pa.Table, runs: Runs) -> pa.Table:
        """One row a key, of kind +I, or -D where nothing but deletes was seen."""
        kinds = rows.column(VALUE_KIND).chunk(0).to_numpy()
        retracts = (kinds == RowKind.DELETE) | (kinds == RowKind.UPDATE_BEFORE)
        made = np.zeros(len(runs), np.int8)
        made[np.logical_and.reduceat(retracts, runs.starts)] = RowKind.DELETE
        if retracts.any() and not self.groups:
            if not self.remove_on_delete or (kinds == RowKind.UPDATE_BEFORE).any():
                raise UsageError(
                    "merge-engine partial-update takes no -D or -U rows",
                    todo="Set ignore-delete=true, partial-update.remove-record-on-delete=true or sequence "
                    "groups on the table",
                )
            made[kinds[runs.last] == RowKind.DELETE] = RowKind.DELETE
            rows, kinds, runs = after_deletes(rows, kinds, runs)
            retracts = kinds == RowKind.DELETE
        removed = self._removals(rows, kinds, runs)
        if (removed >= 0).any():
            made[removed == runs.last] = RowKind.DELETE
            rows, kinds, runs = rows_after(removed, rows, kinds, runs)
            retracts = (kinds == RowKind.DELETE) | (kinds == RowKind.UPDATE_BEFORE)
        found: dict[str, pa.Array] = {
            SEQUENCE_NUMBER: rows.column(SEQUENCE_NUMBER).chunk(0).take(pa.array(runs.last)),
            VALUE_KIND: pa.array(made),
        }
        for group in self.groups:
            if {*group.sequence} <= set(rows.column_names):
                found |= self._merge_group(group, rows, retracts, runs)
        for name in rows.column_names:
            if name not in found:
                found[name] = self._merge_column(name, rows.column(name).chunk(0), retracts, runs)
        return pa.Table.from_arrays([found[name] for name in rows.column_names], schema=rows.schema)

    def _removals(self, rows: pa.Table, kinds: Int8s, runs: Runs) -> Int64s:
        """The place of each run's last -D that wins a group which removes, -1 for none.

        A -D wins when its sequence is not below the greatest one that the group has seen since the last such -D, so
        the rows of a key are looked at one after the other: the first of all keys, then the second of all keys.
        """
        found = np.full(len(runs), -1, np.int64)
        deletes = kinds == RowKind.DELETE
        groups = [group for group in self.groups if group.removes]
        if not groups or not deletes.any():
            return found
        ranks = np.stack([self._ranks(group, rows, runs) for group in groups])
        seen = np.full((len(groups), len(runs)), -1, np.int64)
        lengths = runs.ends - runs.starts
        for step in range(int(lengths.max())):
            alive = np.flatnonzero(lengths > step)
            at = runs.starts[alive] + step
            now = ranks[:, at]
            wins = (deletes[at] & (now >= 0) & (now >= seen[:, alive])).any(axis=0)
            found[alive[wins]] = at[wins]
            seen[:, alive] = np.where(wins, -1, np.maximum(seen[:, alive], now))
        return found

    def _ranks(self, group: SequenceGroup, rows: pa.Table, runs: Runs) -> Int64s:
        """The order of each row's sequence among all, equal for equal ones; -1 where it is all null."""
        sequence = [rows.column(name).chunk(0) for name in group.sequence]
        order = sort_order([], [(column, False) for column in sequence])
        sorted_columns = [column.take(pa.array(order)) for column in sequence]
        fresh = np.zeros(len(order), np.bool_)
        for column in sorted_columns:
            numbers = codes(column)
            fresh[1:] |= numbers[1:] != numbers[:-1]
        found = np.empty(len(order), np.int64)
        found[order] = np.cumsum(fresh)
        return np.where(_given(sequence), found, -1)

    def _merge_column(self, name: str, values: pa.Array, retracts: Bools, runs: Runs) -> pa.Array:
        """The last value that is not null and not of a retraction; a key column's last."""
        if name in self.keys:
            return values.take(pa.array(runs.last))
        if retracts.any():
            values = _without(values, retracts)
        return take_or_null(values, last_valid(values, runs))

    def _merge_group(self, group: SequenceGroup, rows: pa.Table, retracts: Bools, runs: Runs) -> dict[str, pa.Array]:
        sequence = [rows.column(name).chunk(0) for name in group.sequence]
        given = _given(sequence)
        order = sort_order(
            [pa.array(runs.ids())], [(pa.array(given), False), *((column, False) for column in sequence)]
        )
        winner = np.where(given[order[runs.last]], order[runs.last], -1)
        emptied = (winner >= 0) & retracts[np.maximum(winner, 0)]
        made = {name: take_or_null(column, winner) for name, column in zip(group.sequence, sequence, strict=True)}
        aggregates = {item.column: item for item in group.aggregates}
        for name in group.columns:
            if name not in rows.column_names:
                continue
            values = rows.column(name).chunk(0)
            if name in aggregates:
                made[name] = self._fold(aggregates[name], values, given, retracts, order, runs)
            else:
                made[name] = take_or_null(values, np.where(emptied, -1, winner))
        return made

    def _fold(
        self,
        how: Aggregate,
        values: pa.Array,
        given: Bools,
        retracts: Bools,
        order: Int64s,
        runs: Runs,
    ) -> pa.Array:
        """An aggregate over the rows that touch the group, in the group's order."""
        ordered = _without(values, ~given).take(pa.array(order))
        return how.apply(ordered, (retracts & given)[order], runs)


def _check_removal(options: Options, removing: set[str]) -> None:
    """What removes rows goes neither with what ignores deletes nor with each other."""
    known = {name for sequence in sequence_groups(options) for name in sequence}
    if removing - known:
        key = opt.PARTIAL_UPDATE_REMOVE_GROUP
        raise opt.refuse(key, options[key], f"no sequence group has the sequence {', '.join(sorted(removing - known))}")
    if options[opt.PARTIAL_UPDATE_REMOVE]:
        if known:
            raise opt.refuse(opt.PARTIAL_UPDATE_REMOVE, "true", "it does not go with sequence groups")
        if options[opt.IGNORE_DELETE]:
            raise opt.refuse(opt.PARTIAL_UPDATE_REMOVE, "true", "it does not go with ignore-delete")


def _given(sequence: Sequence[pa.Array]) -> Bools:
    """The rows that have a value in one of the sequence columns."""
    given = np.zeros(len(sequence[0]), np.bool_)
    for column in sequence:
        given |= column.is_valid().to_numpy(zero_copy_only=False)
    return given


def _without(values: pa.Array, where: Bools) -> pa.Array:
    """The values with null where the mask says."""
    if not where.any():
        return values
    return values.take(pa.array(np.arange(len(values)), mask=where))
