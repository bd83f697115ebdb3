"""Properties of a table that change, and its format version.

Rules: the reference engine's PropertiesUpdate, TableMetadata.upgradeToFormatVersion, and SchemaUpdate for the
properties that follow from columns: the name mapping, and those that are set for one column each.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from lakebed.errors import OptionError
from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.alter import columns
from lakebed.formats.iceberg.codec.encryption import refuse_encrypted
from lakebed.formats.iceberg.codec.metadata import VERSIONS
from lakebed.formats.iceberg.definition import FORMAT_VERSION
from lakebed.formats.iceberg.unserved import RESERVED, refuse_plain_files
from lakebed.kernel.options import option_text

NAME_MAPPING = "schema.name-mapping.default"
_OF_COLUMNS = (
    "write.metadata.metrics.column.", "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.stats-enabled.column.",
)  # fmt: skip
"""Prefixes of properties that end with a column's name."""
_OF_CALLS = ("branch", "read.tasks", opt.CALLBACKS.key)
_OF_CALLS_BEGIN = ("lakebed.storage.", "lakebed.catalog.", opt.CALLBACK_PARAMETERS)


def checked_key(key: object, table: str) -> str:
    """The key of a property that a table keeps. OptionError for one that its metadata reserves, and for one that only
    a call may have."""
    if not isinstance(key, str) or not key:
        raise OptionError(f"{key!r} is not a property key", key="", table=table, todo="Give a text")
    if key in RESERVED:
        raise OptionError(
            f"property {key!r} cannot be set or removed",
            key=key,
            table=table,
            why="the metadata has a field for that",
            todo="Leave it out",
        )
    if key in _OF_CALLS or key.startswith(_OF_CALLS_BEGIN):
        raise OptionError(
            f"option {key!r} is not kept in a table", key=key, table=table, todo="Give it to lakebed.open"
        )
    return key


def checked_property(key: str, value: object, table: str) -> str:
    """A property's value as text. OptionError for a value of the wrong type, UnsupportedError for a property that asks
    for encryption."""
    if value is None:
        raise OptionError(f"property {key!r} is None", key=key, table=table, todo="Use lakebed.remove_option")
    text = option_text(value)
    opt.properties({key: text})
    opt.refuse_secrets([key], table)
    refuse_encrypted({"properties": {key: text}})
    refuse_plain_files({key: text}, table)
    return text


def new_version(value: object, version: int, table: str) -> int:
    """The format version that the property `format-version` asks for. OptionError for one that it cannot be."""
    text = option_text(value)
    known = [str(one) for one in VERSIONS]
    if text not in known:
        raise OptionError.ill_typed(FORMAT_VERSION, text, ", ".join(known[:-1]) + f" or {known[-1]}")
    if int(text) < version:
        raise OptionError(
            f"the table cannot go back from format version {version} to {text}",
            key=FORMAT_VERSION,
            table=table,
            todo="Create another table, and copy the rows",
        )
    return int(text)


def nearest_note(key: str, properties: Mapping[str, str]) -> str:
    """The note for a key to remove that the table does not have."""
    near = difflib.get_close_matches(key, properties, n=1)
    return f"the table has no property {key!r}" + (f"; it has {near[0]!r}" if near else "")


def followed(properties: Mapping[str, str], old: Schema, new: Schema) -> tuple[dict[str, str], str]:
    """The properties after the columns changed, and what could not follow; "" where all did."""
    after = _column_properties(properties, old, new)
    mapping = properties.get(NAME_MAPPING)
    if mapping is None:
        return after, ""
    known = {field.field_id: field for _, field in columns.all_fields(old.fields)}
    renamed = {
        field.field_id: field
        for _, field in columns.all_fields(new.fields)
        if field.field_id in known and known[field.field_id].name != field.name
    }
    added: dict[int, list[NestedField]] = {}
    for parent, field in columns.all_fields(new.fields):
        if field.field_id not in known and (parent in known or parent == columns.ROOT):
            added.setdefault(parent, []).append(field)
    if not renamed and not added:
        return after, ""
    try:
        mappings = import_module("pyiceberg.table.name_mapping")  # which loads all of pyiceberg.table
        updated = mappings.update_mapping(mappings.parse_mapping_from_json(mapping), renamed, added)
    except Exception:  # noqa: BLE001  # any text may stand there; the reference engine leaves such a mapping, too
        return after, f"the property {NAME_MAPPING} is not a name mapping, and stays as it is"
    return {**after, NAME_MAPPING: updated.model_dump_json()}, ""


def _column_properties(properties: Mapping[str, str], old: Schema, new: Schema) -> dict[str, str]:
    """Properties of single columns under the columns' new names, without those of dropped columns."""
    before = {".".join(path): number for number, path in columns.paths(old.fields).items()}
    now = {number: ".".join(path) for number, path in columns.paths(new.fields).items()}
    after: dict[str, str] = {}
    for key, value in properties.items():
        prefix = next((prefix for prefix in _OF_COLUMNS if key.startswith(prefix)), None)
        number = before.get(key.removeprefix(prefix)) if prefix is not None else None
        if prefix is None or number is None:
            after[key] = value
        elif number in now:
            after[prefix + now[number]] = value
    return after
