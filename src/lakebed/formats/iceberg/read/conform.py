"""Columns of a data file, found by field id and converted to the requested schema.

Rule: the specification's "Column Projection" and "Schema Evolution". Fields with the same id are the same field,
whatever their names. A field that a file lacks has its initial default, else null. Numbers, decimals and dates may have
been narrower when the file was written. A column that already has the right type is not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.iceberg.codec.name_mapping import MappedField, NameMapping
from lakebed.formats.iceberg.codec.schema import VariantType, arrow_type, scalar


@dataclass(frozen=True, slots=True)
class FileField:
    """A field of a data file.

    `id` comes from the file or a name mapping, None without either. `children` are the fields of a struct, the element
    of a list, the key and value of a map.
    """

    name: str
    id: int | None
    children: tuple[FileField, ...] = ()

    @property
    def has_ids(self) -> bool:
        """Whether this field or one inside it has an id."""
        return self.id is not None or any(child.has_ids for child in self.children)


def file_fields(fields: Iterable[pa.Field], key: bytes) -> tuple[FileField, ...]:
    """The fields of an Arrow schema, whose ids are in the metadata under `key`."""
    return tuple(_file_field(field, key) for field in fields)


def _file_field(field: pa.Field, key: bytes) -> FileField:
    kind = field.type
    inside: Sequence[pa.Field] = ()
    if pa.types.is_struct(kind):
        inside = [kind.field(n) for n in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        inside = [kind.key_field, kind.item_field]
    elif is_list(kind):
        inside = [kind.value_field]
    text = (field.metadata or {}).get(key)
    return FileField(field.name, None if text is None else int(text), file_fields(inside, key))


def avro_fields(schema: Mapping[str, Any]) -> tuple[FileField, ...]:
    """The fields of an Avro record. Ids are the attributes `field-id`, `element-id`, `key-id` and `value-id`."""
    return tuple(_avro_field(field["name"], field.get("field-id"), field["type"]) for field in schema["fields"])


def _avro_field(name: str, id: Any, kind: Any) -> FileField:
    if isinstance(kind, list):
        kind = next((branch for branch in kind if branch != "null"), "null")
    inside: tuple[FileField, ...] = ()
    if isinstance(kind, dict) and kind["type"] == "record":
        inside = avro_fields(kind)
    elif isinstance(kind, dict) and kind["type"] == "array":
        inside = (_avro_field("element", kind.get("element-id"), kind["items"]),)
        if kind.get("logicalType") == "map":
            inside = inside[0].children
    elif isinstance(kind, dict) and kind["type"] == "map":
        inside = (
            FileField("key", kind.get("key-id")),
            _avro_field("value", kind.get("value-id"), kind["values"]),
        )
    return FileField(name, None if id is None else int(id), inside)


def with_mapping(fields: tuple[FileField, ...], mapping: NameMapping) -> tuple[FileField, ...]:
    """The fields of a file without ids, with the ids that the table's name mapping has for their names."""
    return _mapped(fields, mapping.root) if mapping.root else fields


def _mapped(fields: tuple[FileField, ...], mappings: Sequence[MappedField]) -> tuple[FileField, ...]:
    by_name = {name: mapping for mapping in mappings for name in mapping.names}
    unmapped = MappedField()
    of_fields = [by_name.get(field.name, unmapped) for field in fields]
    return tuple(
        replace(field, id=mapping.field_id, children=_mapped(_standard(field), mapping.fields))
        for field, mapping in zip(fields, of_fields, strict=True)
    )


def _standard(field: FileField) -> tuple[FileField, ...]:
    """The fields inside a field. The element of a list gets the name that mappings use for it."""
    names = {("item",): ("element",), ("array",): ("element",), ("list",): ("element",)}
    given = tuple(child.name for child in field.children)
    if given in names:
        return tuple(replace(c, name=name) for c, name in zip(field.children, names[given], strict=True))
    return field.children


def conformed(array: pa.Array, source: FileField, wanted: NestedField) -> pa.Array:
    """A file's column in the type of `wanted`. UnsupportedError for a shredded variant."""
    return _conform(array, source, wanted.field_type, arrow_type(wanted.field_type))


