"""The entries of one file group's log: its data rows and its deletes, with one number for each entry.

Entry numbers are handles. `LogEntries` alone knows how they are laid out: others ask it which entries are rows, and
take values by entry number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.formats.hudi.layout import COMMIT_TIME
from lakebed.kernel.arrays import Bools, Int64s, from_numpy, one_chunk


@dataclass(frozen=True, slots=True)
class LogRows:
    """The data rows of a log; all fields run along the rows of `table`.

    `positions` are the rows' places in the log, which deletes share. `keys` are the record keys, `ordering` has one
    array per ordering field. `deleted` marks rows that are deletes themselves, None where no row is. `provides` says
    which columns the rows of partial updates bring: a mask by column name; every row brings a column that is not named.
    """

    table: pa.Table
    positions: Int64s
    keys: pa.ChunkedArray
    ordering: tuple[pa.ChunkedArray, ...]
    deleted: Bools | None
    provides: Mapping[str, Bools]


@dataclass(frozen=True, slots=True)
class LogDeletes:
    """Deleted keys of a log; all fields run along the keys.

    `positions` are the deletes' places in the log, `ordering` has one array per ordering field, in the type of the
    field's column. `natural` marks deletes without an ordering value, `instants` holds the instant of each delete.
    """

    positions: Int64s
    keys: pa.Array
    ordering: tuple[pa.Array, ...]
    natural: Bools
    instants: pa.Array


@dataclass(frozen=True, slots=True)
class LogEntries:
    """All entries of one file group's log that count. Make it with `of`.

    An entry's number is its index in `keys`, `positions`, `is_delete`, `natural` and each array of `ordering`.
    `is_delete` is true of deletes and of rows that are deletes themselves, `natural` of deletes without an ordering
    value. `positions` gives the order of the log, which the numbers do not follow.
    """

    rows: LogRows
    keys: pa.Array
    positions: Int64s
    ordering: tuple[pa.Array, ...]
    is_delete: Bools
    natural: Bools
    delete_instants: pa.Array

    @classmethod
    def of(cls, rows: LogRows, deletes: Sequence[LogDeletes]) -> LogEntries:
        """The entries of a log's rows and of its delete blocks."""
        count = len(rows.positions)
        gone = sum(len(block.keys) for block in deletes)
        natural, is_delete = np.zeros(count + gone, bool), np.zeros(count + gone, bool)
        is_delete[count:] = True
        if rows.deleted is not None:
            is_delete[:count] = rows.deleted
        if deletes:
            natural[count:] = np.concatenate([block.natural for block in deletes])
        ordering = (
            _concat([*column.chunks, *(block.ordering[place] for block in deletes)], column.type)
            for place, column in enumerate(rows.ordering)
        )
        return cls(
            rows=rows,
            keys=_concat([*rows.keys.chunks, *(block.keys for block in deletes)], pa.string()),
            positions=np.concatenate([rows.positions, *(block.positions for block in deletes)]),
            ordering=tuple(ordering),
            is_delete=is_delete,
            natural=natural,
            delete_instants=_concat([block.instants for block in deletes], pa.string()),
        )

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.positions)

    @property
    def deletes(self) -> LogDeletes:
        """The deletes of delete blocks, block after block."""
        start = self._row_count
        return LogDeletes(
            self.positions[start:],
            self.keys.slice(start),
            tuple(column.slice(start) for column in self.ordering),
            self.natural[start:],
            self.delete_instants,
        )

    @property
    def _row_count(self) -> int:
        return len(self.rows.positions)

    def is_row(self, entries: Int64s) -> Bools:
        """A mask of the entry numbers that are data rows. -1 stands for no entry, so it is none."""
        return (entries >= 0) & (entries < self._row_count)

    def over_rows(self, mask: Bools) -> Bools:
        """A mask over the data rows as one over all entries, false of deletes."""
        padded = np.zeros(self.count, bool)
        padded[: self._row_count] = mask
        return padded

    def values(self, column: str, entries: Int64s) -> pa.ChunkedArray:
        """A column's values in some entries, null for deletes of delete blocks."""
        return self.rows.table.column(column).take(pa.array(entries, mask=entries >= self._row_count))

    def instants(self, entries: Int64s) -> pa.Array:
        """The instants that wrote some entries; null for rows where their commit time was not decoded."""
        table = self.rows.table
        rows = one_chunk(table.column(COMMIT_TIME)) if COMMIT_TIME in table.column_names else None
        rows = rows if rows is not None else pa.nulls(table.num_rows, pa.string())
        return pa.concat_arrays([rows, self.delete_instants]).take(from_numpy(entries))

    def ordering_values(self, entries: Int64s) -> tuple[pa.Array, ...]:
        """The ordering values of some entries, one array per field, null for deletes without one."""
        numbers = pa.array(entries, mask=self.natural[entries])
        return tuple(column.take(numbers) for column in self.ordering)

    def in_log_order(self, rows: pa.Table, deletes: pa.Table) -> pa.Table:
        """Tables with one row per data row and per delete of delete blocks, as one table in the order of the log."""
        order = np.argsort(self.positions, kind="stable")
        return pa.concat_tables([rows, deletes]).take(from_numpy(order))


def _concat(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.nulls(0, kind)
