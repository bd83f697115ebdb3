"""Hudi's own schemas with column ids, which tell a renamed column from a new one.

They stand as JSON (`SerDeHelper`) in a commit's extra metadata `latest_schema`, and all of them in the files
`.hoodie/.schema/<instant>.schemacommit` as {"schemas": [...]}. A schema holds {"max_column_id", "version_id", "type":
"record", "fields": [{"id", "name", "optional", "type"}]}; a nested type is an object again, with ids for the element of
an array and the value of a map. `version_id` is the instant from which on files are written with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lakebed.formats.hudi.codec.timestamps import Units
from lakebed.kernel.decoding import decoding

Path = tuple[str, ...]
"""A field's place in the target: column, then field names; `element` and `value` step into lists and maps."""

Renames = Mapping[Path, str | None]
"""What a field of the target is called in the source, where the names differ; None where the source lacks the field."""

SAME_NAMES: Renames = MappingProxyType({})
"""Nothing was renamed."""


@dataclass(frozen=True, slots=True)
class InternalSchema:
    """The columns of a table from the instant `version_id` on: (id, path of names) for each field, nested ones too."""

    version_id: int
    fields: tuple[tuple[int, Path], ...]


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """The schema that rows are read as, and those that files were written with; without one nothing was renamed.

    `units` are the timestamps that files can label wrongly.
    """

    wanted: InternalSchema | None = None
    written: tuple[InternalSchema, ...] = ()
    units: Units = field(default_factory=dict)

    def version(self, instant: str) -> int:
        """The version of the schema that an instant wrote with, -1 where none is known."""
        found = schema_as_of(instant, self.written) if self.wanted is not None else None
        return found.version_id if found is not None else -1

    def renames(self, instant: str) -> Renames:
        """What `conform` needs for rows that an instant wrote."""
        if self.wanted is None:
            return {}
        found = schema_as_of(instant, self.written)
        return renames(found, self.wanted) if found is not None else {}


NO_HISTORY = SchemaHistory()
"""Nothing was renamed."""


def parse_internal_schema(text: str) -> InternalSchema | None:
    """The schema of a commit's `latest_schema`; None for an empty text. Raises CorruptError."""
    if not text.strip():
        return None
    with decoding(_WHAT):
        return _schema(json.loads(text))


def parse_schema_history(text: str) -> tuple[InternalSchema, ...]:
    """The schemas of a `.schemacommit` file, oldest first. Raises CorruptError."""
    with decoding(_WHAT):
        found = [_schema(node) for node in json.loads(text)["schemas"]]
    return tuple(sorted(found, key=lambda schema: schema.version_id))


def schema_as_of(instant: str, history: Sequence[InternalSchema]) -> InternalSchema | None:
    """The schema that files of an instant were written with: the newest one not after it."""
    at = int(instant)
    return max(
        (schema for schema in history if schema.version_id <= at), key=lambda schema: schema.version_id, default=None
    )


def renames(written: InternalSchema, wanted: InternalSchema) -> Renames:
    """What `conform` needs to read rows of one schema as the other.

    A field has its old name by its id; one whose id the old schema lacks is absent there, even if a dropped field had
    its name.
    """
    old = dict(written.fields)
    found: dict[Path, str | None] = {}
    for number, path in wanted.fields:
        before = old.get(number)
        if before is None:
            found[path] = None
        elif before[-1] != path[-1]:
            found[path] = before[-1]
    return found


_WHAT = "a Hudi schema cannot be read"


def _schema(node: dict[str, Any]) -> InternalSchema:
    version = _value(node, "version_id") if "version_id" in node or "version-id" in node else 0
    return InternalSchema(int(version), tuple(_fields(node, ())))


def _value(node: dict[str, Any], key: str) -> Any:
    """The value of a key, which some releases write with a hyphen and others with an underscore."""
    other = key.replace("_", "-")
    return node[key] if key in node else node[other]


def _fields(node: Any, path: Path) -> list[tuple[int, Path]]:
    if not isinstance(node, dict):
        return []
    kind = node["type"]
    found: list[tuple[int, Path]] = []
    if kind == "record":
        for field in node["fields"]:
            inner = (*path, field["name"])
            found.append((field["id"], inner))
            found += _fields(field["type"], inner)
    elif kind == "array":
        found += _fields(node["element"], (*path, "element"))
    elif kind == "map":
        found += _fields(node["value"], (*path, "value"))
    return found