def missing(wanted: NestedField, rows: int) -> pa.Array:
    """A column that the file lacks: its initial default, else nulls. CorruptError when the column may not be null."""
    if wanted.initial_default is not None:
        return pa.repeat(scalar(wanted.initial_default, wanted.field_type), rows)
    if wanted.required:
        raise CorruptError(f"the required column {wanted.name!r} is missing")
    return pa.nulls(rows, arrow_type(wanted.field_type))


def _conform(array: pa.Array, source: FileField, kind: IcebergType, target: pa.DataType) -> pa.Array:
    if isinstance(kind, StructType):
        return _struct(array, source, kind, target)
    if isinstance(kind, ListType):
        return _list(array, source, kind, target)
    if isinstance(kind, MapType):
        return _map(array, source, kind, target)
    if isinstance(kind, VariantType):
        return _variant(array, target)
    return array if array.type == target else _cast(array, target)


def _struct(array: pa.StructArray, source: FileField, kind: StructType, target: pa.DataType) -> pa.Array:
    places = {child.id: place for place, child in enumerate(source.children) if child.id is not None}
    children = []
    for number, field in enumerate(kind.fields):
        place = places.get(field.field_id)
        if place is None:
            children.append(missing(field, len(array)))
        else:
            inner = target.field(number).type
            children.append(_conform(array.field(place), source.children[place], field.field_type, inner))
    mask = array.is_null() if array.null_count else None
    fields = [target.field(n) for n in range(target.num_fields)]
    if not fields:
        return pa.array([None if gone else {} for gone in array.is_null().to_pylist()], target)
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _list(array: pa.Array, source: FileField, kind: ListType, target: pa.DataType) -> pa.Array:
    if pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    values = _conform(array.values, source.children[0], kind.element_type, target.value_type)
    return _with_children(array, target, values)


def _map(array: pa.Array, source: FileField, kind: MapType, target: pa.DataType) -> pa.Array:
    """A map. Avro stores one whose keys are not text as a list of pairs."""
    if pa.types.is_map(array.type):
        keys, items = array.keys, array.items
    else:
        keys, items = array.values.field(0), array.values.field(1)
    keys = _conform(keys, source.children[0], kind.key_type, target.key_type)
    items = _conform(items, source.children[1], kind.value_type, target.item_type)
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return _with_children(array, target, entries)


def _with_children(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """The same lists or maps over other values, with the same offsets and nulls."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(target, len(array), [validity, offsets], -1, array.offset, [values])


def _variant(array: pa.Array, target: pa.DataType) -> pa.Array:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    names = [storage.type.field(n).name for n in range(storage.type.num_fields)]
    if sorted(names) != ["metadata", "value"]:
        raise UnsupportedError(
            "a variant column is shredded into typed columns",
            why="lakebed reads variants only as metadata and value",
            todo="Leave the column out. A rewrite joins such files byte for byte if no delete applies and rows hold "
            "their ids (lakebed.rewrite.concat-min-row-group-bytes=1); otherwise use the engine that shredded them",
        )
    children = [pc.cast(storage.field(name), pa.binary()) for name in ("metadata", "value")]
    fields = [target.field(n) for n in range(target.num_fields)]
    mask = storage.is_null() if storage.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A primitive column in another type: it was widened, or the file's format has another type for it."""
    kind = array.type
    if isinstance(target, pa.BaseExtensionType):
        storage = array.storage if isinstance(array, pa.ExtensionArray) else array
        return pa.ExtensionArray.from_storage(target, storage.cast(target.storage_type))
    if isinstance(array, pa.ExtensionArray):
        return _cast(array.storage, target)
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(kind):
        naive = array.view(pa.timestamp(kind.unit)).cast(pa.timestamp(target.unit), safe=False)
        return naive.view(target)
    if pa.types.is_timestamp(target) and pa.types.is_int64(kind):
        return array.view(target)
    if pa.types.is_timestamp(target) and target.tz is not None:
        return array.cast(pa.timestamp(target.unit)).view(target)
    if pa.types.is_time(target) and pa.types.is_integer(kind):
        return array.cast(pa.int64()).view(target)
    return array.cast(target)


def is_list(kind: pa.DataType) -> bool:
    """Whether it is any of Arrow's list types."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
