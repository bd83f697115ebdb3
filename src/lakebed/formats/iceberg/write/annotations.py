"""Parquet columns of types that Arrow does not have: variants, geometries and geographies.

Rules: the specification's "Parquet" (Appendix A) and the Parquet format's own pages about these types. A variant is a
group annotated VARIANT with the required binary columns `metadata` and `value`. A geometry or geography is binary, and
has neither minimum nor maximum, since its order is not defined.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.types import GeographyType, GeometryType, PrimitiveType

from lakebed.formats.iceberg.codec.schema import FIELD_ID, VariantType
from lakebed.formats.iceberg.parquet.annotate import geography, geometry, variant
from lakebed.formats.iceberg.write.statistics.leaves import Leaf
from lakebed.kernel.parquet.dictionaries import leaf_paths
from lakebed.kernel.parquet.thrift import Struct


@dataclass(frozen=True, slots=True)
class Annotations:
    """What a Parquet file needs beyond what Arrow's writer gives it.

    `types` are logical types by field id. `schema` is the schema to write with. `statistics` has the columns that get
    statistics, as Arrow's writer takes it.
    """

    types: dict[int, Struct]
    schema: pa.Schema
    statistics: list[str] | bool

    @classmethod
    def of(cls, schema: pa.Schema, leaves: Sequence[Leaf]) -> Annotations:
        """The annotations of a file with these columns."""
        types = {leaf.id: type for leaf in leaves if (type := _logical_type(leaf.type)) is not None}
        variants = {leaf.id for leaf in leaves if isinstance(leaf.type, VariantType)}
        if variants:
            schema = pa.schema([_with_whole_variants(field, variants) for field in schema])
        if types.keys() == variants:
            return cls(types, schema, True)
        paths = [path for field in schema for path in leaf_paths(field.name, field.type)]
        ids = [leaf.id for leaf in leaves for _ in range(leaf.width)]
        return cls(
            types, schema, [path for path, id in zip(paths, ids, strict=True) if id not in types or id in variants]
        )

    def conformed(self, columns: Sequence[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
        """The columns in the types of the schema. ArrowInvalid for a variant that lacks one of its parts."""
        pairs = zip(columns, self.schema, strict=True)
        return [column if column.type == field.type else column.cast(field.type) for column, field in pairs]


def _logical_type(kind: PrimitiveType) -> Struct | None:
    """The logical type of a column, None where Arrow's writer gives it."""
    if isinstance(kind, VariantType):
        return variant()
    if isinstance(kind, GeometryType):
        return geometry(kind.crs)
    if isinstance(kind, GeographyType):
        return geography(kind.crs, kind.algorithm)
    return None


def _with_whole_variants(field: pa.Field, variants: Collection[int]) -> pa.Field:
    """The field with both parts of each variant required."""
    kind = field.type
    if int((field.metadata or {}).get(FIELD_ID, -1)) in variants:
        return field.with_type(pa.struct([kind.field(n).with_nullable(False) for n in range(kind.num_fields)]))
    if pa.types.is_struct(kind):
        kind = pa.struct([_with_whole_variants(kind.field(n), variants) for n in range(kind.num_fields)])
    elif pa.types.is_map(kind):
        kind = pa.map_(_with_whole_variants(kind.key_field, variants), _with_whole_variants(kind.item_field, variants))
    elif pa.types.is_list(kind):
        kind = pa.list_(_with_whole_variants(kind.value_field, variants))
    return field.with_type(kind)
