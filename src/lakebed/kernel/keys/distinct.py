"""Number the distinct combinations of columns, for example the partition of each row. On whole columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakebed.kernel.arrays import Int32s, Int64s, to_numpy


def distinct(columns: Sequence[pa.Array]) -> tuple[Int32s, Int32s]:
    """Number the distinct combinations of values, where null is a value: the code of each row, and the first row of
    each code."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if column.null_count == len(column):  # a single value, whatever its type
            continue
        encoded = column.dictionary_encode(null_encoding="encode")
        indices = to_numpy(encoded.indices).astype(np.int64)
        codes = codes * max(1, len(encoded.dictionary)) + indices
        if len(columns) > 1:  # keep codes small, so that no product overflows
            _, codes = np.unique(codes, return_inverse=True)
    _, first, inverse = (
        np.unique(codes, return_index=True, return_inverse=True) if len(columns) > 1 else _first_seen(codes)
    )
    return inverse.astype(np.int32), first.astype(np.int32)


def _first_seen(codes: Int64s) -> tuple[None, Int64s, Int64s]:
    """The first row of each code of a dictionary. These codes are dense, so one assignment in reverse finds them."""
    first = np.empty(int(codes.max()) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return None, first, codes
