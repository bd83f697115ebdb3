"""Rules out manifests, data files and row groups by what is known about their columns, before they are opened.

Rule: the specification's "Scan Planning": partition summaries of manifests, partition values and column bounds of
files, and Parquet's own statistics of row groups. Pruning only saves work: each row that is read is checked against the
predicate itself. NaN lies outside of all bounds, truncated strings are still bounds, and a column without metrics rules
nothing out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, Transform, UnknownTransform, VoidTransform
from pyiceberg.types import DoubleType, FloatType, IcebergType, NestedField, PrimitiveType, StructType

from lakebed.formats.iceberg.codec.bounds import decoded_bounds, plain_type, values_of_field
from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.schema import VariantType
from lakebed.formats.iceberg.codec.transforms import source_bounds, transformed
from lakebed.formats.iceberg.read.conform import conformed
from lakebed.formats.iceberg.read.formats import ParquetData
from lakebed.kernel.arrays import Bools, filled, from_values, one_chunk, scalar_of, to_numpy
from lakebed.kernel.predicates.facts import Facts
from lakebed.kernel.predicates.ranges import can_hold
from lakebed.kernel.predicates.row_groups import row_group_facts
from lakebed.kernel.predicates.tree import Node

STATS_USED = ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
"""The metrics in entries that rule files out."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """Rules out manifests, data files and row groups of a table with a schema. The predicate None keeps everything."""

    predicate: Node | None
    schema: Schema

    def manifests(self, manifests: Sequence[ManifestFile], spec: PartitionSpec) -> Bools:
        """Which manifests of one spec may have a file with a matching row."""

        def facts_of(path: tuple[str, ...]) -> list[Facts]:
            field = self._leaf(path)
            return [] if field is None else list(_summary_facts(field, manifests, spec))

        return can_hold(self.predicate, facts_of, len(manifests))

    def entries(self, entries: pa.Table, spec: PartitionSpec) -> Bools:
        """Which data files may have a matching row. `entries` are of one spec and have the columns `STATS_USED`."""

        def facts_of(path: tuple[str, ...]) -> list[Facts]:
            field = self._leaf(path)
            if field is None:
                return []
            return [*_partition_facts(field, entries["partition"], spec), *_metric_facts(field, entries)]

        return can_hold(self.predicate, facts_of, len(entries))

    def row_groups(self, file: ParquetData, groups: Sequence[int]) -> list[int]:
        """The row groups that may have a matching row, out of `groups`."""

        def facts_of(path: tuple[str, ...]) -> list[Facts]:
            field = self._leaf(path)
            if field is None or len(path) > 1:
                return []
            facts = _group_facts(field, file, groups)
            return [] if facts is None else [facts]

        kept = can_hold(self.predicate, facts_of, len(groups))
        return [group for group, is_kept in zip(groups, kept, strict=True) if is_kept]

    def _leaf(self, path: tuple[str, ...]) -> NestedField | None:
        """The primitive field at a path of names; None for a column without bounds."""
        fields: Sequence[NestedField] = self.schema.fields
        field: NestedField | None = None
        for name in path:
            field = next((child for child in fields if child.name == name), None)
            if field is None:
                return None
            fields = field.field_type.fields if isinstance(field.field_type, StructType) else ()
        kind = field.field_type if field is not None else None
        return field if isinstance(kind, PrimitiveType) and not isinstance(kind, VariantType) else None


# ---- files by their metrics ------------------------------------------------------------------------------------------


def _metric_facts(field: NestedField, entries: pa.Table) -> Iterator[Facts]:
    counts = values_of_field(entries["value_counts"], field.field_id)
    nulls = values_of_field(entries["null_value_counts"], field.field_id)
    values = to_numpy(filled(pc.less(nulls, counts), True))
    may_be_null = to_numpy(filled(pc.greater(nulls, scalar_of(0, nulls.type)), True))
    lower = decoded_bounds(values_of_field(entries["lower_bounds"], field.field_id), field.field_type)
    upper = decoded_bounds(values_of_field(entries["upper_bounds"], field.field_id), field.field_type)
    yield Facts(lower, upper, may_be_null, values, _nans(field.field_type, len(entries)))


def _nans(kind: IcebergType, count: int) -> Bools:
    return np.full(count, isinstance(kind, FloatType | DoubleType))


# ---- files and manifests by their partitions -------------------------------------------------------------------------


def _partition_facts(field: NestedField, partitions: pa.ChunkedArray, spec: PartitionSpec) -> Iterator[Facts]:
    for number, part in enumerate(spec.fields):
        if part.source_id == field.field_id and not isinstance(part.transform, VoidTransform | UnknownTransform):
            column = one_chunk(pc.struct_field(partitions, [number]))
            null = to_numpy(column.is_null())
            yield from _transform_facts(part.transform, field.field_type, column, column, null, ~null)


def _summary_facts(field: NestedField, manifests: Sequence[ManifestFile], spec: PartitionSpec) -> Iterator[Facts]:
    for number, part in enumerate(spec.fields):
        if part.source_id != field.field_id or isinstance(part.transform, VoidTransform | UnknownTransform):
            continue
        summaries = [m.partitions[number] if m.partitions and number < len(m.partitions) else None for m in manifests]
        kind = part.transform.result_type(field.field_type)
        low = decoded_bounds(from_values([s and s.lower_bound for s in summaries], pa.binary()), kind)
        high = decoded_bounds(from_values([s and s.upper_bound for s in summaries], pa.binary()), kind)
        nulls = np.array([s is None or s.contains_null for s in summaries], np.bool_)
        values = np.ones(len(summaries), np.bool_)
        yield from _transform_facts(part.transform, field.field_type, low, high, nulls, values)


def _transform_facts(
    transform: Transform[Any, Any], kind: IcebergType, low: pa.Array, high: pa.Array, nulls: Bools, values: Bools
) -> Iterator[Facts]:
    """What partition values between `low` and `high` say about their source column."""
    source = plain_type(kind)
    nans = _nans(kind, len(low))
    if isinstance(transform, BucketTransform):
        buckets = pc.if_else(pc.equal(low, high), low, pa.nulls(1, low.type)[0]).cast(pa.int32())
        unknown = pa.nulls(len(low), source)
        yield Facts(unknown, unknown, nulls, values, nans, lambda column: transformed(transform, column, kind), buckets)
        return
    bounds = source_bounds(transform, low, high, source)
    if bounds is not None:
        yield Facts(*bounds, nulls, values, nans)


# ---- row groups ------------------------------------------------------------------------------------------------------


def _group_facts(field: NestedField, file: ParquetData, groups: Sequence[int]) -> Facts | None:
    """What the footer says about a top-level column; None when it has nothing to rule row groups out by."""
    place = next((n for n, column in enumerate(file.fields) if column.id == field.field_id), None)
    leaf = None if place is None else file.leaf(place)
    if place is None or leaf is None:
        return None
    written = file.arrow.field(place).type
    return row_group_facts(
        file.metadata, leaf, groups, written, lambda bounds: conformed(bounds, file.fields[place], field)
    )
