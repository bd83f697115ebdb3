"""A file's column conformed to the type that the schema being read gives it.

Rule: Paimon's SchemaEvolutionUtil. The fields of a ROW are matched by id, at any depth inside arrays, maps and other
rows. The elements of arrays and the values of maps change as columns do; the keys of maps never change. Every other
type is converted by the casts of `lakebed.formats.paimon.casts`.
"""

from __future__ import annotations

import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.casts import cast_values
from lakebed.formats.paimon.codec.types import DataType, arrow_type


def cast_column(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """Convert a column from the type that its file has to the type that is read.

    Raises UnsupportedError for a change of type that Paimon does not allow, SchemaError for a value that has no
    counterpart in the new type.
    """
    target = arrow_type(wanted)
    if source == wanted:
        return column
    match source.root, wanted.root:
        case "ROW", "ROW":
            return _cast_row(column, source, wanted, target)
        case "ARRAY", "ARRAY" if source.element and wanted.element:
            return _with_values(column, target, cast_column(column.values, source.element, wanted.element))
        case "MAP", "MAP" if source.key and source.element and wanted.key and wanted.element:
            if source.key != wanted.key:
                raise UnsupportedError(f"the keys of a map were changed from {source.key} to {wanted.key}")
            items = cast_column(column.items, source.element, wanted.element)
            fields = [target.key_field, target.item_field]
            return _with_values(column, target, pa.StructArray.from_arrays([column.keys, items], fields=fields))
    if source.required() == wanted.required():
        return column
    return cast_values(column, source, wanted)


def as_written(column: pa.Array, kind: DataType) -> pa.Array:
    """Give a file's column the Arrow type of the Paimon type that it was written as.

    File formats store some types differently: ORC has TIME as an integer, for example.
    """
    target = arrow_type(kind)
    if column.type == target:
        return column
    if pa.types.is_time(target) and pa.types.is_integer(column.type):
        return column.cast(pa.int32()).view(target)
    return column.cast(target, safe=False)


def _cast_row(column: pa.StructArray, source: DataType, wanted: DataType, target: pa.StructType) -> pa.Array:
    places = {field.id: place for place, field in enumerate(source.fields)}
    children = [
        cast_column(column.field(places[field.id]), source.fields[places[field.id]].type, field.type)
        if field.id in places
        else pa.nulls(len(column), target.field(at).type)
        for at, field in enumerate(wanted.fields)
    ]
    fields = [target.field(at) for at in range(target.num_fields)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null() if column.null_count else None)


def _with_values(column: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """The same lists or maps over other values; offsets and nulls stay."""
    return pa.Array.from_buffers(target, len(column), column.buffers()[:2], column.null_count, column.offset, [values])
