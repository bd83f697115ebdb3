"""What reading data files needs of a table's metadata: small, picklable, the same for all tasks of a read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StructType

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.schema import LAST_UPDATED, METADATA_COLUMNS, ROW_ID, scalar
from lakebed.formats.iceberg.data_files import DataFile
from lakebed.kernel.predicates.where import find_column
from lakebed.verbs.table import project

DELETE_MEMORY = 256 << 20
NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of equality deletes: its field id, the top-level column that it lies in, cut down to it, how deep."""

    id: int
    root: NestedField
    depth: int = 0

    def inner(self, array: pa.Array) -> pa.Array:
        """The key out of its top-level column."""
        for _ in range(self.depth):
            array = pc.struct_field(array, [0])
        return array


@dataclass(frozen=True, slots=True)
class ReadContext:
    """`schema` is the one whose columns are asked for, `schemas` all others, newest first; `delete_memory` bounds, in
    bytes, what the equality deletes of one data file hold at a time."""

    schema: Schema
    schemas: tuple[Schema, ...]
    specs: Mapping[int, PartitionSpec]
    mapping: NameMapping | None = None
    delete_memory: int = DELETE_MEMORY
    location: str = ""

    @classmethod
    def of(
        cls, metadata: TableMetadata, schema: Schema | None = None, delete_memory: int = DELETE_MEMORY
    ) -> ReadContext:
        """The context of reads with a schema, the table's current one when none is given."""
        mapping = metadata.properties.get(NAME_MAPPING)
        newest = sorted(metadata.schemas.values(), key=lambda known: -known.schema_id)
        return cls(
            schema or metadata.schema,
            (metadata.schema, *newest),
            metadata.specs,
            parse_mapping_from_json(mapping) if mapping else None,
            delete_memory,
            metadata.location,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the schema."""
        return tuple(field.name for field in self.schema.fields)

    def columns(self, names: Sequence[str] | None = None, lineage: bool = False) -> tuple[NestedField, ...]:
        """The fields of those columns, all of the schema when None; metadata columns only by name, or with `lineage`
        the two of row lineage last. SchemaError for an unknown or doubled name."""
        own = {field.name: field for field in self.schema.fields}
        known = own | {name: f for name, f in METADATA_COLUMNS.items() if find_column(name, list(own)) is None}
        if names is None:
            chosen = list(own)
        else:
            chosen = project(names, pa.schema([(name, pa.null()) for name in known]), table=self.location)
        fields = [known[name] for name in chosen]
        if lineage:
            fields += [field for field in (ROW_ID, LAST_UPDATED) if field not in fields]
        return tuple(fields)

    def key(self, id: int) -> KeyColumn:
        """The column that an equality delete means by a field id, as the newest schema that has it defines it."""
        for schema in (self.schema, *self.schemas):
            for field in schema.fields:
                found = _path(field, id)
                if found is not None:
                    return KeyColumn(id, found[0], found[1])
        raise CorruptError(f"an equality delete names the field {id}, which no schema of the table has")

    def constants(self, file: DataFile) -> dict[int, pa.Scalar]:
        """What a file's partition says of whole columns, by field id: those with an identity transform."""
        found: dict[int, pa.Scalar] = {}
        for field, value in zip(self.specs[file.spec_id].fields, file.partition, strict=True):
            if isinstance(field.transform, IdentityTransform):
                source = self._source(field.source_id)
                if source is not None:
                    found[source.field_id] = scalar(value, source.field_type)
        return found

    def _source(self, id: int) -> NestedField | None:
        for schema in (self.schema, *self.schemas):
            for field in schema.fields:
                if field.field_id == id:
                    return field
        return None


def _path(field: NestedField, id: int) -> tuple[NestedField, int] | None:
    """The field cut down to the one with that id, and how deep that lies; None when it is not in it."""
    if field.field_id == id:
        return _optional(field), 0
    if isinstance(field.field_type, StructType):
        for child in field.field_type.fields:
            found = _path(child, id)
            if found is not None:
                return _optional(field, StructType(found[0])), found[1] + 1
    return None


def _optional(field: NestedField, kind: StructType | None = None) -> NestedField:
    return NestedField(
        field.field_id, field.name, kind or field.field_type, False, initial_default=field.initial_default
    )
