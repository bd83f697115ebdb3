"""The column `partition` of metadata tables: one struct for the partitions of all specs.

Rule: Partitioning.partitionType of the reference engine. It has each field of any spec whose source column the table
still has, by field id; a file whose spec lacks a field has null there.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec

from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.partition_type import arrow_type, partition_types
from lakebed.kernel.arrays import one_chunk


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """The fields of the struct, by their ids in the partition specs. Without a field there is no column."""

    fields: dict[int, pa.Field]

    @classmethod
    def of(cls, metadata: TableMetadata) -> PartitionColumn:
        """The struct of a table. The newest spec names a field; a void field has the type that it had before."""
        columns = metadata.schema.field_ids
        names: dict[int, str] = {}
        types: dict[int, pa.DataType] = {}
        void: set[int] = set()
        for spec_id in sorted(metadata.specs, reverse=True):
            spec = metadata.specs[spec_id]
            active = [field for field in spec.fields if field.source_id in columns]
            kinds = dict(zip((field.field_id for field in spec.fields), partition_types(metadata, spec), strict=True))
            for field in active:
                is_void = str(field.transform) == "void"
                names.setdefault(field.field_id, field.name)
                if field.field_id not in types or (field.field_id in void and not is_void):
                    types[field.field_id] = arrow_type(kinds[field.field_id][1])
                    (void.add if is_void else void.discard)(field.field_id)
        return cls({id: pa.field(names[id], types[id]) for id in sorted(types)})

    @property
    def type(self) -> pa.StructType:
        """The Arrow type."""
        return pa.struct(list(self.fields.values()))

    def values(self, partitions: pa.ChunkedArray, spec: PartitionSpec) -> pa.Array:
        """The partitions of entries of one spec in this struct."""
        whole = one_chunk(partitions)
        places = {field.field_id: place for place, field in enumerate(spec.fields)}
        arrays = [
            whole.field(places[id]).cast(field.type) if id in places else pa.nulls(len(whole), field.type)
            for id, field in self.fields.items()
        ]
        return pa.Array.from_buffers(self.type, len(whole), [None], 0, 0, arrays)
