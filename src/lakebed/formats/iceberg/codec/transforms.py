"""Partition transforms on whole Arrow columns, and the source values that a transformed value can come from.

Rule: the specification's "Partition Transforms" and "32-bit Hash Requirements". Hashes are murmur3 with seed 0.
Integers, dates and times are hashed as 8 bytes, little-endian; decimals as the fewest bytes of their unscaled number,
big-endian; strings as UTF-8. Null stays null.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import IcebergType

from lakebed.errors import SchemaError, UnsupportedError
from lakebed.formats.iceberg.codec.schema import arrow_type
from lakebed.kernel.arrays import AnyArray, Bools, filled, from_numpy, from_values, to_numpy
from lakebed.kernel.keys.murmur import hash_bytes, hash_words

_UNITS = {YearTransform: "Y", MonthTransform: "M", DayTransform: "D", HourTransform: "h"}


def result_type(transform: Transform[Any, Any], source: IcebergType) -> pa.DataType:
    """The Arrow type of a partition field."""
    return arrow_type(transform.result_type(source))


def transformed(transform: Transform[Any, Any], column: pa.Array, source: IcebergType) -> pa.Array:
    """The partition values of a column of the Iceberg type `source`.

    Raises UnsupportedError for a transform that lakebed does not know.
    """
    target = result_type(transform, source)
    if isinstance(transform, IdentityTransform):
        return column
    if isinstance(transform, VoidTransform):
        return pa.nulls(len(column), target)
    if isinstance(transform, BucketTransform):
        numbers = to_numpy(hashed(column)) & np.int32(0x7FFFFFFF)
        return pa.array(numbers % np.int32(transform.num_buckets), target, mask=_mask(column))
    if isinstance(transform, TruncateTransform):
        return _truncated(column, transform.width)
    for kind, unit in _UNITS.items():
        if isinstance(transform, kind):
            moments = _moments(column).astype(f"datetime64[{unit}]").astype(np.int64)
            whole = from_numpy(moments.astype(np.int32), _mask(column))
            return whole.cast(target) if pa.types.is_date(target) else whole
    raise UnsupportedError(f"lakebed does not know the partition transform {transform}")


def hashed(column: pa.Array) -> pa.Int32Array:
    """The murmur3 hash of each value; 0 for null."""
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    kind = plain.type
    if pa.types.is_decimal(kind):
        return from_numpy(_by_distinct(plain, lambda values: [_decimal_bytes(v.as_py(), kind.scale) for v in values]))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return from_numpy(hash_bytes(plain.cast(pa.binary()), 0))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return from_numpy(hash_bytes(plain.cast(pa.binary()), 0))
    return from_numpy(hash_words([_whole(plain).view(np.uint64)], 0))


def _by_distinct(column: pa.Array, encode: Callable[[pa.Array], list[bytes]]) -> AnyArray:
    """The hash of each row, computed once per distinct value."""
    coded = column.dictionary_encode()
    hashes = hash_bytes(pa.array(encode(coded.dictionary), pa.binary()), 0)
    places = to_numpy(filled(coded.indices, 0))
    return hashes[places] if len(hashes) else np.zeros(len(column), np.int32)


def _decimal_bytes(value: Decimal, scale: int) -> bytes:
    number = _unscaled(value, scale)
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def _unscaled(value: Decimal, scale: int) -> int:
    """The unscaled number of a decimal, exact whatever the precision of the decimal context."""
    sign, digits, exponent = value.as_tuple()
    number: int = int("".join(map(str, digits))) * 10 ** (scale + int(exponent))
    return -number if sign else number


def _whole(column: pa.Array) -> AnyArray:
    """The 8-byte numbers that values are hashed as; nanoseconds count as microseconds."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        numbers = to_numpy(filled(column.view(pa.int64()), 0))
        return np.floor_divide(numbers, 1000) if kind.unit == "ns" else np.ascontiguousarray(numbers)
    if pa.types.is_date(kind):
        column = column.view(pa.int32())
    elif pa.types.is_time(kind):
        column = column.view(pa.int64())
    if not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        raise UnsupportedError(f"a column of type {kind} cannot be bucketed")
    return np.ascontiguousarray(to_numpy(filled(column.cast(pa.int64()), 0)))


def _moments(column: pa.Array) -> AnyArray:
    if pa.types.is_date(column.type):
        days: AnyArray = to_numpy(filled(column.view(pa.int32()), 0))
        return days.astype("datetime64[D]")
    numbers: AnyArray = to_numpy(filled(column.view(pa.int64()), 0))
    return numbers.astype(f"datetime64[{column.type.unit}]")


def _truncated(column: pa.Array, width: int) -> pa.Array:
    kind = column.type
    if pa.types.is_integer(kind):
        numbers = to_numpy(filled(column, 0))
        return pa.array(numbers - numbers % np.array(width, numbers.dtype), kind, mask=_mask(column))
    if pa.types.is_decimal(kind):
        return _truncated_decimal(column, width)
    if pa.types.is_string(kind):
        return pc.utf8_slice_codeunits(column, 0, width)
    return pc.binary_slice(column, 0, width)


