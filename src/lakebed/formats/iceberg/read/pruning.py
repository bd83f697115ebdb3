"""Ruling out manifests, data files and row groups by what is known of their columns, before they are opened.

Rule: the specification's "Scan Planning": partition summaries of manifests, partition values and column bounds of
files, and Parquet's own statistics of row groups. What is ruled out is only saved work: each row that is read is held
against the predicate itself. NaN lies outside of all bounds, truncated texts are bounds still, and what a file does not
say of a column rules nothing out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, Transform, UnknownTransform, VoidTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    UUIDType,
)

from lakebed.formats.iceberg.codec.manifest_list import ManifestFile
from lakebed.formats.iceberg.codec.schema import VariantType, arrow_type
from lakebed.formats.iceberg.codec.transforms import source_bounds, transformed
from lakebed.formats.iceberg.read.conform import conformed
from lakebed.formats.iceberg.read.formats import ParquetData
from lakebed.kernel.arrays import Bools, UInt8s, one_chunk
from lakebed.kernel.predicates.facts import Facts
from lakebed.kernel.predicates.ranges import can_hold
from lakebed.kernel.predicates.row_groups import row_group_facts
from lakebed.kernel.predicates.tree import Node

STATS_USED = ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
"""The per-column figures of entries that rule files out."""


@dataclass(frozen=True, slots=True)
class Pruning:
    """Rules out manifests, data files and row groups of a table with a schema. The predicate None keeps everything."""

    predicate: Node | None
    schema: Schema

    def manifests(self, manifests: Sequence[ManifestFile], spec: PartitionSpec) -> Bools:
        """Which manifests of one spec can hold a file that is wanted."""

        def known(path: tuple[str, ...]) -> list[Facts]:
            field = self._leaf(path)
            return [] if field is None else list(_summary_facts(field, manifests, spec))

        return can_hold(self.predicate, known, len(manifests))

    def entries(self, entries: pa.Table, spec: PartitionSpec) -> Bools:
        """Which data files of a columnar table of entries of one spec can hold a row that is wanted; the table has the
        columns `STATS_USED`."""

        def known(path: tuple[str, ...]) -> list[Facts]:
            field = self._leaf(path)
            if field is None:
                return []
            return [*_partition_facts(field, entries["partition"], spec), *_metric_facts(field, entries)]

        return can_hold(self.predicate, known, len(entries))

    def row_groups(self, file: ParquetData, groups: Sequence[int]) -> list[int]:
        """Those of the row groups that can hold a row that is wanted."""

        def known(path: tuple[str, ...]) -> list[Facts]:
            field = self._leaf(path)
            if field is None or len(path) > 1:
                return []
            facts = _group_facts(field, file, groups)
            return [] if facts is None else [facts]

        kept = can_hold(self.predicate, known, len(groups))
        return [group for group, wanted in zip(groups, kept, strict=True) if wanted]

    def _leaf(self, path: tuple[str, ...]) -> NestedField | None:
        """The primitive field of a path of names, None for a column without bounds."""
        fields: Sequence[NestedField] = self.schema.fields
        found: NestedField | None = None
        for name in path:
            found = next((field for field in fields if field.name == name), None)
            if found is None:
                return None
            fields = found.field_type.fields if isinstance(found.field_type, StructType) else ()
        kind = found.field_type if found is not None else None
        return found if isinstance(kind, PrimitiveType) and not isinstance(kind, VariantType) else None


def plain_type(kind: IcebergType) -> pa.DataType:
    """The type in which values are compared: that of Arrow, UUIDs as their bytes."""
    return pa.binary(16) if isinstance(kind, UUIDType) else arrow_type(kind)


# ---- files by their metrics ------------------------------------------------------------------------------------------


def _metric_facts(field: NestedField, entries: pa.Table) -> Iterator[Facts]:
    counts = figures_of(entries["value_counts"], field.field_id)
    nulls = figures_of(entries["null_value_counts"], field.field_id)
    values = pc.fill_null(pc.less(nulls, counts), True).to_numpy(zero_copy_only=False)
    may_be_null = pc.fill_null(pc.greater(nulls, 0), True).to_numpy(zero_copy_only=False)
    lower = decoded_bounds(figures_of(entries["lower_bounds"], field.field_id), field.field_type)
    upper = decoded_bounds(figures_of(entries["upper_bounds"], field.field_id), field.field_type)
    yield Facts(lower, upper, may_be_null, values, _nans(field.field_type, len(entries)))


def figures_of(maps: pa.ChunkedArray, id: int) -> pa.Array:
    """The value of one key in each map, null where it is not there."""
    whole = one_chunk(maps)
    offsets = np.frombuffer(whole.buffers()[1], np.int32)[whole.offset : whole.offset + len(whole) + 1]
    first, last = (int(offsets[0]), int(offsets[-1])) if len(whole) else (0, 0)
    keys = whole.keys.slice(first, last - first).to_numpy()
    found = np.flatnonzero(keys == id) + first
    places = np.full(len(whole), -1, np.int64)
    places[np.searchsorted(offsets, found, side="right") - 1] = found
    return whole.items.take(pa.array(places, mask=places < 0))


def _nans(kind: IcebergType, count: int) -> Bools:
    return np.full(count, isinstance(kind, FloatType | DoubleType))


def decoded_bounds(bounds: pa.BinaryArray, kind: IcebergType) -> pa.Array:
    """Bounds in the single-value form as values of a type; null where there is none that can be understood.

    The bounds of a column that was widened since are in the narrower type.
    """
    target = plain_type(kind)
    if isinstance(kind, StringType):
        try:
            return bounds.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.nulls(len(bounds), target)
    if isinstance(kind, BinaryType):
        return bounds
    _, offset_buffer, data_buffer = bounds.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[bounds.offset : bounds.offset + len(bounds) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    lengths = np.where(bounds.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), -1)
    of_length = {int(n): np.flatnonzero(lengths == n) for n in np.unique(lengths) if n > 0}
    rows = {n: data[offsets[at].astype(np.int64)[:, None] + np.arange(n)] for n, at in of_length.items()}
    if isinstance(kind, DecimalType):
        return _decimals(rows, of_length, len(bounds), target)
    if isinstance(kind, FixedType | UUIDType):
        width = target.byte_width
        return bounds.cast(target) if set(of_length) <= {width} else pa.nulls(len(bounds), target)
    return _fixed_width(rows, of_length, len(bounds), kind, target)


Rows = Mapping[int, UInt8s]


def _fixed_width(rows: Rows, places: Mapping[int, Any], count: int, kind: IcebergType, target: pa.DataType) -> pa.Array:
    mask = np.ones(count, np.bool_)
    if isinstance(kind, BooleanType):
        flags = np.zeros(count, np.bool_)
        if 1 in rows:
            flags[places[1]], mask[places[1]] = rows[1][:, 0] != 0, False
        return pa.array(flags, target, mask=mask)
    real = isinstance(kind, FloatType | DoubleType)
    found = np.zeros(count, np.float64 if real else np.int64)
    for width in rows.keys() & {4, 8}:
        number = ("<f" if real else "<i") + str(width)
        read = np.ascontiguousarray(rows[width]).view(number)[:, 0]
        if pa.types.is_timestamp(target) and width == 4:  # it was a date
            read = read.astype(np.int64) * (86_400 * (1_000_000 if target.unit == "us" else 1_000_000_000))
        found[places[width]], mask[places[width]] = read, False
    if real:
        return pa.array(found, mask=mask | np.isnan(found)).cast(target)
    numbers = pa.array(found, pa.int64(), mask=mask)
    narrow = pa.types.is_int32(target) or pa.types.is_date32(target)
    return (numbers.cast(pa.int32()) if narrow else numbers).view(target)


def _decimals(rows: Rows, places: Mapping[int, Any], count: int, target: pa.DataType) -> pa.Array:
    """Big-endian numbers of the fewest bytes, as Arrow's little-endian ones of 16."""
    whole, mask = np.zeros((count, 16), np.uint8), np.ones(count, np.bool_)
    for width in (n for n in rows if n <= 16):
        whole[places[width], :width] = rows[width][:, ::-1]
        whole[places[width], width:] = np.where(rows[width][:, :1] >= 0x80, 0xFF, 0)
        mask[places[width]] = False
    validity = pa.array(~mask).buffers()[1]
    return pa.Array.from_buffers(target, count, [validity, pa.py_buffer(whole.tobytes())])


