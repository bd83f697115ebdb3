"""Delete blocks as Arrow columns of the table's ordering types.

A delete carries its ordering value in the type of the writer's record, which need not be the column's: an int for a
bigint column, a long of microseconds for a timestamp. All are brought to the column's type, so that deletes and rows
compare.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.codec.delete import decode_deletes
from lakebed.formats.hudi.codec.delete_rows import OrderingBranch, natural_order, ordering_column
from lakebed.formats.hudi.codec.log import LogBlock
from lakebed.kernel.arrays import Bools
from lakebed.kernel.scratch import Scratch

_SINGLE = tuple(branch for branch in OrderingBranch if branch not in (OrderingBranch.NULL, OrderingBranch.ARRAY))


@dataclass(frozen=True, slots=True)
class Deletes:
    """One delete block: its keys, their ordering values in the columns' types, and which have none."""

    keys: pa.Array
    ordering: tuple[pa.Array, ...]
    natural: Bools

    @classmethod
    def of(
        cls, block: LogBlock, types: tuple[pa.DataType, ...], scratch: Scratch, units: tuple[str, ...] = ()
    ) -> Deletes:
        """Decoded from its block. Raises UnsupportedError for an ordering value that cannot be the column's.

        `units` are those of bare numbers in timestamp columns, "us" where none are given.
        """
        found = decode_deletes(block.content, scratch)
        if found["record_key"].null_count:  # a delete of no key removes nothing
            found = found.filter(found["record_key"].is_valid())
        try:
            ordering = _ordering(found, types, units or ("us",) * len(types))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UnsupportedError(
                "a delete has an ordering value that does not fit the ordering columns",
                instant=block.instant_time,
                why=str(error).splitlines()[0],
                todo="Compact the table with its own engine, then read it again",
            ) from error
        natural: Bools = natural_order(found).to_numpy(zero_copy_only=False)
        return cls(_one(found["record_key"]), ordering, natural)


def _ordering(deletes: pa.Table, types: tuple[pa.DataType, ...], units: tuple[str, ...]) -> tuple[pa.Array, ...]:
    array = ordering_column(OrderingBranch.ARRAY)
    columns = []
    for place, (kind, unit) in enumerate(zip(types, units, strict=True)):
        parts = []
        if array in deletes.column_names:
            structs = pc.list_element(_one(deletes[array]), place)
            names = [field.name for field in structs.type if field.name != "branch"]
            parts += [pc.struct_field(structs, name) for name in names]
        if len(types) == 1:
            names = [ordering_column(branch) for branch in _SINGLE]
            parts += [_one(deletes[name]) for name in names if name in deletes.column_names]
        typed = [_as(part, kind, unit) for part in parts]
        columns.append(pc.coalesce(*typed) if typed else pa.nulls(deletes.num_rows, kind))
    return tuple(columns)


def _as(values: pa.Array, kind: pa.DataType, unit: str) -> pa.Array:
    """Ordering values as the column's type; bare numbers count the column's units: micro- or milliseconds, days."""
    if values.type == kind:
        return values
    if pa.types.is_integer(values.type) and pa.types.is_timestamp(kind):
        return values.cast(pa.int64()).cast(pa.timestamp(unit)).cast(pa.timestamp(unit, kind.tz)).cast(kind)
    if pa.types.is_integer(values.type) and pa.types.is_date32(kind):
        return values.cast(pa.int32()).cast(kind)
    return values.cast(kind)


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
