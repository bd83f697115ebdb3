"""Which equality deletes cannot apply to a data file, by the bounds of both. They are not read for that file.

Rule: the reference engine's DeleteFileIndex (canContainEqDeletesForFile). A delete file is ruled out when the ranges of
one of its columns in both files do not meet, unless both may have a null there. Only top-level columns whose order is
the same everywhere count, so no floats: NaN lies outside of bounds. A file without bounds rules nothing out.

A data file keeps all of its deletes unless ruling some out saves three quarters of their rows. The set of rows that is
built from deletes serves all data files with the same deletes, and a set of its own would cost more than it saves.
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

from lakebed.formats.iceberg.codec.bounds import decoded_bounds, values_of_field
from lakebed.formats.iceberg.data_files import Content, DeleteFile, FileTask, Metrics
from lakebed.formats.iceberg.delete_index import DeleteIndex
from lakebed.formats.iceberg.read.pruning import STATS_USED
from lakebed.kernel.arrays import Bools, filled, from_values, scalar_of, to_numpy

_ORDERED = (
    DateType, DecimalType, IntegerType, LongType, StringType, TimeType, TimestampNanoType, TimestampType,
    TimestamptzNanoType, TimestamptzType,
)  # fmt: skip
_MOST = 1000
"""With more delete files nothing is ruled out, since each is compared with each data file."""
_ROWS = 1 << 14
_WORTH_IT = 4


@dataclass(frozen=True, slots=True)
class _Range:
    """The range of values that a delete file has in one column."""

    column: int
    least: pa.Scalar
    most: pa.Scalar
    may_be_null: bool


@dataclass(frozen=True, slots=True)
class EqualityBounds:
    """The ranges of equality delete files, by path. `types` are those of the columns, by field id."""

    types: Mapping[int, IcebergType]
    ranges: Mapping[str, Sequence[_Range]]

    @classmethod
    def of(cls, deletes: Iterable[DeleteFile], schema: Schema) -> EqualityBounds:
        """The ranges of the delete files that have bounds for columns of the schema."""
        types = {f.field_id: f.field_type for f in schema.fields if isinstance(f.field_type, _ORDERED)}
        equality = [file for file in deletes if file.content is Content.EQUALITY_DELETES]
        if len(equality) > _MOST:
            return cls(types, {})
        by_path = {file.path: _ranges(file, types) for file in equality}
        return cls(types, {path: ranges for path, ranges in by_path.items() if ranges})

    def tasks(self, entries: pa.Table, index: DeleteIndex) -> Iterator[FileTask]:
        """The data files of a table of entries, each with its deletes except those that are ruled out.

        The table needs the columns `STATS_USED` when there are ranges.
        """
        plain = [name for name in entries.column_names if name not in STATS_USED]
        if not self.ranges:
            yield from index.tasks(entries.select(plain))
            return
        for start in range(0, len(entries), _ROWS):
            part = entries.slice(start, _ROWS)
            tasks = index.tasks(part.select(plain))
            if not any(task.deletes for task in tasks):
                yield from tasks
                continue
            ruled_out = self._ruled_out(part)
            for row, task in enumerate(tasks):
                paths = (delete.path for delete in task.deletes if delete.path in ruled_out)
                yield _excluding(task, {path for path in paths if ruled_out[path][row]})

    def _ruled_out(self, entries: pa.Table) -> dict[str, Bools]:
        """For each delete file the data files to which it cannot apply."""
        columns: dict[int, tuple[pa.Array, pa.Array, Bools]] = {}
        masks: dict[str, Bools] = {}
        for path, ranges in self.ranges.items():
            ruled_out = np.zeros(len(entries), np.bool_)
            for bounds in ranges:
                if bounds.column not in columns:
                    columns[bounds.column] = self._bounds(entries, bounds.column)
                lower, upper, nulls = columns[bounds.column]
                apart = pc.or_kleene(pc.less(upper, bounds.least), pc.greater(lower, bounds.most))
                mask = to_numpy(filled(apart, False))
                ruled_out |= mask & ~nulls if bounds.may_be_null else mask
            if ruled_out.any():
                masks[path] = ruled_out
        return masks

    def _bounds(self, entries: pa.Table, column: int) -> tuple[pa.Array, pa.Array, Bools]:
        kind = self.types[column]
        nulls = values_of_field(entries["null_value_counts"], column)
        may_be_null = to_numpy(filled(pc.greater(nulls, scalar_of(0, nulls.type)), True))
        lower, upper = (values_of_field(entries[name], column) for name in ("lower_bounds", "upper_bounds"))
        return decoded_bounds(lower, kind), decoded_bounds(upper, kind), may_be_null


def _ranges(file: DeleteFile, types: Mapping[int, IcebergType]) -> list[_Range]:
    metrics = file.metrics or Metrics()
    ranges = []
    for column in file.equality_ids:
        low, high = metrics.lower_bounds.get(column), metrics.upper_bounds.get(column)
        if column in types and low is not None and high is not None:
            least, most = decoded_bounds(from_values([low, high], pa.binary()), types[column])
            if least.is_valid and most.is_valid:
                ranges.append(_Range(column, least, most, metrics.null_value_counts.get(column, 1) > 0))
    return ranges


def _excluding(task: FileTask, paths: Collection[str]) -> FileTask:
    """A task without the deletes at these paths, if that is worth it."""
    if not paths:
        return task
    equality = [delete for delete in task.deletes if delete.content is Content.EQUALITY_DELETES]
    rows = sum(delete.record_count for delete in equality)
    kept_rows = sum(delete.record_count for delete in equality if delete.path not in paths)
    if kept_rows * _WORTH_IT > rows:
        return task
    return replace(task, deletes=tuple(delete for delete in task.deletes if delete.path not in paths))
