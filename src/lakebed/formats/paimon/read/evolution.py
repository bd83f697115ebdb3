"""Casting a column from the type that a file was written with to the type that the table has now.

Rule: Paimon's SchemaEvolutionUtil and CastExecutors: numbers wrap as Java's do, texts are parsed, a ROW keeps its
fields by their ids.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.formats.paimon.codec.types import DataType, arrow_type

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def cast_column(column: pa.Array, source: DataType, wanted: DataType) -> pa.Array:
    """The column in its new type."""
    if source.root == "ROW" and wanted.root == "ROW":
        return _cast_row(column, source, wanted)
    if source.root == "ARRAY" and wanted.root == "ARRAY" and source.element and wanted.element:
        if str(source.element) == str(wanted.element):
            return column
        values = cast_column(column.values, source.element, wanted.element)
        return pa.ListArray.from_arrays(
            column.offsets, values, arrow_type(wanted), mask=column.is_null() if column.null_count else None
        )
    if str(source.required()) == str(wanted.required()):
        return column
    target = arrow_type(wanted)
    if column.type == target:
        return column
    if source.root in _INTEGERS and wanted.root in _INTEGERS:
        return column.cast(target, safe=False)
    if source.root in ("FLOAT", "DOUBLE") and wanted.root in _INTEGERS:
        return pc.trunc(column).cast(target, safe=False)
    try:
        return pc.cast(column, target, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnsupportedError(
            f"a column was changed from {source} to {wanted}", why=str(error).splitlines()[0]
        ) from error


def as_written(column: pa.Array, kind: DataType) -> pa.Array:
    """A file's column in the Arrow type of the Paimon type that it was written as, whatever the file format made of
    it."""
    target = arrow_type(kind)
    if column.type == target:
        return column
    if pa.types.is_time(target) and pa.types.is_integer(column.type):
        return column.cast(pa.int32()).view(target)
    return column.cast(target, safe=False)


def _cast_row(column: pa.StructArray, source: DataType, wanted: DataType) -> pa.Array:
    own = {field.id: (place, field) for place, field in enumerate(source.fields)}
    children: list[pa.Array] = []
    target = arrow_type(wanted)
    for place, field in enumerate(wanted.fields):
        found = own.get(field.id)
        kind = target.field(place).type
        if found is None:
            children.append(pa.nulls(len(column), kind))
        else:
            child = cast_column(column.field(found[0]), found[1].type, field.type)
            children.append(child if child.type == kind else child.cast(kind))
    fields = [target.field(place) for place in range(target.num_fields)]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
