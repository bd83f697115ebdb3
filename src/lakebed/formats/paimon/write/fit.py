"""Making data fit a Paimon table: `lakebed.verbs.fit` over the columns of its schema."""

from __future__ import annotations

import pyarrow as pa

import lakebed.verbs.fit as verbs
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import arrow_schema
from lakebed.formats.paimon.write.defaults import with_defaults


def check_fit(given: pa.Schema, schema: TableSchema, table: str) -> None:
    """Raise SchemaError when columns of that schema cannot become rows of the table, before any row is there."""
    verbs.check_fit(given, arrow_schema(schema.fields), table)


def fit(data: pa.Table, schema: TableSchema, table: str) -> pa.Table:
    """The table's columns, in its order and its Arrow types, one chunk each; nulls and columns not given have their
    default value.

    SchemaError for a value that does not fit, naming column and row.
    """
    return with_defaults(verbs.fit(data, arrow_schema(schema.fields), table), schema.fields, table)