def _truncated_decimal(column: pa.Array, width: int) -> pa.Array:
    """Truncated decimals, computed per distinct value since Arrow has no remainder of decimals.

    SchemaError for a value that needs more digits after truncation than its type has. The reference engine refuses it
    too.
    """
    coded = column.dictionary_encode()
    precision, scale = column.type.precision, column.type.scale
    numbers = [_unscaled(value.as_py(), scale) for value in coded.dictionary]
    cut = [number - number % width for number in numbers]
    for number, truncated in zip(numbers, cut, strict=True):
        if abs(truncated) >= 10**precision:
            raise SchemaError(
                f"{Decimal(f'{number}e{-scale}')} of a decimal({precision}, {scale}) has no partition value",
                why=f"truncated to multiples of {width} it is {Decimal(f'{truncated}e{-scale}')}, one digit more",
                todo="Leave out such rows, or widen the column with the table's engine",
            )
    return from_values([Decimal(f"{number}e{-scale}") for number in cut], column.type).take(coded.indices)


def _mask(column: pa.Array) -> Bools | None:
    if not column.null_count:
        return None
    mask: Bools = to_numpy(column.is_null())
    return mask


def source_bounds(
    transform: Transform[Any, Any], low: pa.Array, high: pa.Array, source: pa.DataType
) -> tuple[pa.Array, pa.Array] | None:
    """The range of the source values whose partition values are between `low` and `high`; null is unknown.

    None for a transform that does not keep the order.
    """
    if isinstance(transform, IdentityTransform):
        return low, high
    if isinstance(transform, TruncateTransform):
        return _untruncated(low, high, transform.width)
    for kind, unit in _UNITS.items():
        if isinstance(transform, kind):
            return _moment(low, unit, source, False), _moment(high, unit, source, True)
    return None


def _moment(column: pa.Array, unit: str, source: pa.DataType, last: bool) -> pa.Array:
    """The first or last moment of a year, month, day or hour.

    Old writers rounded moments before 1970 up, so for these the first moment is one unit earlier.
    """
    plain = column.cast(pa.int32()) if not pa.types.is_date(column.type) else column.view(pa.int32())
    numbers = to_numpy(filled(plain, 0)).astype(np.int64)
    begin = numbers + 1 if last else numbers - (numbers <= 0)
    fine = "D" if pa.types.is_date(source) else source.unit
    moments = begin.astype(f"datetime64[{unit}]").astype(f"datetime64[{fine}]").astype(np.int64) - last
    if fine == "ns":
        return pa.nulls(len(column), source)  # half of the years do not fit; an unknown bound rules nothing out
    whole = moments.astype(np.int32) if fine == "D" else moments
    return from_numpy(whole, _mask(column)).view(source)


def _untruncated(low: pa.Array, high: pa.Array, width: int) -> tuple[pa.Array, pa.Array]:
    kind = high.type
    if pa.types.is_integer(kind):
        return _untruncated_numbers(low, high, width)
    if pa.types.is_decimal(kind):
        wide = pa.decimal256(40, kind.scale)
        return low, pc.add(high.cast(wide), pa.scalar(Decimal(f"{width - 1}e-{kind.scale}"), wide))
    coded = high.dictionary_encode()
    after = [_after(value.as_py(), width) for value in coded.dictionary]
    return low, pa.array(after, kind).take(coded.indices)


def _untruncated_numbers(low: pa.Array, high: pa.Array, width: int) -> tuple[pa.Array, pa.Array]:
    """The source range of truncated integers.

    The smallest numbers of a type wrap around to the greatest when they are truncated, as in the reference engine. So a
    range that has the greatest may have the smallest too. A long may have been an int when it was truncated.
    """
    kind = high.type
    ends = {2 ** (bits - 1) - 1 for bits in (32, kind.bit_width)}
    last = pa.scalar(max(ends), kind)
    wrapped = functools.reduce(
        pc.or_kleene,
        (pc.and_kleene(pc.less_equal(low, end), pc.greater_equal(high, max(end - width + 1, 0))) for end in ends),
    )
    room = pa.scalar(max(ends) - width + 1, kind)
    top = pc.if_else(pc.greater(high, room), last, pc.add(pc.min_element_wise(high, room, skip_nulls=False), width - 1))
    return pc.if_else(wrapped, pa.scalar(None, kind), low), top.cast(kind)


def _after(prefix: str | bytes, width: int) -> str | bytes | None:
    """A value that no value with this prefix exceeds; None when there is none. A prefix shorter than `width` was not
    truncated, so it is the value itself."""
    if len(prefix) < width:
        return prefix
    if isinstance(prefix, bytes):
        kept = prefix.rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    kept_text = prefix.rstrip("\U0010ffff")
    if not kept_text:
        return None
    following = ord(kept_text[-1]) + 1
    return kept_text[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)
