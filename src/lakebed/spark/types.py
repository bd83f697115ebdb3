"""Convert between Arrow schemas and Spark schemas, exactly.

Spark reads the buffers of Arrow batches and checks only the first batch. So a batch must have exactly the type that
Spark derives from its own schema (`pyspark.sql.pandas.types.to_arrow_type`): microseconds, plain strings and binaries,
decimal128, children named element, key and value, and the same nullability. `wire_schema` is that form of a table's
schema. `conform` brings whole columns into it, and brings Spark's batches into a table's form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from lakebed.errors import SchemaError, first_line
from lakebed.spark.release import VERSION

_PLAIN: dict[pa.DataType, spark.DataType] = {
    pa.null(): spark.NullType(),
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    pa.timestamp("us", "UTC"): spark.TimestampType(),
    pa.timestamp("us"): spark.TimestampNTZType(),
    pa.duration("us"): spark.DayTimeIntervalType(),
}
"""Types with exactly one counterpart, in the form that Spark sends and takes."""
if hasattr(spark, "TimeType"):
    _PLAIN[pa.time64("ns")] = spark.TimeType(6)

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}
_MOST_DIGITS = 38

_UUID = pa.uuid()


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """The Spark schema of an Arrow schema, including nullability. SchemaError names a column that Spark has no type
    for."""
    wire = wire_schema(schema)
    return spark.StructType([spark.StructField(f.name, _spark_type(f.type), f.nullable) for f in wire])


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """The Arrow schema that batches must have so that Spark reads them as `spark_schema(schema)`."""
    return pa.schema([pa.field(f.name, _wire_type(f.type, f.name), f.nullable) for f in schema])


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The Arrow schema in which Spark sends a DataFrame. SchemaError for a type that has none (intervals of months,
    variants)."""
    return pa.schema([pa.field(f.name, _arrow_type(f.dataType, f.name), f.nullable) for f in schema.fields])


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in exactly this schema. Columns are matched by name; a nullable column that is missing is null.

    Timestamps and times that are finer than the target are rounded down. SchemaError when a value does not fit, or when
    a column that may not be null has a null.
    """
    if batch.schema.equals(schema):
        return batch
    arrays = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        array = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows, field.type)
        if not field.nullable and array.null_count:
            raise SchemaError(f"column {field.name!r} holds a null", todo="It may not be null: fill it or drop the row")
        try:
            arrays.append(_cast(array, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SchemaError(
                f"a value of column {field.name!r} does not fit {field.type}", why=first_line(error)
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def conformed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Each batch in exactly this schema."""
    for batch in batches:
        yield conform(batch, schema)


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of type `given` can be stored as `wanted`: the same kind of type, or a wider one. Finer times
    may be rounded down."""
    given, wanted = _plain(given), _plain(wanted)
    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_integer(given):
        return _integer_fits(given, wanted)
    if pa.types.is_floating(given):
        return bool(pa.types.is_floating(wanted) and given.bit_width <= wanted.bit_width)
    if pa.types.is_decimal(given):
        return (
            bool(pa.types.is_decimal(wanted))
            and given.scale <= wanted.scale
            and given.precision - given.scale <= wanted.precision - wanted.scale
        )
    for same in (_is_text, _is_bytes, pa.types.is_date, pa.types.is_time, pa.types.is_duration):
        if same(given):
            return bool(same(wanted))
    if pa.types.is_timestamp(given):
        return pa.types.is_timestamp(wanted) and (given.tz is None) == (wanted.tz is None)
    if pa.types.is_struct(given):
        return pa.types.is_struct(wanted) and _struct_fits(given, wanted)
    if pa.types.is_map(given):
        return (
            pa.types.is_map(wanted)
            and fits(given.key_type, wanted.key_type)
            and fits(given.item_type, wanted.item_type)
        )
    if _is_list(given):
        return _is_list(wanted) and fits(given.value_type, wanted.value_type)
    return False


# ---- types -----------------------------------------------------------------------------------------------------------


def _wire_type(kind: pa.DataType, name: str) -> pa.DataType:
    if kind == _UUID:
        return pa.string()
    kind = _WIDER.get(_plain(kind), _plain(kind))
    if kind in _PLAIN:
        return kind
    if pa.types.is_decimal(kind):
        if kind.precision > _MOST_DIGITS or not 0 <= kind.scale <= kind.precision:
            raise _no_type(name, kind, f"Spark's decimals have at most {_MOST_DIGITS} digits and a scale within them")
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_time(kind):
        if pa.time64("ns") not in _PLAIN:
            raise _no_type(name, kind, f"times need PySpark 4.1 or newer, and this is {VERSION}")
        return pa.time64("ns")
    if pa.types.is_duration(kind):
        return pa.duration("us")
    for same, form in ((_is_text, pa.string()), (_is_bytes, pa.binary()), (pa.types.is_date, pa.date32())):
        if same(kind):
            return form
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _wire_type(f.type, f"{name}.{f.name}"), f.nullable) for f in kind])
    if pa.types.is_map(kind):
        key = pa.field("key", _wire_type(kind.key_type, f"{name}.key"), False)
        return pa.map_(key, pa.field("value", _wire_type(kind.item_type, f"{name}.value"), kind.item_field.nullable))
    if _is_list(kind):
        return pa.list_(pa.field("element", _wire_type(kind.value_type, f"{name}.element"), kind.value_field.nullable))
    raise _no_type(name, kind)


def _spark_type(kind: pa.DataType) -> spark.DataType:
    """The Spark type of a wire type."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return spark.StructType([spark.StructField(f.name, _spark_type(f.type), f.nullable) for f in kind])
    if pa.types.is_map(kind):
        return spark.MapType(_spark_type(kind.key_type), _spark_type(kind.item_type), kind.item_field.nullable)
    return spark.ArrayType(_spark_type(kind.value_type), kind.value_field.nullable)


