"""The values of a column as file indexes compare and store them: their keys.

Rules: Paimon's BitmapTypeVisitor, KeyFactory and the value mappers of the indexes. A key is a number, or the bytes of a
text. Floats are the number of their bits, mapped so that numbers have the order of Java's `Double.compare`: -0.0 is
below 0.0, and NaN, which is one value, above all. Timestamps of more than six digits are cut to microseconds.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.paimon.codec.types import DataType, arrow_type, timestamp_unit
from lakebed.kernel.arrays import Int64s, from_numpy, to_numpy

Keys: TypeAlias = "Int64s | pa.BinaryArray"
"""Keys of rows that are not null."""
Key: TypeAlias = int | bytes

_WIDTHS = {
    "BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "TIME": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8,
    "DECIMAL": 8, "TIMESTAMP": 8, "TIMESTAMP_LTZ": 8,
}  # fmt: skip
_LONG_DIGITS = 18
_FORMATS = {1: ">b", 2: ">h", 4: ">i", 8: ">q"}
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_WHOLE_FLOATS = {pa.float16(): 1 << 11, pa.float32(): 1 << 24, pa.float64(): 1 << 53}
"""Below these numbers each whole number is a float of its own."""


@dataclass(frozen=True, slots=True)
class KeyKind:
    """How values of one type become keys. `width` is the bytes of a stored key, 0 for texts, which follow their
    length."""

    type: DataType
    width: int

    @classmethod
    def of(cls, kind: DataType) -> KeyKind | None:
        """The keys of a type; None for a type that no index takes."""
        if kind.root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
            return cls(kind, 0)
        if kind.root not in _WIDTHS or (kind.root == "DECIMAL" and kind.precision > _LONG_DIGITS):
            return None
        return cls(kind, _WIDTHS[kind.root])

    @property
    def is_float(self) -> bool:
        """Whether values are floats."""
        return self.type.root in ("FLOAT", "DOUBLE")

    @property
    def is_exact(self) -> bool:
        """Whether different values have different keys."""
        return not (self.type.root.startswith("TIMESTAMP") and self.type.precision > 6)

    def keys(self, column: pa.Array) -> Keys:
        """The keys of a column's values in order, without its nulls."""
        values = column.drop_null()
        if not self.width:
            return values.cast(pa.binary())
        match self.type.root:
            case "BOOLEAN":
                return to_numpy(values.cast(pa.int8())).astype(np.int64)
            case "FLOAT" | "DOUBLE":
                return _float_keys(to_numpy(values), self.width)
            case "DECIMAL":
                return np.frombuffer(_whole(values).buffers()[1], np.int64)[: 2 * len(values) : 2]
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                numbers: Int64s = to_numpy(values.cast(pa.int64()))
                return numbers // 1000 if timestamp_unit(self.type) == "ns" else numbers
            case "DATE" | "TIME":
                return to_numpy(values.cast(pa.int32())).astype(np.int64)
        return to_numpy(values).astype(np.int64)

    def literal_keys(self, values: pa.Array) -> list[Key]:
        """The keys of literals that a predicate compares the column with, each once, the nulls left out. A zero among
        floats has two keys, of which one equals its rows.

        Raises ValueError (ArrowInvalid is one) for literals that the column's type does not hold exactly.
        """
        values = values.drop_null()
        given, kind = values.type, arrow_type(self.type)
        if pa.types.is_floating(given):
            if not self.is_float and self.type.root not in _INTEGERS:
                raise ValueError(f"{kind} is not compared exactly with {given}")
            if not self.is_float and pc.any(pc.greater_equal(pc.abs(values), _WHOLE_FLOATS[given])).as_py():
                raise ValueError("different numbers equal one float")
        elif self.is_float and not pa.types.is_integer(given):
            raise ValueError(f"{kind} is not compared exactly with {given}")
        exact = values.cast(kind)
        if given != kind and exact.cast(given) != values:
            raise ValueError(f"{kind} does not hold the value")
        keys = self.keys(exact)
        literals: list[Key] = keys.to_pylist() if isinstance(keys, pa.Array) else [int(key) for key in keys]
        if self.is_float:
            literals += [-1 - key for key in literals if key in (0, -1)]
        return list(dict.fromkeys(literals))

    # ---- stored keys ----

    def stored(self, keys: Keys) -> pa.BinaryArray:
        """Keys as indexes store them."""
        if isinstance(keys, pa.Array):
            lengths = to_numpy(pc.binary_length(keys)).astype(">i4")
            return pc.binary_join_element_wise(_fixed(lengths.tobytes(), 4), keys, b"")
        if self.is_float:
            keys = _flipped(keys, self.width)
        return _fixed(keys.astype(f">i{self.width}").tobytes(), self.width)

    def read(self, data: bytes, at: int) -> tuple[Key, int]:
        """A stored key, and the place after it."""
        if self.width:
            (number,) = struct.unpack_from(_FORMATS[self.width], data, at)
            key = int(number)
            if self.is_float:
                key = int(_flipped(np.array([key], np.int64), self.width)[0])
            elif self.type.root == "BOOLEAN":
                key = int(key != 0)
            return key, at + self.width
        (length,) = struct.unpack_from(">i", data, at)
        start = at + 4
        if not 0 <= length <= len(data) - start:
            raise ValueError(f"a text of {length} bytes is longer than the index")
        return bytes(data[start : start + length]), start + length

    def read_many(self, data: bytes, at: int, count: int, extra: int) -> tuple[list[Key], int]:
        """Stored keys that are each followed by `extra` bytes, and the place after them."""
        if not 0 <= count <= len(data):
            raise ValueError(f"{count} keys do not fit into the index")
        if not self.width:
            keys = list[Key]()
            for _ in range(count):
                key, at = self.read(data, at)
                keys.append(key)
                at += extra
            return keys, at
        step = self.width + extra
        if len(data) - at < count * step:
            raise ValueError(f"{count} keys do not fit into the index")
        rows = np.frombuffer(data, np.uint8, count * step, at).reshape(count, step)
        numbers = np.ascontiguousarray(rows[:, : self.width]).view(f">i{self.width}")[:, 0].astype(np.int64)
        if self.is_float:
            numbers = _flipped(numbers, self.width)
        return numbers.tolist(), at + count * step


