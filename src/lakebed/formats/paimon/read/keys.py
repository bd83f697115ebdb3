"""A check that key columns have kept their type, since the binary rows in manifests do not record it.

Rule: Paimon's SchemaManager, which refuses to change the type of a partition or primary key column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.manifest import ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataType
from lakebed.formats.paimon.entries import Entries
from lakebed.formats.paimon.snapshot import History

_ENCODING = {"CHAR": "text", "VARCHAR": "text", "BINARY": "bytes", "VARBINARY": "bytes"}


def check_keys(history: History, schema: TableSchema, entries: Sequence[ManifestEntry]) -> None:
    """Raise UnsupportedError when a file has other types of key columns than `schema`, the schema that is read."""
    numbers = schema_ids(entries) - {schema.id}
    history.read_schemas(numbers)
    for number in numbers:
        written = {field.id: field for field in history.schema(number).fields}
        for field in schema.project((*schema.partition_keys, *schema.trimmed_primary_keys)):
            before = written.get(field.id)
            if before is not None and _encoding(before.type) != _encoding(field.type):
                raise UnsupportedError(
                    f"the type of key column {field.name!r} was changed from {before.type} to {field.type}",
                    table=history.store.location,
                    why="Paimon refuses that change, because it finds files by keys of one type",
                    todo="Change the type back",
                )


def schema_ids(entries: Sequence[ManifestEntry]) -> set[int]:
    """The schemas that files were written with."""
    if isinstance(entries, Entries):
        return {*np.unique(entries.numbers("schema_id")).tolist()}
    return {entry.file.schema_id for entry in entries}


def _encoding(kind: DataType) -> DataType | str:
    """Equal for types that a binary row encodes alike."""
    return _ENCODING.get(kind.root) or kind.required()
