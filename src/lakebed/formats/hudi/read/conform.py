"""Rows conformed to a schema: columns matched, types converted.

Columns match by name, or by what Hudi's schema history says (`internal_schema.renames`). Which type may become which is
the table of `SchemaChangeUtils`, and values are converted as Hudi's readers do:

    int -> long, float, double, decimal, string     long -> float, double, decimal, string
    float -> double, decimal                        double -> decimal
    decimal -> a wider decimal, string              date -> string
    string -> date, decimal, binary                 binary -> string
    timestamps, times                               the same in another unit or with a zone

A float becomes a double through its text, so that 1.1 stays 1.1, as Hudi rewrites it. A float or double never becomes a
string here, since Java writes such text in its own form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError
from lakebed.formats.hudi.codec.internal_schema import SAME_NAMES, Path, Renames
from lakebed.formats.hudi.codec.timestamps import NO_UNITS, Units, stored_as
from lakebed.kernel.arrays import from_values


def conform(
    batch: pa.RecordBatch, target: pa.Schema, renames: Renames | None = None, units: Units = NO_UNITS
) -> pa.RecordBatch:
    """The batch with exactly the columns and types of `target`, in its order. Columns that the batch lacks are null.

    `units` are the timestamps of the target that the batch can label wrongly (`codec/timestamps.py`). Raises
    SchemaError, naming the column and both types, where one type cannot become the other or a value does not fit, and
    where a column is missing that may not be null.
    """
    if not renames and not units and batch.schema.equals(target):
        return batch
    names, written = batch.schema.names, _Written(renames or {}, units)
    columns = [
        _field(batch.column(place) if place >= 0 else None, field, (field.name,), written, batch.num_rows)
        for field in target
        for place in [_place(names, written.name((field.name,)))]
    ]
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.nulls(batch.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def conform_to_table(
    rows: pa.RecordBatch | pa.Table,
    target: pa.Schema,
    constants: Mapping[str, pa.Scalar] = {},
    renames: Renames = SAME_NAMES,
    units: Units = NO_UNITS,
) -> pa.RecordBatch | pa.Table:
    """The rows of a data file in the columns of `target`, which are some of the table's.

    A column that the rows lack takes its value from `constants`, else it is null, also where the schema says it may
    not be. Raises SchemaError where a column's type cannot become the table's.
    """
    names = set(rows.schema.names)
    present = [field for field in target if renames.get((field.name,), field.name) in names]
    convert = conform_table if isinstance(rows, pa.Table) else conform
    conformed = convert(rows, pa.schema([field.with_nullable(True) for field in present]), renames, units)
    if len(present) == len(target) and conformed.schema.equals(target):
        return conformed
    arrays = []
    for field in target:
        place = conformed.schema.get_field_index(field.name)
        if place >= 0:
            arrays.append(conformed.column(place))
        elif field.name in constants:
            arrays.append(pa.repeat(constants[field.name].cast(field.type), rows.num_rows))
        else:
            arrays.append(pa.nulls(rows.num_rows, field.type))
    if not arrays:
        return rows.select([])
    return type(rows).from_arrays(arrays, schema=target)


def conform_table(
    table: pa.Table, target: pa.Schema, renames: Renames | None = None, units: Units = NO_UNITS
) -> pa.Table:
    """`conform` for each batch of a table."""
    if not renames and not units and table.schema.equals(target):
        return table
    return pa.Table.from_batches([conform(batch, target, renames, units) for batch in table.to_batches()], target)


_OTHERS = "Leave the column out of the columns that are read, or read the table with Hudi's own engine"


@dataclass(frozen=True, slots=True)
class _Written:
    """How the source's field names and types differ from the target's."""

    renames: Renames
    units: Units

    def name(self, path: Path) -> str | None:
        return self.renames.get(path, path[-1])

    def differs_inside(self, path: Path) -> bool:
        below = len(path)
        return any(len(other) > below and other[:below] == path for other in (*self.renames, *self.units))


def _place(names: list[str], name: str | None) -> int:
    return names.index(name) if name is not None and name in names else -1


def _field(source: pa.Array | None, field: pa.Field, path: Path, written: _Written, rows: int) -> pa.Array:
    if source is None:
        if not field.nullable and rows:
            raise SchemaError(
                f"column {'.'.join(path)!r} of {field.type} is missing in the data and cannot be null", todo=_OTHERS
            )
        return pa.nulls(rows, field.type)
    return _convert(source, field.type, path, written)


def _convert(source: pa.Array, target: pa.DataType, path: Path, written: _Written) -> pa.Array:
    kind = stored_as(source.type, written.units.get(path))
    if kind != source.type:
        source = source.view(kind)
    if kind == target and not written.differs_inside(path):
        return source
    if pa.types.is_dictionary(kind):
        return _convert(source.dictionary_decode(), target, path, written)
    if pa.types.is_dictionary(target):
        return _convert(source, target.value_type, path, written).dictionary_encode()
    if pa.types.is_struct(kind) and pa.types.is_struct(target):
        return _struct(source, target, path, written)
    if _is_list(kind) and pa.types.is_list(target):
        return _list(source, target, path, written)
    if pa.types.is_map(kind) and pa.types.is_map(target):
        return _map(source, target, path, written)
    if pa.types.is_null(kind):
        return pa.nulls(len(source), target)
    try:
        converted = _primitive(source, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _impossible(path, kind, target, str(error)) from error
    if converted is None:
        raise _impossible(path, kind, target, "Hudi does not let the first become the second")
    return converted


def _impossible(path: Path, kind: pa.DataType, target: pa.DataType, why: str) -> SchemaError:
    return SchemaError(
        f"column {'.'.join(path)!r} is {kind} in the data and cannot be read as {target}", why=why, todo=_OTHERS
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _struct(source: pa.StructArray, target: pa.StructType, path: Path, written: _Written) -> pa.Array:
    names = [field.name for field in source.type]
    # flatten, not field: it carries the parent's nulls and slice into the children.
    children = source.flatten()
    columns = []
    for field in target:
        inner = (*path, field.name)
        place = _place(names, written.name(inner))
        child = children[place] if place >= 0 else None
        if child is None:
            columns.append(pa.nulls(len(source), field.type))
        else:
            columns.append(_convert(child, field.type, inner, written))
    mask = source.is_null()
    if not columns:
        return pa.StructArray.from_buffers(target, len(source), [_validity(mask)])
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=mask)


def _validity(mask: pa.BooleanArray) -> pa.Buffer | None:
    return pc.invert(mask).buffers()[1] if mask.true_count else None


def _list(source: Any, target: pa.ListType, path: Path, written: _Written) -> pa.Array:
    values = _convert(source.flatten(), target.value_type, (*path, "element"), written)
    return pa.ListArray.from_arrays(_offsets(source), values, type=target, mask=_mask(source))


def _map(source: pa.MapArray, target: pa.MapType, path: Path, written: _Written) -> pa.Array:
    # Arrow cannot flatten a map. Seen as a list of entries it can be flattened, slices and nulls included.
    whole = pa.StructArray.from_arrays(
        [source.keys, source.items], fields=[source.type.key_field, source.type.item_field]
    )
    lists = pa.ListArray.from_buffers(
        pa.list_(whole.type), len(source), source.buffers()[:2], offset=source.offset, children=[whole]
    )
    entries = lists.flatten()
    keys, items = entries.flatten()
    keys = _convert(keys, target.key_type, (*path, "key"), written)
    items = _convert(items, target.item_type, (*path, "value"), written)
    converted = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    plain = pa.ListArray.from_arrays(_offsets(lists), converted, mask=_mask(lists))
    return pa.Array.from_buffers(target, len(plain), plain.buffers()[:2], children=[converted], offset=plain.offset)


_ZERO = from_values([0], pa.int32())


def _offsets(lists: Any) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists), _ZERO[0]).cast(pa.int32())
    return pa.concat_arrays([_ZERO, pc.cumulative_sum(lengths)])


def _mask(source: pa.Array) -> pa.BooleanArray | None:
    return source.is_null() if source.null_count else None


def _primitive(source: pa.Array, target: pa.DataType) -> pa.Array | None:
    """The values as another type, None where Hudi allows no such change."""
    kind, types = source.type, pa.types
    if types.is_timestamp(kind) and types.is_timestamp(target):
        return source.cast(target, safe=kind.unit != "ns")
    if types.is_time(kind) and types.is_time(target):
        return source.cast(target)
    if types.is_integer(kind):
        return _from_integer(source, target)
    if types.is_floating(kind):
        return _from_floating(source, target)
    if types.is_decimal(kind):
        wider = types.is_decimal(target) and _is_wider(kind, target)
        return source.cast(target) if wider or _is_text(target) else None
    if types.is_date32(kind):
        return source.cast(target) if _is_text(target) else None
    if _is_text(kind):
        allowed = _is_text(target) or _is_bytes(target) or types.is_date32(target) or types.is_decimal(target)
        return source.cast(target) if allowed else None
    if _is_bytes(kind):
        plain = source.cast(pa.binary()) if types.is_fixed_size_binary(kind) else source
        return plain.cast(target) if _is_bytes(target) or _is_text(target) else None
    return None


def _from_integer(source: pa.Array, target: pa.DataType) -> pa.Array | None:
    types = pa.types
    if types.is_integer(target):
        return source.cast(target) if source.type.bit_width <= target.bit_width else None
    if types.is_floating(target):
        # A long that a float cannot hold is rounded, as in Java.
        return source.cast(target, safe=False)
    if types.is_decimal(target):
        return source.cast(pa.decimal128(38, target.scale)).cast(target)
    return source.cast(target) if _is_text(target) else None


def _from_floating(source: pa.Array, target: pa.DataType) -> pa.Array | None:
    types = pa.types
    if types.is_floating(target):
        if source.type.bit_width > target.bit_width:
            return None
        return source.cast(pa.string()).cast(target)
    if types.is_decimal(target):
        # Half to even, from the text and not from the binary value, as Hudi calls `BigDecimal.setScale`.
        exact = source.cast(pa.string()).cast(pa.float64())
        return pc.round(exact, ndigits=target.scale, round_mode="half_to_even").cast(target)
    return None


def _is_wider(kind: Any, target: Any) -> bool:
    return bool(target.scale >= kind.scale and target.precision - target.scale >= kind.precision - kind.scale)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
