"""Arrays: one name per numpy element type, for annotations, and an Arrow column as a single array."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s: TypeAlias = npt.NDArray[np.int64]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int8s: TypeAlias = npt.NDArray[np.int8]
UInt64s: TypeAlias = npt.NDArray[np.uint64]
UInt32s: TypeAlias = npt.NDArray[np.uint32]
UInt8s: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]
Float64s: TypeAlias = npt.NDArray[np.float64]
Objects: TypeAlias = npt.NDArray[np.object_]
AnyArray: TypeAlias = npt.NDArray[Any]

TEXTS_ONCE = pa.dictionary(pa.int32(), pa.string())
"""The type of a text column that holds each text once."""


def whole_columns(table: pa.Table) -> dict[str, pa.Array]:
    """The columns of a table by name, each as one array."""
    return {name: one_chunk(table[name]) for name in table.column_names}


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array. It is copied only when it has several chunks."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def repeated(text: str, count: int) -> pa.DictionaryArray:
    """A column that has one text in each row, which is held once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def with_plain_texts(rows: pa.Table) -> pa.Table:
    """The rows with each text in its place, also those that are held once."""
    for number, field in enumerate(rows.schema):
        if field.type == TEXTS_ONCE:
            rows = rows.set_column(number, field.with_type(pa.string()), rows.column(number).cast(pa.string()))
    return rows
