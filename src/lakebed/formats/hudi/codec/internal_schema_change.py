"""Hudi's internal schemas, advanced: new columns get new ids, wider ones keep theirs.

Rules: Hudi's `AvroSchemaEvolutionUtils.reconcileSchema`, `InternalSchemaBuilder.refreshNewId` (ids of a level come
before those of the levels below), `SerDeHelper.inheritSchemas` (the newest schema stands first).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakebed.kernel.decoding import decoding, parsed_json

Node = dict[str, Any]
_PLAIN = {
    pa.bool_(): "boolean", pa.int32(): "int", pa.int64(): "long", pa.float32(): "float", pa.float64(): "double",
    pa.string(): "string", pa.binary(): "binary", pa.date32(): "date",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AdvancedSchemas:
    """`latest` is the schema of a commit, `history` all schemas: the texts of `latest_schema` and of a
    `.schemacommit`."""

    latest: str
    history: str


def advanced_schemas(history: str, instant: str, columns: pa.Schema) -> AdvancedSchemas:
    """The schemas once an instant has written rows with these columns, the meta columns left out.

    The newest schema stays where it has them all. Columns that it has beside them stay too. CorruptError for a history
    that is none.
    """
    with decoding("a Hudi schema cannot be read"):
        schemas: list[Node] = parsed_json(history)["schemas"]
        newest = max(schemas, key=_version)
        ids = _Ids(int(newest["max_column_id"]))
        fields = _fields(newest["fields"], columns, ids)
    if fields == newest["fields"]:
        return AdvancedSchemas(_text(newest), history)
    version = "version_id" if "version_id" in newest else "version-id"
    after = {**newest, "max_column_id": ids.greatest, version: int(instant), "fields": fields}
    return AdvancedSchemas(_text(after), _text({"schemas": [after, *schemas]}))


class _Ids:
    """Gives ids that no column of the table ever had."""

    def __init__(self, greatest: int) -> None:
        self.greatest = greatest

    def new(self) -> int:
        self.greatest += 1
        return self.greatest


def _version(schema: Node) -> int:
    return int(str(schema.get("version_id", schema.get("version-id", 0))))


def _text(node: Node) -> str:
    return json.dumps(node, ensure_ascii=False, separators=(",", ":"))


def _fields(fields: list[Node], columns: Any, ids: _Ids) -> list[Node]:
    """The fields of a record, for the columns of a schema or the fields of a struct."""
    wanted = {field.name: field for field in columns}
    kept = [
        {**field, "type": _kind(field["type"], wanted[field["name"]].type, ids)} if field["name"] in wanted else field
        for field in fields
    ]
    names = {field["name"] for field in fields}
    new = [(ids.new(), field) for field in columns if field.name not in names]
    added = [
        {"id": number, "name": field.name, "optional": True, "type": _new(field.type, ids)} for number, field in new
    ]
    return [*kept, *added]


def _kind(node: Any, kind: pa.DataType, ids: _Ids) -> Any:
    """The type of a field that is there, for the type that the table has after the write."""
    if not isinstance(node, dict):
        text = _plain(kind)
        return text if text and node in (*_PLAIN.values(), *_decimal(node)) else node
    if node["type"] == "record" and pa.types.is_struct(kind):
        return {**node, "fields": _fields(node["fields"], list(kind), ids)}
    if node["type"] == "array" and pa.types.is_list(kind):
        return {**node, "element": _kind(node["element"], kind.value_type, ids)}
    if node["type"] == "map" and pa.types.is_map(kind):
        return {**node, "value": _kind(node["value"], kind.item_type, ids)}
    return node


def _decimal(node: str) -> tuple[str, ...]:
    return (node,) if node.startswith("decimal") else ()


def _plain(kind: pa.DataType) -> str:
    """The name of a type without fields, "" for one that has no name of its own there."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return _PLAIN.get(kind, "")


def _new(kind: pa.DataType, ids: _Ids) -> Any:
    """The type of a new field. Ids of its own level come before those below."""
    if pa.types.is_struct(kind):
        numbers = [ids.new() for _ in kind]
        fields = [
            {"id": number, "name": field.name, "optional": field.nullable, "type": _new(field.type, ids)}
            for number, field in zip(numbers, kind, strict=True)
        ]
        return {"type": "record", "fields": fields}
    if pa.types.is_list(kind):
        number = ids.new()
        element = {"element_id": number, "element": _new(kind.value_type, ids), "element_optional": True}
        return {"type": "array", **element}
    if pa.types.is_map(kind):
        key, value = ids.new(), ids.new()
        return {
            "type": "map", "key_id": key, "key": _new(kind.key_type, ids), "value_id": value,
            "value": _new(kind.item_type, ids), "value_optional": True,
        }  # fmt: skip
    return "timestamp" if pa.types.is_timestamp(kind) else _plain(kind) or "string"
