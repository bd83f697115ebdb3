"""Hudi's internal schemas. Their column ids distinguish a renamed column from a new one.

A commit's extra metadata holds one as JSON (`SerDeHelper`) in `latest_schema`, and all of them are in the files
`.hoodie/.schema/<instant>.schemacommit` as {"schemas": [...]}. A schema holds {"max_column_id", "version_id", "type":
"record", "fields": [{"id", "name", "optional", "type"}]}; a nested type is an object again, with ids for the element of
an array and the value of a map. Files are written with a schema from the instant `version_id` on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lakebed.formats.hudi.codec.timestamps import Units
from lakebed.kernel.decoding import decoding, parsed_json

Path = tuple[str, ...]
"""A field's path in the target: column, then field names; `element` and `value` step into lists and maps."""

Renames = Mapping[Path, str | None]
"""What a field of the target is called in the source, where the names differ; None where the source lacks the field."""

SAME_NAMES: Renames = MappingProxyType({})
"""The renames of a schema in which no field was renamed."""


@dataclass(frozen=True, slots=True)
class InternalSchema:
    """The columns of a table from the instant `version_id` on: (id, path) for each field, nested ones too."""

    version_id: int
    fields: tuple[tuple[int, Path], ...]


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """The schema that rows are read as, and those that files were written with.

    Where `wanted` is None nothing was renamed. `units` are the timestamps that files can label wrongly.
    """

    wanted: InternalSchema | None = None
    written: tuple[InternalSchema, ...] = ()
    units: Units = field(default_factory=dict)

    def version(self, instant: str) -> int:
        """The version of the schema that an instant wrote with, -1 where it is not known."""
        written = schema_as_of(instant, self.written) if self.wanted is not None else None
        return written.version_id if written is not None else -1

    def renames(self, instant: str) -> Renames:
        """The renamed fields of rows that an instant wrote, as `conform` takes them."""
        if self.wanted is None:
            return {}
        written = schema_as_of(instant, self.written)
        return renames(written, self.wanted) if written is not None else {}


NO_HISTORY = SchemaHistory()
"""The history of a table that keeps none."""


def parse_internal_schema(text: str) -> InternalSchema | None:
    """The schema of a commit's `latest_schema`, None for an empty text. Raises CorruptError."""
    if not text.strip():
        return None
    with decoding(_WHAT):
        return _schema(parsed_json(text))


def parse_schema_history(text: str) -> tuple[InternalSchema, ...]:
    """The schemas of a `.schemacommit` file, oldest first. Raises CorruptError."""
    with decoding(_WHAT):
        schemas = [_schema(node) for node in parsed_json(text)["schemas"]]
    return tuple(sorted(schemas, key=lambda schema: schema.version_id))


def schema_as_of(instant: str, history: Sequence[InternalSchema]) -> InternalSchema | None:
    """The schema that an instant's files were written with: the newest one that is not after the instant."""
    at = int(instant)
    return max(
        (schema for schema in history if schema.version_id <= at), key=lambda schema: schema.version_id, default=None
    )


def renames(written: InternalSchema, wanted: InternalSchema) -> Renames:
    """The renamed fields between two schemas, as `conform` takes them.

    The id gives a field's old name. A field whose id the old schema lacks is absent there, even if a dropped field had
    its name.
    """
    old_paths = dict(written.fields)
    names: dict[Path, str | None] = {}
    for number, path in wanted.fields:
        old = old_paths.get(number)
        if old is None:
            names[path] = None
        elif old[-1] != path[-1]:
            names[path] = old[-1]
    return names


_WHAT = "a Hudi schema cannot be read"


def _schema(node: dict[str, Any]) -> InternalSchema:
    version = _value(node, "version_id") if "version_id" in node or "version-id" in node else 0
    return InternalSchema(int(version), tuple(_fields(node, ())))


def _value(node: dict[str, Any], key: str) -> Any:
    """The value of a key that some releases write with a hyphen and others with an underscore."""
    other = key.replace("_", "-")
    return node[key] if key in node else node[other]


def _fields(node: Any, path: Path) -> list[tuple[int, Path]]:
    if not isinstance(node, dict):
        return []
    kind = node["type"]
    fields: list[tuple[int, Path]] = []
    if kind == "record":
        for field in node["fields"]:
            inner = (*path, field["name"])
            fields.append((field["id"], inner))
            fields += _fields(field["type"], inner)
    elif kind == "array":
        fields += _fields(node["element"], (*path, "element"))
    elif kind == "map":
        fields += _fields(node["value"], (*path, "value"))
    return fields
