"""Conform rows to a table's schema: match columns by name, cast without loss, refuse nulls where none are allowed.

This happens once, on whole columns. A cast that would lose something (a fraction of a second, a digit, a time zone) is
refused: the caller has to cast, and so decides what is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.errors import SchemaError, counted, first_line
from lakebed.kernel.arrays import one_chunk, to_numpy
from lakebed.model.rowkind import ROW_KIND_COLUMN

_KIND_EXTRA = {ROW_KIND_COLUMN: pa.string()}


def check_conformable(given: pa.Schema, wanted: pa.Schema, table: str) -> None:
    """Raise SchemaError when rows of the schema `given` cannot conform to `wanted`. Call it before there are rows."""
    check_input(given, wanted, table=table, extra=_KIND_EXTRA)
    repeated = [name for name in given.names if given.names.count(name) > 1]
    if repeated:
        raise SchemaError(f"two columns have the name {repeated[0]!r}", table=table, todo="Rename one of them")
    for field in given:
        if field.name != ROW_KIND_COLUMN and not _castable(field.type, wanted.field(field.name).type):
            raise _misfit(field.name, field.type, wanted.field(field.name).type, table)


def conform(
    data: pa.Table, wanted: pa.Schema, table: str, absent: Callable[[pa.Field, int], pa.Array] | None = None
) -> pa.Table:
    """The rows with the columns of `wanted`, in its order and types, one chunk per column.

    Columns that are not given are null, or what `absent` returns for a field and a number of rows. SchemaError, with
    the column and what is wrong, for a value that does not fit.
    """
    columns = [
        _conform_column(data.column(field.name), field, table)
        if field.name in data.schema.names
        else (absent(field, len(data)) if absent is not None else pa.nulls(len(data), field.type))
        for field in wanted
    ]
    return pa.Table.from_arrays(columns, schema=wanted)


def check_input(given: pa.Schema, wanted: pa.Schema, *, table: str, extra: Mapping[str, pa.DataType] = {}) -> None:
    """Raise SchemaError unless each column of `wanted` is given once or may be null, and no others but `extra` are
    given."""
    doubled = sorted({name for name in given.names if given.names.count(name) > 1})
    unknown = [name for name in given.names if name not in wanted.names and name not in extra]
    missing = [field.name for field in wanted if field.name not in given.names and not field.nullable]
    if doubled:
        raise SchemaError(f"columns given twice: {', '.join(doubled)}", table=table, todo="Give each column once")
    if unknown:
        raise SchemaError(
            f"columns the table does not have: {', '.join(unknown)}",
            table=table,
            todo=f"The table's columns: {', '.join(wanted.names)}",
        )
    if missing:
        raise SchemaError(
            f"columns missing that may not be null: {', '.join(missing)}", table=table, todo="Give them a value"
        )


def describe_row(columns: Sequence[pa.Array], names: Sequence[str], row: int) -> str:
    """The key of a row for an error, such as `id=7, dt='x'`."""
    return ", ".join(f"{name}={column[row].as_py()!r}" for name, column in zip(names, columns, strict=True))


def _conform_column(column: pa.ChunkedArray, field: pa.Field, table: str) -> pa.Array:
    given = one_chunk(column)
    if not field.nullable and given.null_count:
        row = int(np.flatnonzero(to_numpy(given.is_null()))[0])
        rows = counted(given.null_count, "row has", "rows have")
        raise SchemaError(
            f"column {field.name!r} may not be null, but {rows} no value",
            table=table,
            why=f"the first is row {row}",
            todo="Give every row a value, or filter out such rows",
        )
    inside = _required_but_null(given, field.type) if _requires(field.type) else None
    if inside is not None:
        raise SchemaError(
            f"column {field.name!r} has nulls inside, in {field.name}.{inside}",
            table=table,
            why=f"the table's type of that part may not be null: {field.type}",
            todo="Give every such part a value, or write null for the whole column",
        )
    if given.type == field.type:
        return given
    try:
        return _cast(given, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"column {field.name!r} holds values that do not fit {field.type}",
            table=table,
            why=first_line(error),
            todo=f"Cast the column to {field.type}, which says what to do with such values",
        ) from error


def _requires(kind: pa.DataType) -> bool:
    """Whether a type has parts that may not be null. Keys of maps do not count: Arrow makes no map with a null key."""
    if pa.types.is_map(kind):
        return not kind.item_field.nullable or _requires(kind.item_type)
    if _is_list(kind):
        return not kind.value_field.nullable or _requires(kind.value_type)
    return pa.types.is_struct(kind) and any(not field.nullable or _requires(field.type) for field in kind)


def _required_but_null(array: pa.Array, wanted: pa.DataType) -> str | None:
    """The path of a part of `wanted` that may not be null, but is null inside a value that is not; None without one.

    Arrow's casts let such a null pass, and files would get some other value in its place.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    parts: list[tuple[pa.Array, pa.Field]] = []
    if pa.types.is_map(wanted) and pa.types.is_map(array.type):
        present = array.drop_null()
        begin, end = (present.offsets[place].as_py() for place in (0, len(present))) if len(present) else (0, 0)
        parts = [(present.items.slice(begin, end - begin), wanted.item_field)]
    elif _is_list(wanted) and _is_list(array.type):
        parts = [(array.flatten(), wanted.value_field)]
    elif pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        present = array.drop_null()
        parts = [(present.field(place), field) for place, field in enumerate(wanted)]
    for part, field in parts:
        if not field.nullable and part.null_count:
            return str(field.name)
        inside = _required_but_null(part, field.type)
        if inside is not None:
            return f"{field.name}.{inside}"
    return None


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if isinstance(wanted, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(wanted, _cast(column, wanted.storage_type))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        column = column.cast(pa.large_string() if pa.types.is_string_view(column.type) else pa.large_binary())
    if pa.types.is_integer(column.type) and pa.types.is_decimal(wanted):  # Arrow wants room for every integer
        column = column.cast(pa.decimal128(38, wanted.scale))
    return column if column.type == wanted else column.cast(wanted, safe=True)


def _castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(_takes(given, wanted))


def _takes(given: pa.DataType, wanted: pa.DataType) -> Any:
    if pa.types.is_dictionary(given):
        given = given.value_type
    if isinstance(given, pa.BaseExtensionType):
        given = given.storage_type
    if isinstance(wanted, pa.BaseExtensionType):
        wanted = wanted.storage_type
    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_integer(given):
        return (
            pa.types.is_integer(wanted)
            or pa.types.is_decimal(wanted)
            or (pa.types.is_float64(wanted) and given.bit_width <= 32)
        )
    if pa.types.is_floating(given):
        return pa.types.is_floating(wanted) and wanted.bit_width >= given.bit_width
    if pa.types.is_decimal(given):
        return pa.types.is_decimal(wanted)
    if pa.types.is_timestamp(given):
        return pa.types.is_timestamp(wanted) and (given.tz is None) == (wanted.tz is None)
    if pa.types.is_time(given):
        return pa.types.is_time(wanted)
    if pa.types.is_date(given):
        return pa.types.is_date(wanted)
    if _is_text(given):
        return _is_text(wanted)
    if _is_bytes(given):
        return _is_bytes(wanted)
    if pa.types.is_map(given) or pa.types.is_map(wanted):
        return (
            pa.types.is_map(given)
            and pa.types.is_map(wanted)
            and _castable(given.key_type, wanted.key_type)
            and _castable(given.item_type, wanted.item_type)
        )
    if _is_list(given):
        return _is_list(wanted) and _castable(given.value_type, wanted.value_type)
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        return [given.field(i).name for i in range(given.num_fields)] == [
            wanted.field(i).name for i in range(wanted.num_fields)
        ] and all(_castable(given.field(i).type, wanted.field(i).type) for i in range(given.num_fields))
    return False


def _is_text(kind: pa.DataType) -> Any:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_bytes(kind: pa.DataType) -> Any:
    return (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _is_list(kind: pa.DataType) -> Any:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _misfit(name: str, given: pa.DataType, wanted: pa.DataType, table: str) -> SchemaError:
    why = ""
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        why = "one is a moment in UTC, the other a local time without a zone"
    return SchemaError(
        f"column {name!r} is {given}, but the table has {wanted}", table=table, why=why, todo=f"Cast it to {wanted}"
    )
