"""Deleted keys with their ordering values: the form that every delete block is decoded to."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.kernel.arrays import Int8s, one_chunk


class OrderingBranch(IntEnum):
    """The kind of an ordering value, by its number on disk."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME = 10
    TIMESTAMP = 11
    ARRAY = 12


ORDERING_TYPES = {
    OrderingBranch.BOOLEAN: pa.bool_(),
    OrderingBranch.INT: pa.int32(),
    OrderingBranch.LONG: pa.int64(),
    OrderingBranch.FLOAT: pa.float32(),
    OrderingBranch.DOUBLE: pa.float64(),
    OrderingBranch.BYTES: pa.binary(),
    OrderingBranch.STRING: pa.string(),
    OrderingBranch.DATE: pa.date32(),
    OrderingBranch.DECIMAL: pa.decimal128(30, 15),
    OrderingBranch.TIME: pa.time64("us"),
    OrderingBranch.TIMESTAMP: pa.timestamp("us", "UTC"),
}
"""The Arrow type of each kind of ordering value, arrays apart."""


def ordering_column(branch: OrderingBranch) -> str:
    """The name of the column of `decode_deletes` with the ordering values of a kind."""
    return f"ordering_{branch.name.lower()}"


def delete_table(
    keys: pa.Array,
    partitions: pa.Array,
    numbers: Int8s,
    values: Mapping[OrderingBranch, pa.Array],
) -> pa.Table:
    """Deletes as `decode_deletes` returns them, from keys, partition paths, branches, and the values of each branch."""
    columns = {"record_key": keys, "partition_path": partitions, "ordering_branch": pa.array(numbers, pa.int8())}
    columns |= {ordering_column(branch): values[branch] for branch in sorted(values)}
    return pa.table(columns)


def natural_order(deletes: pa.Table) -> pa.BooleanArray:
    """Which deletes have no ordering value of their own: null, or the int 0 that the delete operation writes.

    Such a delete wins over all older rows and loses to all newer ones, in commit order.
    """
    natural = pc.equal(deletes["ordering_branch"], pa.scalar(OrderingBranch.NULL.value, pa.int8()))
    if ordering_column(OrderingBranch.INT) in deletes.column_names:
        zero = pc.fill_null(pc.equal(deletes[ordering_column(OrderingBranch.INT)], 0), False)
        natural = pc.or_(natural, zero)
    return one_chunk(natural)
