"""Equality deletes that cannot touch a data file, by the bounds of both: they are not read for it.

Rule: the reference engine's DeleteFileIndex (canContainEqDeletesForFile). A delete file is out where the ranges of one
of its columns and of the data file's do not meet, and not both may hold a null. Only top-level columns whose order is
the same everywhere count: no floats, whose NaN lies outside of bounds. What a file does not say rules nothing out.

A data file keeps all of its deletes where less than three quarters of their rows would go: the set that is made of them
serves all data files with the same deletes, and one of its own would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from lakebed.formats.iceberg.data_files import Content, DeleteFile, FileTask, Metrics
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.read.pruning import STATS_USED, decoded_bounds, figures_of
from lakebed.kernel.arrays import Bools

_ORDERED = (
    DateType, DecimalType, IntegerType, LongType, StringType, TimeType, TimestampNanoType, TimestampType,
    TimestamptzNanoType, TimestamptzType,
)  # fmt: skip
_MOST = 1000
"""With more delete files than that nothing is ruled out: each is held against each data file."""
_ROWS = 1 << 14
_WORTH_IT = 4


@dataclass(frozen=True, slots=True)
class _Range:
    """What a delete file holds of one column."""

    column: int
    least: pa.Scalar
    most: pa.Scalar
    may_be_null: bool


@dataclass(frozen=True, slots=True)
class EqualityBounds:
    """The ranges of equality delete files by path."""

    types: Mapping[int, IcebergType]
    ranges: Mapping[str, Sequence[_Range]]

    @classmethod
    def of(cls, deletes: Iterable[DeleteFile], schema: Schema) -> EqualityBounds:
        """Those of the delete files that have bounds of columns of the schema."""
        types = {f.field_id: f.field_type for f in schema.fields if isinstance(f.field_type, _ORDERED)}
        equality = [file for file in deletes if file.content is Content.EQUALITY_DELETES]
        if len(equality) > _MOST:
            return cls(types, {})
        known = {file.path: _ranges(file, types) for file in equality}
        return cls(types, {path: ranges for path, ranges in known.items() if ranges})

    def tasks(self, entries: pa.Table, index: DeleteIndex) -> Iterator[FileTask]:
        """The data files of a columnar table of entries, each with its deletes but for those that are ruled out; the
        table has the columns `STATS_USED` where there are ranges."""
        plain = [name for name in entries.column_names if name not in STATS_USED]
        if not self.ranges:
            yield from index.tasks(entries.select(plain))
            return
        for start in range(0, len(entries), _ROWS):
            part = entries.slice(start, _ROWS)
            tasks = index.tasks(part.select(plain))
            if not any(one.deletes for one in tasks):
                yield from tasks
                continue
            out = self._ruled_out(part)
            for row, task in enumerate(tasks):
                yield _without(task, {one.path for one in task.deletes if one.path in out and out[one.path][row]})

    def _ruled_out(self, entries: pa.Table) -> dict[str, Bools]:
        """For each delete file, which of the data files it cannot touch."""
        columns: dict[int, tuple[pa.Array, pa.Array, Bools]] = {}
        found: dict[str, Bools] = {}
        for path, ranges in self.ranges.items():
            out = np.zeros(len(entries), np.bool_)
            for one in ranges:
                if one.column not in columns:
                    columns[one.column] = self._bounds(entries, one.column)
                lower, upper, nulls = columns[one.column]
                apart = pc.or_kleene(pc.less(upper, one.least), pc.greater(lower, one.most))
                mask = pc.fill_null(apart, False).to_numpy(zero_copy_only=False)
                out |= mask & ~nulls if one.may_be_null else mask
            if out.any():
                found[path] = out
        return found

    def _bounds(self, entries: pa.Table, column: int) -> tuple[pa.Array, pa.Array, Bools]:
        kind = self.types[column]
        nulls = figures_of(entries["null_value_counts"], column)
        may_be_null = pc.fill_null(pc.greater(nulls, 0), True).to_numpy(zero_copy_only=False)
        lower, upper = (figures_of(entries[name], column) for name in ("lower_bounds", "upper_bounds"))
        return decoded_bounds(lower, kind), decoded_bounds(upper, kind), may_be_null


def _ranges(file: DeleteFile, types: Mapping[int, IcebergType]) -> list[_Range]:
    metrics = file.metrics or Metrics()
    found = []
    for column in file.equality_ids:
        low, high = metrics.lower_bounds.get(column), metrics.upper_bounds.get(column)
        if column in types and low is not None and high is not None:
            least, most = decoded_bounds(pa.array([low, high], pa.binary()), types[column])
            if least.is_valid and most.is_valid:
                found.append(_Range(column, least, most, metrics.null_value_counts.get(column, 1) > 0))
    return found


def _without(task: FileTask, out: Collection[str]) -> FileTask:
    """A task without the deletes at these paths, where that is worth it."""
    if not out:
        return task
    equality = [one for one in task.deletes if one.content is Content.EQUALITY_DELETES]
    rows, kept = (sum(one.record_count for one in equality if one.path not in gone) for gone in ((), out))
    if kept * _WORTH_IT > rows:
        return task
    return replace(task, deletes=tuple(one for one in task.deletes if one.path not in out))
