"""The column `readable_metrics`: the metrics of each column of the table by its name, with bounds as values.

Rule: MetricsUtil.readableMetricsStruct of the reference engine. It has one field per primitive column, nested ones by
their full names, sorted by name.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, PrimitiveType, UUIDType

from lakebed.formats.iceberg.codec.bounds import decoded_bounds, values_of_field
from lakebed.formats.iceberg.codec.manifest import STATS
from lakebed.formats.iceberg.codec.schema import arrow_type

_COUNTS = ("column_size", "value_count", "null_value_count", "nan_value_count")


class ReadableMetrics:
    """The column for a table's current schema."""

    def __init__(self, schema: Schema) -> None:
        leaves: list[tuple[str, int, IcebergType]] = []
        for id in schema.field_ids:
            name, kind = schema.find_column_name(id), schema.find_type(id)
            if name is not None and isinstance(kind, PrimitiveType):
                leaves.append((name, id, kind))
        self._leaves: Sequence[tuple[str, int, IcebergType]] = sorted(leaves, key=lambda leaf: leaf[0])
        self.type = pa.struct([pa.field(name, _metrics_type(kind)) for name, _, kind in self._leaves])

    def values(self, entries: pa.Table) -> pa.StructArray:
        """The column for entries that have the columns `STATS`."""
        columns = []
        for (_, id, kind), field in zip(self._leaves, self.type, strict=True):
            *counts, lower, upper = (values_of_field(entries[name], id) for name in STATS)
            bounds = [_readable(bound, kind, field.type.field("lower_bound").type) for bound in (lower, upper)]
            columns.append(pa.StructArray.from_arrays([*counts, *bounds], fields=list(field.type)))
        if not columns:
            return pa.array([{}] * len(entries), self.type)
        return pa.StructArray.from_arrays(columns, fields=list(self.type))


def _metrics_type(kind: IcebergType) -> pa.StructType:
    bound = arrow_type(kind)
    counts = [pa.field(name, pa.int64()) for name in _COUNTS]
    return pa.struct([*counts, pa.field("lower_bound", bound), pa.field("upper_bound", bound)])


def _readable(bounds: pa.Array, kind: IcebergType, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_null(wanted) or pa.types.is_nested(wanted):
        return pa.nulls(len(bounds), wanted)
    values = decoded_bounds(bounds, kind)
    return pa.ExtensionArray.from_storage(wanted, values) if isinstance(kind, UUIDType) else values.cast(wanted)
