"""Sets of rows by key columns: the rows that equality deletes name, and which rows of a batch are among them.

Null equals null and NaN equals NaN, as the specification says for equality deletes. The distinct values of each column
are numbered. A row is one number, made of the numbers of its columns, so rows are compared as numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Bools, Int64s, filled, one_chunk, to_numpy


@dataclass(frozen=True, slots=True)
class KeySet:
    """Distinct rows.

    `values` are the distinct values of each column. `codes[n]` are the sorted numbers of the first n + 2 columns.
    """

    values: tuple[pa.Array, ...]
    codes: tuple[Int64s, ...]
    rows: int

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> KeySet:
        """The set of rows of one or more columns of equal length."""
        values = tuple(_distinct(column) for column in columns)
        numbers = _numbers(columns[0], values[0])
        codes: list[Int64s] = []
        for column, distinct in zip(columns[1:], values[1:], strict=True):
            joint = numbers * len(distinct) + _numbers(column, distinct)
            codes.append(np.unique(joint))
            numbers = np.searchsorted(codes[-1], joint)
        return cls(values, tuple(codes), len(codes[-1]) if codes else len(values[0]))

    @property
    def nbytes(self) -> int:
        """The size of the set in bytes: its values and numbers."""
        return sum(int(part.nbytes) for part in (*self.values, *self.codes))

    def contains(self, columns: Sequence[pa.Array]) -> Bools:
        """Which rows of a batch are in the set."""
        if not self.rows:
            return np.zeros(len(columns[0]), np.bool_)
        if not self.codes:
            mask: Bools = to_numpy(pc.is_in(_plain(columns[0]), value_set=self.values[0]))
            return mask
        numbers = _numbers(columns[0], self.values[0])
        inside = numbers >= 0
        for column, distinct, codes in zip(columns[1:], self.values[1:], self.codes, strict=True):
            number = _numbers(column, distinct)
            joint = numbers * len(distinct) + number
            place = np.minimum(np.searchsorted(codes, joint), len(codes) - 1)
            inside &= (number >= 0) & (codes[place] == joint)
            numbers = place
        return inside


def distinct_rows(table: pa.Table) -> pa.Table:
    """The table without repeated rows."""
    if table.num_columns == 1:
        return pa.table([_distinct(table.column(0))], names=table.column_names)
    plain = pa.table([_plain(column) for column in table.columns], names=table.column_names)
    return plain.group_by(plain.column_names, use_threads=False).aggregate([])


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array of a type that Arrow's kernels support."""
    whole = one_chunk(column)
    return whole.storage if isinstance(whole, pa.ExtensionArray) else whole


def _distinct(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pc.unique(_plain(column))


def _numbers(column: pa.Array | pa.ChunkedArray, distinct: pa.Array) -> Int64s:
    """The place of each value among the distinct ones, -1 for a value that is not there."""
    places = pc.index_in(_plain(column), value_set=distinct)
    numbers: Int64s = to_numpy(filled(places, -1)).astype(np.int64)
    return numbers
