"""Schema files: `schema/schema-N`, JSON, version 3."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.paimon.codec.types import DataField, field_from_json, field_to_json
from lakebed.kernel.decoding import decoding, parsed_json
from lakebed.kernel.remembered import remembered
from lakebed.redaction import Settings

_VERSION = 3


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's columns, keys and options. `id` counts from 0; `time_millis` counts from 1970 UTC."""

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", Settings(self.options))  # another engine may have kept a secret there

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(item.name for item in self.fields)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without the partition columns. It identifies a row within its partition."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns whose hash gives the bucket: `bucket-key`, else the trimmed primary key."""
        given = self.options.get("bucket-key", "")
        return tuple(name.strip() for name in given.split(",") if name.strip()) or self.trimmed_primary_keys

    def field(self, name: str) -> DataField:
        """The column with this name. Raises KeyError when there is none."""
        for item in self.fields:
            if item.name == name:
                return item
        raise KeyError(name)

    def project(self, names: tuple[str, ...]) -> tuple[DataField, ...]:
        """The columns with these names, in this order."""
        return tuple(self.field(name) for name in names)


@remembered
def schema_from_json(data: bytes) -> TableSchema:
    """Decode a schema file. Raises CorruptError for other bytes, UnsupportedError for a newer version."""
    with decoding("the schema file cannot be read"):
        value: dict[str, Any] = parsed_json(data)
        version = value.get("version", 1)
        if version > _VERSION:
            raise UnsupportedError(
                f"the schema file has version {version}", why=f"lakebed reads versions up to {_VERSION}"
            )
        options = dict(value.get("options") or {})
        if version < 3 and "bucket" not in options:
            options["bucket"] = "1"  # the default of those versions
        schema = TableSchema(
            value["id"],
            tuple(field_from_json(item) for item in value["fields"]),
            value["highestFieldId"],
            tuple(value["partitionKeys"]),
            tuple(value["primaryKeys"]),
            options,
            value.get("comment"),
            value.get("timeMillis", 0),
        )
        _check(schema)
        return schema


def _check(schema: TableSchema) -> None:
    """Raise CorruptError for ids, names or options of the wrong type, and for keys that are not columns."""
    numbers = (schema.id, schema.highest_field_id, schema.time_millis, *(field.id for field in schema.fields))
    names = (*schema.names, *schema.partition_keys, *schema.primary_keys, *schema.options.values())
    if not all(isinstance(number, int) for number in numbers) or not all(isinstance(name, str) for name in names):
        raise CorruptError("the schema file cannot be read", why="an id, a name or an option has the wrong type")
    unknown = {*schema.partition_keys, *schema.primary_keys} - {*schema.names}
    if unknown:
        raise CorruptError(
            "the schema file cannot be read", why=f"its keys name {sorted(unknown)[0]!r}, which is not a column"
        )


def schema_to_json(schema: TableSchema) -> bytes:
    """The bytes of a schema file."""
    value: dict[str, Any] = {
        "version": _VERSION,
        "id": schema.id,
        "fields": [field_to_json(item) for item in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        value["comment"] = schema.comment
    value["timeMillis"] = schema.time_millis
    return json.dumps(value, indent=2, ensure_ascii=False).encode()
