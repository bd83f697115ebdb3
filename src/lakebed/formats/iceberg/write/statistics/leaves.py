"""Leaves: the primitive columns of a table, in the order in which its files store them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)

from lakebed.formats.iceberg.codec.schema import VariantType


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column. `name` is dotted, `repeated` says whether it lies in a list or map, `path` has the positions
    of the struct fields that lead to it."""

    id: int
    name: str
    type: PrimitiveType
    repeated: bool
    path: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many columns it has in a Parquet file: a variant has two."""
        return 2 if isinstance(self.type, VariantType) else 1

    @property
    def has_bounds(self) -> bool:
        """Whether its values have an order, so that they have bounds."""
        return not isinstance(self.type, VariantType | GeometryType | GeographyType)

    @property
    def is_float(self) -> bool:
        """Whether its values can be NaN."""
        return isinstance(self.type, FloatType | DoubleType)


def leaves_of(fields: Iterable[NestedField]) -> list[Leaf]:
    """The leaves of columns, in the order in which files store them."""
    return [
        leaf
        for position, field in enumerate(fields)
        for leaf in _leaves(field.field_type, field.field_id, field.name, False, (position,))
    ]


def leaf_column(batch: pa.RecordBatch | pa.Table, leaf: Leaf) -> Any:
    """The values of a leaf outside lists and maps."""
    column = batch.column(leaf.path[0])
    return column if len(leaf.path) == 1 else pc.struct_field(column, list(leaf.path[1:]))


def _leaves(kind: IcebergType, id: int, name: str, repeated: bool, path: tuple[int, ...]) -> Iterator[Leaf]:
    if isinstance(kind, StructType):
        for position, child in enumerate(kind.fields):
            child_name = f"{name}.{child.name}"
            yield from _leaves(child.field_type, child.field_id, child_name, repeated, (*path, position))
    elif isinstance(kind, ListType):
        yield from _leaves(kind.element_type, kind.element_id, f"{name}.element", True, path)
    elif isinstance(kind, MapType):
        yield from _leaves(kind.key_type, kind.key_id, f"{name}.key", True, path)
        yield from _leaves(kind.value_type, kind.value_id, f"{name}.value", True, path)
    elif isinstance(kind, PrimitiveType):
        yield Leaf(id, name, kind, repeated, path)
