"""Facts about the row groups of a Parquet file, from the statistics in its footer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.kernel.arrays import from_values
from lakebed.kernel.predicates.facts import Facts


def row_group_facts(
    metadata: pq.FileMetaData,
    leaf: int,
    groups: Sequence[int],
    written: pa.DataType,
    conform: Callable[[pa.Array], pa.Array],
) -> Facts | None:
    """What the footer says of a leaf column in some row groups, None when nothing in it can be used.

    `written` is the column's type in the file; `conform` brings the bounds to the type in which values are compared. It
    must keep their order.
    """
    lows, highs, nulls, values = [], [], [], []
    for group in groups:
        column = metadata.row_group(group).column(leaf)
        statistics = column.statistics
        bounded = statistics is not None and statistics.has_min_max
        lows.append(_bound(statistics.min) if bounded else None)
        highs.append(_bound(statistics.max) if bounded else None)
        counted = statistics is not None and statistics.has_null_count
        nulls.append(not counted or statistics.null_count > 0)
        values.append(not counted or statistics.null_count < column.num_values)
    try:
        lower, upper = (conform(from_values(bounds, written)) for bounds in (lows, highs))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, ValueError, OverflowError):
        return None
    nans = np.full(len(groups), pa.types.is_floating(lower.type))
    return Facts(lower, upper, np.array(nulls, np.bool_), np.array(values, np.bool_), nans)


def _bound(value: Any) -> Any:
    """A bound; NaN is not one."""
    return None if isinstance(value, float) and math.isnan(value) else value


def leaf_of(schema: pa.Schema, place: int) -> int | None:
    """The number of the leaf that a top-level column of a Parquet file's Arrow schema is, None when it is nested."""
    if pa.types.is_nested(schema.field(place).type):
        return None
    return sum(_leaf_count(schema.field(before).type) for before in range(place))


def _leaf_count(kind: pa.DataType) -> int:
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf_count(kind.storage_type)
    if pa.types.is_nested(kind):
        return sum(_leaf_count(kind.field(n).type) for n in range(kind.num_fields))
    return 1
