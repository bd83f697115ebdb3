"""Arrays: one name per numpy element type, for annotations, and Arrow columns of numpy arrays, of values, of chunks.

`pyarrow.array` and `pyarrow.scalar` import pandas at their first use, since a value might be a pandas object. That
takes longer than all else in a small read, so `from_numpy` and `from_values` take their place where a process starts.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64s: TypeAlias = npt.NDArray[np.int64]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int8s: TypeAlias = npt.NDArray[np.int8]
UInt64s: TypeAlias = npt.NDArray[np.uint64]
UInt32s: TypeAlias = npt.NDArray[np.uint32]
UInt8s: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]
Float64s: TypeAlias = npt.NDArray[np.float64]
Objects: TypeAlias = npt.NDArray[np.object_]
AnyArray: TypeAlias = npt.NDArray[Any]

_LAST_OFFSET = 2**31 - 1
_FEW = 64
"""Up to so many values go without numpy."""
_CODES = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float": "f", "double": "d",
}  # fmt: skip
"""The type code of `array.array` in the standard library, by Arrow type."""
TEXTS_ONCE = pa.dictionary(pa.int32(), pa.string())
"""The type of a text column that holds each text once."""


def is_bytes(kind: pa.DataType) -> bool:
    """Whether the values are bytes and no texts."""
    return pa.types.is_binary_view(kind) or any(
        is_one(kind) for is_one in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    )


def from_numpy(values: AnyArray, nulls: Bools | None = None) -> pa.Array:
    """Numbers or truth values as an Arrow array, null where `nulls` says. Numbers are not copied: leave them as they
    are."""
    valid = None if nulls is None else _bits(~nulls)
    if values.dtype == np.bool_:
        return _array(pa.bool_(), len(values), _bits(values), valid)
    return _array(pa.from_numpy_dtype(values.dtype), len(values), np.ascontiguousarray(values), valid)


def from_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as an Arrow array of a type, None for null: numbers, truth values, texts, binaries, mappings for structs,
    and lists or pairs of them. Other types are left to `pyarrow.array`. OverflowError for what one array cannot hold,
    ValueError and TypeError for values of another type."""
    if len(values) <= _FEW and (code := _code(kind)):
        return _few(values, kind, code)
    nulls = np.fromiter((value is None for value in values), np.bool_, len(values))
    valid = _bits(~nulls) if nulls.any() else None
    if is_number(kind) or pa.types.is_boolean(kind):
        numbers = np.array([0 if value is None else value for value in values], kind.to_pandas_dtype())
        return _array(kind, len(values), _bits(numbers) if kind == pa.bool_() else numbers, valid)
    if kind in (pa.string(), pa.binary()):
        texts = [value.encode() if isinstance(value, str) else memoryview(value or b"") for value in values]
        return _array(kind, len(values), _offsets(texts), valid, b"".join(texts))
    if pa.types.is_struct(kind):
        rows = [{} if value is None else value for value in values]
        inner = [from_values([row.get(field.name) for row in rows], field.type) for field in kind]
        validity = None if valid is None else pa.py_buffer(valid)
        return pa.Array.from_buffers(kind, len(values), [validity], children=inner)
    if pa.types.is_fixed_size_binary(kind):
        pieces = [bytes(kind.byte_width) if value is None else value for value in values]
        if any(len(piece) != kind.byte_width for piece in pieces):
            raise ValueError(f"a value does not have {kind.byte_width} bytes")
        return _array(kind, len(values), np.frombuffer(b"".join(pieces), np.uint8), valid)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        parts = [() if value is None else value for value in values]
        return _array(kind, len(values), _offsets(parts), valid, children=[_items(parts, kind)])
    return pa.array(values, kind)


@lru_cache(256)
def _code(kind: pa.DataType) -> str:
    """How `_few` makes an array of this type: as numbers, by a code of the standard library, ? as truth values,
    t as texts or binaries, "" not at all."""
    if kind in (pa.string(), pa.binary()):
        return "t"
    return "?" if kind == pa.bool_() else _CODES.get(str(kind), "")


def _few(values: Sequence[Any], kind: pa.DataType, code: str) -> pa.Array:
    """`from_values` without numpy, whose calls would take most of the time."""
    count, missing = len(values), [place for place, value in enumerate(values) if value is None]
    valid = _bitmap(range(count)) & ~_bitmap(missing) if missing else None
    validity = None if valid is None else _bytes_of(valid, count)
    if code == "t":
        texts = [value.encode() if isinstance(value, str) else memoryview(value or b"") for value in values]
        ends = pa.py_buffer(_offsets(texts))
        return pa.Array.from_buffers(kind, count, [validity, ends, pa.py_buffer(b"".join(texts))])
    if code == "?":
        flags = _bitmap(place for place, value in enumerate(values) if value)
        return pa.Array.from_buffers(kind, count, [validity, _bytes_of(flags, count)])
    try:
        numbers: Any = array(code, [0 if value is None else value for value in values])
    except TypeError:  # floating numbers as whole ones, or others that numpy knows
        numbers = np.array([0 if value is None else value for value in values], kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(numbers)])


