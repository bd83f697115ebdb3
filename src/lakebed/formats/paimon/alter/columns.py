"""Columns found by their path, and changed where they stand.

Rule: Paimon's SchemaManager (NestedColumnModifier, updateNestedColumn). A path goes through the fields of rows; inside
an array it goes on with `element`, inside a map with `value`. The keys of maps never change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakebed.errors import SchemaError
from lakebed.formats.paimon.codec.types import DataField, DataType
from lakebed.kernel import column_paths
from lakebed.model.alter import Path

Fields = tuple[DataField, ...]
Edit = Callable[[Fields, str], Fields]
"""Takes fields and the name of one of them, or of a new one, and returns the fields after the change."""
_INSIDE = {"ARRAY": "element", "MAP": "value"}


def path_of(given: Path, fields: Fields) -> tuple[str, ...]:
    """The names of a path. Raises what `lakebed.kernel.column_paths.path_of` raises."""
    return column_paths.path_of(given, _names(fields))


def edited(fields: Fields, path: Sequence[str], edit: Edit) -> Fields:
    """The columns after a change of the struct that holds the last name of the path."""
    name, rest = path[0], path[1:]
    if not rest:
        return edit(fields, name)
    place = place_of(fields, name)
    return with_field(fields, place, replace(fields[place], type=_inside(fields[place].type, rest, edit)))


def retyped(fields: Fields, path: Sequence[str], change: Callable[[DataType], DataType]) -> Fields:
    """Columns after a change of the type at a path, which may be that of an array's elements or a map's values."""
    place = place_of(fields, path[0])
    return with_field(fields, place, replace(fields[place], type=_type_at(fields[place].type, path[1:], change)))


def place_of(fields: Fields, name: str) -> int:
    """The position of a field. Raises what `lakebed.kernel.column_paths.place_of` raises."""
    return column_paths.place_of(name, _names(fields))


def with_field(fields: Fields, place: int, field: DataField) -> Fields:
    """The fields with another one at a place."""
    return (*fields[:place], field, *fields[place + 1 :])


def inserted(
    fields: Fields, field: DataField, after: str | None, first: bool, before: str | None = None, end: int | None = None
) -> Fields:
    """The fields with a new one: at the front, beside another one, or at the place `end`, else at the end."""
    place = column_paths.new_place(field.name, _names(fields), after, first, before)
    if place is None:
        place = len(fields) if end is None else end
    return (*fields[:place], field, *fields[place:])


def _inside(kind: DataType, path: Sequence[str], edit: Edit) -> DataType:
    if kind.root == "ROW":
        return replace(kind, fields=edited(kind.fields, path, edit))
    element = _element(kind, path[0])
    if len(path) == 1:
        raise SchemaError(f"{path[0]!r} is what {kind} holds, not a field", todo="Name a field of a row")
    return replace(kind, element=_inside(element, path[1:], edit))


def _type_at(kind: DataType, path: Sequence[str], change: Callable[[DataType], DataType]) -> DataType:
    if not path:
        return change(kind)
    if kind.root == "ROW":
        return replace(kind, fields=retyped(kind.fields, path, change))
    return replace(kind, element=_type_at(_element(kind, path[0]), path[1:], change))


def _element(kind: DataType, name: str) -> DataType:
    if kind.element is None or _INSIDE.get(kind.root) != name.lower():
        inside = _INSIDE.get(kind.root)
        raise SchemaError(
            f"{kind} has no field {name!r}", todo=f"Go on with {inside!r}" if inside else "Check the column's path"
        )
    return kind.element


def _names(fields: Fields) -> list[str]:
    return [field.name for field in fields]