# ---- files and manifests by their partitions -------------------------------------------------------------------------


def _partition_facts(field: NestedField, partitions: pa.ChunkedArray, spec: PartitionSpec) -> Iterator[Facts]:
    for number, part in enumerate(spec.fields):
        if part.source_id == field.field_id and not isinstance(part.transform, VoidTransform | UnknownTransform):
            column = one_chunk(pc.struct_field(partitions, [number]))
            null = column.is_null().to_numpy(zero_copy_only=False)
            yield from _transform_facts(part.transform, field.field_type, column, column, null, ~null)


def _summary_facts(field: NestedField, manifests: Sequence[ManifestFile], spec: PartitionSpec) -> Iterator[Facts]:
    for number, part in enumerate(spec.fields):
        if part.source_id != field.field_id or isinstance(part.transform, VoidTransform | UnknownTransform):
            continue
        found = [m.partitions[number] if m.partitions and number < len(m.partitions) else None for m in manifests]
        kind = part.transform.result_type(field.field_type)
        low = decoded_bounds(pa.array([s and s.lower_bound for s in found], pa.binary()), kind)
        high = decoded_bounds(pa.array([s and s.upper_bound for s in found], pa.binary()), kind)
        nulls = np.array([s is None or s.contains_null for s in found], np.bool_)
        yield from _transform_facts(part.transform, field.field_type, low, high, nulls, np.ones(len(found), np.bool_))


def _transform_facts(
    transform: Transform[Any, Any], kind: IcebergType, low: pa.Array, high: pa.Array, nulls: Bools, values: Bools
) -> Iterator[Facts]:
    """What partition values between `low` and `high` say of the column that they were made of."""
    source = plain_type(kind)
    nans = _nans(kind, len(low))
    if isinstance(transform, BucketTransform):
        one = pc.if_else(pc.equal(low, high), low, pa.scalar(None, low.type)).cast(pa.int32())
        nothing = pa.nulls(len(low), source)
        yield Facts(
            nothing, nothing, nulls, values, nans, lambda column: transformed(transform, column, kind), one
        )  # fmt: skip
        return
    bounds = source_bounds(transform, low, high, source)
    if bounds is not None:
        yield Facts(*bounds, nulls, values, nans)


# ---- row groups ------------------------------------------------------------------------------------------------------


def _group_facts(field: NestedField, file: ParquetData, groups: Sequence[int]) -> Facts | None:
    """What the footer says of a top-level column; None when it says nothing that can be used."""
    place = next((n for n, found in enumerate(file.fields) if found.id == field.field_id), None)
    leaf = None if place is None else file.leaf(place)
    if place is None or leaf is None:
        return None
    written = file.arrow.field(place).type
    return row_group_facts(
        file.metadata, leaf, groups, written, lambda bounds: conformed(bounds, file.fields[place], field)
    )