def _arrow_type(kind: spark.DataType, name: str) -> pa.DataType:
    match kind:
        case spark.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case spark.StructType():
            return pa.struct(
                [pa.field(f.name, _arrow_type(f.dataType, f"{name}.{f.name}"), f.nullable) for f in kind.fields]
            )
        case spark.MapType():
            key = pa.field("key", _arrow_type(kind.keyType, f"{name}.key"), False)
            return pa.map_(key, pa.field("value", _arrow_type(kind.valueType, f"{name}.value"), kind.valueContainsNull))
        case spark.ArrayType():
            return pa.list_(pa.field("element", _arrow_type(kind.elementType, f"{name}.element"), kind.containsNull))
    for form, plain in _PLAIN.items():
        if type(plain) is type(kind):
            return form
    raise _no_type(name, kind.simpleString())


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without its encoding: dictionary, run-end and extension types are their values' type."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def _integer_fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    bits: int = given.bit_width - (1 if pa.types.is_signed_integer(given) else 0)
    if pa.types.is_signed_integer(wanted):
        return bits <= int(wanted.bit_width) - 1
    if pa.types.is_unsigned_integer(wanted):
        return bool(pa.types.is_unsigned_integer(given)) and bits <= int(wanted.bit_width)
    if pa.types.is_decimal(wanted):
        return bool(len(str(2**bits)) <= wanted.precision - wanted.scale)
    return bool(pa.types.is_floating(wanted)) and bits <= {16: 11, 32: 24, 64: 53}[wanted.bit_width]


def _struct_fits(given: pa.StructType, wanted: pa.StructType) -> bool:
    names = [field.name for field in wanted]
    return all(field.name in names and fits(field.type, wanted.field(field.name).type) for field in given) and all(
        field.nullable or given.get_field_index(field.name) >= 0 for field in wanted
    )


