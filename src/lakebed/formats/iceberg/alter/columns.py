"""Columns found by their path, and changed where they stand.

Rule: the reference engine's SchemaUpdate. A path goes through the fields of structs; inside a list it goes on with
`element`, inside a map with `value`. The keys of maps never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from lakebed.errors import SchemaError
from lakebed.kernel import column_paths

Fields = tuple[NestedField, ...]
Edit = Callable[[Fields, str], Fields]
"""Takes fields and the name of one of them, or of a new one, and returns the fields after the change."""
ROOT = -1
"""The id of the schema itself, as the parent of its columns."""


def names_of(fields: Sequence[NestedField]) -> list[str]:
    """The names of fields."""
    return [field.name for field in fields]


def altered_field(field: NestedField, **changes: Any) -> NestedField:
    """A field with other values of some of its attributes, such as `required=False`."""
    same = {name: getattr(field, name) for name in NestedField.model_fields}
    return NestedField(**{**same, **changes})


def edited(fields: Fields, path: Sequence[str], edit: Edit) -> Fields:
    """The columns after a change of the struct that holds the last name of the path."""
    name, rest = path[0], path[1:]
    if not rest:
        return edit(fields, name)
    place = column_paths.place_of(name, names_of(fields))
    kind = _inside(fields[place].field_type, rest, edit)
    return with_field(fields, place, altered_field(fields[place], field_type=kind))


def changed(fields: Fields, path: Sequence[str], change: Callable[[NestedField], NestedField]) -> Fields:
    """Columns after a change of the field at a path, which may be a list's element or a map's value."""
    place = column_paths.place_of(path[0], names_of(fields))
    field = fields[place]
    if path[1:]:
        return with_field(fields, place, altered_field(field, field_type=_changed(field.field_type, path[1:], change)))
    return with_field(fields, place, change(field))


def with_field(fields: Fields, place: int, field: NestedField) -> Fields:
    """The fields with another one at a place."""
    return (*fields[:place], field, *fields[place + 1 :])


def field_at(fields: Fields, path: Sequence[str]) -> NestedField:
    """The field at a path. SchemaError when there is none."""
    path_fields: list[NestedField] = []

    def look(field: NestedField) -> NestedField:
        path_fields.append(field)
        return field

    changed(fields, path, look)
    return path_fields[0]


def all_fields(fields: Sequence[NestedField], parent: int = ROOT) -> Iterator[tuple[int, NestedField]]:
    """Every field, those inside others too, each with the id of the field that holds it."""
    for field in fields:
        yield parent, field
        yield from all_fields(inner_fields(field.field_type), field.field_id)


def inner_fields(kind: IcebergType) -> Sequence[NestedField]:
    """The fields right inside a type: of a struct, the element of a list, the key and the value of a map."""
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (kind.element_field,)
    return (kind.key_field, kind.value_field) if isinstance(kind, MapType) else ()


def paths(fields: Sequence[NestedField]) -> Mapping[int, tuple[str, ...]]:
    """The path of every field by its id."""
    paths_by_id: dict[int, tuple[str, ...]] = {ROOT: ()}
    for parent, field in all_fields(fields):
        paths_by_id[field.field_id] = (*paths_by_id[parent], field.name)
    del paths_by_id[ROOT]
    return paths_by_id


def _inside(kind: IcebergType, path: Sequence[str], edit: Edit) -> IcebergType:
    if isinstance(kind, StructType):
        return StructType(*edited(kind.fields, path, edit))
    element = _element(kind, path[0])
    if len(path) == 1:
        raise SchemaError(f"{path[0]!r} is what a {_word(kind)} holds, not a field", todo="Name a field of a struct")
    return _holding(kind, altered_field(element, field_type=_inside(element.field_type, path[1:], edit)))


def _changed(kind: IcebergType, path: Sequence[str], change: Callable[[NestedField], NestedField]) -> IcebergType:
    if isinstance(kind, StructType):
        return StructType(*changed(kind.fields, path, change))
    element = _element(kind, path[0])
    if path[1:]:
        return _holding(kind, altered_field(element, field_type=_changed(element.field_type, path[1:], change)))
    return _holding(kind, change(element))


def _element(kind: IcebergType, name: str) -> NestedField:
    """The field inside of a list or a map."""
    if isinstance(kind, ListType) and name.lower() == "element":
        return kind.element_field
    if isinstance(kind, MapType) and name.lower() == "value":
        return kind.value_field
    if isinstance(kind, MapType) and name.lower() == "key":
        raise SchemaError(f"the keys of {kind} never change", todo="Add another column")
    inside = {ListType: "element", MapType: "value"}.get(type(kind))
    raise SchemaError(
        f"a {_word(kind)} has no field {name!r}",
        todo=f"Go on with {inside!r}" if inside else "Check the column's path",
    )


def _holding(kind: IcebergType, held: NestedField) -> IcebergType:
    """A list or a map with another element or value."""
    if isinstance(kind, ListType):
        return ListType(kind.element_id, held.field_type, held.required)
    assert isinstance(kind, MapType)
    return MapType(kind.key_id, kind.key_type, kind.value_id, held.field_type, held.required)


def _word(kind: IcebergType) -> str:
    return {ListType: "list", MapType: "map"}.get(type(kind), str(kind))
