"""Write the content of delete blocks, many deletes at once. `delete_avro.py` reads it.

Content version 3: int32 3, int32 length, then the Avro datum of a `HoodieDeleteRecordList`. A delete without an
ordering value has an IntWrapper of 0, as Hudi's delete operation writes it: it wins over all that came before.

Rules: Hudi's `HoodieDeleteBlock` and `OrderingValueEngineTypeConverter` (the wrapper of each type).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakebed.formats.hudi.codec.delete_rows import OrderingBranch
from lakebed.kernel.arrays import Bools, from_numpy, one_chunk
from lakebed.kernel.avro.container import avro_long
from lakebed.kernel.avro.encode import encode_records

_VERSION = 3


def delete_content(keys: pa.Array, partitions: pa.Array, ordering: Sequence[pa.Array]) -> bytes:
    """The content of a delete block. `ordering` has one array per ordering field; a delete whose values are null has no
    ordering value."""
    natural: Bools = np.full(len(keys), not ordering)
    for column in ordering:
        natural |= column.is_null().to_numpy(zero_copy_only=False)
    items = []
    if natural.any():
        items.append(
            _items(keys, partitions, natural, [(OrderingBranch.INT, pa.repeat(pa.scalar(0, pa.int32()), len(keys)))])
        )
    if not natural.all():
        items.append(_items(keys, partitions, ~natural, [_branch(column) for column in ordering]))
    body = (avro_long(len(keys)) + b"".join(items) + b"\x00") if len(keys) else b"\x00"
    return struct.pack(">ii", _VERSION, len(body)) + body


def _items(
    keys: pa.Array, partitions: pa.Array, wanted: Bools, values: Sequence[tuple[OrderingBranch, pa.Array]]
) -> bytes:
    columns: list[tuple[pa.Array, bool]] = [(keys, True), (partitions, True)]
    count = len(keys)

    def constant(number: int) -> tuple[pa.Array, bool]:
        return pa.repeat(pa.scalar(number, pa.int32()), count), False

    if len(values) == 1:
        columns += [constant(values[0][0]), (values[0][1], False)]
    else:
        columns += [constant(OrderingBranch.ARRAY), constant(1), constant(len(values))]
        for branch, column in values:
            columns += [constant(branch), (column, False)]
        columns.append(constant(0))
    schema = pa.schema([pa.field(str(n), column.type, nullable) for n, (column, nullable) in enumerate(columns)])
    table = pa.Table.from_arrays([column for column, _ in columns], schema=schema)
    if not wanted.all():
        table = table.filter(from_numpy(wanted))
    arrays = [one_chunk(column) for column in table.columns]
    return encode_records(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _branch(column: pa.Array) -> tuple[OrderingBranch, pa.Array]:
    kind, types = column.type, pa.types
    if types.is_boolean(kind):
        return OrderingBranch.BOOLEAN, column
    if types.is_integer(kind):
        return (OrderingBranch.LONG, column) if kind.bit_width == 64 else (OrderingBranch.INT, column.cast(pa.int32()))
    if types.is_float32(kind):
        return OrderingBranch.FLOAT, column
    if types.is_floating(kind):
        return OrderingBranch.DOUBLE, column
    if types.is_date(kind):
        return OrderingBranch.DATE, column
    if types.is_decimal(kind):
        return OrderingBranch.DECIMAL, column.cast(pa.decimal128(30, 15))
    if types.is_timestamp(kind) or types.is_time(kind):
        return OrderingBranch.LONG, column.view(pa.int64()) if kind.bit_width == 64 else column
    if types.is_binary(kind):
        return OrderingBranch.BYTES, column
    return OrderingBranch.STRING, column.cast(pa.string())
