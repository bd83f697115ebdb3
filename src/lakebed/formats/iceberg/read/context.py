"""What a read asks for, and what reading data files needs of a table's metadata.

Both are small and picklable, and the same for all tasks of a read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StructType

from lakebed.errors import CorruptError
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.name_mapping import NameMapping
from lakebed.formats.iceberg.codec.schema import LAST_UPDATED, METADATA_COLUMNS, ROW_ID, scalar
from lakebed.formats.iceberg.data_files import DataFile
from lakebed.formats.iceberg.options import SPLIT_SIZE
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import find_column
from lakebed.verbs.arguments import project

DELETE_MEMORY = 256 << 20
NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of equality deletes.

    `id` is its field id. `root` is the top-level column that holds it, reduced to the fields on the way to the key;
    `depth` is how many structs lie on that way.
    """

    id: int
    root: NestedField
    depth: int = 0

    def inner(self, array: pa.Array) -> pa.Array:
        """The key's values out of its top-level column."""
        for _ in range(self.depth):
            array = pc.struct_field(array, [0])
        return array


@dataclass(frozen=True, slots=True)
class ReadContext:
    """What reading data files needs of a table's metadata.

    `schema` is the schema whose columns are read, `schemas` all schemas with the current one first, then the newest
    first. `delete_memory` is how many bytes the equality deletes of one data file may hold at a time.
    """

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
        """The context of reads with a schema, by default the table's current one."""
        mapping = metadata.properties.get(NAME_MAPPING)
        newest_first = sorted(metadata.schemas.values(), key=lambda each: -each.schema_id)
        return cls(
            schema or metadata.schema,
            (metadata.schema, *newest_first),
            metadata.specs,
            NameMapping.of_table(mapping, metadata.location) if mapping else None,
            delete_memory,
            metadata.location,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the schema's columns."""
        return tuple(field.name for field in self.schema.fields)

    def columns(self, names: Sequence[str] | None = None, lineage: bool = False) -> tuple[NestedField, ...]:
        """The fields of columns by name; None gives all columns of the schema.

        Metadata columns come only by name, or with `lineage` the two of row lineage at the end. SchemaError for an
        unknown name or one given twice.
        """
        own = {field.name: field for field in self.schema.fields}
        fields_by_name = own | {
            name: field for name, field in METADATA_COLUMNS.items() if find_column(name, list(own)) is None
        }
        if names is None:
            chosen = list(own)
        else:
            chosen = project(names, pa.schema([(name, pa.null()) for name in fields_by_name]), table=self.location)
        fields = [fields_by_name[name] for name in chosen]
        if lineage:
            fields += [field for field in (ROW_ID, LAST_UPDATED) if field not in fields]
        return tuple(fields)

    def key(self, id: int) -> KeyColumn:
        """The column that an equality delete names by a field id, as the newest schema with that id defines it.

        CorruptError when no schema of the table has it.
        """
        for schema in (self.schema, *self.schemas):
            for field in schema.fields:
                path = _path(field, id)
                if path is not None:
                    root, depth = path
                    return KeyColumn(id, root, depth)
        raise CorruptError(f"an equality delete names the field {id}, which no schema of the table has")

    def constants(self, file: DataFile) -> dict[int, pa.Scalar]:
        """The values by field id that a file's partition gives for whole columns: those with an identity transform."""
        constants: dict[int, pa.Scalar] = {}
        for field, value in zip(self.specs[file.spec_id].fields, file.partition, strict=True):
            if isinstance(field.transform, IdentityTransform):
                source = self._source(field.source_id)
                if source is not None:
                    constants[source.field_id] = scalar(value, source.field_type)
        return constants

    def _source(self, id: int) -> NestedField | None:
        for schema in (self.schema, *self.schemas):
            for field in schema.fields:
                if field.field_id == id:
                    return field
        return None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What a read asks for.

    `columns` are names of the context's schema or of metadata columns, None for all of the schema. `predicate` says
    which rows to keep, None for all. Parquet files larger than `split_size` bytes become several splits.
    """

    context: ReadContext
    columns: Sequence[str] | None = None
    predicate: Node | None = None
    split_size: int = SPLIT_SIZE.default


def _path(field: NestedField, id: int) -> tuple[NestedField, int] | None:
    """The field reduced to the way to the field with that id, and the depth of that one; None when it is not inside."""
    if field.field_id == id:
        return _optional(field), 0
    if isinstance(field.field_type, StructType):
        for child in field.field_type.fields:
            path = _path(child, id)
            if path is not None:
                inner, depth = path
                return _optional(field, StructType(inner)), depth + 1
    return None


def _optional(field: NestedField, kind: StructType | None = None) -> NestedField:
    return NestedField(
        field.field_id, field.name, kind or field.field_type, False, initial_default=field.initial_default
    )
