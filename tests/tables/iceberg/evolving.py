"""Another schema for a table, as a schema change of another engine would leave it."""

import json
from pathlib import Path
from typing import Any

from pyiceberg.schema import Schema

from lakebed.formats.iceberg.codec.metadata import metadata_to_json
from lakebed.formats.iceberg.table import IcebergTable


def evolve(table: IcebergTable, schema: Schema) -> None:
    """Make a schema the current one, in a new metadata file."""
    document: dict[str, Any] = dict(table.table_metadata.document)
    number = max(found["schema-id"] for found in document["schemas"]) + 1
    made = json.loads(schema.model_dump_json()) | {"schema-id": number}
    document |= {
        "schemas": [*document["schemas"], made], "current-schema-id": number,
        "last-column-id": max(document["last-column-id"], schema.highest_field_id),
    }  # fmt: skip
    folder = Path(table.location) / "metadata"
    version = max(int(path.name[1:].split(".")[0]) for path in folder.glob("v*.metadata.json")) + 1
    (folder / f"v{version}.metadata.json").write_bytes(metadata_to_json(document))
    (folder / "version-hint.text").write_text(str(version))
