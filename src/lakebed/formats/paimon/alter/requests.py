"""Changes as a REST catalog takes them.

Rule: the JSON of Paimon's SchemaChange, release 1.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakebed.formats.paimon.alter.columns import Fields, path_of, place_of
from lakebed.formats.paimon.alter.plan import altered
from lakebed.formats.paimon.alter.settings import spelled_key
from lakebed.formats.paimon.alter.values import text_of, type_of
from lakebed.formats.paimon.codec.schema_json import TableSchema
from lakebed.formats.paimon.codec.types import DataField, type_to_json
from lakebed.kernel.options import option_text
from lakebed.kernel.predicates.where import find_column
from lakebed.model import alter


def requests_of(schema: TableSchema, changes: Sequence[alter.Change], has_rows: bool) -> list[Mapping[str, Any]]:
    """The documents of changes, which were checked. Each is spelled in the schema that those before it make."""
    documents: list[Mapping[str, Any]] = []
    for place, change in enumerate(changes):
        before = altered(schema, changes[:place], has_rows, "").schema if place else schema
        documents += _documents(before, change)
    return documents


def _documents(schema: TableSchema, change: alter.Change) -> list[Mapping[str, Any]]:
    match change:
        case alter.SetOption():
            key = spelled_key(change.key, "")
            return [{"action": "setOption", "key": key, "value": option_text(change.value)}]
        case alter.RemoveOption():
            key = change.key if change.key in schema.options else spelled_key(change.key, "")
            return [{"action": "removeOption", "key": key}]
        case alter.SetComment(name=None):
            return [{"action": "updateComment", "comment": change.comment or None}]
        case alter.AddColumn():
            path = path_of(change.name, schema.fields)
            names = [*_spelled(schema, path[:-1]), path[-1]]
            move = None
            if change.first or change.after is not None or change.before is not None:
                move = _move(path[-1], change, _fields_at(schema, path[:-1]))
            kind = type_to_json(type_of(change.type, path[-1], None))
            added = {"action": "addColumn", "fieldNames": names, "dataType": kind, "comment": change.comment or None}
            defaults = [] if change.default is None else [_default(names, change.default)]
            return [{**added, "move": move}, *defaults]
        case alter.MoveColumn():
            (name,) = _spelled(schema, path_of(change.name, schema.fields))
            return [{"action": "updateColumnPosition", "move": _move(name, change, schema.fields)}]
    assert isinstance(change, alter.ColumnChange) and change.name is not None
    names = _spelled(schema, path_of(change.name, schema.fields))
    match change:
        case alter.DropColumn():
            return [{"action": "dropColumn", "fieldNames": names}]
        case alter.RenameColumn():
            return [{"action": "renameColumn", "fieldNames": names, "newName": change.to}]
        case alter.RetypeColumn():
            kind = type_to_json(type_of(change.type, names[-1], None))
            return [{"action": "updateColumnType", "fieldNames": names, "newDataType": kind, "keepNullability": True}]
        case alter.SetNullable():
            return [{"action": "updateColumnNullability", "fieldNames": names, "newNullability": change.nullable}]
        case alter.SetDefault():
            return [_default(names, change.default)]
    assert isinstance(change, alter.SetComment)
    return [{"action": "updateColumnComment", "fieldNames": names, "newComment": change.comment or None}]


def _default(names: Sequence[str], default: object) -> Mapping[str, Any]:
    text = None if default is None else text_of(default)
    return {"action": "updateColumnDefaultValue", "fieldNames": names, "newDefaultValue": text}


def _move(name: str, change: alter.AddColumn | alter.MoveColumn, siblings: Fields) -> Mapping[str, Any]:
    beside = change.after if change.before is None else change.before
    neighbour = None if beside is None else siblings[place_of(siblings, beside)].name
    kind = "FIRST" if neighbour is None else "AFTER" if change.before is None else "BEFORE"
    return {"fieldName": name, "referenceFieldName": neighbour, "type": kind}


def _spelled(schema: TableSchema, path: Sequence[str]) -> list[str]:
    """The names of a path as the schema spells them."""
    names: list[str] = []
    for place, name in enumerate(path):
        siblings = [field.name for field in _fields_at(schema, path[:place])]
        names.append(find_column(name, siblings) or name)
    return names


def _fields_at(schema: TableSchema, path: Sequence[str]) -> tuple[DataField, ...]:
    """The fields below a path; none below an array or a map."""
    fields = schema.fields
    inside = None
    for name in path:
        if inside is not None and inside.root in ("ARRAY", "MAP"):
            inside = inside.element
        else:
            inside = fields[place_of(fields, name)].type
        fields = inside.fields if inside is not None else ()
    return fields
