"""The columns of data files, with their field ids.

Rules: Paimon's KeyValue.schema and SpecialFields. A table with a primary key writes the `_KEY_` columns of the trimmed
key (not in thin mode), the sequence number and the row kind before its value columns. A table without a primary key
writes only its value columns; with row tracking, compacted files carry the ids and sequence numbers of their rows too.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import (
    KEY_FIELD_ID_START,
    KEY_PREFIX,
    ROW_ID,
    ROW_ID_ID,
    SEQUENCE_NUMBER,
    SEQUENCE_NUMBER_ID,
    VALUE_KIND,
    VALUE_KIND_ID,
    DataField,
    DataType,
    file_field,
)


def key_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The `_KEY_` columns, which repeat the trimmed primary key under their own names and ids."""
    return tuple(
        replace(field, name=KEY_PREFIX + field.name, id=KEY_FIELD_ID_START + field.id)
        for field in schema.project(schema.trimmed_primary_keys)
    )


SEQUENCE_FIELD = DataField(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, DataType("BIGINT", nullable=False))
KIND_FIELD = DataField(VALUE_KIND_ID, VALUE_KIND, DataType("TINYINT", nullable=False))
ROW_ID_FIELD = DataField(ROW_ID_ID, ROW_ID, DataType("BIGINT", nullable=False))
TRACKING_FIELDS = (ROW_ID_FIELD, SEQUENCE_FIELD)
"""The columns that a table with `row-tracking.enabled` has beside its own, in the order of files that carry them."""


def file_fields(schema: TableSchema, thin: bool = False) -> tuple[DataField, ...]:
    """The columns of a new data file, in order."""
    if not schema.primary_keys:
        return schema.fields
    return (*(() if thin else key_fields(schema)), SEQUENCE_FIELD, KIND_FIELD, *schema.fields)


def file_schema(fields: tuple[DataField, ...]) -> pa.Schema:
    """The Arrow schema of a data file, with field ids."""
    return pa.schema([file_field(field) for field in fields])