def _bitmap(places: Iterable[int]) -> int:
    return sum(1 << place for place in places)


def _bytes_of(bitmap: int, count: int) -> pa.Buffer:
    return pa.py_buffer(bitmap.to_bytes((count + 7) // 8, "little"))


def _items(parts: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """What lists hold, one after the other; of maps, which are mappings or pairs, structs of keys and values."""
    if pa.types.is_list(kind):
        return from_values([item for part in parts for item in part], kind.value_type)
    pairs = [pair for part in parts for pair in (part.items() if isinstance(part, Mapping) else part)]
    columns = [from_values([pair[n] for pair in pairs], type) for n, type in enumerate((kind.key_type, kind.item_type))]
    return pa.StructArray.from_arrays(columns, fields=[kind.key_field, kind.item_field])


def scalar_of(value: Any, kind: pa.DataType) -> pa.Scalar:
    """One value as a scalar of a type that `from_values` takes."""
    return from_values([value], kind)[0]


def filled(column: pa.Array | pa.ChunkedArray, value: Any) -> pa.Array | pa.ChunkedArray:
    """A column with a value in place of its nulls."""
    return column if not column.null_count else pc.fill_null(column, scalar_of(value, column.type))


def to_numpy(column: pa.Array | pa.ChunkedArray) -> AnyArray:
    """A column as a numpy array, as its own `to_numpy` gives it. That imports pandas, and here only a column with nulls
    does, or one of other values than numbers and truth values. Numbers are not copied."""
    array = one_chunk(column)
    if array.null_count or not (is_number(array.type) or pa.types.is_boolean(array.type)):
        values: AnyArray = array.to_numpy(zero_copy_only=False)
        return values
    data, start, end = array.buffers()[1], array.offset, array.offset + len(array)
    if data is None:
        return np.empty(0, array.type.to_pandas_dtype())
    if pa.types.is_boolean(array.type):
        flags: Bools = np.unpackbits(np.frombuffer(data, np.uint8), count=end, bitorder="little")[start:].view(np.bool_)
        return flags
    numbers: AnyArray = np.frombuffer(data, array.type.to_pandas_dtype(), end)[start:]
    return numbers


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is one of whole or floating numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _bits(flags: Bools) -> UInt8s:
    return np.packbits(flags, bitorder="little")


def _offsets(parts: Sequence[Any]) -> Int32s:
    ends = [*accumulate(map(len, parts), initial=0)]
    if ends[-1] > _LAST_OFFSET:
        raise OverflowError(f"{len(parts)} values of {ends[-1]} bytes or items do not fit one Arrow array")
    return np.array(ends, np.int32)


def _array(
    kind: pa.DataType, length: int, data: AnyArray, valid: AnyArray | None = None, more: bytes | None = None,
    children: Sequence[pa.Array] = (),
) -> pa.Array:  # fmt: skip
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(data)]
    if more is not None:
        buffers.append(pa.py_buffer(more))
    return pa.Array.from_buffers(kind, length, buffers, children=children)


def whole_columns(table: pa.Table) -> dict[str, pa.Array]:
    """The columns of a table by name, each as one array."""
    return {name: one_chunk(table[name]) for name in table.column_names}


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array. It is copied only when it has several chunks."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else from_values([], column.type)


def repeated(text: str, count: int) -> pa.DictionaryArray:
    """A column that has one text in each row, which is held once."""
    return pa.DictionaryArray.from_arrays(from_numpy(np.zeros(count, np.int32)), from_values([text], pa.string()))


def leaves(column: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    """The plain columns inside of a column, or itself: the fields of structs, the elements of lists, the keys and the
    values of maps."""
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        for chunk in column.chunks:
            yield from leaves(chunk)
    elif pa.types.is_map(kind):  # as a list, since the keys and values of a slice are those of the whole map array
        yield from leaves(column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_struct(kind):
        children = column.flatten()
        for child in children if pa.types.is_struct(kind) else (children,):
            yield from leaves(child)
    else:
        yield column


def with_plain_texts(rows: pa.Table) -> pa.Table:
    """The rows with each text in its place, also those that are held once."""
    for number, field in enumerate(rows.schema):
        if field.type == TEXTS_ONCE:
            rows = rows.set_column(number, field.with_type(pa.string()), rows.column(number).cast(pa.string()))
    return rows
