"""Routing: the partition of each row, and the order of the rows inside a file. Works on whole columns.

Rules: the specification's "Partitioning" and "Sorting". A bucket of the routing is a partition of the spec that the
table writes with. A table without partitions is one bucket.
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
from pyiceberg.transforms import Transform, VoidTransform
from pyiceberg.types import IcebergType

from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.codec.sort_order import SortOrder
from lakebed.formats.iceberg.codec.transforms import transformed
from lakebed.formats.iceberg.data_files import Partition, partition_key
from lakebed.kernel.arrays import from_numpy, one_chunk
from lakebed.kernel.keys.distinct import distinct
from lakebed.kernel.sizing.staging import Grouped, grouped
from lakebed.kernel.sort_keys import Direction, comparable, sort_order


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """A partition. Two are equal exactly where Iceberg's partitions are: NaN equals NaN, 0.0 differs from -0.0."""

    partition: Partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bucket) and partition_key(self.partition) == partition_key(other.partition)

    def __hash__(self) -> int:
        return hash(partition_key(self.partition))


@dataclass(frozen=True, slots=True)
class Router:
    """Finds the partition of rows in the table's columns. Picklable."""

    schema: Schema
    spec: PartitionSpec

    def refuse_lost(self) -> None:
        """UnsupportedError for a partition field whose column was dropped."""
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
        values = [column.take(from_numpy(first)).to_pylist() for column in columns]
        buckets: list[Hashable] = [Bucket(values) for values in zip(*values, strict=True)]
        return grouped(codes.astype(np.int64), buckets)


@dataclass(frozen=True, slots=True)
class Sorter:
    """Sorts rows in the table's columns by the table's sort order. Picklable. It is false without a sort order."""

    schema: Schema
    order: SortOrder

    def __bool__(self) -> bool:
        return bool(self.order.fields)

    def refuse_lost(self) -> None:
        """UnsupportedError for a sort order by a column that was dropped."""
        for field in self.order.fields:
            _source(self.schema, field.source_id, "the sort order")

    def keys(self, rows: pa.Table) -> pa.Table:
        """The sort keys, one column per sort field, in a form that compares column by column."""
        columns, directions = [], []
        for field in self.order.fields:
            columns.append(derived(rows, self.schema, field.source_id, field.transform, "the sort order"))
            directions.append(Direction(field.descending, field.nulls_first))
        return comparable(columns, directions)

    def sorted(self, rows: pa.Table) -> pa.Table:
        """The rows in order. Equal rows keep their order."""
        return rows.take(from_numpy(sort_order(self.keys(rows)))) if self and len(rows) > 1 else rows


def derived(rows: pa.Table, schema: Schema, source_id: int, transform: Transform[Any, Any], where: str) -> pa.Array:
    """The values of a transform of a column, which may lie inside structs.

    UnsupportedError for a dropped column, unless the transform is void. That is what a partition field becomes when it
    is dropped before its column.
    """
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
            f"{where} uses column {source_id}, which the table no longer has",
            todo="Let the table's engine remove the field from its partition spec or sort order",
        )
    return path


def source_path(schema: Schema, field_id: int) -> tuple[tuple[str, ...], IcebergType] | None:
    """The path of names to a field, and its type. None when the schema has no such field."""
    if field_id not in schema.field_ids:
        return None
    field = schema.find_field(field_id)
    name = schema.find_column_name(field_id)
    top = {column.name for column in schema.fields}
    assert name is not None
    return ((name,) if name in top else tuple(name.split("."))), field.field_type
