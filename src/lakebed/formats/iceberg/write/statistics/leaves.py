"""The primitive columns of a table in the order in which its files store them."""

from __future__ import annotations

from collections.abc import Iterable
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
    """A primitive column: its id, its dotted name, its type, whether it lies in a list or map, and the path of struct
    fields to it (positions)."""

    id: int
    name: str
    type: PrimitiveType
    repeated: bool
    path: tuple[int, ...]

    @property
    def width(self) -> int:
        """The columns that it takes in a Parquet file: a variant has two."""
        return 2 if isinstance(self.type, VariantType) else 1

    @property
    def has_bounds(self) -> bool:
        """Whether its values have an order that bounds can tell."""
        return not isinstance(self.type, VariantType | GeometryType | GeographyType)

    @property
    def is_float(self) -> bool:
        """Whether it can hold NaN."""
        return isinstance(self.type, FloatType | DoubleType)


def leaves_of(fields: Iterable[NestedField]) -> list[Leaf]:
    """The primitive columns in the order in which files store them."""
    found: list[Leaf] = []
    for place, one in enumerate(fields):
        _collect(one.field_type, one.field_id, one.name, False, (place,), found)
    return found


def leaf_column(batch: pa.RecordBatch | pa.Table, leaf: Leaf) -> Any:
    """A primitive column outside lists and maps."""
    column = batch.column(leaf.path[0])
    return column if len(leaf.path) == 1 else pc.struct_field(column, list(leaf.path[1:]))


def _collect(kind: IcebergType, id: int, name: str, repeated: bool, path: tuple[int, ...], found: list[Leaf]) -> None:
    if isinstance(kind, StructType):
        for place, child in enumerate(kind.fields):
            _collect(child.field_type, child.field_id, f"{name}.{child.name}", repeated, (*path, place), found)
    elif isinstance(kind, ListType):
        _collect(kind.element_type, kind.element_id, f"{name}.element", True, path, found)
    elif isinstance(kind, MapType):
        _collect(kind.key_type, kind.key_id, f"{name}.key", True, path, found)
        _collect(kind.value_type, kind.value_id, f"{name}.value", True, path, found)
    elif isinstance(kind, PrimitiveType):
        found.append(Leaf(id, name, kind, repeated, path))
