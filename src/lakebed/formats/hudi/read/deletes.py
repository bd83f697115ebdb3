"""Delete blocks as log entries, their ordering values in the types of the table's ordering columns.

A delete carries its ordering value in the type of the writer's record, which need not be the column's: an int for a
bigint column, a long of microseconds for a timestamp. We convert each to the column's type, so that deletes and rows
compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError, first_line
from lakebed.formats.hudi.codec.delete import decode_deletes
from lakebed.formats.hudi.codec.delete_rows import OrderingBranch, natural_order, ordering_column
from lakebed.formats.hudi.codec.log import LogBlock
from lakebed.formats.hudi.merge.log_entries import LogDeletes
from lakebed.kernel.arrays import Bools, one_chunk, to_numpy
from lakebed.kernel.scratch import Scratch

_SINGLE = tuple(ordering_column(branch) for branch in OrderingBranch if branch.name not in ("NULL", "ARRAY"))


@dataclass(frozen=True, slots=True)
class OrderingType:
    """The type of one ordering column, and what a bare number in it counts where it is a timestamp: "us" or "ms"."""

    kind: pa.DataType
    unit: str


def read_deletes(block: LogBlock, types: Sequence[OrderingType], scratch: Scratch, position: int) -> LogDeletes:
    """The deletes of a block, the first at `position` in the log.

    Raises UnsupportedError for an ordering value that cannot have its column's type.
    """
    deletes = decode_deletes(block.content, scratch)
    if deletes["record_key"].null_count:  # a delete without a key removes nothing
        deletes = deletes.filter(deletes["record_key"].is_valid())
    try:
        ordering = tuple(_ordering(deletes, place, types) for place in range(len(types)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnsupportedError(
            "a delete has an ordering value that does not fit the ordering columns",
            instant=block.instant_time,
            why=first_line(error),
            todo="Compact the table with its own engine, then read it again",
        ) from error
    natural: Bools = to_numpy(natural_order(deletes))
    count = deletes.num_rows
    return LogDeletes(
        positions=np.arange(position, position + count),
        keys=one_chunk(deletes["record_key"]),
        ordering=ordering,
        natural=natural,
        instants=pa.repeat(pa.scalar(block.instant_time), count),
    )


def _ordering(deletes: pa.Table, place: int, types: Sequence[OrderingType]) -> pa.Array:
    """The values of one ordering column, null for deletes without one."""
    array, wanted = ordering_column(OrderingBranch.ARRAY), types[place]
    branches = []
    if array in deletes.column_names:
        structs = pc.list_element(one_chunk(deletes[array]), place)
        names = [field.name for field in structs.type if field.name != "branch"]
        branches += [pc.struct_field(structs, name) for name in names]
    if len(types) == 1:
        branches += [one_chunk(deletes[name]) for name in _SINGLE if name in deletes.column_names]
    if not branches:
        return pa.nulls(deletes.num_rows, wanted.kind)
    return pc.coalesce(*(_converted(values, wanted) for values in branches))


def _converted(values: pa.Array, wanted: OrderingType) -> pa.Array:
    """Ordering values in the column's type. Bare numbers count the column's units: micro- or milliseconds, or days."""
    kind, unit = wanted.kind, wanted.unit
    if values.type == kind:
        return values
    if pa.types.is_integer(values.type) and pa.types.is_timestamp(kind):
        return values.cast(pa.int64()).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, kind.tz)).cast(kind)
    if pa.types.is_integer(values.type) and pa.types.is_date32(kind):
        return values.cast(pa.int32()).cast(kind)
    return values.cast(kind)
