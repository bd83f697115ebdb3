"""Read the statistics of columns that the metadata table keeps: of files (`column_stats`) and partitions.

Rules: Hudi's `HoodieMetadataPayload` (a newer record of a key adds to the older ones, unless it says that it is the
whole truth, or that there is none) and `codec/wrapped_values.py` (which bounds are certain).

What a writer records of a file is believed only so far: "all values are null" is also what Hudi records of a file whose
footer has no statistics, such as for long texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.codec.metadata_keys import hash_of, partition_hash
from lakebed.formats.hudi.codec.wrapped_values import bounds, certain_texts, value_types
from lakebed.formats.hudi.metadata_table.entries import entries_of
from lakebed.formats.hudi.metadata_table.opened import MetadataTable
from lakebed.kernel.arrays import Bools, one_chunk
from lakebed.kernel.avro.columns import Choice

COLUMN_STATS, PARTITION_STATS = "column_stats", "partition_stats"
_MOST_PREFIXES = 256


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known of one column, by key: bounds (null: not known), whether there may be nulls and other values, and
    whether the writer counted no null at all."""

    keys: pa.Array
    lower: pa.Array
    upper: pa.Array
    nulls: Bools
    values: Bools


def read_statistics(table: MetadataTable, part: str, column: pa.Field, partitions: Sequence[str]) -> Statistics | None:
    """The statistics of a column in some partitions, and perhaps in others; None where they cannot be used.

    Raises what `opened.UNUSABLE` has where the part of the metadata table cannot be read.
    """
    of_column = hash_of(column.name)
    prefixes = [of_column + partition_hash(path) for path in partitions]
    if len(prefixes) > _MOST_PREFIXES:
        prefixes = [of_column]
    tables = []
    for number, entries in enumerate(entries_of(table, part, prefixes)):
        mine = entries.only(pc.starts_with(entries.keys, of_column))
        if len(mine.keys):
            tables.append(_table(mine.keys, mine.decoded("ColumnStatsMetadata"), column.type, number))
    if not tables:
        return None
    return _merged(pa.concat_tables(tables), column.type)


def _table(keys: pa.Array, stats: Any, kind: pa.DataType, number: int) -> pa.Table:
    """Statistics as they stand in one image, a row each. Where there are no `stats`, the keys are deleted."""
    count = len(keys)
    if stats is None:
        lower = upper = pa.nulls(count, kind)
        deleted = whole = np.ones(count, np.bool_)
        nulls = values = np.zeros(count, np.int64)
    else:
        types, info = value_types(stats, count)
        low, high = stats["minValue"], stats["maxValue"]
        lower, upper = bounds(low, types, info, kind), bounds(high, types, info, kind)
        if pa.types.is_string(kind):
            lower, upper = certain_texts(lower, upper)
        deleted = stats["isDeleted"]
        whole = deleted | stats.get("isTightBound", np.zeros(count, np.bool_))
        nulls, values = _counts(stats["nullCount"], count), _counts(stats["valueCount"], count)
    empty = values == 0
    columns = {
        "key": keys,
        "number": pa.repeat(number, count),
        "deleted": pa.array(deleted),
        "whole": pa.array(whole),
        "lower": lower,
        "upper": upper,
        "unknown": pc.and_(pa.array(~empty), pc.or_(pc.is_null(lower), pc.is_null(upper))),
        "unsure": pa.array((nulls >= values) & ~empty),
        "nulls": pa.array((nulls != 0) & ~empty),
        "values": pa.array(~empty),
    }
    return pa.table(columns)


def _counts(choice: Choice, count: int) -> np.ndarray:
    return choice.filled(-1) if choice is not None else np.full(count, -1)


def _merged(rows: pa.Table, kind: pa.DataType) -> Statistics:
    """One row per key: merged from the newest row that replaces all before it."""
    start = rows.filter(rows["whole"]).group_by("key").aggregate([("number", "max")]).rename_columns(["key", "start"])
    rows = rows.join(start, "key") if len(start) else rows.append_column("start", pa.nulls(len(rows), pa.int64()))
    late = pc.greater_equal(rows["number"], pc.fill_null(rows["start"], -1))
    rows = rows.filter(pc.and_(late, pc.invert(rows["deleted"])))
    kinds = [("lower", "min"), ("upper", "max")] + [(name, "max") for name in ("unknown", "unsure", "nulls", "values")]
    merged = rows.group_by("key").aggregate(kinds)
    unknown, unsure = _bools(merged["unknown_max"]), _bools(merged["unsure_max"])
    nothing = pa.scalar(None, kind)
    hidden = pa.array(unknown | unsure)
    return Statistics(
        one_chunk(merged["key"]),
        pc.if_else(hidden, nothing, one_chunk(merged["lower_min"])),
        pc.if_else(hidden, nothing, one_chunk(merged["upper_max"])),
        _bools(merged["nulls_max"]) | unsure,
        _bools(merged["values_max"]),
    )


def _bools(column: pa.ChunkedArray) -> Bools:
    values: Bools = one_chunk(column).to_numpy(zero_copy_only=False).astype(np.bool_)
    return values