def float_bits(keys: Int64s, width: int) -> Int64s:
    """The bits of floats, as the number that Java's `floatToIntBits` or `doubleToLongBits` gives."""
    return _flipped(keys, width)


def distinct(keys: Keys) -> tuple[Keys, Int64s]:
    """Each key once, in order, and the place of each row's key among them."""
    if isinstance(keys, pa.Array):
        encoded = keys.dictionary_encode()
        order = to_numpy(pc.array_sort_indices(encoded.dictionary))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return encoded.dictionary.take(from_numpy(order)), places[to_numpy(encoded.indices)]
    values, inverse = np.unique(keys, return_inverse=True)
    return values, inverse.reshape(-1).astype(np.int64)


def _float_keys(values: Any, width: int) -> Int64s:
    values = np.where(np.isnan(values), values.dtype.type(math.nan), values)
    bits = values.view(f"i{width}").astype(np.int64)
    return _flipped(bits, width)


def _flipped(bits: Int64s, width: int) -> Int64s:
    """The bits of floats as numbers of their order, and back."""
    mask = np.int64((1 << (8 * width - 1)) - 1)
    flipped: Int64s = np.where(bits < 0, bits ^ mask, bits)
    return flipped


def _fixed(data: bytes, width: int) -> pa.BinaryArray:
    """Byte strings of one width."""
    count = len(data) // width
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _whole(values: pa.Array) -> pa.Array:
    """The values as an array without an offset into its buffers."""
    return pa.concat_arrays([values]) if not values.offset else values.take(from_numpy(np.arange(len(values))))