def _no_type(name: str, kind: object, why: str = "") -> SchemaError:
    return SchemaError(f"Spark has no type for column {name!r}, {kind}", why=why, todo="Leave it out with `columns`")


# ---- columns ---------------------------------------------------------------------------------------------------------


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array in exactly this type. Nested arrays are rebuilt around their children, since Arrow's cast cannot change
    nullability."""
    if array.type.equals(kind, check_metadata=False) and _same_fields(array.type, kind):
        return array
    if isinstance(array, pa.ExtensionArray):
        return _uuid_texts(array) if array.type == _UUID and _is_text(kind) else _cast(array.storage, kind)
    if pa.types.is_run_end_encoded(array.type):
        return _cast(pc.run_end_decode(array), kind)
    if pa.types.is_dictionary(array.type):
        return _cast(array.dictionary_decode(), kind)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    rebuild = _rebuild_of(array.type, kind)
    if rebuild is not None:
        return rebuild(array, kind)
    if pa.types.is_temporal(kind) and not pa.types.is_date(kind):
        return _round_down(array, kind)
    return array.cast(kind)


def _uuid_texts(array: pa.ExtensionArray) -> pa.Array:
    """UUIDs as texts of 36 characters in lower case, the form in which Spark's own sources give them."""
    storage = pc.fill_null(array.storage, bytes(16))
    digits = np.frombuffer(b"".join(storage.to_pylist()).hex().encode(), np.uint8).reshape(len(array), 32)
    texts = np.full((len(array), 36), ord("-"), np.uint8)
    for start, end, place in ((0, 8, 0), (8, 12, 9), (12, 16, 14), (16, 20, 19), (20, 32, 24)):
        texts[:, place : place + end - start] = digits[:, start:end]
    offsets = np.arange(0, 36 * len(array) + 1, 36, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(texts.tobytes())]
    strings = pa.Array.from_buffers(pa.string(), len(array), buffers)
    return pc.if_else(array.is_valid(), strings, pa.scalar(None, pa.string()))


def _rebuild_of(given: pa.DataType, wanted: pa.DataType) -> Callable[[pa.Array, pa.DataType], pa.Array] | None:
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        return _struct
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return _map
    if _is_list(given) and _is_list(wanted):
        return _list
    return None


def _same_fields(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether list and map children have the same names too. Type equality ignores these; Spark does not."""
    return str(given) == str(wanted)


def _struct(array: pa.StructArray, kind: pa.StructType) -> pa.Array:
    given = array.type
    children = [
        _cast(array.field(index), field.type)
        if (index := given.get_field_index(field.name)) >= 0
        else pa.nulls(len(array), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())


def _list(array: pa.Array, kind: pa.ListType) -> pa.Array:
    if not pa.types.is_list(kind):
        return _list(array, pa.list_(kind.value_field)).cast(kind)
    values = _cast(array.flatten(), kind.value_type)
    return pa.ListArray.from_arrays(_offsets(array), values, type=kind, mask=array.is_null())


def _map(array: pa.MapArray, kind: pa.MapType) -> pa.Array:
    entries = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field]))).flatten()
    keys, items = _cast(entries.field(0), kind.key_type), _cast(entries.field(1), kind.item_type)
    return pa.MapArray.from_arrays(_offsets(array), keys, items, type=kind, mask=array.is_null())


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets into the flattened values, starting at zero. (Those of a sliced array start elsewhere.)"""
    lengths = (
        pc.list_value_length(array)
        if not pa.types.is_map(array.type)
        else pc.list_value_length(array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field]))))
    )
    ends = pc.cumulative_sum(pc.fill_null(lengths, 0)).cast(pa.int32())
    return cast(pa.Array, pa.concat_arrays([pa.array([0], pa.int32()), ends]))


def _round_down(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times in a coarser unit, rounded towards the past. Dates are not converted to times."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(array.type):
            return array.cast(kind, safe=False)
        unit = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}[kind.unit]
        return pc.floor_temporal(array, unit=unit).cast(kind)
