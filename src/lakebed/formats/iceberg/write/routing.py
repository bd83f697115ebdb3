"""Which partition each row belongs to, and in which order rows lie inside a file: whole columns at a time.

Rules: the specification's "Partitioning" and "Sorting". A bucket of the routing is a partition of the spec that the
table writes with; a table without partitions is one bucket.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder
from pyiceberg.transforms import Transform, VoidTransform
from pyiceberg.types import IcebergType

from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.codec.transforms import transformed
from lakebed.formats.iceberg.data_files import Partition, partition_key
from lakebed.kernel.arrays import one_chunk
from lakebed.kernel.keys.distinct import distinct
from lakebed.kernel.sizing.staging import Grouped, grouped
from lakebed.kernel.sort_keys import Direction, comparable, sort_order


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """A partition, equal to another exactly where Iceberg takes them as equal (NaN is, 0.0 and -0.0 are not)."""

    partition: Partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bucket) and partition_key(self.partition) == partition_key(other.partition)

    def __hash__(self) -> int:
        return hash(partition_key(self.partition))


@dataclass(frozen=True, slots=True)
class Router:
    """The partitions of rows in the table's own columns. Picklable."""

    schema: Schema
    spec: PartitionSpec

    def refuse_lost(self) -> None:
        """UnsupportedError for a partition field whose column was dropped: rows cannot be told apart by it."""
        for field in self.spec.fields:
            if not isinstance(field.transform, VoidTransform):
                _source(self.schema, field.source_id, f"partition field {field.name!r}")

    def group(self, rows: pa.Table) -> Grouped:
        """The partition of each row."""
        if not self.spec.fields:
            return grouped(np.zeros(len(rows), np.int64), [Bucket(())])
        columns = [
            derived(rows, self.schema, field.source_id, field.transform, f"partition field {field.name!r}")
            for field in self.spec.fields
        ]
        plain = [column.storage if isinstance(column, pa.ExtensionArray) else column for column in columns]
        codes, first = distinct(plain)
        values = [column.take(pa.array(first)).to_pylist() for column in columns]
        buckets: list[Hashable] = [Bucket(values) for values in zip(*values, strict=True)]
        return grouped(codes.astype(np.int64), buckets)


@dataclass(frozen=True, slots=True)
class Sorter:
    """The table's sort order over rows in the table's own columns. Picklable; false when there is no order."""

    schema: Schema
    order: SortOrder

    def __bool__(self) -> bool:
        return bool(self.order.fields)

    def refuse_lost(self) -> None:
        """UnsupportedError for an order by a column that was dropped."""
        for field in self.order.fields:
            _source(self.schema, field.source_id, "the sort order")

    def keys(self, rows: pa.Table) -> pa.Table:
        """The sort keys in a form that compares column by column."""
        columns, directions = [], []
        for field in self.order.fields:
            columns.append(derived(rows, self.schema, field.source_id, field.transform, "the sort order"))
            directions.append(
                Direction(field.direction is SortDirection.DESC, field.null_order is NullOrder.NULLS_FIRST)
            )
        return comparable(columns, directions)

    def sorted(self, rows: pa.Table) -> pa.Table:
        """The rows in order; equal ones stay in theirs."""
        return rows.take(pa.array(sort_order(self.keys(rows)))) if self and len(rows) > 1 else rows


def derived(rows: pa.Table, schema: Schema, source_id: int, transform: Transform[Any, Any], where: str) -> pa.Array:
    """The transform of a column, found by field id, also inside structs. UnsupportedError for a dropped column, unless
    the transform is void, which is what is left of a partition field that was dropped before its column."""
    if isinstance(transform, VoidTransform) and source_id not in schema.field_ids:
        return pa.nulls(len(rows))
    names, kind = _source(schema, source_id, where)
    array = one_chunk(rows.column(names[0]))
    for name in names[1:]:
        array = pc.struct_field(array, name)
    return transformed(transform, array, kind)


def _source(schema: Schema, source_id: int, where: str) -> tuple[tuple[str, ...], IcebergType]:
    path = source_path(schema, source_id)
    if path is None:
        raise UnsupportedError(
            f"{where} rests on column {source_id}, which the table has no more",
            todo="Let the table's engine remove the field from its partition spec or sort order",
        )
    return path


def source_path(schema: Schema, field_id: int) -> tuple[tuple[str, ...], IcebergType] | None:
    """The names that lead to a field and its type; None when the schema has no such field."""
    if field_id not in schema.field_ids:
        return None
    field = schema.find_field(field_id)
    name = schema.find_column_name(field_id)
    top = {known.name for known in schema.fields}
    assert name is not None
    return ((name,) if name in top else tuple(name.split("."))), field.field_type
