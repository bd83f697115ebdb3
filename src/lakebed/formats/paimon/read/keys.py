"""Keys keep their type: manifests hold them in binary rows that say nothing of it.

Rule: Paimon's SchemaManager, which refuses to change the type of a partition or primary key column.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.manifest import ManifestEntry
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataType
from lakebed.formats.paimon.snapshot import History

_SPELLING = {"CHAR": "text", "VARCHAR": "text", "BINARY": "bytes", "VARBINARY": "bytes"}


def check_keys(history: History, schema: TableSchema, entries: Iterable[ManifestEntry]) -> None:
    """Raise UnsupportedError when files have keys of other types than `schema`, which is the one that is read."""
    for number in {entry.file.schema_id for entry in entries} - {schema.id}:
        written = {field.id: field for field in history.schema(number).fields}
        for field in schema.project((*schema.partition_keys, *schema.trimmed_primary_keys)):
            before = written.get(field.id)
            if before is not None and _binary(before.type) != _binary(field.type):
                raise UnsupportedError(
                    f"the type of key column {field.name!r} was changed from {before.type} to {field.type}",
                    table=history.store.location,
                    why="Paimon refuses that change, since files are found by keys of one type",
                    todo="Change it back",
                )


def _binary(kind: DataType) -> DataType | str:
    """What tells how a binary row spells a type."""
    return _SPELLING.get(kind.root) or kind.required()
